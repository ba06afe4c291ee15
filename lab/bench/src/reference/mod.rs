//! The references: code by hand and by peers, run in the same process.
//!
//! | file | contents |
//! |---|---|
//! | `shape` | task graphs as predecessor lists |
//! | `task` | the work of a graph's task: nothing, 1 µs, an integer add, or checking the order |
//! | `counted` | a graph with in-degree counters, and the executor trait with its verification |
//! | `deque_executor` | the floor: a hand-written executor on crossbeam-deque |
//! | `rayon_executor`, `tokio_executor` | the same graphs on the peers |
//! | `bare` | a function call in a loop, a loop, and boxed closures pushed to a deque |
//! | `nested` | trees of tasks that spawn tasks, and rayon's scopes |
//! | `ranges` | parts of objects that commands change, and the results |
//! | `ping_pong` | two threads that sleep and wake each other |
//! | `imbalance` | the work of the imbalance benchmarks, and its order check |
//! | `piece_times` | the times of its pieces while other threads run such pieces too |
//! | `list_scheduling` | the best speed-up that a greedy schedule of measured pieces allows |
//! | `spinning_threads` | the same by hand: threads that spin and claim pieces from one counter |
//! | `spinning_work` | the imbalance benchmarks and `in-order-parallel` on them |
//! | `stream` | the five streaming kernels on rayon |
//! | `loops` | `saxpy`, `gemm`, `nbody`, `mandelbrot`, `reduce` as loops on rayon |
//! | `raw` | a device's own interface, OpenCL or CUDA, with hand-written kernels |
//! | `network` | as many bytes there and back, or one way, over TCP and TLS alone |
//! | `paced` | a way on loopback that is as slow as a network |
//! | `affinity` | the cores that a thread runs on |
//! | `process` | processor time, context switches and resident memory of this process |

#[cfg(target_os = "linux")]
pub mod affinity;
pub mod bare;
pub mod counted;
pub mod deque_executor;
pub mod imbalance;
pub mod list_scheduling;
pub mod loops;
pub mod nested;
pub mod network;
pub mod paced;
pub mod piece_times;
pub mod ping_pong;
pub mod process;
pub mod ranges;
pub mod raw;
pub mod rayon_executor;
pub mod shape;
pub mod spinning_threads;
pub mod spinning_work;
pub mod stream;
pub mod task;
pub mod tokio_executor;

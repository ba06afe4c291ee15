//! The checking mode, in each way to run blocks: it finds races on raw memory and indices out of
//! bounds, and reports nothing where nothing is wrong.

use quipu_kernel::{
    Accelerator, Atomically, Atomics, Block, BlockAccelerator, BlockKernel, BlockScratch, ByTile,
    Execution, GlobalMut, GroupKernel, Kernel, KernelError, OwnTile, RawMut, RunOptions,
    SharedArray, SharedWrite, Threads, Unpartitioned, WorkDivision, erase, erase_block,
};

fn checked(execution: Execution) -> BlockScratch {
    let mut options = RunOptions::new();
    options.check = true;
    options.execution = execution;
    BlockScratch::with_options(options)
}

const EXECUTIONS: [Execution; 4] = [
    Execution::Native,
    Execution::Lockstep { warp_size: 1 },
    Execution::Lockstep { warp_size: 32 },
    Execution::OsThreads { warp_size: 1 },
];

/// Each thread writes an element of a shared array and reads its neighbour's, both through raw
/// access; with barriers between, or without one of them.
struct Neighbours {
    before_reading: bool,
    before_writing: bool,
}

impl BlockKernel<1> for Neighbours {
    type Output = Unpartitioned<u32>;
    type Shared = SharedArray<u32>;

    fn shared(&self, division: &WorkDivision<1>) -> SharedArray<u32> {
        SharedArray::new(division.threads_per_block())
    }

    async fn run<A: BlockAccelerator<1>>(
        &self,
        acc: &A,
        output: RawMut<'_, u32>,
        array: SharedWrite<'_, u32>,
    ) {
        let raw = array.into_raw();
        let thread = acc.index(Block, Threads)[0];
        let next = (thread + 1) % raw.len();
        for round in 0..2 {
            // SAFETY: the tests without these barriers run one thread after the other, or in
            // checking mode only look for what they do wrong; words of 32 bits do not tear.
            unsafe { raw.write(thread, round) };
            if self.before_reading {
                acc.sync_block_threads().await;
            }
            // SAFETY: as above.
            let read = unsafe { raw.read(next) };
            if self.before_writing {
                acc.sync_block_threads().await;
            }
            let own = acc.block_index()[0] * raw.len() + thread;
            // SAFETY: each thread has an element of its own.
            unsafe { output.write(own, read) };
        }
    }
}

#[test]
fn races_on_shared_memory_are_found_and_barriers_prevent_them() {
    let run = |execution, before_reading, before_writing| {
        let mut output = vec![9; 12];
        let kernel = Neighbours {
            before_reading,
            before_writing,
        };
        let division = WorkDivision::new(2, 6, 1).unwrap();
        let mut launch = erase_block(kernel, GlobalMut::from(&mut output), division).unwrap();
        launch.run_all(&mut checked(execution)).map(|()| output)
    };
    for execution in EXECUTIONS {
        assert_eq!(run(execution, true, true), Ok(vec![1; 12]), "{execution:?}");
        // Real threads race for real: only what is not is run on them.
        if matches!(execution, Execution::OsThreads { .. }) {
            continue;
        }
        for (before_reading, before_writing) in [(false, true), (true, false), (false, false)] {
            let error = run(execution, before_reading, before_writing).unwrap_err();
            let KernelError::Race {
                kernel,
                index,
                first,
                second,
            } = &error
            else {
                panic!("{execution:?}: {error}");
            };
            assert!(kernel.ends_with("Neighbours") && *index < 6);
            assert_eq!((first.group, second.group), (0, 0));
            assert_ne!(first.thread, second.thread);
            assert_ne!(first.writes, second.writes);
            assert!(first.place.file().ends_with("checks.rs"));
            let lines = second.place.line().abs_diff(first.place.line());
            assert_eq!(lines, 5, "{error}");
        }
    }
}

/// Every thread of every block writes element 3.
struct Scatter;

impl Kernel<1> for Scatter {
    type Output = Unpartitioned<u32>;

    fn run<A: Accelerator<1>>(&self, acc: &A, output: RawMut<'_, u32>) {
        // SAFETY: the test runs one thread after the other.
        unsafe { output.write(3, acc.block_index()[0] as u32) };
    }
}

#[test]
fn races_on_global_memory_are_found_between_threads_and_between_blocks() {
    for (blocks, threads) in [(1, 2), (2, 1)] {
        let mut output = vec![0; 5];
        let division = WorkDivision::new(blocks, threads, 1).unwrap();
        let mut launch = erase(Scatter, GlobalMut::from(&mut output), division).unwrap();
        let error = launch.run_all(&mut checked(Execution::Native)).unwrap_err();
        assert!(
            matches!(error, KernelError::Race { index: 3, first, second, .. }
                if first.writes && second.writes && (first.group, first.thread) != (second.group, second.thread)),
            "{error}"
        );
        let text = error.to_string();
        assert!(
            text.contains("writes it at") && text.contains("element 3"),
            "{text}"
        );
    }
    let mut output = vec![0; 5];
    let division = WorkDivision::new(1, 1, 1).unwrap();
    let mut launch = erase(Scatter, GlobalMut::from(&mut output), division).unwrap();
    assert_eq!(launch.run_all(&mut checked(Execution::Native)), Ok(()));
}

/// Reaches one element too far in one of the ways there are.
struct TooFar<'a> {
    way: usize,
    input: &'a [u32],
}

impl Kernel<2> for TooFar<'_> {
    type Output = (ByTile<u32>, Atomically<u32>, Unpartitioned<u32>);

    fn run<A: Accelerator<2>>(
        &self,
        acc: &A,
        (mut tile, counts, raw): (OwnTile<'_, u32, 2>, Atomics<'_, u32>, RawMut<'_, u32>),
    ) {
        if acc.block_index().components() != [1, 0] || acc.thread_index().components() != [0, 1] {
            return;
        }
        match self.way {
            0 => tile[[0, 0]] = self.input[9], // way 0
            1 => tile[[2, 1]] = 1,             // way 1
            2 => drop(counts.add(9, 1)),       // way 2
            // SAFETY: there is no such element.
            3 => unsafe { raw.write(9, 1) },  // way 3
            _ => drop(self.input[..9].len()), // way 4
        }
    }
}

#[test]
fn what_is_out_of_bounds_is_reported_with_thread_index_and_line() {
    for way in 0..5 {
        let (mut tiles, mut counts, mut raw) = (vec![0; 32], vec![0; 4], vec![0; 4]);
        let view = (
            GlobalMut::from(&mut tiles).in_extent([8, 4]).unwrap(),
            GlobalMut::from(&mut counts),
            GlobalMut::from(&mut raw),
        );
        let division = WorkDivision::new([2, 1], [2, 2], [2, 2]).unwrap();
        let kernel = TooFar {
            way,
            input: &[1, 2, 3],
        };
        let mut launch = erase(kernel, view, division).unwrap();
        let error = launch.run_all(&mut checked(Execution::Native)).unwrap_err();
        let KernelError::Panicked {
            kernel,
            group: 1,
            thread: 1,
            message,
            place,
        } = &error
        else {
            panic!("{way}: {error}");
        };
        assert!(kernel.contains("TooFar"));
        assert!(
            message.contains(if way == 1 { "[2, 1]" } else { "9" }),
            "{message}"
        );
        let mark = format!("// way {way}");
        let mut lines = include_str!("checks.rs").lines().zip(1..);
        let (_, line) = lines.find(|(line, _)| line.ends_with(&mark)).unwrap();
        let told = format!("checks.rs:{line}:");
        assert!(place.contains(&told), "{way}: {place}");
    }
}

#[test]
fn a_panic_outside_of_a_kernel_is_as_ever_after_a_check() {
    let mut output = vec![0; 5];
    let division = WorkDivision::new(1, 1, 1).unwrap();
    let mut launch = erase(Scatter, GlobalMut::from(&mut output), division).unwrap();
    assert_eq!(launch.run_all(&mut checked(Execution::Native)), Ok(()));
    let panic = std::panic::catch_unwind(|| panic!("on purpose")).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"on purpose"));
}

/// Each block reads what the block before has written, with fences between if it is told to.
struct Chain {
    fences: bool,
}

impl Kernel<1> for Chain {
    type Output = Unpartitioned<u32>;

    fn run<A: Accelerator<1>>(&self, acc: &A, output: RawMut<'_, u32>) {
        let block = acc.block_index()[0];
        if self.fences {
            acc.fence_device();
        }
        let before = match block {
            0 => 0,
            // SAFETY: blocks run one after the other here.
            _ => unsafe { output.read(block - 1) },
        };
        // SAFETY: as above.
        unsafe { output.write(block, before + 1) };
        if self.fences {
            acc.fence_device();
        }
    }
}

#[test]
fn fences_order_blocks() {
    let division = WorkDivision::new(3, 1, 1).unwrap();
    for fences in [true, false] {
        let mut output = vec![0; 3];
        let mut launch = erase(Chain { fences }, GlobalMut::from(&mut output), division).unwrap();
        let result = launch.run_all(&mut checked(Execution::Native));
        assert_eq!(result.is_ok(), fences, "{result:?}");
        if !fences {
            assert!(
                matches!(result, Err(KernelError::Race { .. })),
                "{result:?}"
            );
        }
        assert_eq!(output, [1, 2, 3]);
    }
}

//! The cheapest ways to do a serial chain and an enqueue at all.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crossbeam_deque::{Steal, Worker};

/// A closure that counts itself.
type Command = Box<dyn FnOnce(&mut u64) + Send>;

#[inline(never)]
fn add_one(sum: &mut i64) {
    *sum += 1;
}

/// Calls an unknown function, one integer add, `calls` times; the time and the sum.
pub fn call_chain(calls: usize) -> (Duration, i64) {
    let kernel: fn(&mut i64) = add_one;
    let mut sum = 0;
    let started = Instant::now();
    for _ in 0..calls {
        black_box(kernel)(&mut sum);
    }
    (started.elapsed(), sum)
}

/// Adds in a loop, through memory, `additions` times; the time and the sum.
pub fn loop_chain(additions: usize) -> (Duration, i64) {
    let mut sum = 0_i64;
    let started = Instant::now();
    for _ in 0..additions {
        *black_box(&mut sum) += 1;
    }
    (started.elapsed(), sum)
}

/// Boxes and pushes `commands` closures, then runs them: the time of pushing alone, and how many
/// ran.
pub fn push_boxed(commands: usize) -> (Duration, u64) {
    let deque: Worker<Command> = Worker::new_fifo();
    let started = Instant::now();
    for number in 0..commands {
        deque.push(Box::new(move |executed| {
            black_box(number);
            *executed += 1;
        }));
    }
    let elapsed = started.elapsed();
    let mut executed = 0;
    while let Some(command) = deque.pop() {
        command(&mut executed);
    }
    (elapsed, executed)
}

/// The same while another thread steals and runs them.
pub fn push_boxed_while_stolen(commands: usize) -> (Duration, u64) {
    let deque: Worker<Command> = Worker::new_fifo();
    let stealer = deque.stealer();
    std::thread::scope(|scope| {
        let thief = scope.spawn(move || {
            let mut executed = 0;
            while executed < commands as u64 {
                match stealer.steal() {
                    Steal::Success(command) => command(&mut executed),
                    Steal::Empty | Steal::Retry => std::hint::spin_loop(),
                }
            }
            executed
        });
        let started = Instant::now();
        for number in 0..commands {
            deque.push(Box::new(move |executed| {
                black_box(number);
                *executed += 1;
            }));
        }
        let elapsed = started.elapsed();
        let executed = thief.join().expect("the thief does not panic");
        (elapsed, executed)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_runs_as_often_as_asked() {
        assert_eq!(call_chain(1234).1, 1234);
        assert_eq!(loop_chain(1234).1, 1234);
        assert_eq!(push_boxed(1234).1, 1234);
        assert_eq!(push_boxed_while_stolen(1234).1, 1234);
        assert_eq!(push_boxed_while_stolen(0).1, 0);
    }
}

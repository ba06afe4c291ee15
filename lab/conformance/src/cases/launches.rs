//! Launches: groups, arguments, kernels of any size, panics.

use super::cases;
use crate::Fixture;
use crate::support::*;
use quipu_scheduler::error::{ErrorKind, Returned};
use quipu_scheduler::{Access, AccessMode, Queue, QueueOptions, RawArgument, Request, UserEvent};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

cases! {
    Anything:
        no_groups_run_nothing_and_keep_their_place,
        each_group_runs_once,
        large_kernels_and_many_arguments,
        fresh_memory_is_zero_everywhere,
        one_failed_group_fails_the_launch,
        panics_fail_their_command_and_nothing_else,
        kernels_are_dropped_once_and_before_their_event,
        a_panic_while_a_kernel_is_dropped_is_contained,
        a_panic_while_an_error_is_dropped_is_contained,
        posted_commands_run,
        blocking_queues_return_when_the_command_is_over;
    CallerRuns:
        a_command_runs_on_the_thread_that_makes_it_ready;
}

fn launch_groups<F>(
    queue: &Queue,
    accesses: &[Access<'_>],
    groups: u64,
    run: F,
) -> quipu_scheduler::Event
where
    F: Fn(&[RawArgument], Range<u32>) -> quipu_scheduler::Result<()> + Send + Sync + 'static,
{
    let request = Request {
        accesses,
        ..Request::default()
    };
    launch_native(queue, Kernel(run), groups, &request).unwrap()
}

fn no_groups_run_nothing_and_keep_their_place(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let memory = stage.memory(8);
    let called = Flag::new();
    let gate = UserEvent::new();
    nothing(&queue, &[updates(&memory)], &[gate.event()]);
    let inside = called.clone();
    let event = launch_groups(&queue, &[updates(&memory)], 0, move |_, _| {
        inside.set();
        Ok(())
    });
    assert!(!event.is_complete(), "its place is behind the gate");
    gate.complete();
    event.wait().unwrap();
    assert!(!called.is_set(), "a launch of no groups runs nothing");
}

fn each_group_runs_once(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    // Several times each: a driver that learns what a group costs splits the
    // later launches differently.
    for groups in [1_u64, 2, 3, 7, 64, 1000, 4096] {
        let memory = stage.memory(groups);
        for _ in 0..4 {
            launch_groups(&queue, &[updates(&memory)], groups, |a, groups| {
                for group in groups {
                    let mut x = u64::from(group) + 1;
                    for _ in 0..500 {
                        x = std::hint::black_box(
                            x.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(7),
                        );
                    }
                    let count = load_byte(&a[0], group as usize);
                    store_byte(&a[0], group as usize, count + 1);
                }
                Ok(())
            });
        }
        assert_eq!(
            read_all(&queue, &memory),
            vec![4; groups as usize],
            "{groups} groups"
        );
    }
}

fn large_kernels_and_many_arguments(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    for count in [1_usize, 3, 4, 5, 40, 255] {
        let inputs: Vec<_> = (0..count as u64 - 1).map(|_| stage.memory(8)).collect();
        for (n, input) in inputs.iter().enumerate() {
            put(&queue, input, n as u64 + 1, &[]);
        }
        let output = stage.memory(8);
        let mut accesses: Vec<Access<'_>> = inputs.iter().map(reads).collect();
        accesses.push(overwrites(&output));
        // Much larger than a slot.
        let ballast = [7_u64; 64];
        launch_groups(&queue, &accesses, 1, move |a, _| {
            let (to, from) = a.split_last().unwrap();
            let sum: u64 = from.iter().map(load).sum();
            store(to, sum + ballast.iter().sum::<u64>());
            Ok(())
        });
        let n = count as u64 - 1;
        assert_eq!(read_number(&queue, &output), n * (n + 1) / 2 + 7 * 64);
    }
}

fn fresh_memory_is_zero_everywhere(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    for device in 0..stage.devices.len() {
        let queue = stage.queue_on(device, QueueOptions::default());
        let memory = stage.memory(1000);
        assert_eq!(read_all(&queue, &memory), vec![0; 1000]);
        let memory = stage.memory(16);
        fold(&queue, &memory, 5, &[]);
        let bytes = read_all(&queue, &memory);
        assert_eq!(bytes[..8], 5_u64.to_le_bytes());
        assert_eq!(bytes[8..], [0; 8]);
    }
}

fn one_failed_group_fails_the_launch(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    for _ in 0..4 {
        let event = launch_groups(&queue, &[], 1000, |_, groups| {
            let mut x = 1_u64;
            for _ in 0..500 * groups.len() {
                x = std::hint::black_box(x.wrapping_mul(3).rotate_left(7));
            }
            if groups.contains(&777) {
                return Err(boom("group 777"));
            }
            Ok(())
        });
        let error = error_of(&event);
        assert!(
            matches!(error.kind(), ErrorKind::Kernel { message, .. } if message == "group 777"),
            "{error}"
        );
    }
}

fn panics_fail_their_command_and_nothing_else(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    // Unwinding without the panic hook: what the driver must contain is the
    // unwinding, and nobody wants to read about it.
    let with_str = launch(&queue, &[], &[], |_| {
        std::panic::resume_unwind(Box::new("a str"))
    });
    let with_string = launch(&queue, &[], &[], |_| {
        std::panic::resume_unwind(Box::new("a string".to_owned()))
    });
    let with_other = launch(&queue, &[], &[], |_| std::panic::resume_unwind(Box::new(7)));
    let in_groups = launch_groups(&queue, &[], 64, |_, groups| {
        if groups.contains(&40) {
            std::panic::resume_unwind(Box::new("a group"));
        }
        Ok(())
    });
    let in_task = queue
        .host_task(
            |_| std::panic::resume_unwind(Box::new("a task")),
            &Request::default(),
        )
        .unwrap();
    for (event, expected) in [
        (&with_str, "a str"),
        (&with_string, "a string"),
        (&with_other, ""),
        (&in_groups, "a group"),
        (&in_task, "a task"),
    ] {
        let error = error_of(event);
        assert!(
            matches!(error.kind(), ErrorKind::Panicked { message, .. } if message.contains(expected)),
            "{error}"
        );
    }
    // The device is as good as before.
    let memory = stage.memory(8);
    for n in 0..100 {
        fold(&queue, &memory, n, &[]);
    }
    assert_eq!(read_number(&queue, &memory), folded(0..100));
}

fn kernels_are_dropped_once_and_before_their_event(fixture: &dyn Fixture) {
    struct Counted(Arc<AtomicU32>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let failed = failing(&queue, &[], &[]);
    let _ = failed.wait_over();
    for (fails, waits) in [(false, false), (true, false), (false, true)] {
        let drops = Arc::new(AtomicU32::new(0));
        let counted = Counted(drops.clone());
        let waits: &[_] = if waits { from_ref(&failed) } else { &[] };
        let event = launch(&queue, &[], waits, move |_| {
            let _ = &counted;
            if fails { Err(boom("counted")) } else { Ok(()) }
        });
        event.wait_over().unwrap();
        assert_eq!(drops.load(Ordering::SeqCst), 1, "fails: {fails}");
        let counted = Counted(drops.clone());
        let request = Request {
            waits,
            ..Request::default()
        };
        let task = queue.host_task(
            move |_| {
                drop(counted);
                Ok(())
            },
            &request,
        );
        task.unwrap().wait_over().unwrap();
        assert_eq!(drops.load(Ordering::SeqCst), 2, "fails: {fails}");
    }
}

fn a_panic_while_an_error_is_dropped_is_contained(fixture: &dyn Fixture) {
    #[derive(Debug)]
    struct Bad;
    impl std::fmt::Display for Bad {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an error that cannot be dropped")
        }
    }
    impl Drop for Bad {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                std::panic::resume_unwind(Box::new("a drop"));
            }
        }
    }
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let memory = stage.memory(8);
    for _ in 0..3 {
        let fails = launch(&queue, &[], &[], |_| {
            Err(ErrorKind::Returned {
                what: "a case",
                error: Returned::new(Bad),
            }
            .into())
        });
        // The last handle goes with the command.
        drop(fails);
        fold(&queue, &memory, 1, &[]);
    }
    assert_eq!(read_number(&queue, &memory), folded([1; 3]));
}

fn a_panic_while_a_kernel_is_dropped_is_contained(fixture: &dyn Fixture) {
    struct Bad;
    impl Drop for Bad {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                std::panic::resume_unwind(Box::new("a drop"));
            }
        }
    }
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let memory = stage.memory(8);
    let bad = Bad;
    let kernel = launch(&queue, &[], &[], move |_| {
        let _ = &bad;
        Ok(())
    });
    kernel.wait_over().unwrap();
    let bad = Bad;
    let waits = nothing(&queue, &[updates(&memory)], &[]);
    let refused = launch(&queue, &[], from_ref(&waits), move |_| {
        let _ = &bad;
        Err(boom("and then it is dropped"))
    });
    refused.wait_over().unwrap();
    // The device is as good as before.
    for n in 0..100 {
        fold(&queue, &memory, n, &[]);
    }
    assert_eq!(read_number(&queue, &memory), folded(0..100));
}

fn posted_commands_run(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let memory = stage.memory(8);
    for n in 0..1000 {
        let accesses = [updates(&memory)];
        let request = Request {
            accesses: &accesses,
            ..Request::default()
        };
        let kernel = Kernel(move |a: &[RawArgument], _: Range<u32>| {
            store(&a[0], load(&a[0]).wrapping_mul(31).wrapping_add(n));
            Ok(())
        });
        post_native(&queue, kernel, 1, &request).unwrap();
    }
    queue.wait().unwrap();
    assert!(queue.is_empty());
    assert_eq!(read_number(&queue, &memory), folded(0..1000));
}

fn blocking_queues_return_when_the_command_is_over(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.queue(QueueOptions {
        blocking: true,
        ..QueueOptions::default()
    });
    let memory = stage.memory(8);
    for n in 0..50 {
        assert!(fold(&queue, &memory, n, &[]).is_complete());
        assert!(queue.is_empty());
    }
    // A failure is the event's, not the enqueue's.
    let failed = failing(&queue, &[], &[]);
    assert!(failed.is_complete() && failed.result().unwrap().is_err());
    let count = Arc::new(AtomicU64::new(0));
    let counted = count.clone();
    let kernel = Kernel(move |_: &[RawArgument], _: Range<u32>| {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(())
    });
    post_native(&queue, kernel, 1, &Request::default()).unwrap();
    assert_eq!(
        count.load(Ordering::SeqCst),
        1,
        "a post to a blocking queue blocks"
    );
    assert_eq!(read_number(&queue, &memory), folded(0..50));
    // And only for its own commands.
    let gate = UserEvent::new();
    let other = stage.out_of_order();
    let gated = nothing(&other, &[], &[gate.event()]);
    assert!(nothing(&queue, &[], &[]).is_complete());
    assert!(!gated.is_complete());
    gate.complete();
    gated.wait().unwrap();
}

fn a_command_runs_on_the_thread_that_makes_it_ready(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let me = std::thread::current().id();
    let memory = stage.memory(8);
    let check = move |_: &[RawArgument]| {
        assert_eq!(std::thread::current().id(), me);
        Ok(())
    };
    let at_once = launch(&queue, &[updates(&memory)], &[], check);
    assert!(at_once.is_complete(), "it ran as it was enqueued");
    let gate = UserEvent::new();
    let gated = launch(
        &queue,
        &[part(&memory, 0..4, AccessMode::Read)],
        &[gate.event()],
        check,
    );
    let after = launch(&queue, &[updates(&memory)], &[], check);
    gate.complete();
    assert!(
        gated.is_complete() && after.is_complete(),
        "they ran as the gate opened"
    );
    gated.wait().unwrap();
    after.wait().unwrap();
}

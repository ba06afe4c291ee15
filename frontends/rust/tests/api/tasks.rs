//! Host tasks.

use super::{Dropped, each_queue, pool};
use quipu::ErrorKind;
use quipu::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

#[test]
fn a_task_gives_what_it_returns() {
    each_queue(|_, queue| {
        assert_eq!(
            queue
                .host_task(|| "done".to_owned())
                .unwrap()
                .wait()
                .unwrap(),
            "done"
        );
    });
}

#[test]
fn a_task_of_unknown_access_is_a_barrier_of_an_in_order_queue() {
    each_queue(|context, queue| {
        let gate = UserEvent::new();
        let order = Arc::new(AtomicU32::new(0));
        let mut buffer = context.allocate::<u32>(1).unwrap();
        queue
            .after([gate.event()])
            .for_each(&mut buffer, (), |_, x, ()| *x = 1)
            .unwrap();
        let task = queue.host_task({
            let order = order.clone();
            move || order.fetch_add(1, Ordering::SeqCst)
        });
        let after = queue
            .host_task(move || order.load(Ordering::SeqCst))
            .unwrap();
        let task = task.unwrap();
        assert!(!task.is_complete());
        gate.complete();
        assert_eq!((after.wait().unwrap(), task.wait().unwrap()), (1, 0));
    });
}

#[test]
fn a_task_with_declared_accesses_waits_for_these_only() {
    let (context, queue) = pool();
    let gate = UserEvent::new();
    let mut busy = context.allocate::<u32>(1).unwrap();
    let held = queue
        .after([gate.event()])
        .for_each(&mut busy, (), |_, x, ()| *x = 5)
        .unwrap();
    let mut free = context.buffer(&[1u32, 2]).unwrap();
    let ran = Arc::new(AtomicU32::new(0));
    drop(
        queue
            .host_task_with((&mut free, 3u32), {
                let ran = ran.clone();
                move |(free, by)| {
                    free.iter_mut().for_each(|x| *x *= by);
                    ran.fetch_add(1, Ordering::SeqCst);
                }
            })
            .unwrap(),
    );
    let read = context
        .queue(&context.fastest())
        .unwrap()
        .read(&free)
        .unwrap();
    assert_eq!(read.wait().unwrap(), [3, 6]);
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    assert!(!held.is_complete());
    let sum = queue
        .host_task_with((&busy, &free), |(busy, free)| busy[0] + free[1])
        .unwrap();
    gate.complete();
    assert_eq!(sum.wait().unwrap(), 11);
}

#[test]
fn a_panic_or_an_error_fails_its_task_and_what_depends_on_it() {
    each_queue(|context, queue| {
        let mut buffer = context.allocate::<u32>(1).unwrap();
        let panicked = queue
            .host_task_with((&mut buffer,), |(_,)| panic!("on purpose"))
            .unwrap();
        let read = queue.read(&buffer).unwrap();
        let error = panicked.wait().unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Panicked { .. }),
            "{error}"
        );
        assert!(error.to_string().contains("on purpose"));
        let error = read.wait().unwrap_err();
        assert!(
            matches!(error.first_cause().kind(), ErrorKind::Panicked { .. }),
            "{error}"
        );

        let failed = queue.try_host_task(|| Err::<(), _>("no luck")).unwrap();
        assert!(failed.wait().unwrap_err().to_string().contains("no luck"));
        assert_eq!(
            queue
                .try_host_task(|| Ok::<_, String>(1))
                .unwrap()
                .wait()
                .unwrap(),
            1
        );
    });
}

#[test]
fn what_a_task_keeps_is_dropped_once_whether_it_runs_or_not() {
    each_queue(|_, queue| {
        let drops = Arc::new(AtomicU32::new(0));
        let gate = UserEvent::new();
        let captured = Dropped(drops.clone());
        let cancelled = queue
            .after([gate.event()])
            .host_task(move || {
                let _captured = captured;
            })
            .unwrap();
        cancelled.cancel();
        let result = Dropped(drops.clone());
        let unread = queue.host_task(move || result).unwrap();
        gate.complete();
        queue.wait().unwrap();
        assert!(cancelled.wait().unwrap_err().is_cancelled());
        assert_eq!(drops.load(Ordering::SeqCst), 1);
        drop(unread);
        assert_eq!(drops.load(Ordering::SeqCst), 2);
    });
}

/// Panics as it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

#[test]
fn a_closure_that_panics_as_it_is_dropped_hurts_nobody() {
    each_queue(|_, queue| {
        let gate = UserEvent::new();
        let bomb = Bomb;
        let task = queue
            .after([gate.event()])
            .host_task(move || std::mem::forget(bomb))
            .unwrap();
        task.cancel();
        drop(queue.host_task(|| Bomb).unwrap());
        gate.complete();
        assert!(task.wait().unwrap_err().is_cancelled());
        assert_eq!(queue.host_task(|| 1).unwrap().wait().unwrap(), 1);
    });
}

#[test]
fn a_native_call_is_handed_the_drivers_own_queue_in_its_order() {
    let (context, queue) = pool();
    let gate = UserEvent::new();
    let mut buffer = context.allocate::<u32>(1).unwrap();
    queue
        .after([gate.event()])
        .for_each(&mut buffer, (), |_, x, ()| *x = 1)
        .unwrap();
    let call = queue
        .native_call(|cpu: &quipu::driver::CpuQueue| cpu.workers.clone())
        .unwrap();
    assert!(!call.is_complete());
    gate.complete();
    let workers = queue.device().properties().multiprocessors as usize;
    assert_eq!(call.wait().unwrap(), 0..workers);
}

#[test]
fn a_native_call_with_another_drivers_queue_is_refused() {
    let (_, queue) = pool();
    let error = queue.native_call(|_: &String| ()).unwrap_err();
    let ErrorKind::Unsupported { driver: "cpu", .. } = error.kind() else {
        panic!("{error}");
    };
    assert!(error.to_string().contains("String"), "{error}");
}

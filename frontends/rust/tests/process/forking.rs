//! A child of `fork` has none of its parent's threads. It is told so by the first call that would
//! need them, nothing hangs in it, and the parent goes on.

use crate::place::{Place, embedded};
use quipu::prelude::*;
use quipu::{Context, ErrorKind, Graph, Partition};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

/// Runs something in a child, which exits as a program does, and waits for that.
fn in_child(work: impl FnOnce()) {
    // SAFETY: the child is what this test is about.
    match unsafe { libc::fork() } {
        -1 => panic!("{}", std::io::Error::last_os_error()),
        0 => {
            // SAFETY: the call takes a number.
            unsafe { libc::alarm(300) };
            let worked = catch_unwind(AssertUnwindSafe(work)).is_ok();
            std::process::exit(i32::from(!worked));
        }
        child => {
            let mut status = 0;
            // SAFETY: the status is there until the call returns.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(status, 0, "the child has hung, or was not told");
        }
    }
}

#[track_caller]
fn told<T>(result: quipu::Result<T>, parent: u32) {
    let Err(error) = result else {
        panic!("it was not told");
    };
    assert!(
        matches!(error.kind(), ErrorKind::Forked { parent: told } if *told == parent),
        "{error}"
    );
    let text = error.to_string();
    assert!(
        text.contains("fork") && text.contains(&parent.to_string()),
        "{text}"
    );
}

pub(crate) fn fork(driver: &str) {
    let parent = std::process::id();
    let place = Place::of(driver);
    let (context, queue) = (&place.context, &place.queue);
    let buffer = context.buffer(&[1_u32; 64]).unwrap();
    let over = queue.fill(&buffer, 2).unwrap();
    over.wait().unwrap();
    let is_finished = AtomicBool::new(false);
    /// Also if an assertion fails: else the scope would wait for the others for ever.
    struct End<'a>(&'a AtomicBool);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    std::thread::scope(|scope| {
        let _end = End(&is_finished);
        // Others are at it, and have something locked, as the process forks.
        for _ in 0..2 {
            scope.spawn(|| {
                let queue = context.queue(queue.device()).unwrap();
                while !is_finished.load(Ordering::Relaxed) {
                    let own = context.buffer(&[0_u32; 64]).unwrap();
                    for number in 0..32 {
                        let gate = UserEvent::new();
                        queue.after([gate.event()]).fill(&own, number).unwrap();
                        gate.complete();
                    }
                    queue.wait().unwrap();
                }
            });
        }
        for _ in 0..10 {
            fork_once(parent, context, queue, &buffer, &over);
        }
    });
    let read = queue.read(&buffer).unwrap().wait().unwrap();
    assert_eq!(read, [7; 64]);
    drop((over, buffer, place));
    println!("the parent goes on");
}

fn fork_once(parent: u32, context: &Context, queue: &Queue, buffer: &Buffer<u32>, over: &Event) {
    let gate = UserEvent::new();
    let size = context.buffer(&[8_u64]).unwrap();
    // What is not over as the process forks, and never is in the child.
    let behind = queue.after([gate.event()]).fill(buffer, 7).unwrap();
    let future = queue.read(buffer).unwrap();
    // What is registered with it, and what is the host's.
    let mut polled = behind.clone();
    let mut waits = std::task::Context::from_waker(Waker::noop());
    assert!(
        std::pin::Pin::new(&mut polled)
            .poll(&mut waits)
            .is_pending()
    );
    let (one, other) = (
        context.buffer(&[1_u32; 8]).unwrap(),
        context.buffer(&[1_u32; 8]).unwrap(),
    );
    let mapped = queue.map(&one).unwrap();
    let lent = queue.map(&other).unwrap().wait().unwrap();
    let mut scratch = Some(queue.scratch::<u32>(8).unwrap());
    let mut of_host = Some((polled, mapped, lent));
    let mut held = Some((gate, behind, future));
    let is_dropped = Arc::new(AtomicBool::new(false));
    let graph = recorded(context, queue, &is_dropped);
    let mut graph = Some(graph);
    let handles = (context.clone(), queue.clone(), buffer.clone());
    in_child(|| {
        let (gate, behind, future) = held.take().unwrap();
        let (context, queue, buffer) = handles;
        // What has happened is known.
        over.wait().unwrap();
        told(embedded().build(), parent);
        told(Platform::new(), parent);
        let available = Platform::builder().build_available();
        assert!(available.devices().is_empty());
        told::<()>(Err(available.unavailable()[0].error.clone()), parent);
        told(Context::new(context.devices()), parent);
        told(context.queue(queue.device()), parent);
        told(context.allocate::<u32>(8), parent);
        told(queue.fill(&buffer, 9), parent);
        told(queue.read(&buffer), parent);
        told(queue.host_task(|| 1), parent);
        told(queue.map(&buffer), parent);
        told(behind.wait(), parent);
        told(behind.wait_timeout(Duration::from_secs(3600)), parent);
        told(queue.wait(), parent);
        told(context.wait(), parent);
        told(queue.scratch::<u32>(8), parent);
        drop(scratch.take());
        // What a graph keeps may need threads that are not here.
        drop(graph.take());
        assert!(!is_dropped.load(Ordering::SeqCst));
        assert!(!behind.is_complete() && !queue.is_empty());
        {
            let mut polled = pin!(behind.clone());
            let mut context = std::task::Context::from_waker(Waker::noop());
            let Poll::Ready(result) = polled.as_mut().poll(&mut context) else {
                panic!("a future waits for ever");
            };
            told(result, parent);
        }
        told(future.wait(), parent);
        drop(of_host.take());
        let (tell, heard) = std::sync::mpsc::channel();
        for event in [&behind, over] {
            let tell = tell.clone();
            event.on_complete(move |result| tell.send(result).unwrap());
        }
        told(heard.try_recv().expect("nobody calls back later"), parent);
        heard.try_recv().unwrap().unwrap();
        told(buffer.set_content_size(Some(&size)), parent);
        told(queue.device().partition(&Partition::Equally(1)), parent);
        drop(context.polling());
        // As many slots as no thread has left.
        let events: Vec<_> = (0..10_000).map(|_| UserEvent::new()).collect();
        drop(events);
        queue.flush();
        context.poll();
        // What would run now has nobody to run it.
        gate.complete();
        drop((behind, buffer, queue, context));
    });
    let (gate, behind, future) = held.unwrap();
    gate.complete();
    behind.wait().unwrap();
    assert_eq!(future.wait().unwrap(), [7; 64]);
}

/// A graph with a task whose destructor sets a flag.
fn recorded(context: &Context, queue: &Queue, is_dropped: &Arc<AtomicBool>) -> Graph {
    struct Tells(Arc<AtomicBool>);
    impl Drop for Tells {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let tells = Tells(is_dropped.clone());
    let recording = context.record();
    let task = move || {
        let _ = &tells;
    };
    recording.on(queue).host_task(task).unwrap();
    recording.finish().unwrap()
}

/// Before the first use, a process may fork as it likes.
pub(crate) fn fork_first(driver: &str) {
    let work = |driver: &str| {
        let place = Place::of(driver);
        let buffer = place.context.buffer(&[1_u32; 8]).unwrap();
        place.queue.fill(&buffer, 4).unwrap();
        assert_eq!(place.queue.read(&buffer).unwrap().wait().unwrap(), [4; 8]);
    };
    in_child(|| work(driver));
    work(driver);
    println!("the parent goes on");
}

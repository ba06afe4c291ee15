//! A launch inside of a thread of another, which asks for the arrival of the thread around it.

use quipu_kernel::{
    BlockKernel, BlockScratch, Execution, GridAccelerator, GroupKernel, RunOptions, SharedArray,
    SharedRead, SharedWrite, WorkDivision, erase_block,
};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::thread::{ThreadId, current};

/// A value that a kernel can have, as it is used on one thread only.
struct OnThread<T>(ThreadId, T);

#[allow(unsafe_code)]
mod on_thread {
    // SAFETY: `get` gives the value on its own thread alone, and a reference has no destructor.
    unsafe impl<T> Send for super::OnThread<&T> where T: ?Sized {}
    // SAFETY: as above.
    unsafe impl<T> Sync for super::OnThread<&T> where T: ?Sized {}
}

impl<T> OnThread<T> {
    fn new(value: T) -> Self {
        Self(current().id(), value)
    }

    fn get(&self) -> &T {
        assert_eq!(self.0, current().id());
        &self.1
    }
}

/// Does something in its only thread, which ends or waits.
struct Inner<'k>(OnThread<&'k dyn Fn()>);

impl BlockKernel<1> for Inner<'_> {
    type Output = ();
    type Shared = ();

    fn shared(&self, _: &WorkDivision<1>) {}

    async fn run<A: GridAccelerator<1>>(&self, acc: &A, _: (), _: ()) {
        (self.0.get())();
        acc.sync_block_threads().await;
        (self.0.get())();
    }
}

fn launch(kernel: &dyn Fn()) {
    let division = WorkDivision::new(1, 1, 1).unwrap();
    let mut launch = erase_block(Inner(OnThread::new(kernel)), (), division).unwrap();
    launch.run_all(&mut BlockScratch::new()).unwrap();
}

thread_local! {
    static IS_EARLY: Cell<bool> = const { Cell::new(false) };
}

/// Turns an array of its two threads, and asks whether it has turned from inside of a launch.
struct Outer;

impl BlockKernel<1> for Outer {
    type Output = ();
    type Shared = SharedArray<u32>;

    fn shared(&self, _: &WorkDivision<1>) -> SharedArray<u32> {
        SharedArray::new(2)
    }

    async fn run<'t, A: GridAccelerator<1>>(&self, acc: &'t A, _: (), mut a: SharedWrite<'t, u32>) {
        let thread = acc.thread_index()[0];
        a.own()[0] = 10 + thread as u32;
        let turning = RefCell::new(Box::pin(acc.sync(a)));
        let early: RefCell<Option<SharedRead<'_, u32>>> = RefCell::new(None);
        let ask = || {
            let mut turning = turning.borrow_mut();
            let context = &mut Context::from_waker(Waker::noop());
            if let Poll::Ready(read) = turning.as_mut().poll(context) {
                *early.borrow_mut() = Some(read);
            }
        };
        if thread == 0 {
            launch(&ask);
        }
        if early.into_inner().is_some() {
            IS_EARLY.set(true);
        } else {
            let mut turning = turning.into_inner();
            let read = poll_fn(|context| Pin::new(&mut turning).poll(context)).await;
            assert_eq!(read[..], [10, 11]);
        }
    }
}

#[test]
fn a_launch_inside_of_a_thread_completes_no_arrival_around_it() {
    for execution in [Execution::Native, Execution::Lockstep { warp_size: 1 }] {
        let mut options = RunOptions::default();
        options.execution = execution;
        let division = WorkDivision::new(1, 2, 1).unwrap();
        let mut launch = erase_block(Outer, (), division).unwrap();
        launch
            .run_all(&mut BlockScratch::with_options(options))
            .unwrap();
        assert!(!IS_EARLY.get(), "{execution:?}");
    }
}

//! The library's types between threads: those that may go to another one, and those that several
//! may use at once.
//!
//! Futures are polled by whichever thread an executor likes, so what a program holds across an
//! `await` goes to other threads. That something is no more so is told by the compiler here, and
//! not to a user.

use super::each_queue;
use quipu::drivers::{CpuDriver, CudaDriver, OpenClDriver, RemoteDriver, SerialDriver, SimDriver};
use quipu::kernel::{Program, TextKernel};
use quipu::prelude::*;
use quipu::serve::{Kernels, Serving};
use quipu::{
    BuiltIn, BuiltInKernel, DeviceProperties, Error, First, KernelAttributes, MapRead, MapReadNd,
    MapWrite, MapWriteNd, Mapping, Node, Overwrite, PlatformBuilder, Profile, Recorder, Recording,
    Result, Returned, Scope, Unavailable,
};
use std::marker::PhantomData;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context as Polling, Poll, Wake, Waker};
use std::thread::Thread;

const fn is_shared<T: Send + Sync>() {}

// What a program has of a platform, and keeps.
const _: () = {
    is_shared::<Platform>();
    is_shared::<PlatformBuilder>();
    is_shared::<Unavailable>();
    is_shared::<Device>();
    is_shared::<DeviceProperties>();
    is_shared::<Context>();
    is_shared::<Queue>();
    is_shared::<QueueOptions>();
    is_shared::<Error>();
    is_shared::<Returned>();
    is_shared::<(CpuDriver, SerialDriver, SimDriver)>();
    is_shared::<(CudaDriver, OpenClDriver, RemoteDriver)>();
    is_shared::<(Kernels, Serving)>();
};

// Memory.
const _: () = {
    is_shared::<Buffer<f32>>();
    is_shared::<Overwrite<'_, f32>>();
    is_shared::<View<f32, 2>>();
    is_shared::<Layout<3>>();
    is_shared::<Pinned<f32>>();
    is_shared::<Variable<f32>>();
    is_shared::<Constant<f32>>();
};

// Futures, and what they give.
const _: () = {
    is_shared::<Event>();
    is_shared::<UserEvent>();
    is_shared::<Profile>();
    is_shared::<Pending<String>>();
    is_shared::<Mapping<MapRead<f32>>>();
    is_shared::<Mapping<MapWrite<f32>>>();
    is_shared::<Mapping<MapReadNd<f32, 2>>>();
    is_shared::<Mapping<MapWriteNd<f32, 2>>>();
    is_shared::<(MapRead<f32>, MapWrite<f32>)>();
    is_shared::<(MapReadNd<f32, 2>, MapWriteNd<f32, 2>)>();
    is_shared::<First<Pending<String>>>();
};

// What is launched, and where it is recorded.
const _: () = {
    is_shared::<(Program, TextKernel)>();
    is_shared::<(BuiltIn, BuiltInKernel, KernelAttributes)>();
    is_shared::<Recording>();
    is_shared::<Recorder<'_>>();
    is_shared::<(Graph, Node)>();
    is_shared::<Scope<'_, '_>>();
};

/// Names a type, to ask whether it is [`Sends`] or [`Keeps`]: a method of the one is found first,
/// and is there only if the type may be sent.
struct Of<T>(PhantomData<T>);

fn of<T: 'static>(_: &T) -> &'static Of<T> {
    &Of(PhantomData)
}

trait Sends {
    fn is_sent(&self) -> bool {
        true
    }
}

impl<T: Send> Sends for Of<T> {}

trait Keeps {
    fn is_sent(&self) -> bool {
        false
    }
}

impl<T> Keeps for &Of<T> {}

/// A future of somebody else's, that belongs to a thread.
struct Here(
    Event,
    #[expect(dead_code, reason = "it belongs to a thread")] Rc<()>,
);

impl Future for Here {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, polling: &mut Polling<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.0).poll(polling)
    }
}

impl Waitable for Here {
    type Value = ();

    fn event(&self) -> &Event {
        &self.0
    }

    fn forget_waker(&mut self) {
        self.0.forget_waker();
    }
}

#[test]
fn what_waits_for_several_goes_where_all_of_them_may_go() {
    let gate = UserEvent::new();
    let event = || gate.event();
    let here = || Here(gate.event(), Rc::new(()));
    assert!(of(&when_all((event(), event()))).is_sent());
    assert!(of(&when_all(vec![event()])).is_sent());
    assert!(of(&when_any([event()]).unwrap()).is_sent());
    assert!(!of(&when_all((event(), here()))).is_sent());
    assert!(!of(&when_all(vec![here()])).is_sent());
    assert!(!of(&when_any([here()]).unwrap()).is_sent());
    // What a command gives may belong to the thread that it was given to.
    assert!(!(&Of::<First<Pending<Rc<()>>>>(PhantomData)).is_sent());
    gate.complete();
}

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls a future to its end, each time on another thread, and opens a gate whenever it is not
/// over. Gives what it gives.
fn carried<F: Future + Send>(future: F, gates: Vec<UserEvent>) -> F::Output
where
    F::Output: Send,
{
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let (mut future, mut gates) = (pin!(future), gates.into_iter());
    loop {
        let future = future.as_mut();
        let polled = std::thread::scope(|scope| {
            let poll = scope.spawn(|| future.poll(&mut Polling::from_waker(&waker)));
            poll.join().unwrap()
        });
        match (polled, gates.next()) {
            (Poll::Ready(output), None) => return output,
            (Poll::Ready(_), Some(_)) => panic!("it did not wait"),
            (Poll::Pending, Some(gate)) => gate.complete(),
            (Poll::Pending, None) => std::thread::park(),
        }
    }
}

#[test]
fn futures_and_guards_are_carried_from_thread_to_thread() {
    each_queue(|context, queue| {
        let (x, y) = (
            context.buffer(&[1u32, 2, 3]).unwrap(),
            context.allocate_nd::<u32, 2>([2, 2]).unwrap(),
        );
        let (gate, on) = (UserEvent::new(), queue.clone());
        let gated = on.after([gate.event()]);
        let work = async move {
            let mut guard = gated.map_mut(&x)?.await?;
            // A guard is held while others are awaited, and what was written by it is seen by
            // commands after it.
            guard[0] = 7;
            let mut tile = on.map_nd_mut(&y)?.await?;
            let seen = on.host_task(|| 5)?.await?;
            tile.elements_mut()[3] = seen + guard[1];
            drop((guard, tile));
            let (x, y) = when_all((on.read(&x)?, on.read_nd(&y)?)).await?;
            let first = when_any([on.marker()?, on.marker()?])?.await?;
            first.result?;
            Ok::<_, Error>((x, y))
        };
        let (x, y) = carried(work, vec![gate]).unwrap();
        assert_eq!((x, y), (vec![7, 2, 3], vec![0, 0, 0, 7]));
    });
}

//! Native calls: closures that get the driver's own queue.
//!
//! | call | ordered | over when |
//! |---|---|---|
//! | [`Queue::native_call`] | as a host task of unknown access | the closure has returned |
//! | [`Queue::post`], [`Queue::async_execute`] | by the buffers that it declares, on the device | the work that the closure put into the queue is over |

use super::Queue;
use crate::future::Pending;
use crate::kernel::{Accesses, NativeArguments, refuse_overlap};
use crate::parcel::{Contained, Parcel};
use quipu_scheduler::error::Returned;
use quipu_scheduler::{Error, ErrorKind, NativeEnqueue, NativeQueue, Request, Result};
use std::any::Any;
use std::sync::Arc;

impl Queue {
    /// Calls a closure with the driver's own queue: for work that only the driver can do. `N` is
    /// the type that the driver hands out, which its crate documents
    /// ([`driver::CpuQueue`](crate::driver::CpuQueue) for one). Ordered as a [host
    /// task](Queue::host_task) is; the work that the closure gives the driver must be over when it
    /// returns.
    ///
    /// ```
    /// # use quipu::prelude::*;
    /// # fn main() -> quipu::Result<()> {
    /// # let platform = Platform::new()?;
    /// # let cpu = platform.devices().iter().find(|d| d.name() != "serial").unwrap().clone();
    /// # let context = platform.context()?;
    /// # let queue = context.queue(&cpu)?;
    /// let workers = queue
    ///     .native_call(|cpu: &quipu::driver::CpuQueue| cpu.workers.len())?
    ///     .wait()?;
    /// assert!(workers > 0);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the driver hands out no queue of this type, or the device or the
    /// context is lost.
    pub fn native_call<N: Any + Send, R: Send + 'static>(
        &self,
        call: impl FnOnce(&N) -> R + Send + 'static,
    ) -> Result<Pending<R>> {
        let native = self.core().native();
        let Some(native) = native.and_then(|native| native.downcast::<N>().ok()) else {
            return Err(ErrorKind::Unsupported {
                driver: self.core().shared().driver().name(),
                what: format!("hand out a {}", std::any::type_name::<N>()),
                instead: "ask for the type of queue that the device's driver documents",
            }
            .into());
        };
        let call = move |_: &[quipu_scheduler::RawArgument]| Ok(call(&native));
        self.enqueue_contained::<true, R>(call, &self.unknown())
    }

    /// Makes a command of the work that a closure puts into the driver's own queue, and gives the
    /// closure's value once that is over. So calls of a vendor's libraries, and those written by
    /// hand, are commands among others.
    ///
    /// The closure is handed the queue (`N`: [`driver::OpenClQueue`](crate::driver::OpenClQueue)
    /// with a `cl_command_queue`, [`driver::CudaQueue`](crate::driver::CudaQueue) with a
    /// `CUstream`, and their platform, device and context;
    /// [`driver::CpuQueue`](crate::driver::CpuQueue) on processors), and for each of `buffers` its
    /// bytes, their range and the mode: a `cl_mem`, a `CUdeviceptr`, a pointer. They are brought
    /// there first if need be. The command is ordered by what it declares, as a launch is, and by
    /// the device where that can; with no buffers it may touch anything, and it is ordered as a
    /// [host task](Queue::host_task).
    ///
    /// ```no_run
    /// # use quipu::prelude::*;
    /// # use quipu::driver::OpenClQueue;
    /// # unsafe fn clEnqueueCopyBuffer(_: *mut std::ffi::c_void, _: *mut std::ffi::c_void, _: *mut std::ffi::c_void,
    /// #     _: usize, _: usize, _: usize, _: u32, _: *const (), _: *mut ()) -> i32 { 0 }
    /// # use std::ptr::{null, null_mut};
    /// # fn copy(queue: &Queue, from: &Buffer<f32>, to: &mut Buffer<f32>) -> quipu::Result<()> {
    /// // SAFETY: it reads the first range and writes the second, in the queue's order.
    /// let copied = unsafe {
    ///     queue.async_execute((from, to.overwrite()), |native: &OpenClQueue, [from, to]| {
    ///         let code = clEnqueueCopyBuffer(
    ///             native.queue(), from.memory(), to.memory(),
    ///             from.offset(), to.offset(), from.length(), 0, null(), null_mut(),
    ///         );
    ///         if code == 0 { Ok(()) } else { Err(format!("clEnqueueCopyBuffer: {code}")) }
    ///     })?
    /// };
    /// copied.wait()
    /// # }
    /// ```
    ///
    /// It is called once, when the memory that it reads is written and free of faults, and never if
    /// that fails or it is cancelled before. If it panics or returns an error, its command fails,
    /// after its work in the queue has run; the error is [had from the
    /// future's](quipu_scheduler::Error::returned) as it was. Where devices have queues of their
    /// own, it is called by a thread that hands commands to the driver's devices, which hands over
    /// no others meanwhile: let it enqueue and return. A wait for another command in there is
    /// refused.
    ///
    /// # Safety
    /// The work that the closure puts into the queue touches of `buffers` no more than their
    /// ranges, in their modes: it writes every byte of `buffer.overwrite()` and nothing of
    /// `&buffer`. All of it is in the queue that it was handed, or waited for there, or over, when
    /// it returns. The handles that it was given are not released, and used no later.
    ///
    /// # Errors
    /// If the driver has no native queues, or none of this type; if a buffer that
    /// is written overlaps another argument, is mapped or of another context; if
    /// the device is lost.
    pub unsafe fn async_execute<'b, N, A, R, E>(
        &self,
        buffers: A,
        call: impl FnOnce(&N, A::Memories<N::Memory>) -> Result<R, E> + Send + 'static,
    ) -> Result<Pending<R>>
    where
        N: NativeQueue,
        A: NativeArguments<'b>,
        R: Send + 'static,
        E: std::fmt::Display + Send + Sync + 'static,
    {
        let parcel: Arc<Parcel<R>> = Parcel::empty();
        let result = parcel.clone();
        let event = self.enqueue_native(
            buffers,
            native::<N, A, R, E>(call, move |value| {
                // SAFETY: this is the running command.
                unsafe { result.put(value) };
            }),
            // SAFETY: whoever calls this function vouches for the native call's work, which is all
            // that `native_enqueue` asks for.
            |queue, enqueue, request| unsafe { queue.native_enqueue(enqueue, request) },
        )?;
        Ok(Pending::new(event, move || {
            // SAFETY: called once, by a future whose command is over.
            let value = unsafe { parcel.take() };
            value.ok_or_else(|| Error::cancelled("a native call"))
        }))
    }

    /// As [`Queue::async_execute`], one-way: an error fails the commands that depend on it, and is
    /// lost else.
    ///
    /// # Safety
    /// As [`Queue::async_execute`].
    ///
    /// # Errors
    /// As [`Queue::async_execute`].
    pub unsafe fn post<'b, N, A, E>(
        &self,
        buffers: A,
        call: impl FnOnce(&N, A::Memories<N::Memory>) -> Result<(), E> + Send + 'static,
    ) -> Result<()>
    where
        N: NativeQueue,
        A: NativeArguments<'b>,
        E: std::fmt::Display + Send + Sync + 'static,
    {
        self.enqueue_native(
            buffers,
            native::<N, A, (), E>(call, |()| ()),
            // SAFETY: as the caller promises.
            |queue, enqueue, request| unsafe { queue.post_native_enqueue(enqueue, request) },
        )
    }

    fn enqueue_native<'b, A: NativeArguments<'b>, R>(
        &self,
        buffers: A,
        enqueue: NativeEnqueue,
        to: impl FnOnce(&quipu_scheduler::Queue, NativeEnqueue, &Request<'_>) -> Result<R>,
    ) -> Result<R> {
        let mut accesses = Accesses::new();
        buffers.declare(&mut accesses)?;
        // Native calls are given memory, and not where in it a view has gaps.
        refuse_overlap("call natively", &accesses, |_| ())?;
        let request = Request {
            unknown_access: accesses.is_empty(),
            ..self.request(&accesses)
        };
        to(self.core(), enqueue, &request)
    }
}

/// A closure as the core calls it.
fn native<
    'b,
    N: NativeQueue,
    A: NativeArguments<'b>,
    R,
    E: std::fmt::Display + Send + Sync + 'static,
>(
    call: impl FnOnce(&N, A::Memories<N::Memory>) -> Result<R, E> + Send + 'static,
    put: impl FnOnce(R) + Send + 'static,
) -> NativeEnqueue {
    let call = Contained::new(call);
    NativeEnqueue::new(move |queue: &N, memories| {
        let failed = |error| ErrorKind::Returned {
            what: "a native call",
            error,
        };
        let Some(memories) = A::memories(memories) else {
            let message = "the driver resolved too few arguments; this is an error of the driver";
            return Err(failed(Returned::new(message)).into());
        };
        let value = call.into_inner()(queue, memories);
        put(value.map_err(|error| failed(Returned::new(error)))?);
        Ok(())
    })
}

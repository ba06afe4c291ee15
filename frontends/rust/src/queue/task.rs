//! Host tasks: closures that run once, in a queue's order, on one of its
//! device's threads.

use super::Queue;
use crate::future::Pending;
use crate::kernel::{Arguments, HostArguments, Stored, collect, placed};
use crate::parcel::{Contained, Parcel};
use quipu_scheduler::error::Returned;
use quipu_scheduler::{Error, ErrorKind, RawArgument, Request, Result};
use std::sync::Arc;

impl Queue {
    /// Runs a closure on the host, and gives its value. It may touch anything, so on an in-order
    /// queue it runs after everything before it and before everything after. If it panics, its
    /// future fails, and nothing else.
    ///
    /// The closure owns its data: it may run after the caller has returned. It may wait for
    /// commands by this library's own waits, which fail where they could never end. By other means,
    /// such as an executor's `block_on`, it may wait for ever: for commands that need its thread,
    /// or the device memory that it holds.
    ///
    /// Its thread blocks the signals that the system sends to a process, as SIGTERM, and a process
    /// that the closure starts inherits that: `kill` does not end it, and its alarms do not ring.
    /// Start such a process on a thread of your own, or unblock the signals in it
    /// (`std::os::unix::process::CommandExt::pre_exec`).
    ///
    /// ```compile_fail,E0373
    /// # fn test(queue: &quipu::Queue) -> quipu::Result<()> {
    /// let local = String::from("gone before the task runs");
    /// let task = queue.host_task(|| println!("{local}"))?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the device or the context is lost.
    pub fn host_task<R: Send + 'static>(
        &self,
        task: impl FnOnce() -> R + Send + 'static,
    ) -> Result<Pending<R>> {
        self.enqueue_task(move |_: &[RawArgument]| Ok(task()), &self.unknown())
    }

    /// As [`Queue::host_task`], for a closure that may fail: an error fails its command, and the
    /// commands that depend on it, and is [had from theirs](quipu_scheduler::Error::returned) as it
    /// was.
    ///
    /// ```
    /// # use quipu::prelude::*;
    /// # use std::num::ParseIntError;
    /// # fn main() -> quipu::Result<()> {
    /// # let context = Platform::new()?.context()?;
    /// # let queue = context.queue(&context.fastest())?;
    /// let task = queue.try_host_task(|| "seven".parse::<u32>())?;
    /// let error = task.wait().unwrap_err();
    /// assert!(error.returned::<ParseIntError>().is_some());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the device or the context is lost.
    pub fn try_host_task<R: Send + 'static, E: std::fmt::Display + Send + Sync + 'static>(
        &self,
        task: impl FnOnce() -> Result<R, E> + Send + 'static,
    ) -> Result<Pending<R>> {
        let task = move |_: &[RawArgument]| task().map_err(failed);
        self.enqueue_task(task, &self.unknown())
    }

    /// Runs a closure on the host with buffers as slices: `&[T]` of `&buffer`, `&mut [T]` of
    /// `&mut buffer` or `buffer.overwrite()`, and plain values. It is ordered by the bytes that it
    /// touches, as a launch is.
    ///
    /// ```
    /// # use quipu::prelude::*;
    /// # fn main() -> quipu::Result<()> {
    /// # let context = Platform::new()?.context()?;
    /// # let queue = context.queue(&context.fastest())?;
    /// let (numbers, mut sum) = (context.buffer(&[1, 2, 3])?, context.allocate::<i32>(1)?);
    /// queue.host_task_with((&numbers, &mut sum), |(numbers, sum)| {
    ///     sum[0] = numbers.iter().sum();
    /// })?.wait()?;
    /// assert_eq!(queue.read(&sum)?.wait()?, [6]);
    /// # Ok(()) }
    /// ```
    ///
    /// The closure's value is free of the slices:
    ///
    /// ```compile_fail
    /// # use quipu::prelude::*;
    /// # fn test(queue: &Queue, numbers: &Buffer<u32>) -> quipu::Result<()> {
    /// let slice = queue.host_task_with((numbers,), |(numbers,)| numbers)?.wait()?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If a written argument overlaps another, a buffer is mapped or of another context, or the
    /// device is lost.
    pub fn host_task_with<'b, A, R>(
        &self,
        arguments: A,
        task: impl for<'a> FnOnce(HostArguments<'a, 'b, A>) -> R + Send + 'static,
    ) -> Result<Pending<R>>
    where
        A: Arguments<'b>,
        R: Send + 'static,
    {
        let (stored, accesses) = collect("run a host task", arguments)?;
        let task = move |raw: &[RawArgument]| {
            // SAFETY: the arguments are this command's, in the order in which
            // they were collected, and do not overlap where they are written.
            unsafe { crate::kernel::host_views(&stored, raw) }.map(task)
        };
        let enqueued = self.enqueue_task(task, &self.request(&accesses));
        enqueued.map_err(|error| placed(error, A::Stored::PLACES))
    }

    pub(crate) fn unknown(&self) -> Request<'_> {
        Request {
            unknown_access: true,
            ..self.request(&[])
        }
    }

    fn enqueue_task<R: Send + 'static>(
        &self,
        task: impl FnOnce(&[RawArgument]) -> Result<R> + Send + 'static,
        request: &Request<'_>,
    ) -> Result<Pending<R>> {
        self.enqueue_contained::<false, R>(task, request)
    }

    /// Enqueues a host task, or a native call.
    pub(super) fn enqueue_contained<const NATIVE: bool, R: Send + 'static>(
        &self,
        task: impl FnOnce(&[RawArgument]) -> Result<R> + Send + 'static,
        request: &Request<'_>,
    ) -> Result<Pending<R>> {
        let parcel: Arc<Parcel<R>> = Parcel::empty();
        let result = parcel.clone();
        let task = Contained::new(task);
        let run = move |arguments: &[RawArgument]| {
            let value = task.into_inner()(arguments)?;
            // SAFETY: this is the running command.
            unsafe { result.put(value) };
            Ok(())
        };
        let event = if NATIVE {
            self.core().native_call(run, request)?
        } else {
            self.core().host_task(run, request)?
        };
        Ok(Pending::new(event, move || {
            // SAFETY: called once, by a future whose command is over.
            let value = unsafe { parcel.take() };
            value.ok_or_else(|| Error::cancelled("a host task"))
        }))
    }
}

/// The error of a host task that has returned one.
pub(crate) fn failed(
    error: impl std::fmt::Display + Send + Sync + 'static,
) -> quipu_scheduler::Error {
    ErrorKind::Returned {
        what: "a host task",
        error: Returned::new(error),
    }
    .into()
}

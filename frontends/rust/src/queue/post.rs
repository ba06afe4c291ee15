//! One-way commands: enqueued for their effect, without a future. Readers of the memory that they should have written
//! see a failure.

use super::Queue;
use crate::buffer::Buffer;
use crate::element::Element;
use crate::host::Source;
use crate::kernel::{Arguments, HostArguments, Shared, SharedArguments};
use crate::layout::{Layout, View};
use quipu_scheduler::Result;

impl Queue {
    /// As [`Queue::for_each`], one-way.
    ///
    /// # Errors
    /// As [`Queue::for_each`].
    pub fn post_for_each<'b, T, A, F>(
        &self,
        output: &'b mut Buffer<T>,
        arguments: A,
        each: F,
    ) -> Result<()>
    where
        T: Element,
        A: SharedArguments<'b>,
        F: for<'a> Fn(usize, &'a mut T, <A::Stored as Shared>::Each<'a>) + Send + Sync + 'static,
    {
        self.prepare_each(output, arguments, each, |core, body, groups, request| {
            core.post_launch(body, groups, request)
        })
    }

    /// As [`Queue::host_task`], one-way.
    ///
    /// # Errors
    /// As [`Queue::host_task`].
    pub fn post_host_task(&self, task: impl FnOnce() + Send + 'static) -> Result<()> {
        self.host_task(task).map(drop)
    }

    /// As [`Queue::try_host_task`], one-way: an error fails the commands that depend on the task, and is lost else.
    ///
    /// # Errors
    /// As [`Queue::try_host_task`].
    pub fn post_try_host_task<E: std::fmt::Display + Send + Sync + 'static>(
        &self,
        task: impl FnOnce() -> Result<(), E> + Send + 'static,
    ) -> Result<()> {
        self.try_host_task(task).map(drop)
    }

    /// As [`Queue::host_task_with`], one-way.
    ///
    /// # Errors
    /// As [`Queue::host_task_with`].
    pub fn post_host_task_with<'b, A: Arguments<'b>>(
        &self,
        arguments: A,
        task: impl for<'a> FnOnce(HostArguments<'a, 'b, A>) + Send + 'static,
    ) -> Result<()> {
        self.host_task_with(arguments, task).map(drop)
    }

    /// As [`Queue::write`], one-way: the source is dropped when it was written.
    ///
    /// # Errors
    /// As [`Queue::write`].
    pub fn post_write<T: Element>(
        &self,
        buffer: &Buffer<T>,
        source: impl Source<Element = T>,
    ) -> Result<()> {
        self.write(buffer, source).map(drop)
    }

    /// As [`Queue::copy`], one-way.
    ///
    /// # Errors
    /// As [`Queue::copy`].
    pub fn post_copy<T: Element>(&self, source: &Buffer<T>, destination: &Buffer<T>) -> Result<()> {
        self.copy(source, destination).map(drop)
    }

    /// As [`Queue::fill`], one-way.
    ///
    /// # Errors
    /// As [`Queue::fill`].
    pub fn post_fill<T: Element>(&self, buffer: &Buffer<T>, value: T) -> Result<()> {
        self.fill(buffer, value).map(drop)
    }

    /// As [`Queue::write_nd`], one-way: the source is dropped when it was
    /// written.
    ///
    /// # Errors
    /// As [`Queue::write_nd`].
    pub fn post_write_nd<T: Element, const D: usize>(
        &self,
        view: &View<T, D>,
        source: impl Source<Element = T>,
        layout: &Layout<D>,
    ) -> Result<()> {
        self.write_nd(view, source, layout).map(drop)
    }

    /// As [`Queue::copy_nd`], one-way.
    ///
    /// # Errors
    /// As [`Queue::copy_nd`].
    pub fn post_copy_nd<T: Element, const D: usize>(
        &self,
        source: &View<T, D>,
        destination: &View<T, D>,
    ) -> Result<()> {
        self.copy_nd(source, destination).map(drop)
    }

    /// As [`Queue::fill_nd`], one-way.
    ///
    /// # Errors
    /// As [`Queue::fill_nd`].
    pub fn post_fill_nd<T: Element, const D: usize>(
        &self,
        view: &View<T, D>,
        value: T,
    ) -> Result<()> {
        self.fill_nd(view, value).map(drop)
    }
}

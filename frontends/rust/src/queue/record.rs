//! Launches of recorded graphs.

use super::Queue;
use crate::record::Graph;
use quipu_scheduler::{Event, Result};

impl Queue {
    /// Launches a recorded graph: all its commands, on the queues that they were
    /// recorded for, as one command of this queue. It is ordered by this queue and by
    /// all that the graph touches together, waits for [these events](Queue::after),
    /// and gives one future: over when all commands are, failed with the first error of
    /// any. While the graph has not started it can be cancelled.
    ///
    /// Launches of a graph come one after another, also of one that only reads. If one fails,
    /// all that the graph writes is void, until something overwrites it.
    ///
    /// ```
    /// # use quipu::prelude::*;
    /// # fn main() -> quipu::Result<()> {
    /// # let context = Platform::new()?.context()?;
    /// # let queue = context.queue(&context.fastest())?;
    /// let mut x = context.buffer(&[1.0, 2.0])?;
    /// let recording = context.record();
    /// recording.on(&queue).for_each(&mut x, (), |_, x, ()| *x *= 2.0)?;
    /// let double = recording.finish()?;
    ///
    /// queue.launch_graph(&double)?;
    /// queue.launch_graph(&double)?.wait()?;
    /// assert_eq!(queue.read(&x)?.wait()?, [4.0, 8.0]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the graph is of another context, a buffer of it is mapped or has a content
    /// size, or a device is lost.
    pub fn launch_graph(&self, graph: &Graph) -> Result<Event> {
        let label = self.label.as_deref();
        self.core().launch_graph(graph.core(), &self.waits, label)
    }

    /// As [`Queue::launch_graph`], one-way.
    ///
    /// # Errors
    /// As [`Queue::launch_graph`].
    pub fn post_graph(&self, graph: &Graph) -> Result<()> {
        let label = self.label.as_deref();
        self.core().post_graph(graph.core(), &self.waits, label)
    }
}

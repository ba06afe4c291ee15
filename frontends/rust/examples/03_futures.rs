//! Every command is a future, under any executor: here one of twenty lines.

use quipu::prelude::*;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context as Polling, Poll, Wake, Waker};
use std::thread::Thread;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Polling::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Runs two chains of commands at a time.
pub fn main() -> quipu::Result<()> {
    block_on(async {
        let platform = Platform::new()?;
        let (context, device) = (platform.context()?, platform.device("cpu")?);
        let buffers = [
            context.buffer(&[1u64; 1000])?,
            context.buffer(&[2u64; 1000])?,
        ];

        // One chain for each buffer; nothing orders the one after the other.
        let mut sums = Vec::new();
        for buffer in &buffers {
            let queue = context.queue(&device)?;
            queue.for_each(&mut buffer.clone(), (), |i, number, ()| *number += i as u64)?;
            let read = queue.read(buffer)?;
            sums.push(read);
        }

        let first = when_any(sums)?.await?;
        println!(
            "chain {} was first: {}",
            first.index,
            first.result?.iter().sum::<u64>()
        );
        for rest in when_all(first.rest).await? {
            println!("the other one: {}", rest.iter().sum::<u64>());
        }
        Ok(())
    })
}

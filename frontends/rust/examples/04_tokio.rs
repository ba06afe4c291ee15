//! The same futures under tokio. Dropping one leaves its command alone; `cancel`
//! asks for it not to be run.

use quipu::prelude::*;

/// Awaits an upload, a launch, a download, and a command that was cancelled.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> quipu::Result<()> {
    let platform = Platform::new()?;
    let context = platform.context()?;
    let queue = context.queue(&platform.device("cpu")?)?;

    let mut buffer = context.allocate(4)?;
    let source = queue.write(&buffer, vec![1.0, 2.0, 3.0, 4.0])?.await?;
    println!("uploaded {source:?}, which is ours again");
    queue
        .for_each(&mut buffer, (10.0,), |_, number, (by,)| *number *= by)?
        .await?;
    println!("{:?}", queue.read(&buffer)?.await?);

    let gate = UserEvent::new();
    let never = queue
        .after([gate.event()])
        .host_task(|| unreachable!("it was cancelled"))?;
    never.cancel();
    gate.complete();
    assert!(never.await.is_err_and(|error| error.is_cancelled()));
    Ok(())
}

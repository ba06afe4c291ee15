//! Results that a program has to use: rustc warns where one of them is left, and nowhere else.
//!
//! A warning that is missing, and one too many, are errors of this module.
#![deny(unused_must_use, unfulfilled_lint_expectations)]

use quipu::prelude::*;

#[kernel]
fn double(_acc: &impl Accelerator<1>, mut x: OwnElements<u32>) {
    for (_, x) in x.each() {
        *x *= 2;
    }
}

/// The order of commands is that of their data, so a program needs no event.
#[test]
fn the_event_of_a_command_may_be_left() -> quipu::Result<()> {
    let (context, queue) = crate::pool();
    let mut x = context.buffer(&[1_u32; 8])?;
    let y = context.allocate::<u32>(8)?;
    queue.launch(8, double(&mut x))?;
    queue.post_launch(8, double(&mut x))?;
    queue.for_each(&mut x, (), |_, x, ()| *x += 1)?;
    queue.copy(&x, &y)?;
    queue.fill(&x, 3)?;
    queue.marker()?;
    queue.barrier()?;
    let recording = context.record();
    let recorder = recording.on(&queue);
    recorder.launch(8, double(&mut x))?;
    recorder.fill(&y, 4)?;
    recorder.copy(&x, &y)?;
    recorder.host_task(|| ())?;
    let graph = recording.finish()?;
    queue.launch_graph(&graph)?;
    queue.post_graph(&graph)?;
    assert_eq!(queue.read(&y)?.wait()?, [12; 8]);
    Ok(())
}

/// A command that was refused does nothing, and only its result says so.
#[test]
fn a_refusal_may_not_be_left() {
    let (context, queue) = crate::pool();
    let mut x = context.buffer(&[1_u32; 8]).unwrap();
    let y = context.allocate::<u32>(8).unwrap();
    #[expect(unused_must_use, reason = "warned of")]
    queue.launch(8, double(&mut x));
    #[expect(unused_must_use, reason = "warned of")]
    queue.post_launch(8, double(&mut x));
    #[expect(unused_must_use, reason = "warned of")]
    queue.copy(&x, &y);
    #[expect(unused_must_use, reason = "warned of")]
    queue.fill(&x, 3);
    #[expect(unused_must_use, reason = "warned of")]
    queue.wait();
}

/// A launch is written around a call of a kernel, which alone does nothing.
#[test]
fn a_call_and_a_value_may_not_be_left() -> quipu::Result<()> {
    let (context, queue) = crate::pool();
    let mut x = context.buffer(&[1_u32; 8])?;
    #[expect(unused_must_use, reason = "warned of")]
    double(&mut x);
    #[expect(unused_must_use, reason = "warned of")]
    queue.read(&x)?;
    #[expect(unused_must_use, reason = "warned of")]
    queue.map(&x)?;
    #[expect(unused_must_use, reason = "warned of")]
    queue.host_task(|| 7)?;
    #[expect(unused_must_use, reason = "warned of")]
    queue.after([queue.marker()?]);
    queue.wait()
}

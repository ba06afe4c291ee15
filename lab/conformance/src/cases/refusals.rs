//! Refused calls, and their errors. Nothing is enqueued then.

use super::cases;
use crate::Fixture;
use crate::support::*;
use quipu_scheduler::error::ErrorKind;
use quipu_scheduler::operation::Step;
use quipu_scheduler::{Access, AccessMode, Context, QueueOptions, Request, Result};

cases! {
    Anything:
        ranges_and_sizes,
        regions,
        patterns,
        things_of_another_context,
        a_context_of_no_devices,
        too_many_groups_and_arguments;
}

fn refused<T: std::fmt::Debug>(what: Result<T>, by: fn(&ErrorKind) -> bool) {
    let error = what.expect_err("should be refused");
    assert!(by(error.kind()), "refused with '{error}'");
    assert!(!error.to_string().is_empty());
}

fn ranges_and_sizes(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    refused(stage.context.memory(0), |k| {
        matches!(k, ErrorKind::InvalidSize { .. })
    });
    refused(stage.context.memory(u64::MAX), |k| {
        matches!(k, ErrorKind::InvalidSize { .. })
    });
    let memory = stage.memory(16);
    for (offset, length) in [
        (0, 17),
        (16, 1),
        (15, 2),
        (u64::MAX, 1),
        (1, u64::MAX),
        (17, 0),
    ] {
        let access = Access {
            memory: &memory,
            offset,
            length,
            mode: AccessMode::Read,
        };
        let accesses = [access];
        let request = Request {
            accesses: &accesses,
            ..Request::default()
        };
        refused(queue.host_task(|_| Ok(()), &request), |k| {
            matches!(k, ErrorKind::OutOfBounds { .. })
        });
    }
    assert!(queue.is_empty(), "what was refused is not enqueued");
    queue.wait().unwrap();
}

fn regions(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let (a, b) = (stage.memory(64), stage.memory(64));
    let step = |count, source_stride, destination_stride| Step {
        count,
        source_stride,
        destination_stride,
    };
    let regions: [(u64, &[Step]); 6] = [
        (65, &[]),
        (u64::MAX, &[]),
        (8, &[step(9, 8, 8)]),
        (8, &[step(2, 57, 8)]),
        (8, &[step(2, 8, u64::MAX)]),
        (1, &[step(u64::MAX, 0, 0), step(u64::MAX, 0, 0)]),
    ];
    for (row, steps) in regions {
        let size = |k: &ErrorKind| matches!(k, ErrorKind::InvalidSize { .. });
        refused(queue.copy(reads(&a), updates(&b), row, steps, &[]), size);
        let host = HostBytes::new(&[0; 64]);
        refused(
            queue.write(host.memory(), updates(&b), row, steps, &[]),
            size,
        );
        refused(queue.read(reads(&a), host.memory(), row, steps, &[]), size);
    }
    let overlap = queue.copy(
        part(&a, 0..20, AccessMode::Read),
        part(&a, 19..39, AccessMode::Overwrite),
        20,
        &[],
        &[],
    );
    refused(overlap, |k| matches!(k, ErrorKind::InvalidArgument { .. }));
    assert!(queue.is_empty());
}

fn patterns(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let memory = stage.memory(34);
    let all = || overwrites(&memory);
    let patterns: [&[u8]; 4] = [&[], &[1, 2, 3], &[0; 17], &[0; 34]];
    for pattern in patterns {
        refused(queue.fill(all(), pattern, &[]), |k| {
            matches!(k, ErrorKind::InvalidSize { .. })
        });
    }
    // Of rows: too many, too far apart, on top of each other.
    let rows: [(u64, &[(u64, u64)]); 5] = [
        (36, &[]),
        (4, &[(9, 4)]),
        (4, &[(2, u64::MAX)]),
        (4, &[(2, 3)]),
        (4, &[(2, 4), (3, 5)]),
    ];
    for (row, steps) in rows {
        let steps = steps.iter().map(|(count, stride)| Step {
            count: *count,
            source_stride: 0,
            destination_stride: *stride,
        });
        let steps: Vec<Step> = steps.collect();
        refused(queue.fill_rows(all(), &[1, 2], row, &steps, &[]), |k| {
            matches!(k, ErrorKind::InvalidSize { .. })
        });
    }
    assert!(queue.is_empty());
    queue.fill(all(), &[1, 2], &[]).unwrap().wait().unwrap();
}

fn things_of_another_context(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let other = Stage::new(&crate::fixture::serial());
    let sibling = Context::new(&stage.devices).unwrap();
    let wrong = |k: &ErrorKind| matches!(k, ErrorKind::WrongContext { .. });
    let queue = stage.in_order();
    for memory in [other.memory(8), sibling.memory(8).unwrap()] {
        let accesses = [reads(&memory)];
        let request = Request {
            accesses: &accesses,
            ..Request::default()
        };
        refused(queue.host_task(|_| Ok(()), &request), wrong);
    }
    refused(
        stage
            .context
            .queue(&other.devices[0], QueueOptions::default()),
        wrong,
    );
}

fn a_context_of_no_devices(_: &dyn Fixture) {
    refused(Context::new(&[]), |k| {
        matches!(k, ErrorKind::InvalidArgument { .. })
    });
}

fn too_many_groups_and_arguments(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    for groups in [(1 << 31) + 1, 1 << 32, u64::MAX] {
        let kernel = Kernel(|_: &[quipu_scheduler::RawArgument], _: std::ops::Range<u32>| Ok(()));
        refused(queue.launch(kernel, groups, &Request::default()), |k| {
            matches!(k, ErrorKind::InvalidSize { .. })
        });
    }
    let memory = stage.memory(8);
    let accesses = vec![reads(&memory); 256];
    let request = Request {
        accesses: &accesses,
        ..Request::default()
    };
    refused(queue.host_task(|_| Ok(()), &request), |k| {
        matches!(k, ErrorKind::InvalidArgument { .. })
    });
    assert!(queue.is_empty());
}

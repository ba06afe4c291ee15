//! Open at both ends: a driver that is no part of Quipu is registered at run time, and a container
//! of one's own is read and written like any other.
//!
//! The driver is a crate outside of the workspace, `lab/abacus`: a device with memory of its own.

use abacus::Abacus;
use quipu::prelude::*;

/// A container that Quipu has never heard of.
struct Matrix {
    columns: usize,
    cells: Vec<i64>,
}

impl HostView for Matrix {
    type Element = i64;

    fn elements(&self) -> &[i64] {
        &self.cells
    }

    fn elements_mut(&mut self) -> &mut [i64] {
        &mut self.cells
    }
}

/// Has a matrix worked on by the abacus and the CPU in turn.
pub fn main() -> quipu::Result<()> {
    let abacus = Abacus::new();
    let platform = Platform::builder().driver(abacus.clone()).build()?;
    let context = platform.context()?;
    let (ours, cpu) = (platform.device("abacus")?, platform.device("cpu")?);

    let matrix = Matrix {
        columns: 2,
        cells: vec![1, 2, 3, 4],
    };
    let mut buffer = context.buffer(&matrix)?;
    for device in [&ours, &cpu, &ours] {
        let queue = context.queue(device)?;
        queue.for_each(&mut buffer, (10i64,), |_, cell, (by,)| *cell *= by)?;
    }
    let result = context.queue(&ours)?.read_to(&buffer, matrix)?.wait()?;
    for row in result.cells.chunks(result.columns) {
        println!("{row:?}");
    }
    assert_eq!(result.cells, [1000, 2000, 3000, 4000]);

    // To the abacus, back for the CPU, and there again.
    let migrated = abacus.migrated();
    println!("{migrated} bytes went to the abacus and back");
    assert_eq!(migrated, 3 * 32);
    drop(buffer);
    assert!(abacus.is_empty());
    Ok(())
}

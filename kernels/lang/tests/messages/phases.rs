//! Arrays without the elements of all threads: each thread has its own.

use quipu_kernel::{OwnBlockTile, SharedWrite};

pub fn others_are_read_after_a_barrier(mut numbers: SharedWrite<'_, u32>) -> u32 {
    numbers.own()[0] = 1;
    numbers[1] //~ cannot index into a value of type `SharedWrite<'_, u32>`
}

pub fn a_blocks_tile_is_reached_by_shares(mut tile: OwnBlockTile<'_, f32, 2>) {
    tile[[0, 0]] = 1.0; //~ cannot index into a value of type `OwnBlockTile<'_, f32, 2>`
}

fn main() {}

//! rustc's messages that keep safe kernels from writing another thread's elements: the
//! documentation's examples, of which a test of documentation sees only that something is wrong
//! with them.

use quipu_kernel::{
    BlockAccelerator, GlobalMut, GlobalRef, OwnElements, OwnRows, OwnTile, RawMut, SharedRead, SharedWrite,
};

pub fn an_output_is_one_kernels() {
    let mut numbers = [0; 4];
    let view = GlobalMut::from(&mut numbers[..]);
    drop((view, view)); //~ use of moved value: `view`
}

pub fn an_output_is_no_input() {
    let mut numbers = [0; 4];
    let output = GlobalMut::from(&mut numbers[..]);
    let input = GlobalRef::from(&numbers[..]); //~ cannot borrow `numbers` as immutable
    drop((input, output));
}

pub async fn what_is_turned_is_written_no_more<A: BlockAccelerator<1>>(acc: &A, mut numbers: SharedWrite<'_, u32>) -> u32 {
    let read = acc.sync(numbers).await;
    numbers.own()[0] = 1; //~ borrow of moved value: `numbers`
    read[0]
}

pub fn what_is_read_is_not_written(numbers: &mut SharedRead<'_, u32>) {
    numbers[0] = 1; //~ cannot assign to data in dereference of `SharedRead
}

pub async fn what_is_read_is_not_kept<A: BlockAccelerator<1>>(acc: &A, numbers: SharedRead<'_, u32>) -> u32 {
    let first = &numbers[0];
    let _numbers = acc.sync(numbers).await; //~ cannot move out of `numbers` because it is borrowed
    *first
}

pub fn elements_are_given_once(mut y: OwnElements<'_, f32>) {
    let first = y.each();
    let second = y.each(); //~ cannot borrow `y` as mutable more than once
    first.zip(second).for_each(drop);
}

pub fn rows_are_given_once(mut rows: OwnRows<'_, f32>) {
    let first: Vec<_> = rows.each().collect();
    let second: Vec<_> = rows.each().collect(); //~ cannot borrow `rows` as mutable more than once
    drop((first, second));
}

pub fn an_element_of_a_tile_is_given_once(mut tile: OwnTile<'_, f32, 2>) {
    std::mem::swap(&mut tile[[0, 0]], &mut tile[[0, 0]]); //~ cannot borrow `tile` as mutable more than once
}

pub fn a_tile_is_one_threads(tile: OwnTile<'_, f32, 2>) {
    drop((tile, tile)); //~ use of moved value: `tile`
}

pub fn what_is_raw_is_unsafe(output: RawMut<'_, u32>, numbers: SharedWrite<'_, u32>) {
    output.write(0, 1); //~ is unsafe and requires unsafe
    numbers.into_raw().write(0, 1); //~ is unsafe and requires unsafe
}

fn main() {}

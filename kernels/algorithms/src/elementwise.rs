//! Algorithms that make each element of the output by itself.

use crate::division::same_length;
use crate::function::{Function, Function2, Item};
use quipu::kernels::{Accelerator, Number, OwnElements, kernel};
use quipu::{Buffer, Event, Queue, Result};

/// Sets every own element.
#[kernel]
pub fn fill_each<T>(_acc: &impl Accelerator<1>, value: T, mut y: OwnElements<T>) {
    for (_, row) in y.rows() {
        for y in row.iter_mut() {
            *y = value;
        }
    }
}

/// Sets element `i` to `start + i * step`.
#[kernel]
pub fn iota_each<T: Number>(_acc: &impl Accelerator<1>, start: T, step: T, mut y: OwnElements<T>) {
    for (position, row) in y.rows() {
        let first = position[0];
        if first + row.len() <= i32::MAX as usize {
            // Vectors of such numbers are converted to floats in one step.
            for (k, y) in row.iter_mut().enumerate() {
                *y = start + step * T::cast_from(first as i32 + k as i32);
            }
        } else {
            for (k, y) in row.iter_mut().enumerate() {
                *y = start + step * T::cast_from(first + k);
            }
        }
    }
}

/// Sets element `i` to `f(x[i])`.
#[kernel]
pub fn transform_each<T, U, F: Function<T, U>>(
    _acc: &impl Accelerator<1>,
    f: F,
    x: &[T],
    mut y: OwnElements<U>,
) {
    for (position, row) in y.rows() {
        let x = &x[position[0]..position[0] + row.len()];
        for i in 0..row.len() {
            row[i] = f.apply(x[i]);
        }
    }
}

/// Sets element `i` to `f(a[i], b[i])`.
#[kernel]
pub fn zip_each<T, U, V, F: Function2<T, U, V>>(
    _acc: &impl Accelerator<1>,
    f: F,
    a: &[T],
    b: &[U],
    mut y: OwnElements<V>,
) {
    for (position, row) in y.rows() {
        let a = &a[position[0]..position[0] + row.len()];
        let b = &b[position[0]..position[0] + row.len()];
        for i in 0..row.len() {
            row[i] = f.apply(a[i], b[i]);
        }
    }
}

/// Sets every element of `y` to `value`, with a kernel. ([`Queue::fill`] does so with the device's
/// own command.)
///
/// # Errors
/// As [`Queue::launch`].
pub fn fill<T: Item>(queue: &Queue, value: T, y: &mut Buffer<T>) -> Result<Event> {
    queue.launch(y.len(), fill_each(value, y.overwrite()))
}

/// Sets element `i` of `y` to `start + i * step`, with `i` converted to the type as `as` does.
///
/// # Errors
/// As [`Queue::launch`].
pub fn iota<T: Item + Number>(
    queue: &Queue,
    start: T,
    step: T,
    y: &mut Buffer<T>,
) -> Result<Event> {
    queue.launch(y.len(), iota_each(start, step, y.overwrite()))
}

/// Sets element `i` of `y` to `f(x[i])`.
///
/// # Errors
/// If the lengths differ; as [`Queue::launch`].
pub fn transform<T: Item, U: Item, F: Function<T, U> + quipu::kernels::KernelData>(
    queue: &Queue,
    f: F,
    x: &Buffer<T>,
    y: &mut Buffer<U>,
) -> Result<Event> {
    same_length("transform", x.len(), y.len())?;
    queue.launch(y.len(), transform_each(f, x, y.overwrite()))
}

/// Sets element `i` of `y` to `f(a[i], b[i])`.
///
/// # Errors
/// If the lengths differ; as [`Queue::launch`].
pub fn zip<T: Item, U: Item, V: Item, F: Function2<T, U, V> + quipu::kernels::KernelData>(
    queue: &Queue,
    f: F,
    a: &Buffer<T>,
    b: &Buffer<U>,
    y: &mut Buffer<V>,
) -> Result<Event> {
    same_length("zip", a.len(), y.len())?;
    same_length("zip", b.len(), y.len())?;
    queue.launch(y.len(), zip_each(f, a, b, y.overwrite()))
}

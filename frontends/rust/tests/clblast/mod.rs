//! A library of the user's, called within the graph: products of matrices by CLBlast, between
//! kernels of ours.

use super::each_queue;
use cl3::types::{cl_command_queue, cl_event, cl_mem};
use libloading::Library;
use quipu::driver::{OpenClMemory, OpenClQueue};
use quipu::prelude::*;
use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::Arc;

/// The side of the matrices.
const N: usize = 64;

/// Rows one after the other.
const ROW_MAJOR: c_int = 101;
/// A matrix as it is.
const AS_IT_IS: c_int = 111;

/// How matrices are stored, and whether the factors are transposed; three sizes; one factor, of
/// which each matrix has a memory object, where it begins there, and how far its rows are apart;
/// the other; the product; a queue, and where an event goes.
type Sgemm = unsafe extern "C" fn(
    c_int,
    c_int,
    c_int,
    usize,
    usize,
    usize,
    f32,
    cl_mem,
    usize,
    usize,
    cl_mem,
    usize,
    usize,
    f32,
    cl_mem,
    usize,
    usize,
    *mut cl_command_queue,
    *mut cl_event,
) -> c_int;

/// `c` becomes the product of `a` and `b`.
fn multiply(
    clblast: &Library,
    native: &OpenClQueue,
    [a, b, c]: [&OpenClMemory; 3],
) -> Result<(), String> {
    let start = |memory: &OpenClMemory| memory.offset() / size_of::<f32>();
    let mut queue = native.queue();
    // SAFETY: as the library declares it, of three matrices of so many numbers, of which the last
    // is written.
    let code = unsafe {
        let sgemm = clblast.get::<Sgemm>(b"CLBlastSgemm");
        sgemm.map_err(|error| error.to_string())?(
            ROW_MAJOR,
            AS_IT_IS,
            AS_IT_IS,
            N,
            N,
            N,
            1.0,
            a.memory(),
            start(a),
            N,
            b.memory(),
            start(b),
            N,
            0.0,
            c.memory(),
            start(c),
            N,
            &raw mut queue,
            null_mut(),
        )
    };
    match code {
        0 => Ok(()),
        code => Err(format!("CLBlastSgemm: {code}")),
    }
}

#[kernel]
fn number(_acc: &impl Accelerator<1>, factor: f32, mut x: OwnElements<f32>) {
    for (i, x) in x.each() {
        *x = factor * (i % 7) as f32;
    }
}

#[kernel]
fn add(_acc: &impl Accelerator<1>, x: &[f32], y: &[f32], mut sum: OwnElements<f32>) {
    for (i, sum) in sum.each() {
        *sum = x[i] + y[i];
    }
}

#[test]
fn a_librarys_calls_are_commands_among_others() {
    // SAFETY: what it does as it is loaded harms nobody.
    let clblast = match unsafe { Library::new("libclblast.so.1") } {
        Ok(clblast) => Arc::new(clblast),
        Err(why) => return eprintln!("\n*** NOT TESTED: calls of CLBlast. {why}\n"),
    };
    each_queue(&|context, queue| {
        let matrix = || context.allocate::<f32>(N * N).unwrap();
        let (mut a, mut b, mut c, mut sum) = (matrix(), matrix(), matrix(), matrix());
        for _ in 0..5 {
            queue.launch(N * N, number(1.0, a.overwrite())).unwrap();
            queue.launch(N * N, number(2.0, b.overwrite())).unwrap();
            let clblast = clblast.clone();
            let product = move |native: &OpenClQueue, [a, b, c]: [OpenClMemory; 3]| {
                multiply(&clblast, native, [&a, &b, &c])
            };
            // SAFETY: it reads two matrices and writes the third, in the queue that it is handed.
            unsafe { queue.post((&a, &b, c.overwrite()), product) }.unwrap();
            queue.launch(N * N, add(&c, &a, sum.overwrite())).unwrap();
        }
        let sum = queue.read(&sum).unwrap().wait().unwrap();
        for (i, sum) in sum.into_iter().enumerate() {
            let (row, column) = (i / N, i % N);
            let terms = (0..N).map(|k| (row * N + k) % 7 * 2 * ((k * N + column) % 7));
            assert_eq!(sum, (terms.sum::<usize>() + i % 7) as f32, "element {i}");
        }
    });
}

//! Times the matrix product against OpenBLAS, one after the other, many times, with one thread and
//! with all: `cargo run --release -p quipu-algorithms --example against_openblas [side] [--gates]`.
//!
//! OpenBLAS is loaded at run time: `libopenblas.so.0`, or what the variable `QUIPU_OPENBLAS` says.
//! A ratio of 1 is equally fast, more is faster than OpenBLAS; with `--gates` it fails if one is
//! below 0.7.
//!
//! It does not know every processor by name, and takes one with AVX-512 that it does not know for
//! one without, or for one of
//! 2004. So it is told by `OPENBLAS_CORETYPE` which it is like, unless that is set.
//!
//! Its threads spin for tens of milliseconds after each product, on cores that ours are measured on
//! next. So they are told to sleep at once, by `OPENBLAS_THREAD_TIMEOUT`, unless that is set.

use libloading::{Library, Symbol};
use quipu::prelude::*;
use quipu_algorithms::matrix_product;
use std::ffi::{CStr, c_char, c_int};
use std::process::ExitCode;
use std::time::Instant;

const ROUNDS: usize = 31;
/// How fast it is to be, as part of OpenBLAS's rate.
const GATE: f64 = 0.7;

type Sgemm = unsafe extern "C" fn(
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    f32,
    *const f32,
    c_int,
    *const f32,
    c_int,
    f32,
    *mut f32,
    c_int,
);

fn seconds(run: impl FnOnce()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_secs_f64()
}

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut arguments: Vec<_> = std::env::args().skip(1).collect();
    let gates = arguments.iter().position(|argument| argument == "--gates");
    let gates = gates.map(|place| arguments.remove(place)).is_some();
    let side: usize = arguments.first().map_or(Ok(1024), |side| {
        side.parse()
            .map_err(|error| format!("`{side}` is no side of a matrix: {error}"))
    })?;
    let mut missed = false;
    let path = std::env::var("QUIPU_OPENBLAS").unwrap_or_else(|_| "libopenblas.so.0".to_owned());
    if std::env::var_os("OPENBLAS_THREAD_TIMEOUT").is_none() {
        // SAFETY: there is no other thread yet. The number is of bits of a count of cycles.
        unsafe { std::env::set_var("OPENBLAS_THREAD_TIMEOUT", "4") };
    }
    #[cfg(target_arch = "x86_64")]
    if std::env::var_os("OPENBLAS_CORETYPE").is_none() && is_x86_feature_detected!("avx512f") {
        // SAFETY: as above.
        unsafe { std::env::set_var("OPENBLAS_CORETYPE", "SKYLAKEX") };
    }
    // SAFETY: a library of that name does nothing harmful as it is loaded.
    let library = unsafe { Library::new(&path) }
        .map_err(|error| format!("{error}; install OpenBLAS, or set QUIPU_OPENBLAS to its path"))?;
    // SAFETY: the function has this signature since there is OpenBLAS.
    let sgemm: Symbol<'_, Sgemm> = unsafe { library.get(b"cblas_sgemm\0") }?;
    // SAFETY: as above.
    let set_threads: Symbol<'_, unsafe extern "C" fn(c_int)> =
        unsafe { library.get(b"openblas_set_num_threads\0") }?;
    // SAFETY: as above.
    let core: Symbol<'_, unsafe extern "C" fn() -> *const c_char> =
        unsafe { library.get(b"openblas_get_corename\0") }?;
    // SAFETY: a string that lives as long as the library.
    println!("OpenBLAS for {:?}", unsafe { CStr::from_ptr(core()) });

    let a: Vec<f32> = (0..side * side)
        .map(|i| (i * 7 % 13) as f32 - 6.0)
        .collect();
    let b: Vec<f32> = (0..side * side)
        .map(|i| (i * 5 % 11) as f32 - 5.0)
        .collect();
    let mut theirs = vec![0.0_f32; side * side];
    let context = Platform::new()?.context()?;
    let (from_a, from_b) = (context.buffer(&a)?, context.buffer(&b)?);
    let mut ours = context.allocate::<f32>(side * side)?;
    // The serial device, then the pool.
    let processors = context
        .devices()
        .iter()
        .filter(|device| ["serial", "cpu"].contains(&device.driver_name()));
    let lda = c_int::try_from(side)?;
    for device in processors {
        let threads = device.limits().multiprocessors;
        let queue = context.queue(device)?;
        // SAFETY: any number is fine.
        unsafe { set_threads(c_int::try_from(threads)?) };
        let mut pairs = Vec::new();
        for _ in 0..=ROUNDS {
            let mut outcome = Ok(());
            let of_ours = seconds(|| {
                outcome = matrix_product(&queue, [side; 3], &from_a, &from_b, &mut ours)
                    .and_then(|done| done.wait());
            });
            outcome?;
            // SAFETY: row-major (101), not transposed (111), and the matrices have these sides.
            let of_theirs = seconds(|| unsafe {
                sgemm(
                    101,
                    111,
                    111,
                    lda,
                    lda,
                    lda,
                    1.0,
                    a.as_ptr(),
                    lda,
                    b.as_ptr(),
                    lda,
                    0.0,
                    theirs.as_mut_ptr(),
                    lda,
                );
            });
            pairs.push((of_ours, of_theirs));
        }
        // All numbers are small and whole: both are exact.
        assert_eq!(queue.read(&ours)?.wait()?, theirs, "the products differ");
        pairs.remove(0);
        let rate = |seconds: f64| 2.0 * (side as f64).powi(3) / seconds * 1e-9;
        let middle = |mut of: Vec<f64>| {
            of.sort_by(f64::total_cmp);
            (of[ROUNDS / 2], of[0])
        };
        let (ours, best) = middle(pairs.iter().map(|pair| pair.0).collect());
        let (theirs, their_best) = middle(pairs.iter().map(|pair| pair.1).collect());
        let (ratio, _) = middle(pairs.iter().map(|pair| pair.1 / pair.0).collect());
        println!(
            "{threads} threads, {side}: {:.1} GFLOP/s (best {:.1}), OpenBLAS {:.1} (best {:.1}), ratio {ratio:.2}",
            rate(ours),
            rate(best),
            rate(theirs),
            rate(their_best)
        );
        missed |= ratio < GATE;
    }
    let outcome = if missed { "MISSED" } else { "met" };
    println!("{outcome}: at least {GATE} of OpenBLAS");
    Ok(ExitCode::from(u8::from(missed && gates)))
}

//! A library of the user's, called within the graph: products of matrices by cuBLAS, between
//! kernels of ours.

use super::each_queue;
use libloading::Library;
use quipu::driver::{CudaMemory, CudaQueue};
use quipu::prelude::*;
use std::ffi::{c_int, c_void};
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::Arc;

/// The side of the matrices.
const N: usize = 64;

type Handle = *mut c_void;
type Create = unsafe extern "C" fn(*mut Handle) -> c_int;
type SetStream = unsafe extern "C" fn(Handle, *mut c_void) -> c_int;
type Sgemm = unsafe extern "C" fn(
    Handle,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    *const f32,
    *const f32,
    c_int,
    *const f32,
    c_int,
    *const f32,
    *mut f32,
    c_int,
) -> c_int;

/// The library, and a handle of it, which lives as long as the process.
struct Cublas {
    library: Library,
    handle: Handle,
}

// SAFETY: one thread at a time uses the handle: who hands commands to the driver's devices.
unsafe impl Send for Cublas {}
// SAFETY: as above.
unsafe impl Sync for Cublas {}

impl Cublas {
    /// With CUDA's context current, as it is within a native call.
    fn open() -> Result<Self, String> {
        let folders = ["/usr/local/cuda/lib64".into()].into_iter();
        let others = std::fs::read_dir("/usr/local")
            .into_iter()
            .flatten()
            .flatten();
        let others = others.map(|entry| entry.path().join("lib64"));
        let names = [
            "libcublas.so",
            "libcublas.so.13",
            "libcublas.so.12",
            "libcublas.so.11",
        ];
        let paths = [PathBuf::new()].into_iter().chain(folders).chain(others);
        let mut paths = paths.flat_map(|folder| names.map(|name| folder.join(name)));
        // SAFETY: what it does as it is loaded harms nobody.
        let library = paths.find_map(|path| unsafe { Library::new(path) }.ok());
        let library = library.ok_or("libcublas was not found")?;
        let mut handle = null_mut();
        // SAFETY: as the library declares it.
        let code = unsafe {
            let create = library.get::<Create>(b"cublasCreate_v2");
            create.map_err(|error| error.to_string())?(&raw mut handle)
        };
        match code {
            0 => Ok(Self { library, handle }),
            code => Err(format!("cublasCreate: {code}")),
        }
    }

    /// `c` becomes the product of `a` and `b`, of columns one after the other.
    fn multiply(&self, native: &CudaQueue, [a, b, c]: [&CudaMemory; 3]) -> Result<(), String> {
        let (n, one, zero) = (N as c_int, 1.0_f32, 0.0_f32);
        let pointer = |memory: &CudaMemory| {
            std::ptr::with_exposed_provenance_mut::<f32>(memory.address() as usize)
        };
        // SAFETY: as the library declares them, of three matrices of so many numbers, of which the
        // last is written.
        let codes = unsafe {
            let text = |error: libloading::Error| error.to_string();
            let set_stream = self
                .library
                .get::<SetStream>(b"cublasSetStream_v2")
                .map_err(text)?;
            let sgemm = self.library.get::<Sgemm>(b"cublasSgemm_v2").map_err(text)?;
            let (one, zero) = (&raw const one, &raw const zero);
            let (a, b, c) = (pointer(a), pointer(b), pointer(c));
            let set = set_stream(self.handle, native.stream().cast());
            [
                set,
                sgemm(self.handle, 0, 0, n, n, n, one, a, n, b, n, zero, c, n),
            ]
        };
        match codes {
            [0, 0] => Ok(()),
            codes => Err(format!("cublasSetStream and cublasSgemm: {codes:?}")),
        }
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
    each_queue(&|context, queue| {
        let opened = queue.native_call(|_: &CudaQueue| Cublas::open()).unwrap();
        let cublas = match opened.wait().unwrap() {
            Ok(cublas) => Arc::new(cublas),
            Err(why) => {
                assert!(
                    std::env::var("QUIPU_TEST_CUDA").is_err(),
                    "QUIPU_TEST_CUDA is set: {why}"
                );
                return eprintln!("\n*** NOT TESTED: calls of cuBLAS. {why}\n");
            }
        };
        let matrix = || context.allocate::<f32>(N * N).unwrap();
        let (mut a, mut b, mut c, mut sum) = (matrix(), matrix(), matrix(), matrix());
        for _ in 0..20 {
            queue.launch(N * N, number(1.0, a.overwrite())).unwrap();
            queue.launch(N * N, number(2.0, b.overwrite())).unwrap();
            let cublas = cublas.clone();
            let product = move |native: &CudaQueue, [a, b, c]: [CudaMemory; 3]| {
                cublas.multiply(native, [&a, &b, &c])
            };
            // SAFETY: it reads two matrices and writes the third, in the stream that it is handed.
            unsafe { queue.post((&a, &b, c.overwrite()), product) }.unwrap();
            queue.launch(N * N, add(&c, &a, sum.overwrite())).unwrap();
        }
        let sum = queue.read(&sum).unwrap().wait().unwrap();
        for (i, sum) in sum.into_iter().enumerate() {
            let (row, column) = (i % N, i / N);
            let terms = (0..N).map(|k| (k * N + row) % 7 * 2 * ((column * N + k) % 7));
            assert_eq!(sum, (terms.sum::<usize>() + i % 7) as f32, "element {i}");
        }
    });
}

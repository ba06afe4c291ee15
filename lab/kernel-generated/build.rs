//! The kernels to run: those of the file that `QUIPU_GENERATED_SOURCE` names, or some tens of the
//! generator's.

use std::path::Path;
use std::{env, fs};

/// The number of kernels that an ordinary test run has. More of them take longer to compile than is
/// good in every run.
const COUNT: u64 = 32;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=QUIPU_GENERATED_SOURCE");
    let source = match env::var("QUIPU_GENERATED_SOURCE") {
        Ok(file) => {
            println!("cargo::rerun-if-changed={file}");
            fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file}: {error}"))
        }
        Err(_) => {
            let kernels: Vec<_> = (1..=COUNT).map(quipu_kernel_generator::kernel).collect();
            quipu_kernel_generator::batch(&kernels).source
        }
    };
    let folder = env::var("OUT_DIR").unwrap_or_else(|error| panic!("OUT_DIR: {error}"));
    let file = Path::new(&folder).join("kernels.rs");
    fs::write(&file, source).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
}

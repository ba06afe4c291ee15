//! Writes the corpus as source files, to be compiled where the compilers are:
//!
//! ```text
//! cargo run -p quipu-kernel-testing --example print_corpus -- folder
//! for f in folder/*.cu; do nvcc -std=c++17 --fmad=false -arch=sm_80 -cubin -o /dev/null $f; done
//! ```

use std::path::PathBuf;

use quipu_kernel_ir::{Dialect, IndexWidth, OpenClFeatures, Options, PrintError};
use quipu_kernel_testing::corpus;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("give a folder to write to")?);
    std::fs::create_dir_all(&folder)?;
    let features = OpenClFeatures::USUAL;
    for (dialect, ending) in [
        (Dialect::C99, "c"),
        (Dialect::OpenCl(features), "cl"),
        (Dialect::Cuda, "cu"),
    ] {
        for (width, bits) in [(IndexWidth::Bits32, 32), (IndexWidth::Bits64, 64)] {
            for (name, module) in corpus::all() {
                match module.print(dialect, &Options::new(dialect, width)) {
                    Ok(printed) => std::fs::write(
                        folder.join(format!("{name}_{bits}.{ending}")),
                        printed.source,
                    )?,
                    // A dialect reports the operations that it lacks.
                    Err(error @ PrintError::Unsupported { .. }) => eprintln!("{name}: {error}"),
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }
    Ok(())
}

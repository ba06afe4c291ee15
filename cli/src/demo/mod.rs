//! `quipu demo`: a real job on every device there is.
//!
//! An image, read from a PNG or generated, is denoised, sharpened, equalised and composed by
//! thirteen dependent stages. The image is cut into tiles, the stages on the tiles are commands of
//! one task graph, and the devices take them: all of this machine's (the processor's cores, the
//! serial device, and the devices of CUDA and OpenCL, if any), two simulated accelerators with
//! memory of their own, and two nodes. The demo starts these on this machine and uses them over TLS
//! as it would others. With `--node`, the devices are those of paired nodes, and no others. The
//! result is compared, bit for bit, with that of a straightforward
//! sequential program, and written beside a picture of each device's work over time.
//!
//! In the order in which the data takes:
//!
//! | module | contents |
//! |---|---|
//! | [`scene`] | the image that the demo makes itself |
//! | [`image`] | pictures in memory and in PNG files, and the errors about them |
//! | [`plan`] | planes, tiles and stages, with the rows that each reads and writes |
//! | [`kernels`] | the stages as kernels |
//! | [`stages`] | the planes in memory, and the stages as launches on them |
//! | [`sequential`] | the same result without tiles, to check against |
//! | [`nodes`] | two nodes of its own |
//! | [`cast`] | the devices that take part |
//! | [`run`] | the task graph over the devices |
//! | [`report`] | the table at the end |

use std::num::NonZeroUsize;
use std::path::PathBuf;

pub(crate) mod cast;
pub(crate) mod image;
pub(crate) mod kernels;
pub(crate) mod nodes;
pub(crate) mod plan;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod scene;
pub(crate) mod sequential;
pub(crate) mod stages;
#[cfg(test)]
mod tests;

use image::{Image, ImageError, Size};

/// Process an image on every device, check the result, and draw a timeline.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub(crate) struct Options {
    /// The PNG to process; without it the demo makes a picture itself.
    #[arg(long, value_name = "PNG")]
    pub(crate) input: Option<PathBuf>,

    /// File to write the result to.
    #[arg(long, value_name = "PNG", default_value = "quipu-demo.png")]
    pub(crate) output: PathBuf,

    /// File to write the picture of the timeline to.
    #[arg(long, value_name = "SVG", default_value = "quipu-demo.svg")]
    pub(crate) timeline: PathBuf,

    /// The size of the picture that the demo makes, in pixels.
    #[arg(
        long,
        value_name = "WIDTHxHEIGHT",
        default_value = "1920x1080",
        conflicts_with = "input"
    )]
    pub(crate) size: Size,

    /// Rows of a tile; without it a number that suits the image.
    #[arg(long, value_name = "ROWS")]
    pub(crate) tile_rows: Option<NonZeroUsize>,

    /// Write the input's left half beside the result's right half.
    #[arg(long)]
    pub(crate) split: bool,

    /// Compute on the devices of this paired node, by its name or address, and on no others; can be
    /// given several times.
    #[arg(long = "node", value_name = "NODE", conflicts_with = "no_nodes")]
    pub(crate) nodes: Vec<String>,

    /// Start no nodes: this machine's devices and the simulated accelerators do everything.
    #[arg(long)]
    pub(crate) no_nodes: bool,

    /// Serve a session of one of the demo's nodes, which has started this process for it.
    #[arg(long, hide = true)]
    pub(crate) session: bool,
}

/// A listener to the demo's progress.
pub(crate) trait Progress: Send + Sync {
    /// Something has begun that takes so many steps; none if the number is not known.
    fn begin(&self, what: &str, steps: u64);
    /// A step of it is done.
    fn step(&self);
}

impl Options {
    /// The image to process: read or generated.
    pub(crate) fn source(&self) -> Result<Image, ImageError> {
        match &self.input {
            Some(path) => Image::read(path),
            None => Ok(scene::generate(self.size)),
        }
    }

    /// The way in which an image of `size` is cut for so many devices.
    pub(crate) fn geometry(&self, size: Size, devices: usize) -> plan::Geometry {
        plan::Geometry::new(size, self.tile_rows.map(NonZeroUsize::get), devices)
    }

    /// The image to write: `result`, or both halves.
    pub(crate) fn picture(&self, source: &Image, result: Image) -> Image {
        if self.split {
            source.split(&result)
        } else {
            result
        }
    }
}

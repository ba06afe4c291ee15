//! The planes in a context's memory, and the stages as launches on them.

use super::kernels::{
    BLUR, Band, Composition, GLOW, WINDOW, along_columns, along_rows, compose, curve, denoise,
    edges, histogram, luminance, sharpen, tone_map, unpack,
};
use super::plan::{Access, Element, Geometry, Plane, Stage, Tile};
use quipu::prelude::*;

/// Pixels of a row that a thread of denoise has.
const DENOISED: usize = 256;

/// All that the stages need to know besides the pixels; the same for every tile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StageParams {
    /// The image and its tiles.
    pub(crate) geometry: Geometry,
    /// Denoise: the weight of each neighbour by its place, from top left to bottom right.
    pub(crate) denoise_weights: [[f32; WINDOW]; WINDOW],
    /// Denoise: one over the squared distance of colours at which a neighbour counts a quarter.
    pub(crate) denoise_selectivity: f32,
    /// Blur: the weights from left to right, or from top to bottom.
    pub(crate) blur_weights: [f32; BLUR],
    /// Glow: the weights from left to right, or from top to bottom.
    pub(crate) glow_weights: [f32; GLOW],
    /// Glow: the linear light above which a colour glows.
    pub(crate) glow_threshold: f32,
    /// Sharpen: the share of the detail that the blur took away that is added.
    pub(crate) sharpen_amount: f32,
    /// Curve: the share of equalisation, from 0 (leave as is) to 1.
    pub(crate) curve_strength: f32,
    /// Curve: how many times the average a bin may hold; the rest is spread over all bins.
    pub(crate) curve_limit: u32,
    /// Tone map: the most by which a colour is amplified.
    pub(crate) tone_most: f32,
    /// Tone map: keeps the amplification of near black finite.
    pub(crate) tone_floor: f32,
    /// Compose.
    pub(crate) composition: Composition,
}

impl StageParams {
    /// The demo's settings for an image of this geometry.
    pub(crate) fn new(geometry: Geometry) -> Self {
        let centre = [geometry.width as f32 / 2.0, geometry.height as f32 / 2.0];
        let across: [f32; WINDOW] = gaussian(2.0);
        Self {
            geometry,
            denoise_weights: across.map(|down| across.map(|weight| down * weight)),
            denoise_selectivity: 1.0 / (0.15 * 0.15),
            blur_weights: gaussian(1.8),
            glow_weights: gaussian(9.0),
            glow_threshold: 0.30,
            sharpen_amount: 0.55,
            curve_strength: 0.60,
            curve_limit: 3,
            tone_most: 5.0,
            tone_floor: 0.0004,
            composition: Composition {
                glow_amount: 0.75,
                edge_amount: 0.16,
                vignette: 0.42,
                centre,
                corner: 1.0 / (centre[0] * centre[0] + centre[1] * centre[1]),
            },
        }
    }
}

/// Weights of a Gaussian of standard deviation `sigma` that sum to about 1. Computed once, on the
/// host: the stages get numbers.
fn gaussian<const N: usize>(sigma: f64) -> [f32; N] {
    let middle = (N / 2) as f64;
    let raw: [f64; N] =
        std::array::from_fn(|i| (-((i as f64 - middle) / sigma).powi(2) / 2.0).exp());
    let total: f64 = raw.iter().sum();
    raw.map(|weight| (weight / total) as f32)
}

/// A plane's memory.
enum PlaneBuffer {
    Floats(Buffer<f32>),
    Words(Buffer<u32>),
}

/// The planes of an image.
pub(crate) struct Planes {
    geometry: Geometry,
    buffers: Vec<PlaneBuffer>,
}

impl Planes {
    /// Planes of zeros.
    ///
    /// # Errors
    /// If a buffer cannot be that large.
    pub(crate) fn new(context: &Context, geometry: Geometry) -> quipu::Result<Self> {
        let buffers = Plane::ALL.into_iter().map(|plane| {
            let elements = geometry.plane_elements(plane);
            Ok(match plane.element() {
                Element::Float => PlaneBuffer::Floats(context.allocate(elements)?),
                Element::Word => PlaneBuffer::Words(context.allocate(elements)?),
            })
        });
        Ok(Self {
            geometry,
            buffers: buffers.collect::<quipu::Result<_>>()?,
        })
    }

    /// All rows of a plane.
    pub(crate) fn whole(&self, plane: Plane) -> Access {
        Access {
            plane,
            rows: 0..self.geometry.row_count(plane),
        }
    }

    /// Rows of a plane of floats.
    pub(crate) fn floats(&self, access: &Access) -> quipu::Result<Buffer<f32>> {
        match &self.buffers[access.plane.index()] {
            PlaneBuffer::Floats(buffer) => buffer.slice(self.geometry.elements(access)),
            PlaneBuffer::Words(_) => unreachable!("{:?} holds floats", access.plane),
        }
    }

    /// Rows of a plane of words.
    pub(crate) fn words(&self, access: &Access) -> quipu::Result<Buffer<u32>> {
        match &self.buffers[access.plane.index()] {
            PlaneBuffer::Words(buffer) => buffer.slice(self.geometry.elements(access)),
            PlaneBuffer::Floats(_) => unreachable!("{:?} holds words", access.plane),
        }
    }

    /// Rows with a row for each of their channels.
    fn layout(&self, access: &Access) -> quipu::Result<Layout<2>> {
        let rows = access.rows.len() * access.plane.channels();
        let width = self.geometry.row_width(access.plane);
        Layout::padded([rows, width], self.geometry.pitch(access.plane))
    }

    /// Rows that a tile's stage reads, as its kernel is told of them.
    fn band(&self, access: &Access, tile: &Tile) -> Band {
        // An image's sides are far less than that.
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Band {
            before: number(tile.rows.start.saturating_sub(access.rows.start)),
            last: number(access.rows.len() - 1),
            channels: number(access.plane.channels()),
            pitch: number(self.geometry.pitch(access.plane)),
            width: number(self.geometry.row_width(access.plane)),
        }
    }

    /// Enqueues one stage on one tile: a launch.
    ///
    /// # Errors
    /// As [`Queue::launch`].
    pub(crate) fn enqueue(
        &self,
        queue: &Queue,
        stage: Stage,
        tile: &Tile,
        params: &StageParams,
    ) -> quipu::Result<Event> {
        let named = queue.named(&format!("{} {}", stage.name(), tile.index));
        let reads = stage.reads(&self.geometry, tile);
        let write = stage.writes(tile);
        let read = |number: usize| self.floats(&reads[number]);
        let from = self.band(&reads[0], tile);
        let layout = self.layout(&write)?;
        let extent = layout.extent();
        // Of stages that write floats.
        let to = || self.floats(&write)?.view(layout);
        let one = WorkDivision::new(1, 1, 1);
        match stage {
            Stage::Unpack => {
                let pixels = self.words(&reads[0])?;
                named.launch(extent, unpack(&pixels, from, &mut to()?))
            }
            Stage::Denoise => {
                let (weights, selectivity) = (params.denoise_weights, params.denoise_selectivity);
                let blocks = [extent[0] / 3, extent[1].div_ceil(DENOISED)];
                named.launch(
                    WorkDivision::new(blocks, [1, 1], [3, DENOISED]),
                    denoise(weights, selectivity, &read(0)?, from, &mut to()?),
                )
            }
            Stage::Luminance => named.launch(extent, luminance(&read(0)?, from, &mut to()?)),
            Stage::Histogram => {
                let mut counts = self.words(&write)?;
                named.launch(one, histogram(&read(0)?, from, counts.overwrite()))
            }
            Stage::Curve => {
                let (histograms, mut to) = (self.words(&reads[0])?, self.floats(&write)?);
                let (most, strength) = (params.curve_limit, params.curve_strength);
                let call = curve(most, strength, &histograms, from, to.overwrite());
                named.launch(one, call)
            }
            Stage::Edges => named.launch(extent, edges(&read(0)?, from, &mut to()?)),
            Stage::BlurRows => {
                let (colours, mut to) = (read(0)?, to()?);
                let call =
                    along_rows::<BLUR, false>(params.blur_weights, 0.0, &colours, from, &mut to);
                named.launch(extent, call)
            }
            Stage::BlurColumns => {
                let (colours, mut to) = (read(0)?, to()?);
                let call = along_columns::<BLUR>(params.blur_weights, &colours, from, &mut to);
                named.launch(extent, call)
            }
            Stage::Sharpen => {
                let amount = params.sharpen_amount;
                let call = (read(0)?, read(1)?, to()?);
                let (colours, blurred, mut to) = call;
                named.launch(extent, sharpen(amount, &colours, &blurred, from, &mut to))
            }
            Stage::GlowRows => {
                let (colours, mut to) = (read(0)?, to()?);
                let (weights, threshold) = (params.glow_weights, params.glow_threshold);
                let call = along_rows::<GLOW, true>(weights, threshold, &colours, from, &mut to);
                named.launch(extent, call)
            }
            Stage::GlowColumns => {
                let (colours, mut to) = (read(0)?, to()?);
                let call = along_columns::<GLOW>(params.glow_weights, &colours, from, &mut to);
                named.launch(extent, call)
            }
            Stage::ToneMap => {
                let (colours, brightness, curve) = (read(0)?, read(1)?, read(2)?);
                let (most, floor) = (params.tone_most, params.tone_floor);
                let lines = self.band(&reads[1], tile);
                let mut to = to()?;
                let call = tone_map(
                    most,
                    floor,
                    &colours,
                    from,
                    &brightness,
                    lines,
                    &curve,
                    &mut to,
                );
                named.launch(extent, call)
            }
            Stage::Compose => {
                let (toned, edges, glow) = (read(0)?, read(1)?, read(2)?);
                let lines = self.band(&reads[1], tile);
                let (how, top) = (params.composition, tile.rows.start);
                let mut to = self.words(&write)?.view(layout)?;
                let call = compose(how, top, &toned, &glow, from, &edges, lines, &mut to);
                named.launch(extent, call)
            }
        }
    }
}

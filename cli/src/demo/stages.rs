//! The pipeline's stages as plain functions over bands of rows.
//!
//! [`run`] executes one stage on one tile. It is handed slices and nothing else, so it can be the
//! body of a kernel on any device whose memory holds the planes: input `i` is exactly the rows of
//! `stage.reads(geometry, tile)[i]`, the output exactly those of `stage.writes(tile)`, each a
//! contiguous band with the pitch that [`Geometry`] gives its plane.
//!
//! The result of a pixel does not depend on how the image is cut. Each pixel is computed by one
//! fixed sequence of `f32` additions, multiplications, divisions and square roots, which IEEE 754
//! rounds the same way everywhere; no other function of the maths library is called on pixels. Sums
//! over a neighbourhood go from top to bottom and from left to right, and what is summed over the
//! whole image is integers. So the tiled result equals that of [`sequential`](super::sequential)
//! bit for bit, whichever devices computed it.
//!
//! The loops over a row work on slices of one length or on arrays of [`LANES`] pixels, which the
//! compiler turns into vector instructions; bounds are checked per row or per block, not per pixel.

use super::plan::{
    Access, BINS, BLUR_RADIUS, DENOISE_RADIUS, Element, GLOW_RADIUS, Geometry, Stage, Tile,
};

/// Pixels that denoise works on at a time.
const LANES: usize = 8;

/// The side of denoise's window.
const WINDOW: usize = 2 * DENOISE_RADIUS + 1;

/// The share of red, green and blue in luminance (those of Rec. 709).
pub(crate) const LUMINANCE_SHARES: [f32; 3] = [0.2126, 0.7152, 0.0722];

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
    pub(crate) blur_weights: [f32; 2 * BLUR_RADIUS + 1],
    /// Glow: the weights from left to right, or from top to bottom.
    pub(crate) glow_weights: [f32; 2 * GLOW_RADIUS + 1],
    /// Glow: the linear light above which a colour glows.
    pub(crate) glow_threshold: f32,
    /// Glow: how much of it is added.
    pub(crate) glow_amount: f32,
    /// Sharpen: how much of what the blur took away is added.
    pub(crate) sharpen_amount: f32,
    /// Curve: the share of equalisation, from 0 (leave as is) to 1.
    pub(crate) curve_strength: f32,
    /// Curve: how many times the average a bin may hold; the rest is spread over all bins.
    pub(crate) curve_limit: u32,
    /// Tone map: the most by which a colour is amplified.
    pub(crate) tone_most: f32,
    /// Tone map: keeps the amplification of near black finite.
    pub(crate) tone_floor: f32,
    /// Compose: how dark the strongest edge is drawn, from 0 to 1.
    pub(crate) edge_amount: f32,
    /// Compose: how much darker the corners are, from 0 to 1.
    pub(crate) vignette: f32,
    /// Compose: the image's centre, in pixels from its top left corner.
    pub(crate) centre: [f32; 2],
    /// Compose: one over the squared distance from centre to corner.
    pub(crate) corner: f32,
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
            glow_amount: 0.75,
            sharpen_amount: 0.55,
            curve_strength: 0.60,
            curve_limit: 3,
            tone_most: 5.0,
            tone_floor: 0.0004,
            edge_amount: 0.16,
            vignette: 0.42,
            centre,
            corner: 1.0 / (centre[0] * centre[0] + centre[1] * centre[1]),
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

/// Rows that a stage reads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Input<'a> {
    /// Of a plane of floats.
    Floats(&'a [f32]),
    /// Of a plane of words.
    Words(&'a [u32]),
}

/// Rows that a stage writes.
#[derive(Debug)]
pub(crate) enum Output<'a> {
    /// Of a plane of floats.
    Floats(&'a mut [f32]),
    /// Of a plane of words.
    Words(&'a mut [u32]),
}

/// A band of a plane that is read, addressed by the rows of the whole plane.
#[derive(Clone, Copy)]
struct Band<'a, T> {
    data: &'a [T],
    first: usize,
    last: usize,
    channels: usize,
    pitch: usize,
    width: usize,
}

impl<'a, T> Band<'a, T> {
    fn new(geometry: &Geometry, access: &Access, data: &'a [T]) -> Self {
        assert_eq!(
            data.len(),
            geometry.elements(access).len(),
            "an input is exactly the rows that its access names: {access:?}"
        );
        Self {
            data,
            first: access.rows.start,
            last: access.rows.end - 1,
            channels: access.plane.channels(),
            pitch: geometry.pitch(access.plane),
            width: geometry.row_width(access.plane),
        }
    }

    /// One channel of row `y`.
    fn row(&self, y: usize, channel: usize) -> &'a [T] {
        let start = ((y - self.first) * self.channels + channel) * self.pitch;
        &self.data[start..start + self.width]
    }

    /// One channel of the row `offset - radius` below row `y`, or of the outermost row there is.
    fn neighbour(&self, y: usize, offset: usize, radius: usize, channel: usize) -> &'a [T] {
        let y = (y + offset).saturating_sub(radius);
        self.row(y.clamp(self.first, self.last), channel)
    }
}

/// A band of a plane that is written.
struct BandMut<'a, T> {
    data: &'a mut [T],
    first: usize,
    channels: usize,
    pitch: usize,
    width: usize,
}

impl<'a, T> BandMut<'a, T> {
    fn new(geometry: &Geometry, access: &Access, data: &'a mut [T]) -> Self {
        assert_eq!(
            data.len(),
            geometry.elements(access).len(),
            "an output is exactly the rows that its access names: {access:?}"
        );
        Self {
            data,
            first: access.rows.start,
            channels: access.plane.channels(),
            pitch: geometry.pitch(access.plane),
            width: geometry.row_width(access.plane),
        }
    }

    fn row(&mut self, y: usize, channel: usize) -> &mut [T] {
        let start = ((y - self.first) * self.channels + channel) * self.pitch;
        &mut self.data[start..start + self.width]
    }

    fn rows(&mut self, y: usize) -> [&mut [T]; 3] {
        let start = (y - self.first) * 3 * self.pitch;
        let (red, rest) = self.data[start..start + 3 * self.pitch].split_at_mut(self.pitch);
        let (green, blue) = rest.split_at_mut(self.pitch);
        let width = self.width;
        [&mut red[..width], &mut green[..width], &mut blue[..width]]
    }
}

/// Runs `stage` on `tile`: see the module's description for what the slices hold. Padding between
/// the rows' channels is neither read nor written.
///
/// # Panics
///
/// If a slice is missing, of the wrong kind, or not exactly as long as its access: whoever enqueues
/// the stage derives all three from the plan.
pub(crate) fn run(
    stage: Stage,
    params: &StageParams,
    tile: &Tile,
    inputs: &[Input<'_>],
    output: Output<'_>,
) {
    let geometry = &params.geometry;
    let reads = stage.reads(geometry, tile);
    assert_eq!(inputs.len(), reads.len(), "{stage:?} reads {reads:?}");
    let floats = |i: usize| match inputs[i] {
        Input::Floats(data) => Band::new(geometry, &reads[i], data),
        Input::Words(_) => panic!("input {i} of {stage:?} is a plane of floats"),
    };
    let words = |i: usize| match inputs[i] {
        Input::Words(data) => Band::new(geometry, &reads[i], data),
        Input::Floats(_) => panic!("input {i} of {stage:?} is a plane of words"),
    };
    let writes = stage.writes(tile);
    match (stage, output) {
        (Stage::Histogram, Output::Words(data)) => {
            histogram(tile, floats(0), BandMut::new(geometry, &writes, data));
        }
        (Stage::Compose, Output::Words(data)) => {
            let inputs = [floats(0), floats(1), floats(2)];
            compose(params, tile, inputs, BandMut::new(geometry, &writes, data));
        }
        (_, Output::Words(_)) => panic!("{stage:?} does not write words"),
        (_, Output::Floats(data)) => {
            assert_eq!(writes.plane.element(), Element::Float);
            let output = BandMut::new(geometry, &writes, data);
            match stage {
                Stage::Unpack => unpack(tile, words(0), output),
                Stage::Denoise => denoise(params, tile, floats(0), output),
                Stage::Luminance => luminance(tile, floats(0), output),
                Stage::Curve => curve(params, words(0), output),
                Stage::Edges => edges(tile, floats(0), output),
                Stage::BlurRows => {
                    along_rows(&params.blur_weights, None, tile, floats(0), output);
                }
                Stage::BlurColumns => along_columns(&params.blur_weights, tile, floats(0), output),
                Stage::Sharpen => sharpen(params, tile, floats(0), floats(1), output),
                Stage::GlowRows => {
                    let threshold = Some(params.glow_threshold);
                    along_rows(&params.glow_weights, threshold, tile, floats(0), output);
                }
                Stage::GlowColumns => along_columns(&params.glow_weights, tile, floats(0), output),
                Stage::ToneMap => {
                    tone_map(params, tile, floats(0), floats(1), floats(2), output);
                }
                Stage::Histogram | Stage::Compose => unreachable!("they write words"),
            }
        }
    }
}

/// Samples from 0 to 1.
fn unpack(tile: &Tile, source: Band<'_, u32>, mut output: BandMut<'_, f32>) {
    for y in tile.rows.clone() {
        let pixels = source.row(y, 0);
        for (channel, row) in output.rows(y).into_iter().enumerate() {
            let shift = 8 * channel as u32;
            for (sample, &pixel) in row.iter_mut().zip(pixels) {
                *sample = ((pixel >> shift) & 255) as f32 / 255.0;
            }
        }
    }
}

/// A bilateral filter: neighbours count by their place and by how close their colour is, with the
/// falloff `1 / (1 + d)^2`, where a Gaussian would need an exponential. Then the square: samples
/// are stored about as square roots of light.
fn denoise(
    params: &StageParams,
    tile: &Tile,
    samples: Band<'_, f32>,
    mut output: BandMut<'_, f32>,
) {
    let width = samples.width;
    let padded = width.next_multiple_of(LANES) + 2 * DENOISE_RADIUS;
    // The window's rows, with their ends repeated beyond the borders, so that no pixel is special:
    // row y of the plane is in place y % WINDOW.
    let mut window = vec![0.0f32; WINDOW * 3 * padded];
    let place = |y: usize, channel: usize| ((y % WINDOW) * 3 + channel) * padded;
    let mut next = samples.first;

    for y in tile.rows.clone() {
        while next <= (y + DENOISE_RADIUS).min(samples.last) {
            for channel in 0..3 {
                let start = place(next, channel);
                pad(
                    samples.row(next, channel),
                    DENOISE_RADIUS,
                    &mut window[start..start + padded],
                );
            }
            next += 1;
        }
        let rows: [[&[f32]; 3]; WINDOW] = std::array::from_fn(|offset| {
            let y = (y + offset).saturating_sub(DENOISE_RADIUS);
            let y = y.clamp(samples.first, samples.last);
            std::array::from_fn(|channel| &window[place(y, channel)..][..padded])
        });
        let [red, green, blue] = output.rows(y);
        for x in (0..width).step_by(LANES) {
            let block = denoise_block(params, &rows, x);
            let count = LANES.min(width - x);
            red[x..x + count].copy_from_slice(&block[0][..count]);
            green[x..x + count].copy_from_slice(&block[1][..count]);
            blue[x..x + count].copy_from_slice(&block[2][..count]);
        }
    }
}

/// The filtered colours of the pixels from `x` on, in linear light.
#[inline]
fn denoise_block(
    params: &StageParams,
    rows: &[[&[f32]; 3]; WINDOW],
    x: usize,
) -> [[f32; LANES]; 3] {
    let at = |row: &[f32], x: usize| -> [f32; LANES] {
        *row[x..]
            .first_chunk()
            .expect("rows are padded to whole blocks")
    };
    let here = rows[DENOISE_RADIUS].map(|row| at(row, x + DENOISE_RADIUS));
    let mut sums = [[0.0f32; LANES]; 3];
    let mut total = [0.0f32; LANES];
    for (row, weights) in rows.iter().zip(&params.denoise_weights) {
        for (offset, &weight) in weights.iter().enumerate() {
            let there = row.map(|channel| at(channel, x + offset));
            for i in 0..LANES {
                let red = there[0][i] - here[0][i];
                let green = there[1][i] - here[1][i];
                let blue = there[2][i] - here[2][i];
                let distance = red * red + green * green + blue * blue;
                let closeness = 1.0 / (1.0 + distance * params.denoise_selectivity);
                let weight = weight * (closeness * closeness);
                total[i] += weight;
                sums[0][i] += weight * there[0][i];
                sums[1][i] += weight * there[1][i];
                sums[2][i] += weight * there[2][i];
            }
        }
    }
    for sum in &mut sums {
        for i in 0..LANES {
            let sample = sum[i] / total[i];
            sum[i] = sample * sample;
        }
    }
    sums
}

/// Copies `row` to `padded` with its first value repeated `radius` times before it, and its last
/// one after it to the end.
fn pad(row: &[f32], radius: usize, padded: &mut [f32]) {
    let (before, rest) = padded.split_at_mut(radius);
    let (middle, after) = rest.split_at_mut(row.len());
    before.fill(row[0]);
    middle.copy_from_slice(row);
    after.fill(row[row.len() - 1]);
}

/// Brightness as seen, about as a file would store it.
fn luminance(tile: &Tile, colours: Band<'_, f32>, mut output: BandMut<'_, f32>) {
    let [red_share, green_share, blue_share] = LUMINANCE_SHARES;
    for y in tile.rows.clone() {
        let row = output.row(y, 0);
        let width = row.len();
        let red = &colours.row(y, 0)[..width];
        let green = &colours.row(y, 1)[..width];
        let blue = &colours.row(y, 2)[..width];
        for x in 0..width {
            row[x] = (red_share * red[x] + green_share * green[x] + blue_share * blue[x]).sqrt();
        }
    }
}

/// The bin of a brightness.
#[inline]
fn bin(brightness: f32) -> usize {
    ((brightness * 255.0 + 0.5) as usize).min(BINS - 1)
}

/// Counts the tile's brightnesses.
fn histogram(tile: &Tile, luminance: Band<'_, f32>, mut output: BandMut<'_, u32>) {
    let mut counts = [0u32; BINS];
    for y in tile.rows.clone() {
        for &brightness in luminance.row(y, 0) {
            counts[bin(brightness)] += 1;
        }
    }
    output.row(tile.index, 0).copy_from_slice(&counts);
}

/// Contrast-limited equalisation: the share of pixels that are darker, with no bin counted more
/// than a few times the average, mixed with the identity.
fn curve(params: &StageParams, histograms: Band<'_, u32>, mut output: BandMut<'_, f32>) {
    let mut counts = [0u32; BINS];
    for tile in histograms.first..=histograms.last {
        for (count, &of_tile) in counts.iter_mut().zip(histograms.row(tile, 0)) {
            *count += of_tile;
        }
    }
    let total: u32 = counts.iter().sum();
    let bins = BINS as u32;
    let limit = (total / bins).saturating_mul(params.curve_limit).max(1);
    let excess: u32 = counts.iter().map(|count| count.saturating_sub(limit)).sum();
    for (i, count) in counts.iter_mut().enumerate() {
        let spread = excess / bins + u32::from((i as u32) < excess % bins);
        *count = (*count).min(limit) + spread;
    }
    // From here on relative to the darkest bin, so that black stays black.
    let lighter = total - counts[0];
    let mut darker = 0;
    for (i, value) in output.row(0, 0).iter_mut().enumerate() {
        let identity = i as f32 / 255.0;
        if i > 0 {
            darker += counts[i];
        }
        let equalised = if lighter == 0 {
            identity
        } else {
            darker as f32 / lighter as f32
        };
        *value = identity + params.curve_strength * (equalised - identity);
    }
}

/// Sobel's two gradients, and the length of what they span.
fn edges(tile: &Tile, luminance: Band<'_, f32>, mut output: BandMut<'_, f32>) {
    let width = luminance.width;
    let mut window = [
        vec![0.0f32; width + 2],
        vec![0.0; width + 2],
        vec![0.0; width + 2],
    ];
    for y in tile.rows.clone() {
        for (offset, padded) in window.iter_mut().enumerate() {
            pad(luminance.neighbour(y, offset, 1, 0), 1, padded);
        }
        let [above, here, below] = [&window[0], &window[1], &window[2]];
        let left = [&above[..width], &here[..width], &below[..width]];
        let middle = [&above[1..=width], &below[1..=width]];
        let right = [
            &above[2..width + 2],
            &here[2..width + 2],
            &below[2..width + 2],
        ];
        let row = &mut output.row(y, 0)[..width];
        for x in 0..width {
            let across = (right[0][x] - left[0][x])
                + 2.0 * (right[1][x] - left[1][x])
                + (right[2][x] - left[2][x]);
            let down = (left[2][x] - left[0][x])
                + 2.0 * (middle[1][x] - middle[0][x])
                + (right[2][x] - right[0][x]);
            row[x] = (across * across + down * down).sqrt().min(1.0);
        }
    }
}

/// A weighted sum along each row; of what exceeds `threshold`, if there is one.
fn along_rows<const N: usize>(
    weights: &[f32; N],
    threshold: Option<f32>,
    tile: &Tile,
    colours: Band<'_, f32>,
    mut output: BandMut<'_, f32>,
) {
    let mut padded = vec![0.0f32; colours.width + N - 1];
    for y in tile.rows.clone() {
        for channel in 0..3 {
            pad(colours.row(y, channel), N / 2, &mut padded);
            if let Some(threshold) = threshold {
                for value in &mut padded {
                    *value = (*value - threshold).max(0.0);
                }
            }
            let row = output.row(y, channel);
            row.fill(0.0);
            for (offset, &weight) in weights.iter().enumerate() {
                add_weighted(row, weight, &padded[offset..]);
            }
        }
    }
}

/// A weighted sum along each column.
fn along_columns<const N: usize>(
    weights: &[f32; N],
    tile: &Tile,
    colours: Band<'_, f32>,
    mut output: BandMut<'_, f32>,
) {
    for y in tile.rows.clone() {
        for channel in 0..3 {
            let row = output.row(y, channel);
            row.fill(0.0);
            for (offset, &weight) in weights.iter().enumerate() {
                add_weighted(row, weight, colours.neighbour(y, offset, N / 2, channel));
            }
        }
    }
}

#[inline]
fn add_weighted(sums: &mut [f32], weight: f32, values: &[f32]) {
    for (sum, &value) in sums.iter_mut().zip(values) {
        *sum += weight * value;
    }
}

/// Unsharp mask.
fn sharpen(
    params: &StageParams,
    tile: &Tile,
    colours: Band<'_, f32>,
    blurred: Band<'_, f32>,
    mut output: BandMut<'_, f32>,
) {
    for y in tile.rows.clone() {
        for channel in 0..3 {
            let row = output.row(y, channel);
            let inputs = colours.row(y, channel).iter().zip(blurred.row(y, channel));
            for (value, (&colour, &soft)) in row.iter_mut().zip(inputs) {
                *value = (colour + params.sharpen_amount * (colour - soft)).max(0.0);
            }
        }
    }
}

/// Scales each colour so that its brightness follows the curve; between two entries of the curve
/// along a straight line.
fn tone_map(
    params: &StageParams,
    tile: &Tile,
    colours: Band<'_, f32>,
    luminance: Band<'_, f32>,
    curve: Band<'_, f32>,
    mut output: BandMut<'_, f32>,
) {
    let curve: &[f32; BINS] = curve
        .row(0, 0)
        .first_chunk()
        .expect("a curve has an entry per bin");
    let mut gains = vec![0.0f32; luminance.width];
    for y in tile.rows.clone() {
        for (gain, &before) in gains.iter_mut().zip(luminance.row(y, 0)) {
            let position = (before * 255.0).min(255.0);
            let entry = (position as usize).min(BINS - 2);
            let part = position - entry as f32;
            let after = curve[entry] + part * (curve[entry + 1] - curve[entry]);
            let ratio = (after * after + params.tone_floor) / (before * before + params.tone_floor);
            *gain = ratio.min(params.tone_most);
        }
        for channel in 0..3 {
            let row = output.row(y, channel);
            let inputs = colours.row(y, channel).iter().zip(&gains);
            for (value, (&colour, &gain)) in row.iter_mut().zip(inputs) {
                *value = colour * gain;
            }
        }
    }
}

/// Puts the parts together and packs the pixels.
fn compose(
    params: &StageParams,
    tile: &Tile,
    [toned, edges, glow]: [Band<'_, f32>; 3],
    mut output: BandMut<'_, u32>,
) {
    let width = toned.width;
    let mut shades = vec![0.0f32; width];
    for y in tile.rows.clone() {
        let down = y as f32 + 0.5 - params.centre[1];
        for (x, (shade, &edge)) in shades.iter_mut().zip(edges.row(y, 0)).enumerate() {
            let across = x as f32 + 0.5 - params.centre[0];
            let distance = (across * across + down * down) * params.corner;
            *shade = (1.0 - params.vignette * distance) * (1.0 - params.edge_amount * edge);
        }
        let row = output.row(y, 0);
        row.fill(0xFF00_0000);
        for channel in 0..3 {
            let shift = 8 * channel as u32;
            let inputs = toned.row(y, channel).iter().zip(glow.row(y, channel));
            for ((pixel, &shade), (&colour, &light)) in row.iter_mut().zip(&shades).zip(inputs) {
                let light = (colour + params.glow_amount * light) * shade;
                let sample = light.clamp(0.0, 1.0).sqrt() * 255.0 + 0.5;
                *pixel |= u32::from(sample as u8) << shift;
            }
        }
    }
}

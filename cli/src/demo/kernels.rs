//! The pipeline's stages as kernels.
//!
//! The result of a pixel does not depend on how the image is cut, or on the device. Each pixel is
//! computed by one fixed sequence of `f32` additions, multiplications, divisions and square roots,
//! which IEEE 754 rounds the same way everywhere; no other function of the maths library is called
//! on pixels. Sums over a neighbourhood go from top to bottom and from left to right, and sums over
//! the whole image are of integers. So the tiled result equals that of
//! [`sequential`](super::sequential) bit for bit, whichever devices computed it.
//!
//! A stage's inputs are bands of planes, rows of them as they lie in memory, and [`Band`] says
//! which. Its output is a view of the tile's rows, where the colours of a row are rows of their
//! own. The loops over a row work on slices, or on arrays of [`LANES`] pixels, which the compiler
//! turns into vector instructions.

#![allow(
    clippy::manual_memcpy,
    clippy::needless_range_loop,
    clippy::too_many_arguments,
    reason = "the kernel language has no iterators of several arrays, and no structs of views"
)]

use super::plan::{BINS, BLUR_RADIUS, DENOISE_RADIUS, GLOW_RADIUS};
use quipu::prelude::*;
use quipu::serve::Kernels;

/// Pixels that denoise works on at a time.
const LANES: usize = 8;

/// The side of denoise's window.
pub(crate) const WINDOW: usize = 2 * DENOISE_RADIUS + 1;

/// The side of the blur's window.
pub(crate) const BLUR: usize = 2 * BLUR_RADIUS + 1;

/// The side of the glow's window.
pub(crate) const GLOW: usize = 2 * GLOW_RADIUS + 1;

/// The share of red, green and blue in luminance (those of Rec. 709).
pub(crate) const LUMINANCE_SHARES: [f32; 3] = [0.2126, 0.7152, 0.0722];

/// Rows of a plane, as a kernel is passed them.
#[derive(Clone, Copy, Debug, KernelData)]
#[repr(C)]
pub(crate) struct Band {
    /// Rows before the tile's first.
    pub(crate) before: u32,
    /// The last row's number.
    pub(crate) last: u32,
    /// Runs of `pitch` elements in a row.
    pub(crate) channels: u32,
    /// Elements from one run to the next.
    pub(crate) pitch: u32,
    /// Elements of a run that mean something.
    pub(crate) width: u32,
}

#[device]
impl Band {
    /// The index at which one channel begins of the row that is `offset - radius` below the tile's
    /// row `y`, or of the outermost row there is.
    fn start(self, y: usize, offset: usize, radius: usize, channel: usize) -> usize {
        let row = (self.before as usize + y + offset).saturating_sub(radius);
        let row = row.min(self.last as usize);
        (row * self.channels as usize + channel) * self.pitch()
    }

    fn pitch(self) -> usize {
        self.pitch as usize
    }

    fn width(self) -> usize {
        self.width as usize
    }
}

/// Samples from 0 to 1.
#[kernel]
pub(crate) fn unpack(
    _acc: &impl Accelerator<2>,
    pixels: &[u32],
    from: Band,
    mut to: OwnElements<f32, 2>,
) {
    for (at, row) in to.rows() {
        let shift = 8 * (at[0] % 3) as u32;
        let start = from.start(at[0] / 3, 0, 0, 0) + at[1];
        let pixels = &pixels[start..start + row.len()];
        for (k, sample) in row.iter_mut().enumerate() {
            *sample = ((pixels[k] >> shift) & 255) as f32 / 255.0;
        }
    }
}

/// Pixels of a row from `x - DENOISE_RADIUS` on, the outermost one where there is none.
#[device]
fn lanes(line: &[f32], x: usize) -> [f32; LANES] {
    let mut taken = [0.0; LANES];
    if x >= DENOISE_RADIUS && x + LANES <= line.len() + DENOISE_RADIUS {
        let part = &line[x - DENOISE_RADIUS..x - DENOISE_RADIUS + LANES];
        for i in 0..LANES {
            taken[i] = part[i];
        }
    } else {
        for i in 0..LANES {
            taken[i] = line[(x + i).saturating_sub(DENOISE_RADIUS).min(line.len() - 1)];
        }
    }
    taken
}

/// A bilateral filter: neighbours count by their place and by how close their colour is, with the
/// falloff `1 / (1 + d)^2`, where a Gaussian would need an exponential. Then the square: samples
/// are stored about as square roots of light.
///
/// A thread's elements are some pixels of a row, in its three colours.
#[kernel]
pub(crate) fn denoise(
    _acc: &impl Accelerator<2>,
    weights: [[f32; WINDOW]; WINDOW],
    selectivity: f32,
    samples: &[f32],
    from: Band,
    mut to: OwnTile<f32, 2>,
) {
    let start = to.start();
    let width = to.extent()[1];
    if to.extent()[0] == 3 {
        let y = start[0] / 3;
        let mut left = 0;
        while left < width {
            let x = start[1] + left;
            let mut here = [[0.0; LANES]; 3];
            for channel in 0..3 {
                let line = from.start(y, 0, 0, channel);
                here[channel] = lanes(&samples[line..line + from.width()], x + DENOISE_RADIUS);
            }
            let mut sums = [[0.0; LANES]; 3];
            let mut total = [0.0; LANES];
            for down in 0..WINDOW {
                let red_line = from.start(y, down, DENOISE_RADIUS, 0);
                let green_line = from.start(y, down, DENOISE_RADIUS, 1);
                let blue_line = from.start(y, down, DENOISE_RADIUS, 2);
                let reds = &samples[red_line..red_line + from.width()];
                let greens = &samples[green_line..green_line + from.width()];
                let blues = &samples[blue_line..blue_line + from.width()];
                for across in 0..WINDOW {
                    let place = weights[down][across];
                    let red_there = lanes(reds, x + across);
                    let green_there = lanes(greens, x + across);
                    let blue_there = lanes(blues, x + across);
                    for i in 0..LANES {
                        let red = red_there[i] - here[0][i];
                        let green = green_there[i] - here[1][i];
                        let blue = blue_there[i] - here[2][i];
                        let distance = red * red + green * green + blue * blue;
                        let closeness = 1.0 / (1.0 + distance * selectivity);
                        let weight = place * (closeness * closeness);
                        total[i] += weight;
                        sums[0][i] += weight * red_there[i];
                        sums[1][i] += weight * green_there[i];
                        sums[2][i] += weight * blue_there[i];
                    }
                }
            }
            for channel in 0..3 {
                let row = to.row_mut([channel]);
                for i in 0..LANES.min(width - left) {
                    let sample = sums[channel][i] / total[i];
                    row[left + i] = sample * sample;
                }
            }
            left += LANES;
        }
    }
}

/// Brightness as seen, about as a file would store it.
#[kernel]
pub(crate) fn luminance(
    _acc: &impl Accelerator<2>,
    colours: &[f32],
    from: Band,
    mut to: OwnElements<f32, 2>,
) {
    for (at, row) in to.rows() {
        let start = from.start(at[0], 0, 0, 0) + at[1];
        let red = &colours[start..start + row.len()];
        let green = &colours[start + from.pitch()..start + from.pitch() + row.len()];
        let blue = &colours[start + 2 * from.pitch()..start + 2 * from.pitch() + row.len()];
        for (x, brightness) in row.iter_mut().enumerate() {
            *brightness = (LUMINANCE_SHARES[0] * red[x]
                + LUMINANCE_SHARES[1] * green[x]
                + LUMINANCE_SHARES[2] * blue[x])
                .sqrt();
        }
    }
}

/// Counts the tile's brightnesses, in one block of one thread.
#[kernel]
pub(crate) fn histogram(
    _acc: &impl Accelerator<1>,
    luminance: &[f32],
    from: Band,
    counts: OwnBlock<u32>,
) {
    for count in counts.iter_mut() {
        *count = 0;
    }
    for y in 0..from.last as usize + 1 {
        let start = y * from.pitch();
        for brightness in &luminance[start..start + from.width()] {
            let bin = ((*brightness * 255.0 + 0.5) as usize).min(BINS - 1);
            counts[bin] += 1;
        }
    }
}

/// Contrast-limited equalisation: the share of pixels that are darker, with no bin counted more
/// than a few times the average, mixed with the identity. In one block of one thread.
#[kernel]
pub(crate) fn curve(
    _acc: &impl Accelerator<1>,
    most: u32,
    strength: f32,
    histograms: &[u32],
    from: Band,
    to: OwnBlock<f32>,
) {
    let mut counts = [0_u32; BINS];
    let mut total = 0_u32;
    for tile in 0..from.last as usize + 1 {
        let start = tile * from.pitch();
        let of_tile = &histograms[start..start + BINS];
        for bin in 0..BINS {
            counts[bin] += of_tile[bin];
            total += of_tile[bin];
        }
    }
    let bins = BINS as u32;
    let limit = (total / bins * most).max(1);
    let mut excess = 0_u32;
    for bin in 0..BINS {
        excess += counts[bin].saturating_sub(limit);
    }
    for bin in 0..BINS {
        let mut spread = excess / bins;
        if (bin as u32) < excess % bins {
            spread += 1;
        }
        counts[bin] = counts[bin].min(limit) + spread;
    }
    // From here on relative to the darkest bin, so that black stays black.
    let lighter = total - counts[0];
    let mut darker = 0_u32;
    for (i, value) in to.iter_mut().enumerate() {
        let identity = i as f32 / 255.0;
        if i > 0 {
            darker += counts[i];
        }
        let equalised = if lighter == 0 {
            identity
        } else {
            darker as f32 / lighter as f32
        };
        *value = identity + strength * (equalised - identity);
    }
}

/// The neighbour of a pixel in a row, `offset - 1` to the right of it, or the outermost one.
#[device]
fn beside(line: &[f32], x: usize, offset: usize) -> f32 {
    line[(x + offset).saturating_sub(1).min(line.len() - 1)]
}

/// The strength of Sobel's two gradients, of pixels whose neighbours are these.
#[device]
fn gradient(left: [f32; 3], middle: [f32; 3], right: [f32; 3]) -> f32 {
    let across = (right[0] - left[0]) + 2.0 * (right[1] - left[1]) + (right[2] - left[2]);
    let down = (left[2] - left[0]) + 2.0 * (middle[2] - middle[0]) + (right[2] - right[0]);
    (across * across + down * down).sqrt().min(1.0)
}

/// Sobel's two gradients, and the length of the vector that they form.
#[kernel]
pub(crate) fn edges(
    _acc: &impl Accelerator<2>,
    luminance: &[f32],
    from: Band,
    mut to: OwnElements<f32, 2>,
) {
    for (at, row) in to.rows() {
        let (above, here, below) = (
            from.start(at[0], 0, 1, 0),
            from.start(at[0], 1, 1, 0),
            from.start(at[0], 2, 1, 0),
        );
        let above = &luminance[above..above + from.width()];
        let here = &luminance[here..here + from.width()];
        let below = &luminance[below..below + from.width()];
        for (k, edge) in row.iter_mut().enumerate() {
            let x = at[1] + k;
            *edge = gradient(
                [beside(above, x, 0), beside(here, x, 0), beside(below, x, 0)],
                [above[x], here[x], below[x]],
                [beside(above, x, 2), beside(here, x, 2), beside(below, x, 2)],
            );
        }
    }
}

/// A weighted sum along each row; of the excess over `threshold`, if `BRIGHT`.
#[kernel]
pub(crate) fn along_rows<const N: usize, const BRIGHT: bool>(
    _acc: &impl Accelerator<2>,
    weights: [f32; N],
    threshold: f32,
    colours: &[f32],
    from: Band,
    mut to: OwnElements<f32, 2>,
) {
    for (at, row) in to.rows() {
        let count = row.len();
        let start = from.start(at[0] / 3, 0, 0, at[0] % 3);
        let line = &colours[start..start + from.width()];
        for sum in row.iter_mut() {
            *sum = 0.0;
        }
        for offset in 0..N {
            let weight = weights[offset];
            // The pixels whose neighbour at this offset is one of the row's; beside them it is the
            // outermost.
            let shift = at[1] + offset;
            let low = (N / 2).saturating_sub(shift).min(count);
            let high = (line.len() + N / 2).saturating_sub(shift).min(count);
            let mut first = line[0];
            let mut last = line[line.len() - 1];
            if BRIGHT {
                first = (first - threshold).max(0.0);
                last = (last - threshold).max(0.0);
            }
            for k in 0..low {
                row[k] += weight * first;
            }
            if low < high {
                let inside = &line[shift + low - N / 2..shift + high - N / 2];
                for k in 0..high - low {
                    if BRIGHT {
                        row[low + k] += weight * (inside[k] - threshold).max(0.0);
                    } else {
                        row[low + k] += weight * inside[k];
                    }
                }
            }
            for k in high..count {
                row[k] += weight * last;
            }
        }
    }
}

/// A weighted sum along each column.
#[kernel]
pub(crate) fn along_columns<const N: usize>(
    _acc: &impl Accelerator<2>,
    weights: [f32; N],
    colours: &[f32],
    from: Band,
    mut to: OwnElements<f32, 2>,
) {
    for (at, row) in to.rows() {
        for sum in row.iter_mut() {
            *sum = 0.0;
        }
        for offset in 0..N {
            let weight = weights[offset];
            let start = from.start(at[0] / 3, offset, N / 2, at[0] % 3) + at[1];
            let values = &colours[start..start + row.len()];
            for (k, sum) in row.iter_mut().enumerate() {
                *sum += weight * values[k];
            }
        }
    }
}

/// Unsharp mask. Both bands are of the same plane's shape.
#[kernel]
pub(crate) fn sharpen(
    _acc: &impl Accelerator<2>,
    amount: f32,
    colours: &[f32],
    blurred: &[f32],
    from: Band,
    mut to: OwnElements<f32, 2>,
) {
    for (at, row) in to.rows() {
        let start = from.start(at[0] / 3, 0, 0, at[0] % 3) + at[1];
        let colours = &colours[start..start + row.len()];
        let soft = &blurred[start..start + row.len()];
        for (k, value) in row.iter_mut().enumerate() {
            *value = (colours[k] + amount * (colours[k] - soft[k])).max(0.0);
        }
    }
}

/// Scales each colour so that its brightness follows the curve; between two entries of the curve
/// along a straight line.
#[kernel]
pub(crate) fn tone_map(
    _acc: &impl Accelerator<2>,
    most: f32,
    floor: f32,
    colours: &[f32],
    from: Band,
    luminance: &[f32],
    brightness: Band,
    curve: &[f32],
    mut to: OwnElements<f32, 2>,
) {
    for (at, row) in to.rows() {
        let start = from.start(at[0] / 3, 0, 0, at[0] % 3) + at[1];
        let colours = &colours[start..start + row.len()];
        let start = brightness.start(at[0] / 3, 0, 0, 0) + at[1];
        let luminance = &luminance[start..start + row.len()];
        for (k, value) in row.iter_mut().enumerate() {
            let before = luminance[k];
            let position = (before * 255.0).min(255.0);
            let entry = (position as usize).min(BINS - 2);
            let part = position - entry as f32;
            let after = curve[entry] + part * (curve[entry + 1] - curve[entry]);
            let ratio = (after * after + floor) / (before * before + floor);
            *value = colours[k] * ratio.min(most);
        }
    }
}

/// The parameters of compose besides the pixels.
#[derive(Clone, Copy, Debug, PartialEq, KernelData)]
#[repr(C)]
pub(crate) struct Composition {
    /// The share of the glow that is added.
    pub(crate) glow_amount: f32,
    /// The darkness of the strongest edge, from 0 to 1.
    pub(crate) edge_amount: f32,
    /// The loss of light in the corners, from 0 to 1.
    pub(crate) vignette: f32,
    /// The image's centre, in pixels from its top left corner.
    pub(crate) centre: [f32; 2],
    /// One over the squared distance from centre to corner.
    pub(crate) corner: f32,
}

/// Puts the parts together and packs the pixels; `top` is the image's row that is the tile's first.
/// The bands of colours are of the same plane's shape.
#[kernel]
pub(crate) fn compose(
    _acc: &impl Accelerator<2>,
    how: Composition,
    top: usize,
    toned: &[f32],
    glow: &[f32],
    from: Band,
    edges: &[f32],
    lines: Band,
    mut to: OwnElements<u32, 2>,
) {
    for (at, row) in to.rows() {
        let down = (top + at[0]) as f32 + 0.5 - how.centre[1];
        let colour = from.start(at[0], 0, 0, 0) + at[1];
        let edge = lines.start(at[0], 0, 0, 0) + at[1];
        let edges = &edges[edge..edge + row.len()];
        for pixel in row.iter_mut() {
            *pixel = 0xFF00_0000;
        }
        for channel in 0..3 {
            let start = colour + channel * from.pitch();
            let toned = &toned[start..start + row.len()];
            let glow = &glow[start..start + row.len()];
            let shift = 8 * channel as u32;
            for (k, pixel) in row.iter_mut().enumerate() {
                let across = (at[1] + k) as f32 + 0.5 - how.centre[0];
                let distance = (across * across + down * down) * how.corner;
                let shade = (1.0 - how.vignette * distance) * (1.0 - how.edge_amount * edges[k]);
                let light = (toned[k] + how.glow_amount * glow[k]) * shade;
                let sample = light.clamp(0.0, 1.0).sqrt() * 255.0 + 0.5;
                *pixel |= (sample as u8 as u32) << shift;
            }
        }
    }
}

/// All of them, for nodes.
pub(crate) fn served() -> Kernels {
    Kernels::new()
        .with::<unpack, _>()
        .with::<denoise, _>()
        .with::<luminance, _>()
        .with::<histogram, _>()
        .with::<curve, _>()
        .with::<edges, _>()
        .with::<along_rows<BLUR, false>, _>()
        .with::<along_rows<GLOW, true>, _>()
        .with::<along_columns<BLUR>, _>()
        .with::<along_columns<GLOW>, _>()
        .with::<sharpen, _>()
        .with::<tone_map, _>()
        .with::<compose, _>()
}

//! The same pipeline the straightforward way: whole images, a pixel at a time, one stage after the
//! other on one thread. The result of the tiled pipeline is checked against it.
//!
//! It shares the settings with the tiled stages and the images, and nothing else: no tiles, no
//! pitch, no halo, no blocks of pixels. Each formula is written down a second time, with its terms
//! in the order that [`stages`](super::stages) documents, so that equal means every bit.

use super::image::{Image, Size, pack, unpack};
use super::kernels::LUMINANCE_SHARES;
use super::plan::{BINS, BLUR_RADIUS, DENOISE_RADIUS, GLOW_RADIUS};
use super::stages::StageParams;

/// A picture of any kind of pixel, with pixels beyond the border equal to the nearest inside.
pub(crate) struct Picture<T> {
    width: usize,
    height: usize,
    /// Its pixels in reading order.
    pub(crate) pixels: Vec<T>,
}

/// The planes that the steps make on the way, for tests that compare every bit of it: a difference
/// in the last bit of a float hardly ever shows in the 8-bit result.
#[cfg_attr(not(test), expect(dead_code, reason = "only tests look at every step"))]
pub(crate) struct Steps {
    /// Denoised colours in linear light.
    pub(crate) denoised: Picture<Colour>,
    /// Brightness as seen.
    pub(crate) luminance: Picture<f32>,
    /// The tone curve.
    pub(crate) curve: Vec<f32>,
    /// The strength of edges.
    pub(crate) edges: Picture<f32>,
    /// Denoised colours, blurred.
    pub(crate) blurred: Picture<Colour>,
    /// Sharpened colours.
    pub(crate) sharpened: Picture<Colour>,
    /// The light of bright spots, spread.
    pub(crate) glow: Picture<Colour>,
    /// Sharpened colours after the tone curve.
    pub(crate) toned: Picture<Colour>,
}

impl<T: Copy> Picture<T> {
    fn compute(width: usize, height: usize, pixel: impl Fn(isize, isize) -> T) -> Self {
        let mut pixels = Vec::with_capacity(width * height);
        for y in 0..height {
            for x in 0..width {
                pixels.push(pixel(x as isize, y as isize));
            }
        }
        Self {
            width,
            height,
            pixels,
        }
    }

    fn map<U: Copy>(&self, pixel: impl Fn(isize, isize) -> U) -> Picture<U> {
        Picture::compute(self.width, self.height, pixel)
    }

    fn at(&self, x: isize, y: isize) -> T {
        let x = x.clamp(0, self.width as isize - 1) as usize;
        let y = y.clamp(0, self.height as isize - 1) as usize;
        self.pixels[y * self.width + x]
    }
}

/// Red, green and blue.
pub(crate) type Colour = [f32; 3];

/// The number of steps.
pub(crate) const STEPS: u64 = 10;

/// Runs the whole pipeline on `source`; says when a step is done.
///
/// # Panics
///
/// If `params` are for an image of another size.
pub(crate) fn process(source: &Image, params: &StageParams, done: &dyn Fn()) -> Image {
    let steps = steps(source, params, done);
    let image = compose(source.size(), &steps, params);
    done();
    image
}

/// All but the last step.
pub(crate) fn steps(source: &Image, params: &StageParams, done: &dyn Fn()) -> Steps {
    let (width, height) = (source.size().width(), source.size().height());
    assert_eq!(
        (width, height),
        (params.geometry.width, params.geometry.height),
        "the settings are those of this image"
    );
    let samples = Picture::compute(width, height, |x, y| {
        unpack(source.pixels()[y as usize * width + x as usize]).map(|v| f32::from(v) / 255.0)
    });
    done();
    let denoised = denoise(&samples, params);
    done();
    let luminance = denoised.map(|x, y| {
        let [red, green, blue] = denoised.at(x, y);
        let [r, g, b] = LUMINANCE_SHARES;
        (r * red + g * green + b * blue).sqrt()
    });
    done();
    let curve = equalise(&luminance, params);
    done();
    let edges = luminance.map(|x, y| sobel(&luminance, x, y));
    done();

    let blurred = blur(&denoised, &params.blur_weights, BLUR_RADIUS);
    done();
    let sharpened = denoised.map(|x, y| {
        let (colour, soft) = (denoised.at(x, y), blurred.at(x, y));
        [0, 1, 2].map(|c| {
            let value = colour[c] + params.sharpen_amount * (colour[c] - soft[c]);
            value.max(0.0)
        })
    });
    done();
    let bright = denoised.map(|x, y| {
        let colour = denoised.at(x, y);
        colour.map(|v| (v - params.glow_threshold).max(0.0))
    });
    let glow = blur(&bright, &params.glow_weights, GLOW_RADIUS);
    done();
    let toned = sharpened.map(|x, y| {
        let gain = tone(luminance.at(x, y), &curve, params);
        sharpened.at(x, y).map(|v| v * gain)
    });
    done();
    Steps {
        denoised,
        luminance,
        curve,
        edges,
        blurred,
        sharpened,
        glow,
        toned,
    }
}

/// The last step.
fn compose(size: Size, steps: &Steps, params: &StageParams) -> Image {
    let result = steps.toned.map(|x, y| {
        let across = x as f32 + 0.5 - params.composition.centre[0];
        let down = y as f32 + 0.5 - params.composition.centre[1];
        let distance = (across * across + down * down) * params.composition.corner;
        let corner = 1.0 - params.composition.vignette * distance;
        let line = 1.0 - params.composition.edge_amount * steps.edges.at(x, y);
        let (colour, halo) = (steps.toned.at(x, y), steps.glow.at(x, y));
        let [red, green, blue] = [0, 1, 2].map(|c| {
            let light = (colour[c] + params.composition.glow_amount * halo[c]) * (corner * line);
            (light.clamp(0.0, 1.0).sqrt() * 255.0 + 0.5) as u8
        });
        pack(red, green, blue)
    });
    Image::new(size, result.pixels)
}

fn denoise(samples: &Picture<Colour>, params: &StageParams) -> Picture<Colour> {
    let radius = DENOISE_RADIUS as isize;
    samples.map(|x, y| {
        let here = samples.at(x, y);
        let mut sum = [0.0f32; 3];
        let mut total = 0.0f32;
        for dy in -radius..=radius {
            for dx in -radius..=radius {
                let there = samples.at(x + dx, y + dy);
                let red = there[0] - here[0];
                let green = there[1] - here[1];
                let blue = there[2] - here[2];
                let distance = red * red + green * green + blue * blue;
                let closeness = 1.0 / (1.0 + distance * params.denoise_selectivity);
                let place = params.denoise_weights[(dy + radius) as usize][(dx + radius) as usize];
                let weight = place * (closeness * closeness);
                total += weight;
                for c in 0..3 {
                    sum[c] += weight * there[c];
                }
            }
        }
        sum.map(|value| (value / total) * (value / total))
    })
}

fn blur(colours: &Picture<Colour>, weights: &[f32], radius: usize) -> Picture<Colour> {
    let radius = radius as isize;
    let weighted = |colour_at: &dyn Fn(isize) -> Colour| {
        let mut sum = [0.0f32; 3];
        for (offset, &weight) in (-radius..=radius).zip(weights) {
            let colour = colour_at(offset);
            for c in 0..3 {
                sum[c] += weight * colour[c];
            }
        }
        sum
    };
    let rows = colours.map(|x, y| weighted(&|offset| colours.at(x + offset, y)));
    rows.map(|x, y| weighted(&|offset| rows.at(x, y + offset)))
}

fn sobel(brightness: &Picture<f32>, x: isize, y: isize) -> f32 {
    let at = |dx, dy| brightness.at(x + dx, y + dy);
    let across = (at(1, -1) - at(-1, -1)) + 2.0 * (at(1, 0) - at(-1, 0)) + (at(1, 1) - at(-1, 1));
    let down = (at(-1, 1) - at(-1, -1)) + 2.0 * (at(0, 1) - at(0, -1)) + (at(1, 1) - at(1, -1));
    (across * across + down * down).sqrt().min(1.0)
}

fn equalise(brightness: &Picture<f32>, params: &StageParams) -> Vec<f32> {
    let mut counts = vec![0u64; BINS];
    for value in &brightness.pixels {
        let bin = (value * 255.0 + 0.5) as usize;
        counts[bin.min(BINS - 1)] += 1;
    }
    let pixels = brightness.pixels.len() as u64;
    let limit = (pixels / BINS as u64 * u64::from(params.curve_limit)).max(1);
    let mut excess = 0;
    for count in &mut counts {
        if *count > limit {
            excess += *count - limit;
            *count = limit;
        }
    }
    // Round by round to every bin, until nothing is left.
    let mut bin = 0;
    while excess > 0 {
        if bin == 0 && excess >= BINS as u64 {
            let rounds = excess / BINS as u64;
            counts.iter_mut().for_each(|count| *count += rounds);
            excess -= rounds * BINS as u64;
        } else {
            counts[bin] += 1;
            excess -= 1;
            bin = (bin + 1) % BINS;
        }
    }
    let all: u64 = counts[1..].iter().sum();
    (0..BINS)
        .map(|i| {
            let identity = i as f32 / 255.0;
            let darker: u64 = counts[1..=i].iter().sum();
            let equalised = if all == 0 {
                identity
            } else {
                darker as f32 / all as f32
            };
            identity + params.curve_strength * (equalised - identity)
        })
        .collect()
}

fn tone(before: f32, curve: &[f32], params: &StageParams) -> f32 {
    let position = (before * 255.0).min(255.0);
    let entry = (position as usize).min(BINS - 2);
    let part = position - entry as f32;
    let after = curve[entry] + part * (curve[entry + 1] - curve[entry]);
    let ratio = (after * after + params.tone_floor) / (before * before + params.tone_floor);
    ratio.min(params.tone_most)
}

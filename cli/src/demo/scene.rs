//! The picture that the demo makes itself: a night over mountains and a lake, seen past a quipu,
//! with the flat contrast and the grain of a photograph taken in too little light, so that each
//! stage of the pipeline has something to do.
//!
//! Coordinates are in units of the image's height: `u` to the right of the middle, `v` down from
//! the top. So the same scene fits any size, and a wider image shows more of it. Colours are in
//! linear light until the last step.
//!
//! The scene is deterministic to the bit: it is made of integer hashes, additions,
//! multiplications, divisions and square roots alone, and rows do not depend on each other, so that
//! several threads may draw them.

use std::num::NonZeroUsize;

use super::image::{Image, Size, pack};

mod noise;
mod quipu;

use noise::{
    Colour, add, coverage, falloff, floor, fractal, hash, length, mix, noise, ridged, scale,
    shoulder, smooth, to_unit,
};
use quipu::Quipu;

/// The height at which the lake begins.
const SHORE: f32 = 0.80;
/// The moon's centre and radius.
const MOON: [f32; 3] = [0.40, 0.335, 0.052];

/// Draws the scene.
pub(crate) fn generate(size: Size) -> Image {
    let (width, height) = (size.width(), size.height());
    let mut pixels = vec![0u32; width * height];
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let band = height.div_ceil(threads);
    let scene = Scene::new(size);
    std::thread::scope(|scope| {
        for (index, rows) in pixels.chunks_mut(band * width).enumerate() {
            let scene = &scene;
            scope.spawn(move || {
                for (y, row) in (index * band..).zip(rows.chunks_mut(width)) {
                    for (x, pixel) in row.iter_mut().enumerate() {
                        *pixel = scene.photograph(x, y, size);
                    }
                }
            });
        }
    });
    Image::new(size, pixels)
}

/// The values that are computed once for all pixels.
struct Scene {
    quipu: Quipu,
    outlines: Outlines,
}

impl Scene {
    fn new(size: Size) -> Self {
        Self {
            quipu: Quipu::new(),
            outlines: Outlines::new(size),
        }
    }

    /// One pixel as the camera stores it.
    fn photograph(&self, x: usize, y: usize, size: Size) -> u32 {
        let unit = 1.0 / size.height() as f32;
        let u = (x as f32 + 0.5 - size.width() as f32 / 2.0) * unit;
        let v = (y as f32 + 0.5) * unit;
        let mut light = self.landscape(u, v, unit);
        self.quipu.draw(u, v, unit, &mut light);

        // Grain: the sum of uniform numbers is close enough to a normal one.
        let uniform = |salt| to_unit(hash(x as i32, y as i32, salt)) - 0.5;
        let common = uniform(900) + uniform(901) + uniform(902);
        let sample = |channel: u32| {
            let own = uniform(910 + channel) + uniform(920 + channel);
            // Stored as the root of the light, with lifted blacks and dull whites.
            let stored = 0.035 + 0.86 * shoulder(light[channel as usize]).sqrt();
            let noisy = stored + 0.026 * common + 0.022 * own;
            (noisy.clamp(0.0, 1.0) * 255.0 + 0.5) as u8
        };
        pack(sample(0), sample(1), sample(2))
    }

    /// Sky, mountains, lake and shore, without the quipu.
    fn landscape(&self, u: f32, v: f32, unit: f32) -> Colour {
        let mut light = if v < SHORE {
            self.beyond_the_lake(u, v, unit)
        } else {
            self.lake(u, v, unit)
        };
        shore(u, v, unit, &mut light);
        light
    }

    fn beyond_the_lake(&self, u: f32, v: f32, unit: f32) -> Colour {
        let crests = self.outlines.at(u);
        // Ranges behind one that covers the whole pixel is not drawn.
        let nearest = crests
            .iter()
            .rposition(|crest| coverage(v - crest, unit) == 1.0);
        let mut light = match nearest {
            Some(_) => [0.0; 3],
            None => sky(u, v, unit),
        };
        let visible = nearest.unwrap_or(0)..;
        for (range, crest) in RANGES[visible.clone()].iter().zip(&crests[visible]) {
            let inside = coverage(v - crest, unit);
            if inside > 0.0 {
                light = mix(light, range.surface(u, v, v - crest), inside);
            }
        }
        hamlet(u, v, unit, &mut light);
        light
    }

    fn lake(&self, u: f32, v: f32, unit: f32) -> Colour {
        let depth = v - SHORE;
        // Waves are longer towards the viewer, and bend the mirror image, mostly up and down.
        let near = depth / (1.0 - SHORE);
        let stretch = 1.0 / (0.05 + 0.55 * near);
        let wave = fractal(
            u * 5.0 * stretch,
            30.0 * (0.02 + depth).sqrt() * 2.2,
            4,
            301,
        ) - 0.5;
        let ripple = fractal(
            u * 26.0 * stretch,
            150.0 * (0.02 + depth).sqrt() * 1.6,
            3,
            302,
        ) - 0.5;
        let bend = (0.012 + 0.10 * near) * wave + (0.006 + 0.05 * near) * ripple;
        let mirrored = (SHORE - 1.9 * depth + bend).clamp(0.0, SHORE - 0.001);
        let reflected = self.beyond_the_lake(u + 0.25 * bend, mirrored, unit);
        let own = [0.006, 0.011, 0.022];
        let mut light = add(scale(reflected, 0.72 - 0.22 * near), own);
        // The moon's path on the waves.
        let path = falloff((u - MOON[0]) / (0.028 + 0.11 * near));
        let glint = smooth((wave + 0.7 * ripple - 0.02) / 0.16);
        light = add(
            light,
            scale([0.50, 0.46, 0.42], path * glint * (0.30 + 0.7 * near)),
        );
        // A thread of mist where the water begins.
        let mist = falloff(depth / 0.012) * (0.4 + 0.6 * fractal(u * 4.0, 1.0, 3, 303));
        mix(light, [0.17, 0.12, 0.16], 0.55 * mist)
    }
}

// ---------------------------------------------------------------------------------------------
// The sky

fn sky(u: f32, v: f32, unit: f32) -> Colour {
    // From the zenith down to the last light behind the mountains.
    const STEPS: [(f32, Colour); 5] = [
        (0.00, [0.0035, 0.0060, 0.0200]),
        (0.25, [0.0075, 0.0150, 0.0480]),
        (0.45, [0.0300, 0.0330, 0.0950]),
        (0.60, [0.1500, 0.0750, 0.1150]),
        (0.72, [0.4200, 0.1800, 0.0900]),
    ];
    let mut light = STEPS[0].1;
    for pair in STEPS.windows(2) {
        let part = smooth((v - pair[0].0) / (pair[1].0 - pair[0].0));
        light = mix(light, pair[1].1, part);
    }

    // The Milky Way: a band from the upper left, with dark lanes.
    let along = 0.78 * u + 0.62 * v;
    let across = -0.62 * u + 0.78 * v - 0.20 + 0.10 * (fractal(u * 1.7, v * 1.7, 3, 11) - 0.5);
    let band = (falloff(across / 0.17) - 0.02).max(0.0) * smooth((0.58 - v) / 0.4);
    if band > 0.01 {
        let clouds = fractal(along * 5.0, across * 7.0, 5, 12);
        let lanes = smooth((ridged(along * 3.2, across * 6.0, 5, 13) - 0.52) / 0.25);
        let glow =
            band * (0.35 + 1.3 * clouds * clouds) * (1.0 - 0.8 * lanes * falloff(across / 0.09));
        light = add(light, scale([0.052, 0.050, 0.085], glow));
        light = add(
            light,
            scale([0.050, 0.016, 0.040], band * clouds * clouds * clouds),
        );
    }

    // Thin high clouds that catch the last light.
    let low = smooth((v - 0.28) / 0.3);
    if low > 0.0 {
        let veil = smooth((fractal(u * 1.6 + 7.0, v * 9.0, 5, 14) - 0.52) / 0.3) * low;
        let lit = 0.25 + 0.75 * smooth((v - 0.3) / 0.3);
        light = add(light, scale([0.16, 0.075, 0.075], veil * lit));
    }

    let [moon_u, moon_v, radius] = MOON;
    let distance = length(u - moon_u, v - moon_v);
    let faint = smooth((0.62 - v) / 0.3) * (1.0 - falloff(distance / 0.30));
    let twinkle = stars(u, v, unit, 1.0 + 1.5 * band);
    light = add(light, scale(twinkle, faint));

    // The moon and the air around it.
    light = add(
        light,
        scale([0.075, 0.080, 0.100], falloff(distance / 0.13)),
    );
    light = add(
        light,
        scale([0.030, 0.032, 0.045], falloff(distance / 0.45)),
    );
    let disc = coverage(radius - distance, unit);
    if disc > 0.0 {
        let (a, b) = ((u - moon_u) / radius, (v - moon_v) / radius);
        let seas = fractal(a * 1.3 + 3.0, b * 1.3 + 9.0, 5, 21);
        let craters = ridged(a * 4.0, b * 4.0, 4, 22);
        let limb = (1.0 - (a * a + b * b)).max(0.0).sqrt();
        // Nearly full: the shadow lies at the lower left.
        let phase = smooth((a * 0.75 - b * 0.55 + 0.95) / 0.6);
        let bright =
            (1.15 - 0.75 * smooth((seas - 0.42) / 0.22) + 0.16 * craters) * (0.55 + 0.45 * limb);
        let surface = scale([0.93, 0.90, 0.80], bright * (0.03 + 0.97 * phase));
        light = mix(light, surface, disc);
    }
    light
}

/// Stars in three grids of cells, one star in some of the cells: many faint ones, few bright.
fn stars(u: f32, v: f32, unit: f32, density: f32) -> Colour {
    let mut light = [0.0; 3];
    for (grid, (cells, share, brightest)) in
        [(150.0, 0.22, 0.10), (70.0, 0.16, 0.45), (22.0, 0.20, 1.8)]
            .into_iter()
            .enumerate()
    {
        let salt = 30 + 10 * grid as u32;
        let (column, row) = (floor(u * cells), floor(v * cells));
        let pick = |n: u32| to_unit(hash(column as i32, row as i32, salt + n));
        if pick(0) > share * density {
            continue;
        }
        // Far enough from the cell's border that the star is not cut off.
        let centre_u = (column + 0.3 + 0.4 * pick(1)) / cells;
        let centre_v = (row + 0.3 + 0.4 * pick(2)) / cells;
        let magnitude = pick(3) * pick(3);
        let size = (0.00055 + 0.00055 * magnitude * grid as f32).max(0.6 * unit);
        let distance = length(u - centre_u, v - centre_v) / size;
        let spot = (1.0 - distance * distance / 6.0).max(0.0);
        let bright = brightest * (0.15 + 0.85 * magnitude) * spot * spot * spot * spot;
        let warmth = pick(4);
        let colour = mix([0.70, 0.82, 1.0], [1.0, 0.80, 0.58], warmth * warmth);
        light = add(light, scale(colour, bright));
    }
    light
}

// ---------------------------------------------------------------------------------------------
// The mountains

/// A range: the height of its mean line, how far peaks rise, how wide they are.
struct Range {
    base: f32,
    rise: f32,
    frequency: f32,
    rock: Colour,
    haze: f32,
    snow: f32,
    salt: u32,
}

const RANGES: [Range; 4] = [
    Range {
        base: 0.665,
        rise: 0.36,
        frequency: 1.15,
        rock: [0.090, 0.085, 0.130],
        haze: 0.50,
        snow: 1.00,
        salt: 101,
    },
    Range {
        base: 0.725,
        rise: 0.25,
        frequency: 1.60,
        rock: [0.050, 0.050, 0.080],
        haze: 0.36,
        snow: 0.90,
        salt: 123,
    },
    Range {
        base: 0.765,
        rise: 0.15,
        frequency: 2.30,
        rock: [0.026, 0.030, 0.046],
        haze: 0.22,
        snow: 0.35,
        salt: 167,
    },
    Range {
        base: 0.800,
        rise: 0.085,
        frequency: 3.40,
        rock: [0.010, 0.014, 0.019],
        haze: 0.08,
        snow: 0.00,
        salt: 135,
    },
];

/// The outlines of all ranges, at points one pixel apart and a little beyond the borders.
struct Outlines {
    unit: f32,
    first: f32,
    crests: Vec<[f32; RANGES.len()]>,
}

impl Outlines {
    fn new(size: Size) -> Self {
        // As far beyond the borders as waves bend the mirror image.
        const MARGIN: f32 = 0.05;
        let unit = 1.0 / size.height() as f32;
        let first = -0.5 * size.width() as f32 * unit - MARGIN;
        let count = size.width() + (2.0 * MARGIN * size.height() as f32) as usize + 2;
        let crests = |i: usize| {
            let u = first + i as f32 * unit;
            RANGES.each_ref().map(|range| range.crest(u))
        };
        Self {
            unit,
            first,
            crests: (0..count).map(crests).collect(),
        }
    }

    /// The outlines at `u`, on straight lines between the points.
    fn at(&self, u: f32) -> [f32; RANGES.len()] {
        let position = ((u - self.first) / self.unit).max(0.0);
        let point = (position as usize).min(self.crests.len() - 2);
        let part = (position - point as f32).min(1.0);
        let (left, right) = (&self.crests[point], &self.crests[point + 1]);
        std::array::from_fn(|i| left[i] + part * (right[i] - left[i]))
    }
}

impl Range {
    /// The height of its outline.
    fn crest(&self, u: f32) -> f32 {
        let far = ridged(u * self.frequency, 0.5, 7, self.salt);
        let broad = noise(u * self.frequency * 0.6, 3.5, self.salt + 1);
        self.base - self.rise * (far * (0.40 + 0.80 * broad))
    }

    /// Its colour at a depth below its outline.
    fn surface(&self, u: f32, v: f32, depth: f32) -> Colour {
        const HAZE: Colour = [0.20, 0.125, 0.160];
        // Relief: gullies run down from the crest; slopes that face the moon, on the right, are
        // lit.
        let fine = 5.5 * self.frequency;
        let bend = 0.55 * (fractal(u * fine * 0.5, v * fine * 0.5, 3, self.salt + 2) - 0.5);
        let field = |along: f32| {
            ridged(
                along * fine + bend,
                (0.55 * depth + 0.3 * along) * fine,
                6,
                self.salt + 3,
            )
        };
        let slope = (field(u) - field(u + 0.05 / fine)) * 5.0;
        let lit = (0.42 + slope).clamp(0.0, 1.7);

        let ragged = fractal(u * 11.0, v * 11.0, 4, self.salt + 5) - 0.5;
        let snowline = self.rise * (0.36 + 0.55 * ragged);
        let high = smooth((self.base - 0.15 * self.rise - v) / (0.40 * self.rise));
        let steep = smooth((lit - 0.12) / 0.30);
        let snow = self.snow * high * steep * smooth((snowline - depth) / (0.16 * self.rise));
        let rock = scale(self.rock, 0.25 + 1.2 * lit);
        let white = scale([0.40, 0.42, 0.52], 0.12 + 0.95 * lit);
        let ground = mix(rock, white, snow);

        // Mist gathers in the valleys.
        let drift = fractal(u * 3.0, v * 11.0, 4, self.salt + 7);
        let low = smooth((depth - 0.20 * self.rise) / (0.95 * self.rise));
        let haze = self.haze * (0.30 + low * (0.45 + 1.5 * drift * drift * 2.0));
        mix(ground, HAZE, haze.min(1.0))
    }
}

/// Lit windows at the foot of the mountains.
fn hamlet(u: f32, v: f32, unit: f32, light: &mut Colour) {
    const CELLS: f32 = 64.0;
    let column = floor(u * CELLS);
    let pick = |n: u32| to_unit(hash(column as i32, 5, 200 + n));
    let village = falloff((u + 0.32) / 0.16) + 0.6 * falloff((u - 0.62) / 0.10);
    if pick(0) > 0.75 * village {
        return;
    }
    let centre_u = (column + 0.3 + 0.4 * pick(1)) / CELLS;
    let centre_v = SHORE - 0.004 - 0.022 * pick(2) * pick(2);
    let size = (0.0011 + 0.0009 * pick(3)).max(0.7 * unit);
    let distance = length(u - centre_u, (v - centre_v) * 0.8) / size;
    let spot = (1.0 - distance * distance / 4.0).max(0.0);
    let colour = mix([1.9, 0.95, 0.32], [1.7, 1.25, 0.75], pick(4));
    *light = add(*light, scale(colour, spot * spot));
}

// ---------------------------------------------------------------------------------------------
// The near shore

/// The near shore with its pines, black before the lake.
fn shore(u: f32, v: f32, unit: f32, light: &mut Colour) {
    // Two headlands, left and right.
    let left = 0.205 * smooth((-0.28 - u) / 0.75);
    let right = 0.150 * smooth((u - 0.48) / 0.5);
    let ground = 1.005
        - left
        - right
        - 0.020 * fractal(u * 8.0, 0.5, 4, 401) * smooth((left + right) / 0.03);
    let mut inside = coverage(v - ground, unit);
    for layer in 0..3u32 {
        let cells = 26.0 + 13.0 * layer as f32;
        let column = floor(u * cells);
        for neighbour in [-1.0, 0.0, 1.0] {
            let column = column + neighbour;
            let pick = |n: u32| to_unit(hash(column as i32, layer as i32, 410 + n));
            let centre = (column + 0.2 + 0.6 * pick(0)) / cells;
            let headland = smooth((-0.40 - centre) / 0.35) + smooth((centre - 0.62) / 0.25);
            if pick(1) > 0.85 * headland {
                continue;
            }
            let rise = (0.055 + 0.15 * pick(2) * pick(2)) * (0.45 + 0.55 * headland.min(1.0))
                / (1.0 + 0.35 * layer as f32);
            let foot = ground + 0.012;
            let part = (v - (foot - rise)) / rise;
            if !(0.0..=1.0).contains(&part) {
                continue;
            }
            // Branches: a sawtooth that hangs from the trunk, ragged at its ends.
            let whorls = 9.0 + 5.0 * pick(3);
            let tooth = (part * whorls) - floor(part * whorls);
            let ragged = 0.75 + 0.5 * noise(u * 420.0, v * 420.0, 420);
            let reach = rise * (0.03 + 0.20 * part * (0.55 + 0.45 * tooth) * ragged);
            let reach = if part > 0.94 { 0.018 * rise } else { reach };
            inside = inside.max(coverage(reach - (u - centre).abs(), unit));
        }
    }
    let grass = 0.6 + 0.8 * fractal(u * 60.0, v * 25.0, 3, 430);
    *light = mix(*light, scale([0.0042, 0.0052, 0.0062], grass), inside);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same picture on every machine and with any number of threads: a checksum of its pixels.
    #[test]
    fn the_scene_is_the_same_everywhere() {
        let checksum = |image: &Image| {
            let pixels = image.pixels().iter();
            pixels.fold(0xCBF2_9CE4_8422_2325u64, |sum, &pixel| {
                (sum ^ u64::from(pixel)).wrapping_mul(0x0000_0100_0000_01B3)
            })
        };
        let image = generate(Size::new(160, 90).unwrap());
        assert_eq!(checksum(&image), 0xFC12_7C95_3BC7_4745);
    }

    #[test]
    fn any_size_can_be_drawn() {
        for (width, height) in [(1, 1), (2, 300), (300, 2), (31, 17)] {
            let image = generate(Size::new(width, height).unwrap());
            assert_eq!(image.pixels().len(), width * height);
        }
    }
}

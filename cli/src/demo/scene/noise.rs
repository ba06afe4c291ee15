//! Noise, colours in linear light, and small functions: all of exactly rounded operations.

/// Red, green and blue.
pub(super) type Colour = [f32; 3];

/// A well-mixed number for a place and a purpose.
pub(super) fn hash(x: i32, y: i32, salt: u32) -> u32 {
    let mut h = (x as u32).wrapping_mul(0x9E37_79B1)
        ^ (y as u32).wrapping_mul(0x85EB_CA77)
        ^ salt.wrapping_mul(0xC2B2_AE3D);
    h = (h ^ (h >> 15)).wrapping_mul(0x2C1B_3C6D);
    h = (h ^ (h >> 12)).wrapping_mul(0x297A_2D39);
    h ^ (h >> 15)
}

/// From 0 to just below 1.
pub(super) fn to_unit(hash: u32) -> f32 {
    (hash >> 8) as f32 / (1u32 << 24) as f32
}

/// Value noise from 0 to 1, about one wave per unit.
pub(super) fn noise(x: f32, y: f32, salt: u32) -> f32 {
    let (column, row) = (floor(x), floor(y));
    let (a, b) = (smooth(x - column), smooth(y - row));
    let (column, row) = (column as i32, row as i32);
    let at = |dx: i32, dy: i32| to_unit(hash(column.wrapping_add(dx), row.wrapping_add(dy), salt));
    let above = at(0, 0) + a * (at(1, 0) - at(0, 0));
    let below = at(0, 1) + a * (at(1, 1) - at(0, 1));
    above + b * (below - above)
}

/// Noise over noise of half the size, each turned against the last; from 0 to 1, mostly around 0.5.
pub(super) fn fractal(mut x: f32, mut y: f32, octaves: u32, salt: u32) -> f32 {
    let (mut sum, mut total, mut weight) = (0.0, 0.0, 1.0);
    for octave in 0..octaves {
        sum += weight * noise(x, y, salt + 1000 * octave);
        total += weight;
        weight *= 0.5;
        (x, y) = (1.6 * x - 1.2 * y + 3.7, 1.2 * x + 1.6 * y + 1.3);
    }
    sum / total
}

/// Fractal noise folded at its middle, which makes sharp ridges; from 0 to 1.
pub(super) fn ridged(mut x: f32, mut y: f32, octaves: u32, salt: u32) -> f32 {
    let (mut sum, mut total, mut weight) = (0.0, 0.0, 1.0);
    for octave in 0..octaves {
        let fold = 1.0 - (2.0 * noise(x, y, salt + 1000 * octave) - 1.0).abs();
        sum += weight * fold * fold;
        total += weight;
        weight *= 0.48;
        (x, y) = (1.6 * x - 1.2 * y + 5.1, 1.2 * x + 1.6 * y + 2.9);
    }
    sum / total
}

/// The whole number below, of values far from the limits of `i32`; without a call into the maths
/// library, which it takes on processors that are assumed to have no instruction for it.
pub(super) fn floor(x: f32) -> f32 {
    let whole = x as i32 as f32;
    if whole > x { whole - 1.0 } else { whole }
}

/// The share of a pixel of side `unit` that is inside, for a signed distance from the border.
pub(super) fn coverage(inside: f32, unit: f32) -> f32 {
    (inside / unit + 0.5).clamp(0.0, 1.0)
}

/// From 0 at 0 to 1 at 1, level at both and beyond.
pub(super) fn smooth(t: f32) -> f32 {
    let t = t.clamp(0.0, 1.0);
    t * t * (3.0 - 2.0 * t)
}

/// A bell of width 1: one at 0, a quarter at 1, slowly towards nothing.
pub(super) fn falloff(t: f32) -> f32 {
    let bell = 1.0 / (1.0 + t * t);
    bell * bell
}

/// Presses light above one half towards one.
pub(super) fn shoulder(light: f32) -> f32 {
    if light <= 0.5 {
        light.max(0.0)
    } else {
        let over = light - 0.5;
        0.5 + over / (1.0 + 2.0 * over)
    }
}

pub(super) fn length(a: f32, b: f32) -> f32 {
    (a * a + b * b).sqrt()
}

pub(super) fn mix(a: Colour, b: Colour, part: f32) -> Colour {
    [0, 1, 2].map(|c| a[c] + part * (b[c] - a[c]))
}

pub(super) fn add(a: Colour, b: Colour) -> Colour {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}

pub(super) fn scale(a: Colour, factor: f32) -> Colour {
    a.map(|v| v * factor)
}

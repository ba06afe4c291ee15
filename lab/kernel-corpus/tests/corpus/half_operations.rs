//! Every operation on floats of 16 bits, natively and printed, against a model that knows nothing
//! of how they are computed: numbers are decoded by the definition of their format, computed with
//! exactly, and rounded once.
//!
//! Exactly is: as the sum of two doubles, of which the second is what the first lacks. Of numbers
//! of so few digits a product is a double; a sum, quotient or root is one and the remainder that
//! there is.

use super::halves::Bits;
use super::{Passed, check, division, natively, run_printed};
use quipu_kernel::{
    Accelerator, Float, KernelData, Number, OwnElements, bf16, device, f16, kernel,
};

/// A format: how many digits are stored, and what the exponents are moved by.
#[derive(Clone, Copy)]
struct Format {
    digits: i32,
    bias: i32,
}

const HALF: Format = Format {
    digits: 10,
    bias: 15,
};
const UPPER: Format = Format {
    digits: 7,
    bias: 127,
};

/// The bits as which any NaN is compared.
const NAN: u32 = 0xffff;

impl Format {
    /// The bits of infinity, which is also one more than the greatest number's.
    fn infinity(self) -> u32 {
        ((1 << (15 - self.digits)) - 1) << self.digits
    }

    /// The number of some bits without a sign. Of infinity's what it would be if it were a number.
    fn magnitude(self, bits: u32) -> f64 {
        let (exponent, digits) = (bits >> self.digits, bits & ((1 << self.digits) - 1));
        let (exponent, hidden) = match exponent.cast_signed() {
            0 => (1, 0),
            exponent => (exponent, 1 << self.digits),
        };
        f64::from(hidden | digits) * 2f64.powi(exponent - self.bias - self.digits)
    }

    fn decode(self, bits: u32) -> f64 {
        let magnitude = match bits & 0x7fff {
            bits if bits > self.infinity() => f64::NAN,
            bits if bits == self.infinity() => f64::INFINITY,
            bits => self.magnitude(bits),
        };
        if bits & 0x8000 == 0 {
            magnitude
        } else {
            -magnitude
        }
    }

    /// The bits of `high + low`, rounded to the nearest, of two as near to the even one.
    fn encode(self, (high, low): (f64, f64)) -> u32 {
        if high.is_nan() {
            return NAN;
        }
        let sign = u32::from(high.is_sign_negative()) << 15;
        let (high, low) = (high.abs(), if sign == 0 { low } else { -low });
        // The greatest that is not above it, by halves.
        let (mut below, mut above) = (0, self.infinity() + 1);
        while above - below > 1 {
            let between = u32::midpoint(below, above);
            match self.magnitude(between) <= high {
                true => below = between,
                false => above = between,
            }
        }
        if below == self.infinity() {
            return sign | below;
        }
        let middle = (self.magnitude(below) + self.magnitude(below + 1)) / 2.0;
        let beyond = (high - middle, low);
        let is_above = beyond > (0.0, 0.0);
        let is_tie = beyond == (0.0, 0.0);
        sign | (below + u32::from(is_above || is_tie && below & 1 == 1))
    }
}

fn sum(a: f64, b: f64) -> (f64, f64) {
    let high = a + b;
    if !high.is_finite() {
        return (high, 0.0);
    }
    let part = high - a;
    (high, (a - (high - part)) + (b - part))
}

fn quotient(a: f64, b: f64) -> (f64, f64) {
    let high = a / b;
    let low = (-high).mul_add(b, a) / b;
    (high, if low.is_finite() { low } else { 0.0 })
}

fn root(a: f64) -> (f64, f64) {
    let high = a.sqrt();
    let low = (-high).mul_add(high, a) / (2.0 * high);
    (high, if low.is_finite() { low } else { 0.0 })
}

fn fused(a: f64, b: f64, c: f64) -> (f64, f64) {
    sum(a * b, c)
}

/// C's function of this name.
fn remainder(a: f64, b: f64) -> f64 {
    if b.is_infinite() && a.is_finite() {
        return a;
    }
    let truncated = a % b;
    let (least, rest) = (truncated.abs(), b.abs() - truncated.abs());
    let is_odd = (a % (b + b)).abs() >= b.abs();
    if least > rest || least == rest && is_odd {
        let near = truncated - b.copysign(truncated);
        if near == 0.0 { near.copysign(a) } else { near }
    } else {
        truncated
    }
}

#[device(crate = quipu_kernel)]
fn bits_of<T: Float + Bits>(x: T) -> u32 {
    if x.is_nan() {
        0xffff
    } else {
        x.to_word_of_kernel()
    }
}

const PAIRS: usize = 14;

#[kernel(crate = quipu_kernel)]
fn of_two<T: Float + Bits>(_acc: &impl Accelerator<1>, x: &[T], mut y: OwnElements<[u32; PAIRS]>) {
    for (i, y) in y.each() {
        let (a, b, c) = (x[i / x.len()], x[i % x.len()], x[i * 7 % x.len()]);
        let mut changed = a;
        changed += b;
        changed *= c;
        changed -= a;
        changed /= b;
        changed %= c;
        let less = (a < b) as u32 | ((a <= b) as u32) << 1;
        let greater = (a > b) as u32 | ((a >= b) as u32) << 1;
        let equal = (a == b) as u32 | ((a != b) as u32) << 1;
        *y = [
            bits_of(a + b),
            bits_of(a - b),
            bits_of(a * b),
            bits_of(a / b),
            bits_of(a % b),
            bits_of(a.remainder(b)),
            bits_of(a.mul_add(b, c)),
            bits_of(a.copysign(b)),
            // Which zero of two is anybody's.
            bits_of(a.lesser(b) + T::ZERO),
            bits_of(a.greater(b) + T::ZERO),
            bits_of(a.min(b) + T::ZERO),
            bits_of(a.max(b) + T::ZERO),
            bits_of(changed),
            less | greater << 2 | equal << 4,
        ];
    }
}

fn of_two_by_model(format: Format, [a, b, c]: [u32; 3]) -> [u32; PAIRS] {
    let [x, y, z] = [a, b, c].map(|bits| format.decode(bits));
    let round = |exact| format.encode(exact);
    let number = |number: f64| format.encode((number, 0.0));
    let changed = [
        &|x: f64| sum(x, y),
        &|x: f64| (x * z, 0.0),
        &|other: f64| sum(other, -x),
        &|x: f64| quotient(x, y),
        &|x: f64| (x % z, 0.0),
    ] as [&dyn Fn(f64) -> (f64, f64); 5];
    let changed = changed.into_iter().fold(x, |x, change| {
        let bits = round(change(x));
        if bits == NAN {
            f64::NAN
        } else {
            format.decode(bits)
        }
    });
    // Rust's, which prefer a number to a NaN.
    let (lesser, greater) = (x.min(y) + 0.0, x.max(y) + 0.0);
    let flags = [x < y, x <= y, x > y, x >= y, x == y, x != y];
    let flags = (0..).zip(flags).map(|(at, flag)| u32::from(flag) << at);
    [
        round(sum(x, y)),
        round(sum(x, -y)),
        number(x * y),
        round(quotient(x, y)),
        number(x % y),
        number(remainder(x, y)),
        round(fused(x, y, z)),
        if x.is_nan() {
            NAN
        } else {
            a & 0x7fff | b & 0x8000
        },
        number(lesser),
        number(greater),
        number(lesser),
        number(greater),
        number(changed),
        flags.sum(),
    ]
}

const UNARY: usize = 14;

#[kernel(crate = quipu_kernel)]
fn of_one<T: Float + Bits>(_acc: &impl Accelerator<1>, x: &[T], mut y: OwnElements<[u32; UNARY]>) {
    for (i, y) in y.each() {
        let a = x[i];
        let kinds = a.is_nan() as u32 | (a.is_infinite() as u32) << 1 | (a.is_finite() as u32) << 2;
        *y = [
            bits_of(-a),
            bits_of(a.abs()),
            bits_of(a.signum()),
            bits_of(a.ceil()),
            bits_of(a.floor()),
            bits_of(a.trunc()),
            bits_of(a.fract()),
            bits_of(a.round()),
            bits_of(a.round_ties_even()),
            bits_of(a.sqrt()),
            bits_of(a.recip()),
            bits_of(a.powi(3)),
            bits_of(a.powi(-2)),
            kinds | (a.is_sign_negative() as u32) << 3,
        ];
    }
}

fn of_one_by_model(format: Format, bits: u32) -> [u32; UNARY] {
    let x = format.decode(bits);
    let number = |number: f64| format.encode((number, 0.0));
    // Rust's own fractional part of an integer is positive, as every difference of equals.
    let fraction = if x.is_infinite() {
        f64::NAN
    } else {
        x - x.trunc()
    };
    // Computed as `f32`, step by step, and then rounded.
    let square = (x * x) as f32;
    let cube = (f64::from(square) * x) as f32;
    let kinds = [
        x.is_nan(),
        x.is_infinite(),
        x.is_finite(),
        bits & 0x8000 != 0,
    ];
    let kinds = (0..).zip(kinds).map(|(at, kind)| u32::from(kind) << at);
    [
        number(-x),
        number(x.abs()),
        number(x.signum()),
        number(x.ceil()),
        number(x.floor()),
        number(x.trunc()),
        number(fraction),
        number(x.round()),
        number(x.round_ties_even()),
        format.encode(root(x)),
        format.encode(quotient(1.0, x)),
        number(cube.into()),
        number((1.0 / square).into()),
        kinds.sum(),
    ]
}

#[kernel(crate = quipu_kernel)]
fn to_others<T: Float>(
    _acc: &impl Accelerator<1>,
    x: &[T],
    mut integers: OwnElements<[u64; 8]>,
    mut floats: OwnElements<[u64; 3]>,
) {
    for (i, y) in integers.each() {
        let a = x[i];
        *y = [
            a.cast::<i8>() as u64,
            a.cast::<i16>() as u64,
            a.cast::<i32>() as u64,
            a.cast::<i64>() as u64,
            a.cast::<u8>() as u64,
            a.cast::<u16>() as u64,
            a.cast::<u32>() as u64,
            a.cast::<u64>(),
        ];
    }
    for (i, y) in floats.each() {
        // A NaN's bits are the target's.
        let a = if x[i].is_nan() { T::ZERO } else { x[i] };
        let (narrow, upper) = (a.cast::<f16>(), a.cast::<bf16>());
        *y = [
            a.cast::<f32>().to_bits() as u64,
            a.cast::<f64>().to_bits(),
            (narrow.to_bits() as u64) << 16 | upper.to_bits() as u64,
        ];
    }
}

fn to_others_by_model(format: Format, bits: u32) -> ([u64; 8], [u64; 3]) {
    let x = format.decode(bits);
    let integers = [
        x as i8 as u64,
        x as i16 as u64,
        x as i32 as u64,
        x as i64 as u64,
        x as u8 as u64,
        x as u16 as u64,
        x as u32 as u64,
        x as u64,
    ];
    let x = if x.is_nan() { 0.0 } else { x };
    let [narrow, upper] = [HALF, UPPER].map(|format| u64::from(format.encode((x, 0.0))));
    let floats = [
        u64::from((x as f32).to_bits()),
        x.to_bits(),
        narrow << 16 | upper,
    ];
    (integers, floats)
}

#[kernel(crate = quipu_kernel)]
fn from_others<T: Float + Bits>(
    _acc: &impl Accelerator<1>,
    words: &[u64],
    mut y: OwnElements<[u32; 10]>,
) {
    for (i, y) in y.each() {
        let word = words[i];
        let (double, single) = (f64::from_bits(word), f32::from_bits((word >> 32) as u32));
        *y = [
            bits_of((word as i8).cast::<T>()),
            bits_of((word as i16).cast::<T>()),
            bits_of((word as i32).cast::<T>()),
            bits_of((word as i64).cast::<T>()),
            bits_of((word as u8).cast::<T>()),
            bits_of((word as u16).cast::<T>()),
            bits_of((word as u32).cast::<T>()),
            bits_of(word.cast::<T>()),
            bits_of(single.cast::<T>()),
            bits_of(double.cast::<T>()),
        ];
    }
}

fn from_others_by_model(format: Format, word: u64) -> [u32; 10] {
    // An integer of 64 bits as two doubles.
    let integer = |number: i128| {
        let high = number as f64;
        format.encode((high, (number - high as i128) as f64))
    };
    let single = f32::from_bits((word >> 32) as u32);
    [
        integer((word as i8).into()),
        integer((word as i16).into()),
        integer((word as i32).into()),
        integer((word as i64).into()),
        integer((word as u8).into()),
        integer((word as u16).into()),
        integer((word as u32).into()),
        integer(word.into()),
        format.encode((single.into(), 0.0)),
        format.encode((f64::from_bits(word), 0.0)),
    ]
}

/// Numbers at which something happens, of both signs: of few digits and of many, next to powers of
/// two, those where ties are, the greatest, the smallest.
fn edges(format: Format) -> Vec<u16> {
    let one = (format.bias as u32) << format.digits;
    let infinity = format.infinity();
    let (ulp, least) = (1, 1 << format.digits);
    let mut bits = vec![
        0,
        1,
        2,
        3,
        least - 1,
        least,
        least + 1,
        infinity - 1,
        infinity,
    ];
    bits.push(infinity | 1 << (format.digits - 1));
    for exponent in [-6, -1, 0, 1, 3, format.digits, format.digits + 1, 14] {
        let power = one.wrapping_add_signed(exponent << format.digits);
        bits.extend([
            power - ulp,
            power,
            power + ulp,
            power + least / 2,
            power + least / 2 + 1,
        ]);
    }
    // Anything else.
    bits.extend((0..14).map(|i| i * 2311 % infinity));
    bits.sort_unstable();
    bits.dedup();
    bits.iter()
        .flat_map(|bits| [*bits, bits | 0x8000])
        .map(|bits| bits as u16)
        .collect()
}

#[track_caller]
fn same<const N: usize>(what: &str, found: [u32; N], expected: [u32; N]) {
    let same = found == expected;
    assert!(same, "{what}: {found:#x?} instead of {expected:#x?}");
}

fn agrees<T: Float + Bits + KernelData>(format: Format)
where
    for<'a> &'a Vec<T>: Passed,
{
    let number = |bits: u16| T::from_word(bits.into());
    let edges = edges(format);
    let x: Vec<T> = edges.iter().map(|bits| number(*bits)).collect();
    let count = x.len();

    let mut pairs = vec![[0; PAIRS]; count * count];
    check!(of_two => (&x, &mut pairs), division(3, 3, count * count / 9 + 1));
    for (i, found) in pairs.into_iter().enumerate() {
        let at = [i / count, i % count, i * 7 % count].map(|at| edges[at].into());
        same(&format!("{at:#x?}"), found, of_two_by_model(format, at));
    }

    let every: Vec<T> = (0..=u16::MAX).map(number).collect();
    let mut unary = vec![[0; UNARY]; every.len()];
    check!(of_one => (&every, &mut unary), division(2, 2, 1 << 14));
    for (bits, found) in (0..).zip(unary) {
        same(&format!("{bits:#x}"), found, of_one_by_model(format, bits));
    }

    let (mut integers, mut floats) = (vec![[0; 8]; every.len()], vec![[0; 3]; every.len()]);
    check!(to_others => (&every, &mut integers, &mut floats), division(2, 2, 1 << 14));
    for (bits, found) in (0..).zip(integers.into_iter().zip(floats)) {
        assert_eq!(found, to_others_by_model(format, bits), "{bits:#x}");
    }

    // Of all sizes; beside ties, by less than a float or a double can tell.
    let one = 1u64 << 52;
    let mut words: Vec<u64> = (0..64)
        .flat_map(|shift| [1, 3, 0x7ff, 0x801, 0x101_0001].map(|digits| digits << shift))
        .collect();
    words.extend([
        u64::MAX,
        u64::MAX >> 1,
        1 << 63,
        (1 << 61) + (1 << 53) + 1,
        (1 << 61) + (1 << 50) + 1,
    ]);
    for bits in &edges {
        let exact = format.decode((*bits).into());
        let single = (exact as f32).to_bits();
        words.extend([-1, 0, 1].map(|away| exact.to_bits().wrapping_add_signed(away)));
        // Where it is in the middle between two, and next to that.
        let half = f64::from_bits(exact.to_bits() | one >> (format.digits + 1));
        words.extend([-1, 0, 1].map(|away| half.to_bits().wrapping_add_signed(away)));
        let half = single | 1 << (22 - format.digits);
        words.extend([half - 1, half, half + 1, single].map(|bits| u64::from(bits) << 32));
    }
    let mut found = vec![[0; 10]; words.len()];
    check!(@ from_others::<T>(&words, &mut found), [], [&words, &mut found], division(2, 4, words.len() / 8 + 1));
    for (word, found) in words.iter().zip(found) {
        same(
            &format!("{word:#x}"),
            found,
            from_others_by_model(format, *word),
        );
    }
}

#[test]
fn floats_of_16_bits_are_those_of_the_model() {
    agrees::<f16>(HALF);
}

#[test]
fn upper_halves_of_floats_are_those_of_the_model() {
    agrees::<bf16>(UPPER);
}

/// Functions whose last bit a target may round another way.
const FUNCTIONS: usize = 25;

#[kernel(crate = quipu_kernel)]
fn inexact<T: Float + Bits>(
    _acc: &impl Accelerator<1>,
    x: &[T],
    mut y: OwnElements<[u32; FUNCTIONS]>,
) {
    for (i, y) in y.each() {
        let (a, b) = (x[i], x[i * 5 % x.len()]);
        let (sin, cos) = a.sin_cos();
        *y = [
            bits_of(a.acos()),
            bits_of(a.acosh()),
            bits_of(a.asin()),
            bits_of(a.asinh()),
            bits_of(a.atan()),
            bits_of(a.atan2(b)),
            bits_of(a.atanh()),
            bits_of(a.cbrt()),
            bits_of(cos),
            bits_of(a.cosh()),
            bits_of(a.erf()),
            bits_of(a.exp()),
            bits_of(a.exp2()),
            bits_of(a.exp_m1()),
            bits_of(a.hypot(b)),
            bits_of(a.ln()),
            bits_of(a.ln_1p()),
            bits_of(a.log2()),
            bits_of(a.log10()),
            bits_of(a.powf(b)),
            bits_of(a.rsqrt()),
            bits_of(sin),
            bits_of(a.sinh()),
            bits_of(a.tan()),
            bits_of(a.tanh()),
        ];
    }
}

/// The same functions of `f64`, whose errors a float of 16 bits has no digits for.
fn inexact_by_model(a: f64, b: f64) -> [f64; FUNCTIONS] {
    [
        a.acos(),
        a.acosh(),
        a.asin(),
        a.asinh(),
        a.atan(),
        a.atan2(b),
        a.atanh(),
        a.cbrt(),
        a.cos(),
        a.cosh(),
        Float::erf(a),
        a.exp(),
        a.exp2(),
        a.exp_m1(),
        a.hypot(b),
        a.ln(),
        a.ln_1p(),
        a.log2(),
        a.log10(),
        a.powf(b),
        1.0 / a.sqrt(),
        a.sin(),
        a.sinh(),
        a.tan(),
        a.tanh(),
    ]
}

/// Natively and printed the nearest, or its neighbour where the error of the function of `f32`
/// decides a near tie.
fn agrees_within_a_digit<T: Float + Bits + KernelData>(format: Format)
where
    for<'a> &'a Vec<T>: Passed,
{
    let patterns: Vec<u16> = (0..=u16::MAX).step_by(11).collect();
    let x: Vec<T> = patterns
        .iter()
        .map(|bits| T::from_word((*bits).into()))
        .collect();
    let look = |found: &[[u32; FUNCTIONS]]| {
        let mut apart = 0;
        for (i, found) in found.iter().enumerate() {
            let [a, b] = [i, i * 5 % x.len()].map(|at| format.decode(patterns[at].into()));
            let expected = inexact_by_model(a, b);
            for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
                // std's formulas for these add a number to itself, or lose the digits next to -1.
                let is_lost = a.abs() > f64::from(f32::MAX) / 2.0 && matches!(at, 1 | 3)
                    || at == 6 && a < -0.99;
                if is_lost {
                    continue;
                }
                let expected = format.encode((expected, 0.0));
                let is_zero = (found | expected) & 0x7fff == 0;
                apart += u32::from(*found != expected && !is_zero);
                let near = found.abs_diff(expected) <= 1 || is_zero;
                assert!(
                    near,
                    "function {at} of {a:?} and {b:?}: {found:#x} instead of {expected:#x}"
                );
            }
        }
        // Hardly ever.
        assert!(apart < 400, "{apart} are not the nearest");
    };
    let mut y = vec![[0; FUNCTIONS]; x.len()];
    let arguments = [(&x).argument(), (&mut y).argument()];
    let division = division(2, 2, x.len() / 4 + 1);
    natively(&mut y, |y, way| {
        way.run(inexact(&x, y).prepare(division).unwrap());
    });
    look(&y);
    let module = inexact(&x, &mut y).module().unwrap();
    run_printed(&module, &division, &arguments, &[], |launch| {
        look(&launch.elements(1));
    });
}

#[test]
fn functions_of_halves_are_the_nearest_but_for_near_ties() {
    agrees_within_a_digit::<f16>(HALF);
    agrees_within_a_digit::<bf16>(UPPER);
}

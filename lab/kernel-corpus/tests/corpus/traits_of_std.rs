//! `From`, `Index`, `IndexMut`, `Default` and `Iterator` of users' types, and several `impl`s of
//! one trait.

use std::cmp::Reverse;
use std::ops::{Index, IndexMut};

use super::{check, division};
use quipu_kernel::{Accelerator, Complex, Float, KernelData, Number, OwnElements, device, kernel};

#[derive(Clone, Copy, Default, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
struct Colour {
    red: f32,
    green: f32,
    blue: f32,
}

#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(u32)]
enum Channel {
    Red = 3,
    Green = 4,
    Blue = 5,
}

#[device(crate = quipu_kernel)]
impl From<[f32; 3]> for Colour {
    fn from([red, green, blue]: [f32; 3]) -> Self {
        Self { red, green, blue }
    }
}

#[device(crate = quipu_kernel)]
impl From<f32> for Colour {
    fn from(grey: f32) -> Self {
        Self::from([grey; 3])
    }
}

/// Eight bits each.
#[device(crate = quipu_kernel)]
impl From<u32> for Colour {
    fn from(packed: u32) -> Self {
        if packed == 0 {
            return Self::default();
        }
        let part = |at: u32| (packed >> (8 * at) & 255) as f32 / 256.0;
        [part(2), part(1), part(0)].into()
    }
}

#[device(crate = quipu_kernel)]
impl From<Colour> for u32 {
    fn from(colour: Colour) -> Self {
        let part = |of: f32| (of * 256.0) as u32;
        part(colour.red) << 16 | part(colour.green) << 8 | part(colour.blue)
    }
}

#[device(crate = quipu_kernel)]
impl From<Channel> for u32 {
    fn from(channel: Channel) -> Self {
        10 * channel as u32
    }
}

#[device(crate = quipu_kernel)]
impl From<u32> for Channel {
    fn from(number: u32) -> Self {
        match number % 3 {
            0 => Self::Red,
            1 => Self::Green,
            _ => Self::Blue,
        }
    }
}

#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
struct Doubled<T> {
    twice: [T; 2],
}

#[device(crate = quipu_kernel)]
impl<T: Copy> From<T> for Doubled<T> {
    fn from(once: T) -> Self {
        Self {
            twice: [once, once],
        }
    }
}

#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
struct TooLarge {
    by: u32,
}

#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
struct Failure {
    code: u32,
}

#[device(crate = quipu_kernel)]
impl From<TooLarge> for Failure {
    fn from(error: TooLarge) -> Self {
        Self {
            code: 100 + error.by,
        }
    }
}

#[device(crate = quipu_kernel)]
fn small(x: u32) -> Result<u32, TooLarge> {
    if x < 7 {
        Ok(x)
    } else {
        Err(TooLarge { by: x - 6 })
    }
}

#[device(crate = quipu_kernel)]
fn both(x: u32, y: u32) -> Result<u32, Failure> {
    Ok(small(x)? * small(y)?)
}

#[device(crate = quipu_kernel)]
fn made<T: From<f32> + Into<u32>>(x: f32) -> u32 {
    T::from(x).into()
}

#[device(crate = quipu_kernel)]
fn wide<T: Number + From<u16>>(x: u16) -> T {
    T::from(x) + T::ONE
}

#[device(crate = quipu_kernel)]
fn real<T: Float>(x: T) -> Complex<T> {
    Complex::from(x)
}

#[kernel(crate = quipu_kernel)]
fn converts(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let colour = Colour::from(x[i]);
        let grey: Colour = (x[i] as f32 / 1e9).into();
        let blue = Colour::from([0.0, 0.0, 0.25]);
        let mixed = Colour::from([colour.red + grey.red, colour.green, colour.blue + blue.blue]);
        let packed: u32 = mixed.into();
        let channel = Channel::from(x[i]);
        let doubled = Doubled::from(x[i] >> 3);
        let more: Doubled<f32> = colour.green.into();
        let failed = match both(x[i] % 9, i as u32) {
            Ok(product) => product,
            Err(failure) => failure.code,
        };
        let maybe: Option<u32> = x[i].into();
        *y = packed
            .wrapping_add(u32::from(channel))
            .wrapping_add(doubled.twice[1])
            .wrapping_add((more.twice[0] * 1000.0) as u32)
            .wrapping_add(failed)
            .wrapping_add(made::<Colour>(0.5))
            .wrapping_add(wide::<u32>(i as u16))
            .wrapping_add((wide::<f64>(7) + f64::from(x[i]) / 3.0) as u32)
            .wrapping_add(real(colour.red).re as u32)
            .wrapping_add(maybe.map_or(1, |x| x.into()));
    }
}

#[test]
fn runs_converts() {
    let x: Vec<u32> = (0..40u32).map(|i| i.wrapping_mul(0x0123_4567)).collect();
    let mut y = vec![0; 40];
    check!(converts => (&x, &mut y), division(2, 3, 7));
}

/// By field, which no reference of a device could be to.
#[device(crate = quipu_kernel)]
impl Index<usize> for Colour {
    type Output = f32;

    fn index(&self, at: usize) -> &f32 {
        if at == 0 {
            return &self.red;
        }
        match at {
            1 => &self.green,
            _ => &self.blue,
        }
    }
}

#[device(crate = quipu_kernel)]
impl Index<Channel> for Colour {
    type Output = f32;

    fn index(&self, channel: Channel) -> &Self::Output {
        &self[channel as usize - 3]
    }
}

#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
struct Matrix<const N: usize> {
    rows: [[f32; N]; N],
}

#[device(crate = quipu_kernel)]
impl<const N: usize> Index<usize> for Matrix<N> {
    type Output = [f32; N];

    fn index(&self, row: usize) -> &[f32; N] {
        &self.rows[row]
    }
}

#[device(crate = quipu_kernel)]
impl<const N: usize> IndexMut<usize> for Matrix<N> {
    fn index_mut(&mut self, row: usize) -> &mut [f32; N] {
        &mut self.rows[row]
    }
}

#[device(crate = quipu_kernel)]
impl<const N: usize> Index<(usize, usize)> for Matrix<N> {
    type Output = f32;

    fn index(&self, (row, column): (usize, usize)) -> &f32 {
        &self.rows[row][column]
    }
}

#[device(crate = quipu_kernel)]
impl<const N: usize> IndexMut<(usize, usize)> for Matrix<N> {
    fn index_mut(&mut self, (row, column): (usize, usize)) -> &mut f32 {
        &mut self.rows[row][column]
    }
}

/// Its elements are changed otherwise than they are read.
#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
struct Counted<T> {
    elements: [T; 4],
    changes: u32,
}

#[device(crate = quipu_kernel)]
impl<T> Index<u32> for Counted<T> {
    type Output = T;

    fn index(&self, at: u32) -> &T {
        &self.elements[at as usize % 4]
    }
}

#[device(crate = quipu_kernel)]
impl<T> IndexMut<u32> for Counted<T> {
    fn index_mut(&mut self, at: u32) -> &mut T {
        self.changes += 1;
        &mut self.elements[at as usize % 4]
    }
}

#[device(crate = quipu_kernel)]
impl Colour {
    fn dim(&mut self, by: f32) {
        self.red *= by;
        self.green *= by;
    }
}

#[device(crate = quipu_kernel)]
fn trace<const N: usize>(of: &Matrix<N>) -> f32 {
    let mut sum = 0.0;
    for i in 0..N {
        sum += of[i][i] + of[(i, i)];
    }
    sum
}

#[device(crate = quipu_kernel)]
fn third<T: Index<usize, Output = f32>>(of: T) -> f32 {
    of[2]
}

#[device(crate = quipu_kernel)]
fn raise<I: Copy, T: IndexMut<I, Output = f32>>(of: &mut T, at: I) {
    of[at] += 2.0;
}

#[kernel(crate = quipu_kernel)]
fn indexes(_acc: &impl Accelerator<1>, x: &[f32], mut y: OwnElements<f32>) {
    for (i, y) in y.each() {
        let colour = Colour::from([x[i], 2.0, 3.0]);
        let mut sum = colour[i % 3]
            + 10.0 * colour[Channel::from(i as u32)]
            + third(colour)
            + third([x[i], 1.0, 6.0]);
        let mut matrix = Matrix::<3> {
            rows: [[x[i]; 3]; 3],
        };
        matrix[1][i % 3] = 5.0;
        matrix[i % 2] = [1.0, 2.0, x[i]];
        matrix[(2, 1)] += 0.5;
        matrix[(i % 3, 2)] = matrix[(0, 1)].max(matrix[2][1]) - matrix[1][0];
        raise(&mut matrix, (1, 1));
        matrix[2].swap(0, 1);
        for element in matrix[0].iter_mut() {
            *element *= 2.0;
        }
        std::mem::swap(&mut matrix[(0, 0)], &mut sum);
        let row = &matrix[i % 3];
        sum += row[2] + trace(&matrix) + matrix[1].iter().sum::<f32>();
        let mut counted = Counted {
            elements: [colour; 4],
            changes: 0,
        };
        counted[7].dim(0.5);
        counted[i as u32].red += 1.0;
        counted[1 + i as u32] = Colour::from(x[i]);
        let of_numbers = Counted {
            elements: [i as u32, 1, 2, 3],
            changes: 0,
        };
        sum += counted[3].red + counted[i as u32][0] + counted.changes as f32;
        sum += of_numbers[i as u32].wrapping_add(3) as f32 + of_numbers.changes as f32;
        *y = sum;
    }
}

#[test]
fn runs_indexes() {
    let x: Vec<f32> = (0..40u16).map(|i| f32::from(i * 7 % 13)).collect();
    let mut y = vec![0.0; 40];
    check!(indexes => (&x, &mut y), division(2, 3, 7));
}

/// A trait of the user's own for several types.
#[device(crate = quipu_kernel)]
trait Blend<T> {
    fn blend(self, other: T) -> Self;
}

#[device(crate = quipu_kernel)]
impl Blend<f32> for Colour {
    fn blend(self, other: f32) -> Self {
        Self::from([self.red + other, self.green, self.blue])
    }
}

#[device(crate = quipu_kernel)]
impl Blend<u32> for Colour {
    fn blend(self, other: u32) -> Self {
        self.blend(Self::from(other)).blend(0.5)
    }
}

#[device(crate = quipu_kernel)]
impl Blend<Colour> for Colour {
    fn blend(self, other: Colour) -> Self {
        Self::from([self[0] * other[0], self[1] + other[1], self[2] - other[2]])
    }
}

#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
struct Collatz {
    at: u32,
}

#[device(crate = quipu_kernel)]
impl Iterator for Collatz {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        if self.at <= 1 {
            return None;
        }
        self.at = if self.at % 2 == 0 {
            self.at / 2
        } else {
            3 * self.at + 1
        };
        Some(self.at)
    }
}

/// Pairs of a place and a colour.
#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
struct Palette<T> {
    colours: [Colour; 3],
    at: u32,
    step: T,
}

#[device(crate = quipu_kernel)]
impl<T: Into<u32> + Copy> Iterator for Palette<T> {
    type Item = (usize, Colour);

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at as usize;
        let step: u32 = self.step.into();
        self.at += step;
        if at < 3 {
            Some((at, self.colours[at]))
        } else {
            None
        }
    }
}

#[kernel(crate = quipu_kernel)]
fn goes_over(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let mut steps = 0;
        for at in (Collatz { at: x[i] }) {
            if at == 8 {
                continue;
            }
            steps += 1;
            if steps > 90 {
                break;
            }
        }
        let mut some = Collatz { at: i as u32 };
        for at in &mut some {
            if at % 5 == 0 {
                break;
            }
        }
        let whole = some;
        for at in some {
            steps += at % 7;
        }
        steps += some.at + whole.at;
        let colours = [Colour::from(x[i]), Colour::from(0.25), Colour::default()];
        let palette = Palette {
            colours,
            at: 0,
            step: 1 + (i % 2) as u16,
        };
        for (at, colour) in palette {
            let blended = colour.blend(3.0f32).blend(x[i]).blend(colours[0]);
            steps += (blended[at] * 8.0) as u32;
        }
        let pairs = [(x[i] % 7, 3u32), (i as u32 % 5, 4), (3, 5)];
        let last = pairs
            .iter()
            .min_by_key(|pair| Reverse(pair.0 / 2))
            .map_or(0, |pair| pair.1);
        let most = x
            .iter()
            .copied()
            .min_by_key(|x| Reverse(*x % 11))
            .unwrap_or(1);
        let least = x
            .iter()
            .copied()
            .max_by_key(|x| Reverse(*x ^ i as u32))
            .unwrap_or(1);
        *y = steps + last + 3 * most + 5 * least;
    }
}

#[test]
fn runs_goes_over() {
    let x: Vec<u32> = (0..40u32).map(|i| 5 * i + 1).collect();
    let mut y = vec![0; 40];
    check!(goes_over => (&x, &mut y), division(2, 3, 7));
}

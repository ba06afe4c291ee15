//! Operators of users' types.

use std::cmp::Ordering;
use std::ops::{Add, AddAssign, Mul, Neg, Not, Shl, Sub};

use super::{check, division};
use quipu_kernel::{Accelerator, KernelData, Number, OwnElements, Scalar, Wide, device, kernel};

/// A pair of numbers that is added and multiplied as the dual numbers are.
#[derive(Clone, Copy, Debug, Default, bytemuck::AnyBitPattern, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
struct Dual<T> {
    value: T,
    slope: T,
}

// SAFETY: two numbers of one type have no padding.
unsafe impl<T: bytemuck::NoUninit> bytemuck::NoUninit for Dual<T> {}

#[device(crate = quipu_kernel)]
impl<T: Number> Add for Dual<T> {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            value: self.value + other.value,
            slope: self.slope + other.slope,
        }
    }
}

#[device(crate = quipu_kernel)]
impl<T: Number> Mul for Dual<T> {
    type Output = Self;
    fn mul(self, other: Self) -> Self::Output {
        let slope = self.value * other.slope + self.slope * other.value;
        Self {
            value: self.value * other.value,
            slope,
        }
    }
}

/// With a number; another result than its own type.
#[device(crate = quipu_kernel)]
impl<T> Sub<T> for Dual<T>
where
    T: Sub<Output = T> + Copy,
{
    type Output = T;
    fn sub(self, other: T) -> T {
        self.value - other
    }
}

#[device(crate = quipu_kernel)]
impl Mul<Dual<f32>> for f32 {
    type Output = Dual<f32>;
    fn mul(self, other: Dual<f32>) -> Dual<f32> {
        Dual {
            value: self * other.value,
            slope: self * other.slope,
        }
    }
}

#[device(crate = quipu_kernel)]
impl<T: Neg<Output = T>> Neg for Dual<T> {
    type Output = Self;
    fn neg(self) -> Self {
        Self {
            value: -self.value,
            slope: -self.slope,
        }
    }
}

#[device(crate = quipu_kernel)]
impl Not for Dual<f32> {
    type Output = bool;
    fn not(self) -> bool {
        self.value == 0.0
    }
}

#[device(crate = quipu_kernel)]
impl Shl<u32> for Dual<f32> {
    type Output = Self;
    fn shl(mut self, amount: u32) -> Self {
        if amount == 0 {
            return self;
        }
        for _ in 0..amount {
            self = self + self;
        }
        self
    }
}

#[device(crate = quipu_kernel)]
impl<T: Number> AddAssign for Dual<T> {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

#[device(crate = quipu_kernel)]
impl AddAssign<f32> for Dual<f32> {
    fn add_assign(&mut self, other: f32) {
        if other == 3.0 {
            return;
        }
        self.value += other;
    }
}

#[device(crate = quipu_kernel)]
impl<T: Number> PartialEq for Dual<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

/// A trait that has operators.
#[device(crate = quipu_kernel)]
trait Ring: Add<Output = Self> + Mul<Output = Self> + Copy {
    fn unit() -> Self;
    fn successor(self) -> Self {
        self + Self::unit()
    }
}

#[device(crate = quipu_kernel)]
impl Ring for Dual<f32> {
    fn unit() -> Self {
        Dual {
            value: 1.0,
            slope: 0.0,
        }
    }
}

#[device(crate = quipu_kernel)]
impl Ring for i32 {
    fn unit() -> Self {
        1
    }
}

#[device(crate = quipu_kernel)]
fn power<T: Mul<Output = T> + Copy>(x: T, n: u32) -> T {
    let mut product = x;
    for _ in 1..n {
        product = product * x;
    }
    product
}

#[device(crate = quipu_kernel)]
fn scaled<T, F>(x: T, by: F) -> T
where
    F: Mul<T, Output = T>,
{
    by * x
}

#[device(crate = quipu_kernel)]
fn rising<T: Ring>(x: T) -> T {
    x.successor() * x
}

#[kernel(crate = quipu_kernel)]
fn duals(_acc: &impl Accelerator<1>, x: &[Dual<f32>], mut y: OwnElements<Dual<f32>>) {
    for (i, y) in y.each() {
        let a = x[i];
        let sum = |p, q| p + q;
        let mut b = sum(a, x[(i + 1) % x.len()]) * a + power(-a, 3);
        b += x[0];
        b += 2.0;
        b += 3.0;
        *y += scaled(b << 2, 0.5f32) + 0.25 * a;
        y.value += a - 1.0;
        if !a || *y == a || (a != b && b.slope > 100.0) {
            *y = rising(a);
            y.value += rising(3) as f32;
        }
    }
}

#[test]
fn runs_duals() {
    let x: Vec<_> = (0..20u8)
        .map(|i| Dual {
            value: f32::from(i % 7),
            slope: f32::from(i % 3) + 0.5,
        })
        .collect();
    let mut y = vec![Dual::default(); 20];
    check!(duals => (&x, &mut y), division(2, 5, 2));
    assert!(
        y[0] == rising(x[0])
            + Dual {
                value: 12.0,
                slope: 0.0
            }
    );
}

/// Methods of the names that numbers have, of types that have others.
#[device(crate = quipu_kernel)]
trait Root: Copy {
    fn sqrt(self) -> Self;
    fn max(self, other: Self) -> Self;
    fn sin_cos(self) -> (Self, Self) {
        (self.sqrt(), self.max(self.sqrt()))
    }
}

#[device(crate = quipu_kernel)]
impl Root for Dual<f32> {
    fn sqrt(self) -> Self {
        let root = self.value.sqrt();
        Dual {
            value: root,
            slope: self.slope / (2.0 * root),
        }
    }
    fn max(self, other: Self) -> Self {
        if self.value < other.value {
            other
        } else {
            self
        }
    }
}

/// What the number's own methods do comes first where these are of a trait.
#[device(crate = quipu_kernel)]
impl Root for f32 {
    fn sqrt(self) -> Self {
        self.sqrt() + 100.0
    }
    fn max(self, other: Self) -> Self {
        self.max(other) + 100.0
    }
}

#[device(crate = quipu_kernel)]
impl Dual<f32> {
    fn abs(self) -> Self {
        if self.value < 0.0 { -self } else { self }
    }
}

#[device(crate = quipu_kernel)]
fn root_of_greater<T: Root>(a: T, b: T) -> T {
    a.max(b).sqrt().sin_cos().1
}

#[kernel(crate = quipu_kernel)]
fn roots<T: Root>(
    _acc: &impl Accelerator<1>,
    of: &[T],
    x: &[Dual<f32>],
    mut y: OwnElements<Dual<f32>>,
    mut z: OwnElements<T>,
) {
    for (i, y) in y.each() {
        let own = x[i].abs().sqrt();
        let number = (x[i].value * x[i].value).max(0.25).sqrt();
        *y = root_of_greater(own, *y).max(own.sin_cos().0);
        y.slope += number + root_of_greater(number, 9.0);
    }
    for (i, z) in z.each() {
        *z = of[i].max(*z).sqrt();
    }
}

#[test]
fn runs_roots_of_users_types() {
    let x: Vec<_> = (0..20u8)
        .map(|i| Dual {
            value: f32::from(i) - 9.5,
            slope: f32::from(i % 3) + 0.5,
        })
        .collect();
    let mut y = vec![Dual::default(); 20];
    let of: Vec<f32> = (0..20u8).map(f32::from).collect();
    let mut z = of.clone();
    check!(roots => (&of, &x, &mut y, &mut z), division(2, 5, 2));
    // By the trait, as the type is a parameter.
    assert_eq!(z[0], 100.0_f32.sqrt() + 100.0);
    let mut z = y.clone();
    check!(roots => (&x, &x, &mut y, &mut z), division(2, 5, 2));
}

/// A number in 256ths, of which quipu's traits of numbers are known natively.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    PartialOrd,
    bytemuck::NoUninit,
    bytemuck::Zeroable,
    KernelData,
)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
struct Fixed {
    bits: i32,
}

macro_rules! of_fixed {
    ($($of:ident $method:ident $assigns:ident $assign:ident: |$a:ident, $b:ident| $bits:expr;)*) => {$(
        impl std::ops::$of for Fixed {
            type Output = Self;
            fn $method(self, other: Self) -> Self {
                let ($a, $b) = (self.bits, other.bits);
                Self { bits: $bits }
            }
        }

        impl std::ops::$assigns for Fixed {
            fn $assign(&mut self, other: Self) {
                *self = std::ops::$of::$method(*self, other);
            }
        }
    )*};
}

of_fixed! {
    Add add AddAssign add_assign: |a, b| a + b;
    Sub sub SubAssign sub_assign: |a, b| a - b;
    Mul mul MulAssign mul_assign: |a, b| a * b / 256;
    Div div DivAssign div_assign: |a, b| a * 256 / b;
    Rem rem RemAssign rem_assign: |a, b| a % b;
}

impl Scalar for Fixed {
    const TYPE: Option<quipu_kernel_ir::Scalar> = None;
    fn to_word(self) -> u64 {
        self.bits as u64
    }
    fn from_word(word: u64) -> Self {
        Self { bits: word as i32 }
    }
}

impl Number for Fixed {
    const ZERO: Self = Self { bits: 0 };
    const ONE: Self = Self { bits: 256 };
    const MIN: Self = Self { bits: i32::MIN };
    const MAX: Self = Self { bits: i32::MAX };
    fn to_wide(self) -> Wide {
        Wide::Float(f64::from(self.bits) / 256.0)
    }
    fn from_wide(wide: Wide) -> Self {
        let number = match wide {
            Wide::Signed(number) => number as f64,
            Wide::Unsigned(number) => number as f64,
            Wide::Float(number) => number,
        };
        Self {
            bits: (number * 256.0) as i32,
        }
    }
    fn lesser(self, other: Self) -> Self {
        if other < self { other } else { self }
    }
    fn greater(self, other: Self) -> Self {
        if other > self { other } else { self }
    }
}

#[kernel(crate = quipu_kernel)]
fn bounded<T: Number>(_acc: &impl Accelerator<1>, x: &[T], most: T, mut y: OwnElements<T>) {
    for (i, y) in y.each() {
        *y = (x[i] * *y + T::ONE).lesser(most);
    }
}

#[kernel(crate = quipu_kernel)]
fn greater<T: Number>(_acc: &impl Accelerator<1>, x: &[T], mut y: OwnElements<T>) {
    for (i, y) in y.each() {
        *y = x[i].greater(*y);
    }
}

/// Natively a generic kernel runs with it; of another device's source is said what is not known.
#[test]
fn numbers_of_users_run_natively_and_are_refused_in_words_elsewhere() {
    let fixed = |number: f64| Fixed::cast_from(number);
    let (x, most) = (vec![fixed(1.5), fixed(2.0), fixed(-3.0)], fixed(4.5));
    let mut y = vec![fixed(2.5), fixed(2.0), fixed(1.0)];
    bounded(&x, most, &mut y).run(division(1, 3, 1)).unwrap();
    assert_eq!(y, [fixed(4.5), fixed(4.5), fixed(-2.0)]);
    greater(&x, &mut y).run(division(1, 3, 1)).unwrap();
    assert_eq!(y, [fixed(4.5), fixed(4.5), fixed(-2.0)]);
    let error = bounded(&x, most, &mut y).module().unwrap_err().to_string();
    assert!(
        error.contains("this operator is not known of this type"),
        "{error}"
    );
    let error = greater(&x, &mut y).module().unwrap_err().to_string();
    assert!(
        error.contains("known as a method of numbers alone"),
        "{error}"
    );
}

#[kernel(crate = quipu_kernel)]
fn folded<T>(_acc: &impl Accelerator<1>, x: &[T], mut y: OwnElements<T>)
where
    T: Add<Output = T> + AddAssign + Mul<Output = T>,
{
    for (i, y) in y.each() {
        let mut sum = x[i];
        for value in x {
            sum += *value * x[i] + *y;
        }
        *y = power(sum, 2);
    }
}

#[test]
fn runs_folded() {
    let x: Vec<_> = (0..9u32)
        .map(|i| Dual {
            value: i,
            slope: 3 * i + 1,
        })
        .collect();
    let mut y = x.clone();
    check!(folded => (&x, &mut y), division(2, 5, 1));
    let x: Vec<f32> = (0..9u8).map(f32::from).collect();
    let mut y = x.clone();
    check!(folded => (&x, &mut y), division(2, 5, 1));
}

#[device(crate = quipu_kernel)]
fn doubled_in(y: &mut [i32]) -> i32 {
    y[0] *= 2;
    y[0]
}

#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
struct Counter {
    count: i32,
}

#[device(crate = quipu_kernel)]
impl Counter {
    fn next(&mut self) -> i32 {
        self.count += 3;
        self.count
    }
}

#[device(crate = quipu_kernel)]
trait Applied: Copy {
    fn applied(self, more: i32, f: impl Fn(i32) -> i32) -> i32;
}

#[device(crate = quipu_kernel)]
impl Applied for i32 {
    fn applied(self, more: i32, f: impl Fn(i32) -> i32) -> i32 {
        f(self) + more
    }
}

/// What a method is called on is evaluated before what its arguments change.
#[kernel(crate = quipu_kernel)]
fn receivers(_acc: &impl Accelerator<1>, x: &[i32], mut y: OwnElements<[i32; 9]>) {
    for (i, y) in y.each() {
        let mut v = x[i];
        y[0] = v.min({
            v *= 2;
            v
        });
        y[1] = v.max(if v > 3 {
            v -= 9;
            v
        } else {
            v += 9;
            v
        }) - v;
        y[2] = 7;
        y[2] = y[2].wrapping_sub({
            y[2] <<= 2;
            y[2]
        });
        let mut own = [v, 3];
        y[3] = own[0].wrapping_add(doubled_in(&mut own)) ^ own[0];
        y[4] = v.clamp(
            {
                v += 1;
                -4
            },
            {
                v *= 3;
                v.abs() + 2
            },
        ) + v;
        v = 7;
        y[5] = v.wrapping_sub({
            v = (|q: i32| q * 2)(v);
            v
        });
        let mut counter = Counter { count: v };
        y[6] = counter.count.wrapping_sub(counter.next());
        y[7] = counter
            .count
            .wrapping_sub(if v == 0 { 1 } else { counter.next() });
        y[8] = v.applied(
            {
                v += 50;
                v
            },
            |q| q + 5,
        );
    }
}

#[test]
fn receivers_are_evaluated_before_arguments() {
    let x: Vec<i32> = (-10..10).collect();
    let mut y = vec![[0; 9]; 20];
    check!(receivers => (&x, &mut y), division(2, 5, 2));
    assert_eq!(y[15][..3], [5, 9, -21]);
    assert_eq!(y[15][5..], [-7, -3, -3, 83]);
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(i8)]
enum Height {
    Low = -3,
    Middle,
    High = 100,
}

#[device(crate = quipu_kernel)]
fn height_of(x: u32) -> Height {
    match x % 3 {
        0 => Height::Low,
        1 => Height::Middle,
        _ => Height::High,
    }
}

#[device(crate = quipu_kernel)]
fn compared<T: PartialOrd + Copy>(a: T, b: T) -> u32 {
    (a == b) as u32 + 2 * (a < b) as u32 + 4 * (a >= b) as u32
}

/// Enums whose derived comparisons are those of their numbers.
#[kernel(crate = quipu_kernel)]
fn heights(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let (a, b) = (height_of(x[i]), height_of(x[(i + 1) % x.len()]));
        *y = compared(a, b) + 10 * compared(a as i8, b as i8);
        if a == Height::High || b != Height::Low {
            *y += 100;
        }
        if a > Height::Low && Height::Middle <= b {
            *y += 1000;
        }
    }
}

#[test]
fn runs_comparisons_of_enums() {
    let x = vec![0, 0, 1, 2, 2, 0, 2, 1];
    let mut y = vec![0; 8];
    check!(heights => (&x, &mut y), division(2, 2, 2));
    assert_eq!(y, [55, 122, 1122, 1155, 144, 122, 1144, 44]);
}

#[device(crate = quipu_kernel)]
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    bytemuck::NoUninit,
    bytemuck::AnyBitPattern,
    KernelData,
)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
struct Version {
    major: u32,
    minor: i32,
}

#[device(crate = quipu_kernel)]
#[derive(Clone, Copy, PartialEq, PartialOrd, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
struct Weighed<T> {
    weight: T,
    at: u32,
}

/// The methods of derived orders.
#[kernel(crate = quipu_kernel)]
fn orders(_acc: &impl Accelerator<1>, x: &[Version], w: &[f32], mut y: OwnElements<Version>) {
    for (i, y) in y.each() {
        let (a, b) = (x[i], x[(i + 1) % x.len()]);
        let best = a.max(b).min(x[0]);
        let order = a.cmp(&b) as i32 + 10 * Version::cmp(&b, &x[0]) as i32;
        let partly = match a.partial_cmp(&b) {
            Some(Ordering::Less) => 100,
            Some(Ordering::Equal) => 200,
            Some(Ordering::Greater) => 300,
            None => 400,
        };
        let (least, greatest) = (x[1].min(x[2]), x[1].max(x[2]));
        let within = a.clamp(least, greatest);
        let at = |i: usize| Weighed {
            weight: w[i % w.len()],
            at: i as u32 % 2,
        };
        let weighed = match at(i).partial_cmp(&at(i + 2)) {
            Some(order) => order as i32,
            None => 7,
        };
        *y = Version {
            major: best.major + 10 * within.major,
            minor: order + partly + 1000 * weighed + 10000 * best.minor + 100000 * within.minor,
        };
    }
}

#[test]
fn runs_methods_of_derived_orders() {
    let version = |major, minor| Version { major, minor };
    let x = [
        (2, 1),
        (1, 9),
        (3, -4),
        (2, 1),
        (2, 2),
        (2, -7),
        (1, 0),
        (3, -5),
    ];
    let x: Vec<_> = x
        .iter()
        .map(|(major, minor)| version(*major, *minor))
        .collect();
    let w = vec![1.0, 2.0, f32::NAN, 2.0, -0.0, 0.0];
    let mut y = vec![version(0, 0); 8];
    check!(orders => (&x, &w, &mut y), division(2, 2, 2));
    assert_eq!(y[0].major, 22);
}

/// Arrays and tuples, of numbers, of each other and of what has an operator of its own.
#[kernel(crate = quipu_kernel)]
fn parts_compared(_acc: &impl Accelerator<1>, x: &[[f32; 3]], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let (a, b) = (x[i], x[(i + 1) % x.len()]);
        let n = i as u32 % 3;
        let dual = |value| Dual {
            value,
            slope: n as f32,
        };
        let mut found = [false; 9];
        found[0] = a == b;
        found[1] = a != b;
        found[2] = a == x[i];
        found[3] = (a[0], n) == (b[0], 1);
        found[4] = [(a, n), (b, 2)] != [(b, n), (a, 2)];
        found[5] = [dual(a[0]), dual(a[1])] == [dual(b[0]), dual(b[1])];
        found[6] = (n as i8, [n, 1]) == (1, [1; 2]);
        found[7] = [[n; 2]; 3] == [[1; 2]; 3];
        found[8] = found == [false, true, true, false, true, false, n == 1, n == 1, false];
        *y = 0;
        for (bit, found) in found.iter().enumerate() {
            *y |= (*found as u32) << bit;
        }
    }
}

#[test]
fn runs_comparisons_of_parts() {
    let nan = f32::NAN;
    let x = vec![
        [1.0, 2.0, 3.0],
        [1.0, 2.0, 3.0],
        [1.0, 2.0, nan],
        [1.0, 2.0, nan],
        [-0.0, 2.0, 3.0],
        [0.0, 2.0, 3.0],
    ];
    let mut y = vec![0; 6];
    check!(parts_compared => (&x, &mut y), division(2, 2, 2));
    let bits = |row: [u32; 9]| (0..9).map(|bit| row[bit] << bit).sum::<u32>();
    assert_eq!(y[0], bits([1, 0, 1, 0, 0, 1, 0, 0, 0]));
    // What is no number equals nothing, also within.
    assert_eq!(y[2], bits([0, 1, 0, 0, 1, 1, 0, 0, 0]));
    assert_eq!(y[4], bits([1, 0, 1, 1, 0, 1, 1, 1, 0]));
}

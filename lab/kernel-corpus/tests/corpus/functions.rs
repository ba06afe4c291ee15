//! Device functions, traits, closures, generics.

use super::{check, division};
use quipu_kernel::{Accelerator, Grid, KernelData, OwnElements, Threads, device, kernel};
use std::ops::{Add, Mul};

#[device(crate = quipu_kernel)]
fn square<T: Mul<Output = T> + Copy>(x: T) -> T {
    x * x
}

#[device(crate = quipu_kernel)]
fn gcd(mut a: u32, mut b: u32) -> u32 {
    if a == 0 {
        return b;
    }
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[device(crate = quipu_kernel)]
fn bump(value: &mut u32, by: u32) {
    if by == 3 {
        return;
    }
    *value += by;
}

#[device(crate = quipu_kernel)]
fn sum_of(values: &[u32]) -> u32 {
    let mut sum = 0;
    for value in values {
        sum += value;
    }
    sum
}

#[device(crate = quipu_kernel)]
fn thread(acc: &impl Accelerator<1>) -> u32 {
    acc.index(Grid, Threads)[0] as u32
}

mod helpers {
    use quipu_kernel::device;

    #[device(crate = quipu_kernel)]
    pub(super) fn twice(x: u32) -> u32 {
        super::square(x) + x
    }
}

#[device(crate = quipu_kernel)]
trait Shape {
    const SIDES: u32;
    fn area(&self, scale: u32) -> u32;
    fn unit() -> Self;
    fn doubled(&self) -> u32 {
        self.area(2) * 2
    }
}

#[derive(Clone, Copy, bytemuck::NoUninit, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
pub(super) struct Square {
    side: u32,
}

#[device(crate = quipu_kernel)]
impl Shape for Square {
    const SIDES: u32 = 4;
    fn area(&self, scale: u32) -> u32 {
        square(self.side * scale)
    }
    fn unit() -> Self {
        Square { side: 1 }
    }
}

#[device(crate = quipu_kernel)]
impl Square {
    fn new(side: u32) -> Self {
        Self { side }
    }
    fn grow(&mut self, by: u32) {
        self.side += by;
    }
    fn side(self) -> u32 {
        self.side
    }
}

#[kernel(crate = quipu_kernel)]
fn calls<S: Shape>(acc: &impl Accelerator<1>, shape: S, x: &[u32], mut y: OwnElements<u32>) {
    let of_thread = thread(acc);
    for (i, y) in y.each() {
        let scale = |v: u32, by| v * by + i as u32;
        let mut a = gcd(x[i], 12) + square(x[i]) + helpers::twice(3);
        bump(&mut a, x[i]);
        bump(y, 5);
        let small = [a, 2, 3];
        let mut s = Square::new(a);
        s.grow(2);
        let t = square(1.5f32) as u32;
        *y += scale(a, 3)
            + scale(2, 1)
            + (|q: u32| q + 1)(4)
            + sum_of(&x[..2])
            + sum_of(&small)
            + shape.area(2)
            + shape.doubled()
            + S::unit().area(1)
            + S::SIDES
            + Square::unit().side()
            + s.side
            + of_thread
            + t;
    }
}

#[test]
fn runs_calls() {
    let x: Vec<u32> = (0..20).collect();
    let mut y = vec![0; 20];
    check!(calls => (Square { side: 3 }, &x, &mut y), division(2, 5, 2));
}

#[kernel(crate = quipu_kernel)]
fn generic<T, const N: usize>(_acc: &impl Accelerator<1>, x: &[T], mut y: OwnElements<T>)
where
    T: Add<Output = T> + Mul<Output = T> + PartialOrd + From<u8>,
{
    for (i, y) in y.each() {
        let mut sum = x[i];
        for _ in 0..N {
            sum = sum + T::from(2) * x[i];
        }
        if N > 3 && sum > T::from(10) {
            sum = square(sum);
        }
        *y = sum;
    }
}

#[test]
fn runs_generic() {
    let x: Vec<f64> = (0..20).map(f64::from).collect();
    let mut y = vec![0.0; 20];
    check!(generic::<_, 4> => (&x, &mut y), division(2, 5, 2));
    let x: Vec<u16> = (0..20).collect();
    let mut y = vec![0; 20];
    check!(generic::<_, 2> => (&x, &mut y), division(2, 5, 2));
}

#[device(crate = quipu_kernel)]
trait Wide {
    const WIDTH: u32;
}

#[device(crate = quipu_kernel)]
impl Wide for u32 {
    const WIDTH: u32 = 100;
}

#[device(crate = quipu_kernel)]
impl Wide for f32 {
    const WIDTH: u32 = 7;
}

#[device(crate = quipu_kernel)]
trait Widen<T> {
    fn widen(of: u32) -> u32;
}

#[device(crate = quipu_kernel)]
impl<T: Wide> Widen<T> for Square {
    fn widen(of: u32) -> u32 {
        of + T::WIDTH
    }
}

#[kernel(crate = quipu_kernel)]
fn widens(_acc: &impl Accelerator<1>, mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let much = <Square as Widen<u32>>::widen(i as u32);
        let little = <Square as Widen<f32>>::widen(i as u32);
        *y = 1000 * much + little;
    }
}

#[test]
fn runs_functions_that_differ_only_in_what_their_trait_is_for() {
    let mut y = vec![0; 10];
    check!(widens => (&mut y), division(5, 1, 2));
    assert_eq!(y[3], 103_010);
}

/// Never comes to its end.
#[device(crate = quipu_kernel)]
fn endless(mut x: u32) -> [u32; 2] {
    loop {
        x = x.wrapping_add(1);
    }
}

#[device(crate = quipu_kernel)]
fn endless_if_great(x: u32) -> u32 {
    if x < 1000 {
        return x;
    }
    endless(x)[1]
}

#[device(crate = quipu_kernel)]
fn nothing_if_small(x: u32) {
    if x < 1000 {
        return;
    }
    endless(x);
}

/// What the functions give that have no end is no value, and nobody has it.
#[kernel(crate = quipu_kernel)]
fn ends(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        *y = endless_if_great(x[i]);
        nothing_if_small(*y);
        if *y == 1000 {
            let never = endless(*y);
            *y = never[0] + never.len() as u32;
        }
        *y += 1;
    }
}

#[test]
fn runs_ends() {
    let x: Vec<u32> = (0..24).collect();
    let mut y = vec![0; 24];
    check!(ends => (&x, &mut y), division(2, 4, 3));
    assert_eq!(y[23], 24);
}

#[device(crate = quipu_kernel)]
fn twice(x: u32, f: impl Fn(u32) -> u32) -> u32 {
    f(f(x))
}

#[device(crate = quipu_kernel)]
fn folded<T: Add<Output = T> + PartialOrd + Copy, F>(values: &[T], first: T, combine: F) -> T
where
    F: Fn(T, T) -> T,
{
    let mut folded = first;
    for value in values {
        folded = combine(folded, *value);
        if folded > first + first + first + first {
            return folded;
        }
    }
    folded
}

#[device(crate = quipu_kernel)]
fn thrice<F: FnMut(u32)>(x: u32, mut f: F) {
    f(x);
    f(x + 1);
    f(x + 2);
}

#[device(crate = quipu_kernel)]
fn passed_on(x: u32, f: &impl Fn(u32) -> u32) -> u32 {
    twice(x, f) + twice(x, |value| f(value) / 2)
}

#[device(crate = quipu_kernel)]
impl Square {
    fn mapped(self, f: impl Fn(u32) -> u32) -> Self {
        Self { side: f(self.side) }
    }
}

#[kernel(crate = quipu_kernel)]
fn closures(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let offset = x[i];
        let add = |value| value + offset;
        let mut sum =
            twice(3, add) + passed_on(offset, &add) + twice(2, |value| value * offset % 7);
        thrice(offset, |value| sum += value * 2);
        let folded = folded(x, 1.5f32 as u32, |a: u32, b: u32| a + b * i as u32);
        *y = sum + folded + Square::new(offset).mapped(|side| side + 1).side();
    }
}

#[test]
fn runs_closures() {
    let x: Vec<u32> = (0..20).collect();
    let mut y = vec![0; 20];
    check!(closures => (&x, &mut y), division(2, 5, 2));
}

/// Closures that have their own of what is around them.
#[kernel(crate = quipu_kernel)]
fn moving_closures(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let (mut n, mut k, mut table) = (0, x[i], [x[i]; 3]);
        let mut count = move || {
            n += 1;
            n
        };
        let counted = count() * 10 + count();
        let add = move |value: u32| value + k + table[1];
        k = 100;
        table[1] = 50;
        let mut sum = 3;
        thrice(k, move |value| {
            sum += value;
            assert!(sum > 3);
        });
        n += sum;
        // Also of what is named in a macro alone.
        let mut small = 5;
        let is_small = move |value: u32| {
            matches!(value, 0..=3) && {
                assert!(small < 9, "{small}");
                true
            }
        };
        let is_five = move || matches!(small, 5);
        small = 100;
        n += small * u32::from(is_small(2) && is_five());
        // A reference is moved, and what it refers to stays where it is.
        let place = &mut table;
        let mut set = move |value| place[2] = value;
        set(7);
        *y = counted + 100 * add(1) + 10_000 * n + k + table[1] + table[2];
    }
}

#[device(crate = quipu_kernel)]
fn second_call(mut f: impl FnMut() -> u32) -> u32 {
    f();
    f()
}

#[device(crate = quipu_kernel)]
fn count_of(numbers: &[u32], is_counted: impl Fn(u32) -> bool + Copy) -> u32 {
    let mut count = 0;
    for number in numbers {
        count += u32::from(is_counted(*number));
    }
    count
}

#[device(crate = quipu_kernel)]
impl Line {
    fn before_and_after(mut self) -> u32 {
        let before = move || self.slope;
        self.slope += 50;
        before() * 100 + self.slope
    }
}

/// Closures that have their own of what is around them, and are handed on.
#[kernel(crate = quipu_kernel)]
fn closures_handed_on(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let (mut n, mut least) = (x[i], 1);
        let mut next = move || {
            n += 1;
            n
        };
        *y = 10 * second_call(&mut next) + second_call(&mut next);
        // Copies of what only reads are all the same.
        let is_more = move |value: u32| value > least;
        let is_one_more = move |value: u32| is_more(value) && !is_more(value - 1);
        least = 7;
        *y += 100 * (count_of(x, is_more) + count_of(x, is_more) + count_of(x, is_one_more));
        n += least;
        let line = Line {
            slope: n,
            offset: 0,
        };
        *y += 1000 * line.before_and_after();
    }
}

#[test]
fn runs_moving_closures() {
    let x: Vec<u32> = (0..4).collect();
    let mut y = vec![0; 4];
    check!(closures_handed_on => (&x, &mut y), division(2, 2, 1));
    assert_eq!(y[3], 10 * 5 + 7 + 100 * (2 + 2 + 1) + 1000 * (1000 + 60));
    let mut y = vec![0; 4];
    check!(moving_closures => (&x, &mut y), division(2, 2, 1));
    assert_eq!(y[3], 12 + 100 * 7 + 10_000 * 103 + 100 + 50 + 7);
}

#[derive(Clone, Copy, bytemuck::NoUninit, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
struct Line {
    slope: u32,
    offset: u32,
}

impl Line {
    const STEP: u32 = 3;
}

#[kernel(crate = quipu_kernel)]
impl Line {
    /// Its heights.
    fn heights(self, _acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
        for (i, y) in y.each() {
            let next = Self {
                slope: self.slope + Self::STEP,
                ..self
            };
            *y = self.slope * x[i] + next.slope + next.offset;
        }
    }

    fn each<T: From<u8> + Mul<Output = T>, const N: usize>(
        &self,
        _acc: &impl Accelerator<1>,
        by: T,
        mut y: OwnElements<T>,
        mut lines: OwnElements<Self>,
    ) {
        for (_, y) in y.each() {
            for _ in 0..self.slope as usize + N {
                *y = *y * by * T::from(2);
            }
        }
        for (i, line) in lines.each() {
            line.offset = self.offset + i as u32;
        }
    }

    async fn shared(
        mut self,
        acc: &impl quipu_kernel::BlockAccelerator<1>,
        mut y: OwnElements<u32>,
        #[shared(self.slope as usize + Self::STEP as usize)] mut sums: quipu_kernel::SharedWrite<
            u32,
        >,
    ) {
        for sum in sums.own() {
            *sum = self.offset;
        }
        let sums = acc.sync(sums).await;
        self.slope += sums[1];
        for (_, y) in y.each() {
            *y = self.slope + sums.len() as u32;
        }
    }
}

// SAFETY: any two numbers are a line.
unsafe impl bytemuck::Zeroable for Line {}
// SAFETY: as above.
unsafe impl bytemuck::AnyBitPattern for Line {}

impl super::Passed for Line {
    fn argument(&self) -> quipu_kernel_testing::Argument {
        quipu_kernel_testing::Argument::uniform(*self)
    }
}

#[test]
fn runs_methods() {
    let line = Line {
        slope: 2,
        offset: 7,
    };
    let x: Vec<u32> = (0..20).collect();
    let mut y = vec![0; 20];
    check!(line.heights => (&x, &mut y), division(2, 5, 2));
    assert_eq!(y[4], 8 + 5 + 7);

    let mut y = vec![1.5f64; 20];
    let mut lines = vec![line; 20];
    check!(@ line.each::<f64, 1>(0.75f64, &mut y, &mut lines), [line], [0.75f64, &mut y, &mut lines], division(2, 5, 2));
    assert_eq!((y[3], lines[3].offset), (1.5 * 1.5 * 1.5 * 1.5, 10));

    let mut y = vec![0; 20];
    check!(line.shared => (&mut y), division(2, 5, 2), 5);
    assert_eq!(y[3], 2 + 7 + 5);
}

/// A parameter may have the kernel's name.
#[kernel(crate = quipu_kernel)]
fn named(_acc: &impl Accelerator<1>, named: u32, mut run: OwnElements<u32>) {
    for (_, y) in run.each() {
        *y += named;
    }
}

#[device(crate = quipu_kernel)]
impl Square {
    fn at(self, index: u32) -> u32 {
        self.side * index
    }
    fn first(self) -> u32 {
        self.at(1)
    }
    fn sum(self, other: Self) -> u32 {
        self.first() + other.get(1)
    }
    fn get(&self, by: u32) -> u32 {
        self.side + by
    }
}

#[kernel(crate = quipu_kernel)]
fn methods_of_other_names(_acc: &impl Accelerator<1>, mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let square = Square::new(i as u32);
        *y += square.sum(square) + square.at(2);
    }
}

#[test]
fn runs_names() {
    let mut y = vec![0; 20];
    check!(named => (3u32, &mut y), division(2, 5, 2));
    check!(methods_of_other_names => (&mut y), division(2, 5, 2));
    assert_eq!(y[4], 3 + 4 + 5 + 8);
}

#[kernel(crate = quipu_kernel)]
fn overflows<const N: u32>(_acc: &impl Accelerator<1>, mut y: OwnElements<u32>) {
    for (_, y) in y.each() {
        *y = (N << 7) / (N - 3);
    }
}

#[test]
fn constants_that_cannot_be_computed_are_an_error() {
    let mut y = vec![0; 20];
    check!(overflows::<4> => (&mut y), division(2, 5, 2));
    let error = overflows::<3>(&mut y).module().unwrap_err().to_string();
    assert!(
        error.contains("this constant cannot be computed"),
        "{error}"
    );
    assert!(error.contains("functions.rs"), "{error}");
}

/// As C calls its own for `float`.
#[device(crate = quipu_kernel)]
fn sqrtf(x: f32) -> f32 {
    x + 1.0
}

#[kernel(crate = quipu_kernel)]
fn powf(_acc: &impl Accelerator<1>, mut y: OwnElements<f32>) {
    for (i, y) in y.each() {
        let fmodl = i as f32;
        *y = sqrtf(fmodl.sqrt());
    }
}

#[test]
fn runs_functions_with_names_that_c_has() {
    let mut y = vec![0.0; 10];
    check!(powf => (&mut y), division(5, 1, 2));
    assert_eq!(y[4], 3.0);
}

#[device(crate = quipu_kernel)]
fn mix(hash: u32, next: u32) -> u32 {
    hash.wrapping_mul(31).wrapping_add(next)
}

/// One of two slices, which has to be said of them, as they are borrowed for as long.
#[device(crate = quipu_kernel)]
fn pick<'a>(a: &'a [u32], b: &'a [u32], first: bool) -> &'a [u32] {
    if first { a } else { b }
}

#[device(crate = quipu_kernel)]
fn of_one<'a, 'b: 'a, T: Copy + 'a>(a: &'a [T], b: &'b [T], at: usize) -> &'a T
where
    'a: 'a,
{
    let one = if at < b.len() { b } else { a };
    &one[at]
}

#[device(crate = quipu_kernel)]
trait Lends {
    fn lend<'a>(&self, of: &'a [u32], other: &'a [u32]) -> &'a [u32];
}

#[device(crate = quipu_kernel)]
impl Lends for Square {
    fn lend<'a>(&self, of: &'a [u32], other: &'a [u32]) -> &'a [u32] {
        pick(of, other, self.side > 2)
    }
}

#[kernel(crate = quipu_kernel)]
fn lent(_acc: &impl Accelerator<1>, x: &[u32], z: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let one = pick(x, &z[1..], i % 3 == 1);
        for (a, b) in one.iter().zip(pick(z, x, i > 2)) {
            *y = mix(*y, a * b);
        }
        *y = mix(*y, *of_one(x, z, i));
        let square = Square { side: i as u32 };
        *y = mix(*y, square.lend(&x[i..], z)[0]);
    }
}

#[test]
fn runs_functions_with_lifetimes() {
    let x: Vec<u32> = vec![3, 1, 4, 1, 5];
    let z: Vec<u32> = vec![2, 7, 1, 8];
    let mut y = vec![1; 5];
    check!(lent => (&x, &z, &mut y), division(2, 1, 3));
}

/// Methods of names that iterators, numbers and `Option` have, too.
#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
struct Three {
    x: u32,
    y: u32,
    z: u32,
}

#[device(crate = quipu_kernel)]
impl Three {
    fn map(self, f: impl Fn(u32) -> u32) -> Self {
        Self {
            x: f(self.x),
            y: f(self.y),
            z: f(self.z),
        }
    }

    fn doubled(self) -> Self {
        self.map(|c| c * 2)
    }

    fn any(self, f: impl Fn(u32) -> bool) -> bool {
        f(self.x) || f(self.y) || f(self.z)
    }

    fn fold(self, first: u32, f: impl Fn(u32, u32) -> u32) -> u32 {
        f(f(f(first, self.x), self.y), self.z)
    }

    fn find(self, f: impl Fn(u32) -> bool) -> u32 {
        if f(self.x) { self.x } else { self.y }
    }

    fn checked_add(self, other: Self) -> Self {
        Self {
            x: self.x + other.x,
            ..self
        }
    }

    fn unwrap(self) -> u32 {
        self.x
    }

    fn expect(self, least: u32) -> u32 {
        self.z.max(least)
    }

    fn sum(self) -> u32 {
        self.x + self.y + self.z
    }
}

#[kernel(crate = quipu_kernel)]
fn own_methods(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let three = Three {
            x: x[i],
            y: i as u32,
            z: 7,
        };
        let mut hash = three.map(|c| c + i as u32).doubled().expect(5);
        hash = mix(hash, three.doubled().map(|c| c + 1).sum());
        hash = mix(hash, three.any(|c| c == 4) as u32);
        hash = mix(hash, three.doubled().fold(3, |a, c| mix(a, c)));
        hash = mix(hash, three.fold(hash, |a, c| mix(a, c)));
        hash = mix(hash, three.find(|c| c > 3));
        hash = mix(hash, three.checked_add(three.doubled()).unwrap());
        hash = mix(hash, three.unwrap());
        // Those of iterators that are in variables.
        let items = x.iter();
        hash = mix(hash, items.clone().map(|a| a + 1).sum::<u32>());
        let mut items = items.zip(1..);
        hash = mix(hash, items.any(|(a, k)| a + k == 6) as u32);
        let mut items = x.iter().skip(i);
        hash = mix(hash, items.all(|a| *a > 1) as u32);
        let items = x.iter().rev();
        hash = mix(hash, items.fold(1, |all, a| mix(all, *a)));
        let items = 0..i as u32;
        items.for_each(|k| hash = mix(hash, k * x[0]));
        *y = hash;
    }
}

#[test]
fn runs_methods_named_like_those_of_iterators() {
    let (x, mut y) = (vec![3, 1, 4, 1, 5], vec![1; 5]);
    check!(own_methods => (&x, &mut y), division(2, 1, 3));
}

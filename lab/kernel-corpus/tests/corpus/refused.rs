//! Kernels that are refused as a source is made, because rustc cannot tell by types: at the user's
//! line, in words that help.
//!
//! Each kernel has one line that ends with `//~ words`.

#![allow(
    dead_code,
    reason = "of kernels that have no source, only that is asked for"
)]

use quipu_kernel::{
    Accelerator, BlockAccelerator, Entry, GlobalRef, Grid, KernelData, OwnBlockTile, OwnElements,
    OwnRows, OwnTile, SharedWrite, Threads, device, f16, kernel,
};
use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, AddAssign, Neg};

#[kernel(crate = quipu_kernel)]
fn reference(_acc: &impl Accelerator<1>, n: u32, mut y: OwnElements<f32>) {
    let (mut a, mut b) = ([1.0_f32, 2.0], [3.0_f32, 4.0]);
    let (first, second) = (&mut a, &mut b);
    let one = if n > 3 { first } else { second }; //~ a reference cannot depend on a condition; choose an index
    for (_, y) in y.each() {
        one[0] += 1.0;
        *y = one[0];
    }
}

#[kernel(crate = quipu_kernel)]
fn replaced(_acc: &impl Accelerator<1>, x: &[f32], mut y: OwnElements<f32>) {
    for (i, y) in y.each() {
        let (mut one, other) = (&x[0], &x[i]);
        *y = *one;
        one = other; //~ cannot be made to refer to something else; use an index
        *y += *one;
    }
}

#[kernel(crate = quipu_kernel)]
fn steps(_acc: &impl Accelerator<1>, n: u32, mut y: OwnElements<u32>) {
    let two = (0..n).step_by(2);
    let three = (0..n).step_by(3);
    let steps = if n > 3 { two } else { three }; //~ write it where it is used
    for k in steps {
        for (_, y) in y.each() {
            *y += k;
        }
    }
}

#[kernel(crate = quipu_kernel)]
fn views(
    _acc: &impl Accelerator<1>,
    n: u32,
    a: GlobalRef<u32>,
    b: GlobalRef<u32>,
    mut y: OwnElements<u32>,
) {
    let one = if n > 3 { a } else { b }; //~ write it where it is used
    for (i, y) in y.each() {
        *y = one[i];
    }
}

/// What is asked of a view after it was refused is asked of one with as many dimensions.
#[kernel(crate = quipu_kernel)]
fn views_of_four(
    _acc: &impl Accelerator<4>,
    n: u32,
    a: GlobalRef<u32, 4>,
    b: GlobalRef<u32, 4>,
    mut y: OwnElements<u32, 4>,
) {
    let one = if n > 3 { a } else { b }; //~ write it where it is used
    let last = one.extent()[3] - 1;
    for (_, y) in y.each() {
        *y = one[[0, 0, 0, last]];
    }
}

#[kernel(crate = quipu_kernel)]
fn tiles_of_four(_acc: &impl Accelerator<4>, n: u32, a: OwnTile<u32, 4>, b: OwnTile<u32, 4>) {
    let mut one = if n > 3 { a } else { b }; //~ write it where it is used
    let last = one.extent()[3] - 1 + 0 * one.start()[3];
    one[[0, 0, 0, last]] = 1;
    one.row_mut([0, 0, 0])[last] = 2;
    for (_, one) in one.each() {
        *one = 3;
    }
}

#[kernel(crate = quipu_kernel)]
fn shares_of_four(
    _acc: &impl Accelerator<4>,
    n: u32,
    a: OwnBlockTile<u32, 4>,
    b: OwnBlockTile<u32, 4>,
) {
    let mut one = if n > 3 { a } else { b }; //~ write it where it is used
    let at = one.extent()[3] + one.start()[3];
    for (_, one) in one.each() {
        *one = at as u32;
    }
}

#[kernel(crate = quipu_kernel)]
fn elements_of_four(
    _acc: &impl Accelerator<4>,
    n: u32,
    a: OwnElements<u32, 4>,
    b: OwnElements<u32, 4>,
) {
    let mut one = if n > 3 { a } else { b }; //~ write it where it is used
    let last = one.extent()[3] - 1;
    for (_, one) in one.each() {
        *one = last as u32;
    }
    for (_, row) in one.rows() {
        row[0] = 3;
    }
}

#[kernel(crate = quipu_kernel)]
fn rows(_acc: &impl Accelerator<1>, n: u32, a: OwnRows<u32>, b: OwnRows<u32>) {
    let mut one = if n > 3 { a } else { b }; //~ write it where it is used
    let mut columns = one.extent()[1];
    for row in one.range() {
        columns += row;
    }
    for (_, row) in one.each() {
        row[0] = columns as u32;
    }
}

#[kernel(crate = quipu_kernel)]
fn replaced_view(
    _acc: &impl Accelerator<1>,
    n: u32,
    a: GlobalRef<u32>,
    b: GlobalRef<u32>,
    mut y: OwnElements<u32>,
) {
    let mut one = a;
    if n > 3 {
        one = b; //~ cannot be made to refer to something else; use an index
    }
    for (i, y) in y.each() {
        *y = one[i];
    }
}

#[kernel(crate = quipu_kernel)]
async fn left_with(
    acc: &impl BlockAccelerator<1>,
    n: u32,
    mut y: OwnElements<u32>,
    #[shared(4)] a: SharedWrite<u32>,
    #[shared(4)] b: SharedWrite<u32>,
) {
    let (a, b) = acc.sync((a, b)).await;
    let mut left = n;
    let one = loop {
        if left == 3 {
            break a;
        }
        if left == 0 {
            break b; //~ every branch has to give the same shared array
        }
        left -= 1;
    };
    for (_, y) in y.each() {
        *y = one[0];
    }
}

#[kernel(crate = quipu_kernel)]
fn units(_acc: &impl Accelerator<1>, n: u32, mut y: OwnElements<u32>) {
    let some = &[(), ()][n as usize..]; //~ this has no elements
    for (_, y) in y.each() {
        *y = some.len() as u32;
    }
}

#[kernel(crate = quipu_kernel)]
fn nowhere(acc: &impl Accelerator<1>, mut y: OwnElements<u32>) {
    acc.index(Grid, Threads)[0] = 3; //~ this is no place that can be assigned to
    for (_, y) in y.each() {
        *y = 1;
    }
}

#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
struct Nothing;

#[kernel(crate = quipu_kernel)]
fn without_bits(_acc: &impl Accelerator<1>, mut y: OwnElements<u32>) {
    let all = [Nothing; 3]; //~ this has no bits
    for (_, y) in y.each() {
        *y = all.len() as u32;
    }
}

/// A number natively, of whose operators, conversions and text kernels are not told.
#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
struct Metres {
    metres: f32,
}

/// The same, whose value is a number on devices, too.
#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(u32)]
enum Level {
    Low = 1,
    High = 7,
}

impl Add for Metres {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            metres: self.metres + other.metres,
        }
    }
}

impl AddAssign for Metres {
    fn add_assign(&mut self, other: Self) {
        self.metres += other.metres;
    }
}

impl Neg for Metres {
    type Output = Self;
    fn neg(self) -> Self {
        Self {
            metres: -self.metres,
        }
    }
}

impl Add for Level {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        if self as u32 == 1 { other } else { self }
    }
}

impl AddAssign for Level {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Neg for Level {
    type Output = Self;
    fn neg(self) -> Self {
        if self as u32 == 1 {
            Self::High
        } else {
            Self::Low
        }
    }
}

impl Level {
    fn max(self, other: Self) -> Self {
        self + other
    }
}

impl Metres {
    fn min(self, other: Self) -> Self {
        if self.metres < other.metres {
            self
        } else {
            other
        }
    }
}

impl fmt::Display for Metres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} m", self.metres)
    }
}

/// Kernels are not told of the trait that it stands for.
trait Measured: From<f32> {}

impl From<f32> for Metres {
    fn from(metres: f32) -> Self {
        Self { metres }
    }
}

impl Measured for Metres {}
trait Sums: Copy + Add<Output = Self> + AddAssign + Neg<Output = Self> {}
impl Sums for Metres {}
impl Sums for Level {}

#[device(crate = quipu_kernel)]
fn sum<T: Sums>(a: T, b: T) -> T {
    a + b //~ this operator is not known of this type
}

#[device(crate = quipu_kernel)]
fn added<T: Sums>(mut a: T, b: T) -> T {
    a += b; //~ this operator is not known of this type
    a
}

#[device(crate = quipu_kernel)]
fn negated<T: Sums>(a: T) -> T {
    -a //~ this operator is not known of this type
}

#[device(crate = quipu_kernel)]
fn shown<T: fmt::Display>(x: T) {
    println!("it is {x}"); //~ kernels print numbers and `bool`s
}

#[device(crate = quipu_kernel)]
fn asserted<T: fmt::Display>(x: T, is_well: bool) {
    assert!(is_well, "it is {}", x); //~ kernels print numbers and `bool`s
}

#[device(crate = quipu_kernel)]
fn measured<T: Measured>(x: f32) -> T {
    T::from(x) //~ write the bound `T: From<…>`
}

#[device(crate = quipu_kernel)]
fn least(a: Metres, b: Metres) -> Metres {
    a.min(b) //~ write `#[device]` above the `impl`
}

#[device(crate = quipu_kernel)]
fn greatest(a: Level, b: Level) -> Level {
    a.max(b) //~ write `#[device]` above the `impl`
}

/// Compared in a way of its own.
#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(u32)]
enum Rank {
    First,
    Second,
}

impl PartialEq for Rank {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (*other as u32).partial_cmp(&(*self as u32))
    }
}

#[derive(Clone, Copy, PartialEq, PartialOrd, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
struct Seconds(f32);

#[device(crate = quipu_kernel)]
fn is_same(a: Rank, b: Rank) -> bool {
    a == b //~ above the struct and its `#[derive(PartialEq)]`
}

#[device(crate = quipu_kernel)]
fn is_above(a: Rank, b: Rank) -> bool {
    a > b //~ the order of this type is not known
}

#[device(crate = quipu_kernel)]
fn is_as_long(a: Seconds, b: Seconds) -> bool {
    a != b //~ above the struct and its `#[derive(PartialEq)]`
}

#[device(crate = quipu_kernel)]
fn are_as_long(a: [Seconds; 2], b: [Seconds; 2]) -> bool {
    a == b //~ above the struct and its `#[derive(PartialEq)]`
}

#[device(crate = quipu_kernel)]
fn are_all_the_same(a: [u32; 65], b: [u32; 65]) -> bool {
    a == b //~ compare the elements of longer ones in a loop
}

#[device(crate = quipu_kernel)]
fn is_longer<T: PartialOrd + Copy>(a: T, b: T) -> bool {
    a >= b //~ compare fields, or call a method
}

impl std::iter::Sum for Seconds {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        Self(all.map(|seconds| seconds.0).sum())
    }
}

#[device(crate = quipu_kernel)]
fn total(all: [Seconds; 2]) -> Seconds {
    all.iter().copied().sum() //~ sums and products in kernels are of numbers; write `fold`
}

impl std::iter::Sum for Level {
    fn sum<I: Iterator<Item = Self>>(_: I) -> Self {
        Self::High
    }
}

#[device(crate = quipu_kernel)]
fn total_of_levels(level: Level) -> Level {
    (0..3).map(|_| level).sum() //~ sums and products in kernels are of numbers; write `fold`
}

#[device(crate = quipu_kernel)]
fn half_of(all: [f16; 2]) -> f16 {
    all.iter().copied().sum() //~ sums and products of `f16` and `bf16` are not the same everywhere
}

#[device(crate = quipu_kernel)]
fn half_times(first: f16, second: f16) -> f16 {
    (0..2)
        .map(|k| if k == 0 { first } else { second })
        .product() //~ sums and products of `f16` and `bf16` are not the same
}

#[device(crate = quipu_kernel)]
fn is_among(all: [Seconds; 2], one: Seconds) -> bool {
    all.contains(&one) //~ `contains` in kernels is of numbers
}

#[device(crate = quipu_kernel)]
fn is_within(from: Rank, one: Rank) -> bool {
    (from..).contains(&one) //~ `contains` in kernels is of numbers
}

/// Makes sources, and compares why there are none with the line that says so.
macro_rules! refused {
    ($($name:ident: $kernel:ty, $function:literal;)*) => {$(
        #[test]
        fn $name() {
            let error = <$kernel as Entry<_>>::module().unwrap_err().to_string();
            let lines = include_str!("refused.rs").lines().enumerate();
            let of_it = format!("fn {}", $function);
            let mut after = lines.skip_while(|(_, line)| !line.contains(&of_it));
            let (number, words) = after
                .find_map(|(number, line)| Some((number + 1, line.split_once("//~ ")?.1)))
                .unwrap();
            assert!(error.contains(&format!("refused.rs:{number}: ")), "{number}: {error}");
            assert!(error.contains(words), "{words}: {error}");
        }
    )*};
}

/// A kernel that calls a function.
macro_rules! calling {
    ($($name:ident: |$n:ident| $call:expr;)*) => {$(
        #[kernel(crate = quipu_kernel)]
        fn $name(_acc: &impl Accelerator<1>, $n: u32, mut y: OwnElements<f32>) {
            for (_, y) in y.each() {
                *y = $call as f32;
            }
        }
    )*};
}

calling! {
    among: |n| is_among([Seconds(n as f32), Seconds(1.0)], Seconds(2.0)) as u32;
    within: |n| is_within(if n > 3 { Rank::First } else { Rank::Second }, Rank::First) as u32;
    halves: |n| half_of([f16::from_f32(n as f32), f16::from_f32(1.0)]).to_f32();
    halves_times: |n| half_times(f16::from_f32(n as f32), f16::from_f32(2.0)).to_f32();
    totals: |n| total([Seconds(n as f32), Seconds(1.0)]).0;
    totals_of_levels: |n| total_of_levels(if n > 3 { Level::Low } else { Level::High }) as u32;
    sums: |n| sum(Metres { metres: n as f32 }, Metres { metres: 2.0 }).metres;
    sums_of_levels: |n| sum(if n > 3 { Level::Low } else { Level::High }, Level::Low) as u32;
    adds: |n| added(Metres { metres: n as f32 }, Metres { metres: 2.0 }).metres;
    adds_levels: |n| added(if n > 3 { Level::Low } else { Level::High }, Level::Low) as u32;
    negates: |n| negated(Metres { metres: n as f32 }).metres;
    negates_levels: |n| negated(if n > 3 { Level::Low } else { Level::High }) as u32;
    shows: |n| { shown(Metres { metres: n as f32 }); 1 };
    asserts: |n| { asserted(Metres { metres: n as f32 }, n > 3); 1 };
    measures: |n| measured::<Metres>(n as f32).metres;
    leasts: |n| least(Metres { metres: n as f32 }, Metres { metres: 2.0 }).metres;
    greatests: |n| greatest(if n > 3 { Level::Low } else { Level::High }, Level::Low) as u32;
    same: |n| is_same(if n > 3 { Rank::First } else { Rank::Second }, Rank::First) as u32;
    above: |n| is_above(if n > 3 { Rank::First } else { Rank::Second }, Rank::First) as u32;
    as_long: |n| is_as_long(Seconds(n as f32), Seconds(2.0)) as u32;
    all_as_long: |n| are_as_long([Seconds(n as f32); 2], [Seconds(2.0); 2]) as u32;
    all_the_same: |n| are_all_the_same([n; 65], [2; 65]) as u32;
    longer: |n| is_longer(Seconds(n as f32), Seconds(2.0)) as u32;
}

refused! {
    a_reference_that_a_branch_gives: reference, "reference";
    a_reference_that_is_replaced: replaced, "replaced";
    steps_that_a_branch_gives: steps, "steps";
    a_view_of_two: views, "views";
    a_view_of_four_dimensions: views_of_four, "views_of_four";
    a_tile_of_four_dimensions: tiles_of_four, "tiles_of_four";
    a_share_of_four_dimensions: shares_of_four, "shares_of_four";
    elements_of_four_dimensions: elements_of_four, "elements_of_four";
    rows_of_two: rows, "rows";
    a_view_that_is_replaced: replaced_view, "replaced_view";
    a_shared_array_that_a_loop_is_left_with: left_with, "left_with";
    elements_without_bits: units, "units";
    what_is_in_no_variable: nowhere, "nowhere";
    an_array_of_nothing: without_bits, "without_bits";
    what_an_array_contains: among, "is_among(";
    what_a_range_contains: within, "is_within(";
    a_sum_of_halves: halves, "half_of(";
    a_product_of_halves: halves_times, "half_times(";
    a_sum: totals, "total(";
    a_sum_of_an_enum: totals_of_levels, "total_of_levels(";
    an_operator: sums, "sum<";
    an_operator_of_an_enum: sums_of_levels, "sum<";
    an_assigning_operator: adds, "added<";
    an_assigning_operator_of_an_enum: adds_levels, "added<";
    a_prefix_operator: negates, "negated<";
    a_prefix_operator_of_an_enum: negates_levels, "negated<";
    what_is_printed: shows, "shown<";
    what_is_shown_by_an_assertion: asserts, "asserted<";
    a_conversion: measures, "measured<";
    a_method: leasts, "least(";
    a_method_of_an_enum: greatests, "greatest(";
    an_equality_of_an_enum_that_is_another: same, "is_same(";
    an_equality_of_an_array_of_structs: all_as_long, "are_as_long(";
    an_equality_of_a_long_array: all_the_same, "are_all_the_same(";
    an_order_of_an_enum_that_is_another: above, "is_above(";
    an_equality_that_is_derived: as_long, "is_as_long(";
    an_order_that_is_derived: longer, "is_longer<";
}

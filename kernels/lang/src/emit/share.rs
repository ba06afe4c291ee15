//! The items that an iterator goes over: the same in all threads, or a share of some.
//!
//! The first items of two iterators are of the same number where both begin at the beginning, or
//! both are a thread's own share of one extent. Elsewhere `zip` and counts give each device another
//! result.

use super::iterate::Iterate;

/// Items of an iterator.
pub trait Share {
    /// Those of an adapter that hides their numbers.
    type Hidden: Share;
    /// Those of pairs with others.
    type With<Other: Share>: Share;
}

/// All, from the first on: in every thread the same.
#[derive(Debug)]
pub struct Whole;

/// A thread's own elements.
#[derive(Debug)]
pub struct Own;

/// A thread's own elements, each with its number.
#[derive(Debug)]
pub struct Numbered;

/// A share whose items cannot be matched with the items of another.
#[derive(Debug)]
pub struct Apart;

macro_rules! shares {
    ($($share:ident => $hidden:ident, $with:ty;)*) => {$(
        impl Share for $share {
            type Hidden = $hidden;
            type With<Other: Share> = $with;
        }
    )*};
}

shares! {
    Whole => Whole, Other;
    Own => Apart, Other;
    Numbered => Apart, Self;
    Apart => Apart, Self;
}

/// A share whose items go together with those of another, which come first.
#[diagnostic::on_unimplemented(
    message = "`zip` pairs the first of a thread's own elements with the first of others, which has another number",
    label = "write `for (i, y) in y.each()`, and `x[i]` within the loop",
    note = "`zip` pairs a thread's own elements of two outputs of one extent, `a.each().zip(b.each())`, and stands before `map` and others"
)]
pub trait Beside<First> {}

impl Beside<Whole> for Whole {}

// Of others than a thread's own, rustc says natively that they are none: `OwnPart`.
macro_rules! beside_own {
    ($($share:ident)*) => {$(
        impl Beside<Own> for $share {}
        impl Beside<Numbered> for $share {}
    )*};
}

beside_own!(Whole Own Numbered Apart);

/// A share whose items may be counted.
#[diagnostic::on_unimplemented(
    message = "`enumerate` counts the elements of this thread from 0, and not those of the array",
    label = "write `for (i, y) in y.each()` for each element with its number in the array",
    note = "`y.each().enumerate()` counts a thread's own, which other devices have more or fewer of"
)]
pub trait Counts {}

impl Counts for Whole {}
impl Counts for Numbered {}
impl Counts for Apart {}

/// A share that is the same in every thread.
#[diagnostic::on_unimplemented(
    message = "this counts the elements of this thread, which other devices have more or fewer of",
    label = "write `for (i, y) in y.each()`, and compare `i`: `if i >= 2 {{ … }}`",
    note = "of numbers, `for i in acc.elements(n)`"
)]
pub trait Alike {}

impl Alike for Whole {}

/// An iterator whose items are counted behind closures.
pub fn counted_alike<I: ?Sized + Iterate<Share: Alike>>(over: super::Expr<I>) -> super::Expr<I> {
    over
}

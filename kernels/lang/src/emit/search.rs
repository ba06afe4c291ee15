//! Consumers of the items of an iterator that give an `Option`: searches, and the least and the
//! greatest. The macro writes the loops.

use std::cmp::Ordering;

use quipu_kernel_ir::BinaryOperation;

use super::control::{branch, nothing};
use super::data::KernelValue;
use super::expression::{Expr, compare, dereference, lit, ordered, value};
use super::option::{either, held, inside, none, some};
use super::place::{assign, part};
use super::repeat::{Loop, break_loop};
use super::variant::is_variant;

/// Keeps something if a condition holds.
#[track_caller]
fn keep<T: KernelValue>(found: Expr<Option<T>>, item: Expr<T>, holds: Expr<bool>) {
    let branch = branch::<()>(holds);
    if branch.begins_then() {
        assign(found, some(item));
        branch.ends_then(nothing());
    }
    let _ = branch.result();
}

/// Keeps an item of which a condition holds, and leaves the loop.
#[track_caller]
pub fn find<T: KernelValue>(
    found: Expr<Option<T>>,
    item: Expr<T>,
    holds: Expr<bool>,
    this: Loop<()>,
) {
    let branch = branch::<()>(holds);
    if branch.begins_then() {
        assign(found, some(dereference(item)));
        break_loop(this);
        branch.ends_then(nothing());
    }
    let _ = branch.result();
}

/// Keeps an item if there was none before, or it is better than that.
#[track_caller]
fn keep_better<T: KernelValue>(
    best: Expr<Option<T>>,
    item: Expr<T>,
    is_better: impl FnOnce(Expr<T>) -> Expr<bool>,
) {
    let before = value(best);
    let is_first = is_variant(before, "None");
    let is_better = either(is_first, || lit(true), || is_better(inside(before)));
    keep(best, item, is_better);
}

/// The comparison of an item with the best before it: of equals std's `min` gives the first, and
/// its `max` the last.
fn comparison(is_least: bool) -> BinaryOperation {
    if is_least {
        BinaryOperation::Less
    } else {
        BinaryOperation::GreaterEqual
    }
}

/// Keeps the least or the greatest of two.
#[track_caller]
pub fn extreme<T: KernelValue>(best: Expr<Option<T>>, item: Expr<T>, is_least: bool) {
    let item = value(dereference(item));
    keep_better(best, item, |before| {
        ordered(comparison(is_least), item, before, None)
    });
}

/// The same, by keys, which are kept with the items.
#[track_caller]
pub fn extreme_by_key<K: KernelValue, T: KernelValue>(
    best: Expr<Option<(K, T)>>,
    item: Expr<T>,
    key: Expr<K>,
    is_least: bool,
) {
    let (key, item) = (value(dereference(key)), held(item));
    let both = super::aggregate::tuple::<(K, T)>(&[key.raw(), item.raw()], None);
    keep_better(best, both, |before| {
        let before = part(before, 0, None::<&K>);
        ordered(comparison(is_least), key, before, None)
    });
}

/// The item that was kept with a key.
#[track_caller]
pub fn without_key<K: KernelValue, T: KernelValue>(best: Expr<Option<(K, T)>>) -> Expr<Option<T>> {
    let best = value(best);
    let item = || some(part(inside(best), 1, None::<&T>));
    either(is_variant(best, "Some"), item, none)
}

/// The same, by a function that compares two of them.
#[track_caller]
pub fn extreme_by<T: KernelValue>(
    best: Expr<Option<T>>,
    item: Expr<T>,
    function: impl FnOnce(Expr<T>, Expr<T>) -> Expr<Ordering>,
    is_least: bool,
) {
    let item = value(dereference(item));
    keep_better(best, item, |before| {
        let operation = if is_least {
            BinaryOperation::Equal
        } else {
            BinaryOperation::NotEqual
        };
        compare(operation, function(before, item), lit(Ordering::Greater))
    });
}

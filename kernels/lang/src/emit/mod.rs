//! Functions that make the source of a kernel: the second function that `#[kernel]` writes calls
//! them.
//!
//! The macro writes a kernel twice. Once as it is: that runs natively. And once with every
//! operation replaced by a call of a function of this module. The call writes it down, in the order
//! in which it would happen, as the [intermediate representation](quipu_kernel_ir). So it is rustc
//! that finds types, instances of generic functions and values of constants, in both.
//!
//! An expression is represented by an [`Expr<T>`], `T` being its type natively. The type of an
//! operation's result is found by rustc from the same operation on values of these types, in [code
//! that never runs](DEAD):
//!
//! ```ignore
//! // a * x[i]
//! let left = a;
//! let right = index(x, i, if DEAD { Some(&w_ref(x)[w(i)]) } else { None });
//! binary(Multiply, left, right, if DEAD { Some(w(left) * w(right)) } else { None })
//! ```
//!
//! A block in braces is written between two calls: the first begins it and the last ends it: see
//! [`Branch`] and [`begin_loop`]. There are no closures, each of which would be compiled with
//! functions of its own. The work of a call is in functions without type parameters. So a kernel
//! adds little more than its calls to the time that its crate takes to compile.
//! (`scripts/compile-time` measures it.)
//!
//! Methods and device functions have builders of the names `__method_…` and `__call_…`; methods are
//! called on [something of the same type](subject). References are not counted: `&x` and `x` have
//! the same type here, and only when the source is made is it known whether a place is meant or the
//! value in it.
//!
//! None of this is for programs to call.

mod accelerator;
mod adapt;
mod aggregate;
mod bytes;
mod call;
mod checked;
mod composed;
mod consume;
mod control;
mod convert;
mod data;
mod error;
mod expression;
mod handles;
mod host;
mod indexing;
mod iterate;
mod number;
mod numbered;
pub mod of_std;
pub mod operator;
mod option;
mod order;
mod own;
mod parameter;
mod place;
mod power;
mod refused;
mod repeat;
mod search;
mod share;
mod shared;
mod state;
mod together;
mod variant;

pub use accelerator::Named;
pub use adapt::{Indexed, IteratorMethods, RefusedBehind, counted, paired};
pub use aggregate::{ArrayMethods, array, repeat, structure, tuple};
pub use bytes::{ByteCalls, ByteMethods, Bytes};
pub use call::{Callee, call, plain, rebound};
pub use checked::{AskedOrderings, CheckedCalls, CheckedMethods, OrderingCalls, OrderingMethods};
pub use composed::{Unsigned, UnsignedCalls, UnsignedMethods};
pub use consume::{
    Iterator, TakingMethods, Totals, add, applied, combined, iterator, multiply, product, settle,
    sum,
};
pub use control::{Branch, and, branch, discard, give, never, nothing, or};
pub use convert::{
    Conversion, Converted, ConvertedFrom, ConvertedOfNumbers, ConvertedOfOwn, ConvertedToOwn,
};
pub use data::{
    Equated, Incomparable, KernelData, KernelValue, Ordered, ValueParameter, Variants,
    derived_literal, derived_type, enum_literal, has_value_at,
};
pub use error::BuildError;
pub use expression::{
    AcceptedOfOthers, Chosen, Coerce, DEAD, Derived, Expr, Own, Prints, RefusedOfDerived, Replaced,
    Sample, assert, assert_compared, before_arguments, binary, bind, bind_exchanged, bind_mut,
    captured, cast, chosen, coerced, compare, computed, declare, dereference, lit, ordered, print,
    receiver, reference, replaced, subject, unary, value, w, w_ref,
};
pub use handles::{
    EachHandle, GlobalRefHandle, IndicesHandle, IterMutHandle, OwnElementsHandle, RawMutHandle,
    RowsHandle, SharedReadHandle, SharedWriteHandle, Sketch,
};
pub use host::{
    Changing, ChangingReference, OfHost, SeenByKernels, Unchanging, UnchangingReference,
};
pub use indexing::{
    IndexedOfOthers, IndexedOfOwn, IndexedReceiver, Indexes, IndexesToChange, Indexing, OwnIndexed,
};
pub use iterate::{
    IndexesOne, Iterate, RangeLength, RangeMethods, SliceMethods, begin_for, begin_own,
};
pub use number::{
    Casts, Conversions, FloatBits, FromDouble, HalfConversions, MoreCalls, MoreMethods,
    NumberCalls, NumberMethods, RefusedConversions, maximum, minimum,
};
pub use operator::{
    Operand, Operands, Operated, OperatedAlone, OperatedAloneAsNumber, OperatedAsNumbers, Operates,
    OperatesAlone,
};
pub use option::{BoolMethods, OptionMethods, ResultMethods, ended, goes_on, none, output, some};
pub use order::{
    DerivedOrder, OrderOf, WithOrder, WithoutOrder, all_of, clamped, compared, greatest, least,
    lexicographic, order_of, partially_compared,
};
pub use own::{
    EachOwnRowHandle, EachPlacedHandle, EachSharedHandle, OwnBlockTileHandle, OwnRowsHandle,
    OwnTileHandle,
};
pub use parameter::{Declared, Handled, SharedParameter, shared, shared_uninitialised, uniform};
pub use place::{
    FieldOfOthers, FieldOfValue, NotTakenApart, TakenApart, assign, field, field_part, has_length,
    part, range_from, range_full, range_inclusive, range_of, range_to, range_to_inclusive, replace,
    swap, take,
};
pub use quipu_kernel_ir as ir;
pub use refused::{
    RefusedMap, RefusedMethods, RefusedOfHandles, RefusedOfIterators, RefusedOfNumbers,
    RefusedOfTiles, RefusedWithClosures,
};
pub use repeat::{
    Loop, begin_loop, break_loop, break_unless, break_with, continue_loop, continue_unless,
    end_loop,
};
pub use search::{extreme, extreme_by, extreme_by_key, find, without_key};
pub use share::{Alike, Beside, Counts, Share, Whole, counted_alike};
pub use shared::{Part, Tuple, Turn};
pub use state::{Raw, State, build};
pub use together::{AtomicsHandle, Scope};
pub use variant::{is_constant, is_variant, pattern_part, variant_literal, variants_type};

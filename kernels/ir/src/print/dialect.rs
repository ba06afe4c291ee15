//! The differences between the dialects of C.

use crate::module::SharedId;
use crate::operation::{AtomicOperation, FenceOrder, MathFunction, Scope, WarpOperation};
use crate::types::{Scalar, Space};

use super::Options;
use super::entry::EntryParts;
use super::helpers::Helpers;
use super::protocol::EntryKind;

/// An atomic operation on a place of a scalar type.
#[derive(Debug)]
pub(super) struct AtomicCall<'a> {
    pub(super) operation: AtomicOperation,
    /// 32 or 64 bits, no index.
    pub(super) scalar: Scalar,
    pub(super) space: Space,
    pub(super) scope: Scope,
    /// The address.
    pub(super) pointer: String,
    pub(super) operands: &'a [String],
}

/// The text of a dialect for an operation, or the reason, for people, for which there is none.
pub(super) type Possible<T = String> = Result<T, String>;

/// A dialect of C. Scalars given to it are never indices: these have been replaced by integers of
/// the index width.
pub(super) trait Language {
    /// Its name, for errors.
    fn name(&self) -> &'static str;

    /// The name of a scalar type; `bool` is a truth value that is not in memory.
    fn scalar(&self, scalar: Scalar) -> &'static str;

    /// The suffix of a literal of an integer type of 32 or 64 bits.
    fn suffix(&self, scalar: Scalar) -> &'static str {
        match scalar {
            Scalar::U32 => "u",
            Scalar::I64 => "ll",
            Scalar::U64 => "ull",
            _ => "",
        }
    }

    /// An error that says why a scalar type is not there, if it is not.
    fn offers(&self, _scalar: Scalar) -> Possible<()> {
        Ok(())
    }

    /// A pointer, with the blank before the name: `__global const float *`.
    fn pointer(&self, element: &str, _space: Space, mutable: bool) -> String {
        format!("{}{element} *", if mutable { "" } else { "const " })
    }

    /// A pointer to the context, with the blank before the name.
    fn context_pointer(&self) -> String {
        "const quipu_context *".into()
    }

    /// The qualifier before the type of a constant in memory.
    fn constant(&self) -> &'static str;

    /// The words between `static` and a function's result.
    fn function(&self) -> &'static str;

    /// The same for a function that is called next to never.
    fn cold(&self) -> &'static str;

    /// The attribute that aligns a struct to so many bytes.
    fn aligned(&self, bytes: u64) -> String {
        format!("__attribute__((aligned({bytes})))")
    }

    /// A struct of its fields.
    fn aggregate(&self, type_name: &str, fields: &str) -> String;

    /// A float of its bits, given as an expression of an unsigned integer type.
    fn float_of_bits(&self, helpers: &mut Helpers, scalar: Scalar, bits: &str) -> String;

    /// The bits of a float, as an unsigned integer.
    fn bits_of_float(&self, helpers: &mut Helpers, scalar: Scalar, value: &str) -> String;

    /// The name of a mathematical function that is no predicate; `None` for the remainder.
    fn math(&self, function: Option<MathFunction>, scalar: Scalar, helpers: &mut Helpers)
    -> String;

    /// The number of bits of an unsigned integer of 32 or 64 bits that are set.
    fn count_ones(&self, wide: bool, value: &str) -> String;

    /// The number of leading bits of an unsigned integer of 32 or 64 bits that are not set.
    fn leading_zeros(&self, wide: bool, value: &str) -> String;

    /// Replaces the zero at the beginning of a record; true if it was one.
    fn claim(&self, record: &str, value: &str) -> String;

    /// Makes this thread's writes visible to the host as soon as it may look, if it may before the
    /// launch is told to be over.
    fn publish(&self) -> Option<&'static str> {
        None
    }

    /// The directive before a loop of few rounds that are to be written one after the other.
    fn unroll(&self) -> Option<&'static str> {
        None
    }

    /// True if barriers record that not all threads come to them: these have sites.
    fn finds_divergence(&self) -> bool {
        false
    }

    /// A barrier, as an expression.
    fn barrier(&self, site: Option<u32>) -> String;

    /// A barrier that counts, as an expression.
    fn barrier_count(&self, helpers: &mut Helpers, predicate: &str, site: Option<u32>) -> String;

    /// A barrier of the grid, as an expression.
    fn grid_barrier(&self, helpers: &mut Helpers, site: Option<u32>) -> Possible;

    /// True if a barrier of the grid needs words of memory that a launch passes.
    fn grid_barriers_need_words(&self) -> bool {
        false
    }

    /// The time of a clock, as an expression.
    fn clock(&self, helpers: &mut Helpers) -> Possible;

    /// A fence, as an expression.
    fn fence(&self, helpers: &mut Helpers, scope: Scope, order: FenceOrder) -> Possible;

    /// An atomic operation, as an expression of the old value.
    fn atomic(&self, helpers: &mut Helpers, call: &AtomicCall<'_>) -> Possible;

    /// An operation of a warp; of the type of the first operand, for shuffles.
    fn warp(
        &self,
        helpers: &mut Helpers,
        operation: WarpOperation,
        scalar: Scalar,
        operands: &[String],
    ) -> Possible;

    /// The way in which a scalar but `bool` is printed: the format and the type that it is cast to.
    fn format(&self, scalar: Scalar) -> (&'static str, &'static str);

    /// True if a loop may be written twice, in a kernel with barriers or in one without.
    fn repeats(&self, _barriers: bool) -> bool {
        true
    }

    /// True if the argument of a `%s` may be one of several texts.
    fn chooses_texts(&self) -> bool {
        true
    }

    /// The beginning of a source.
    fn head(&self, options: &Options, parts: &EntryParts) -> String;

    /// The fields of the context beyond the common ones.
    fn context_fields(&self, parts: &EntryParts) -> String;

    /// The entry function, around the body of the kernel.
    fn entry(&self, parts: &EntryParts) -> String;

    /// The options that the compiler needs.
    fn compiler_options(&self, options: &Options) -> Vec<String>;

    /// The statement that leaves the kernel's own function early.
    fn leave(&self) -> &'static str;

    /// True if pointers to buffers come with the number of the first element.
    fn has_starts(&self) -> bool;

    /// The depth of the kernel's body in the entry function, with indices of 32 bits if they are
    /// narrow.
    fn depth(&self, dimensions: usize, narrow: bool, leaves: bool) -> usize;

    /// The parameter, beside its length, for a shared array of a launch's length.
    fn shared_parameter(&self, shared: SharedId) -> Option<EntryKind>;
}

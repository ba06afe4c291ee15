//! Element types of buffers.

use bytemuck::{CheckedBitPattern, NoUninit, Zeroable};
use std::any::TypeId;

/// A type that can live on a device: plain data without padding, whose fresh
/// memory, all zeros, is a value.
///
/// Every type is one that is `NoUninit` (so that it can be uploaded), `CheckedBitPattern` (so that
/// bytes that come back can be checked) and `Zeroable`: the integers and floats, arrays of them,
/// `bool`, and structs and field-less enums with bytemuck's derives. (Of arrays bytemuck knows only
/// those of which all bits are a value: `[bool; 2]` is none, and `[u8; 2]` is one.)
///
/// A type with references is none, nor is one with padding:
///
/// ```compile_fail,E0277
/// # fn test(context: &quipu::Context) -> quipu::Result<()> {
/// let words = context.allocate::<&str>(4)?;
/// # Ok(()) }
/// ```
///
/// ```compile_fail,E0277
/// # fn test(context: &quipu::Context) -> quipu::Result<()> {
/// let padded = context.allocate::<(u8, u32)>(4)?;
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no type of a buffer's elements",
    label = "its bytes are not known to be plain data",
    note = "elements are numbers, `bool`, arrays of numbers, and structs and field-less enums with `#[repr(C)]` and the derives of bytemuck: `#[derive(Clone, Copy, bytemuck::NoUninit, bytemuck::AnyBitPattern, KernelData)]`"
)]
pub trait Element: NoUninit + CheckedBitPattern + Zeroable + Send + Sync {}

#[diagnostic::do_not_recommend]
impl<T: NoUninit + CheckedBitPattern + Zeroable + Send + Sync> Element for T {}

/// True if any bits are a value of `T`: known as this is compiled.
#[inline(always)]
pub(crate) fn takes_any_bits<T: Element>() -> bool {
    TypeId::of::<T>() == TypeId::of::<T::Bits>()
}

/// The first of `length` elements at `pointer` whose bits are no value of `T`.
///
/// # Safety
/// `pointer` is aligned and valid for reads of so many elements, whose bytes are
/// initialised.
pub(crate) unsafe fn first_invalid<T: Element>(pointer: *const T, length: usize) -> Option<usize> {
    // Without a loop, also where nothing is optimised.
    if takes_any_bits::<T>() {
        return None;
    }
    // SAFETY: as the caller promises; `Bits` has the layout of `T` and any bits
    // are a value of it.
    let bits = unsafe { std::slice::from_raw_parts(pointer.cast::<T::Bits>(), length) };
    bits.iter().position(|bits| !T::is_valid_bit_pattern(bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_that_are_no_value_are_found() {
        let bytes = [0u8, 1, 1, 2, 0];
        // SAFETY: five initialised bytes, any alignment will do.
        let flag = unsafe { first_invalid(bytes.as_ptr().cast::<bool>(), 5) };
        // SAFETY: as above.
        let byte = unsafe { first_invalid(bytes.as_ptr(), 5) };
        assert_eq!((flag, byte), (Some(3), None));
    }
}

//! Images, as kernels have them.

/// What a kernel is passed for an image: where its texels are, and how they lie. Built-in functions read it.
///
/// A texel (x, y, z) begins at `x * bytes + y * row + z * slice`. Layers of an array lie along z.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Image {
    /// The first texel.
    pub texels: *mut u8,
    /// Texels along x.
    pub width: u32,
    /// Texels along y; 1 of an image of one dimension.
    pub height: u32,
    /// Texels along z; 1 of an image of one or two dimensions.
    pub depth: u32,
    /// Layers; 1 of an image that is no array.
    pub layers: u32,
    /// Bytes from row to row.
    pub row: u64,
    /// Bytes from slice to slice, or layer to layer.
    pub slice: u64,
    /// The order of channels, by OpenCL's number.
    pub order: u32,
    /// The type of channels, by OpenCL's number.
    pub data: u32,
    /// How many channels memory has.
    pub channels: u32,
    /// Bytes of a texel.
    pub bytes: u32,
}

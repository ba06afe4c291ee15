//! Limits of frames.
//!
//! These hold whatever two sides agree on; a node's [`Welcome`](crate::message::Welcome) may allow
//! less.

/// Bytes of a frame's header.
pub const HEADER: usize = 16;

/// The largest frame before a welcome, and the least that any side takes after it.
pub const MIN_FRAME: u32 = 1 << 14;

/// The largest frame that a side may ever allow.
pub const MAX_FRAME: u32 = 1 << 24;

/// Bytes of a name, at most.
pub const MAX_NAME: usize = 256;

/// Bytes of a text for people, at most.
pub const MAX_TEXT: usize = 4096;

/// Events that a command waits for, at most.
pub const MAX_WAITS: usize = 1024;

/// Outer dimensions of a transfer's region, at most.
pub const MAX_STEPS: usize = 16;

/// Dimensions of a grid or view, at most.
pub const MAX_RANK: usize = 16;

/// The limits of programs and their kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramLimits {
    /// Bytes of the name of a kernel, a parameter or a parameter's type, at most.
    pub name: usize,
    /// Bytes of the options of a compiler, at most.
    pub options: usize,
    /// Parameters of a kernel, at most.
    pub parameters: usize,
    /// Parts that a program is linked of, at most.
    pub parts: usize,
    /// Kernels of a program that is described, at most.
    pub kernels: usize,
}

/// The limits with [`LARGE_PROGRAMS`](crate::LARGE_PROGRAMS).
///
/// * The names of SYCL's kernels have thousands of bytes. A description of a kernel with so long a
///   one, and of a parameter with two, still fits the smallest frame.
/// * Options with hundreds of definitions have more bytes than a page.
/// * A device with 4096 bytes for arguments has room for as many parameters, of a byte each.
/// * Libraries are linked of tens of thousands of files. So many parts of a byte each take less
///   than 4 MiB of the node's memory.
/// * So many kernels have room in [`MAX_DESCRIPTION`], which bounds the memory that they take.
pub const LARGE: ProgramLimits = ProgramLimits {
    name: 1 << 13,
    options: 1 << 15,
    parameters: 1 << 12,
    parts: 1 << 15,
    kernels: 1 << 16,
};

/// The limits without it.
pub const SMALL: ProgramLimits = ProgramLimits {
    name: MAX_NAME,
    options: MAX_TEXT,
    parameters: 256,
    parts: 256,
    kernels: 4096,
};

impl ProgramLimits {
    /// The limits of two sides that have agreed on these features.
    #[must_use]
    pub const fn with(features: u64) -> &'static Self {
        match features & crate::LARGE_PROGRAMS {
            0 => &SMALL,
            _ => &LARGE,
        }
    }
}

/// Bytes of the source of a program, at most, in however many messages it comes. In one message it
/// has room in half a frame.
pub const MAX_PROGRAM: u32 = 1 << 24;

/// Arrays that the threads of a block share, at most.
pub const MAX_SHARED: usize = 64;

/// Bytes of a fill's pattern, at most.
pub const MAX_PATTERN: usize = 16;

/// Sizes that a device's warp can have, at most.
pub const MAX_WARP_SIZES: usize = 16;

/// Queues that a device's load names, at most.
pub const MAX_QUEUE_LOADS: usize = 64;

/// Buffers of a command of which a part is in use, at most.
pub const MAX_CONTENT_SIZES: usize = 255;

/// Links that a node tells of at once, at most: as many as find room in the smallest frame that a
/// side takes.
pub const MAX_LINKS: usize = 128;

/// Bytes of the log of a program that is described, at most.
pub const MAX_LOG: usize = 1 << 18;

/// The most bytes that the kernels and parameters of a program that was described take in the
/// node's memory.
pub const MAX_DESCRIPTION: usize = 1 << 24;

/// Bytes that kernels have printed, in one message.
pub const MAX_PRINTED: usize = 1 << 13;

/// Bytes of a buffer, at most: 4 TiB less one.
pub const MAX_BUFFER: u64 = (1 << 42) - 1;

/// Blocks of a launch, at most.
pub const MAX_BLOCKS: u64 = 1 << 31;

/// Ids are below this: the highest bit of a word that holds one may mean something else.
pub const MAX_ID: u64 = (1 << 63) - 1;

/// Numbers of a device's lanes are at most this.
pub const MAX_LANE: u64 = 1023;

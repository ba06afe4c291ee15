//! A node's messages about itself.

use super::cursor::{Cursor, RESERVED, check_text, zero};
use super::{Body, Word, numbers};
use crate::error::{Problem, holds, within};
use crate::layout;
use crate::limits::{MAX_NAME, MAX_TEXT, MAX_WARP_SIZES};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U32;

numbers! {
    /// The kind of a device.
    DeviceKind, "the kind of device" {
        /// Processor cores.
        Cpu = 1,
        /// A graphics processor.
        Gpu = 2,
        /// Another accelerator.
        Accelerator = 3,
        /// A device that exists only in software.
        Simulated = 4,
        /// A device that only runs kernels that it has built in.
        Custom = 5,
    }
}

/// The forms of programs that a device takes, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Takes(pub u16);

impl Takes {
    /// OpenCL C, as text.
    pub const OPENCL_C: u16 = 1;
    /// A module of the kernel language.
    pub const MODULE: u16 = 2;
    /// Kernels that the node has natively.
    pub const NATIVE: u16 = 4;
    /// Kernels that the device has built in.
    pub const BUILT_IN: u16 = 8;
    /// Programs that are linked of several parts in OpenCL C. Both sides have agreed on
    /// [`PARTS`](crate::PARTS).
    pub const PARTS: u16 = 16;
    /// Parts of these that are SPIR-V. As for [`PARTS`](Self::PARTS).
    pub const SPIRV: u16 = 32;
    /// Images, as parameters of kernels in OpenCL C. Both sides have agreed on
    /// [`IMAGES`](crate::IMAGES).
    pub const IMAGES: u16 = 64;
    /// OpenCL C with floating point of 64 bits.
    pub const DOUBLES: u16 = 128;
    /// OpenCL C with atomics of 64 bits.
    pub const WIDE_ATOMICS: u16 = 256;
    /// OpenCL C with generic pointers, sub-groups, collective functions of work-groups, and atomics
    /// in all orders and scopes.
    pub const OPTIONAL_LANGUAGE: u16 = 512;
    /// OpenCL C with launches whose last blocks along a dimension have fewer threads than the
    /// others. Both sides have agreed on [`NON_UNIFORM`](crate::NON_UNIFORM).
    pub const NON_UNIFORM_BLOCKS: u16 = 1024;
    /// The bits that say more of OpenCL C: with [`TEXT_FEATURES`](crate::TEXT_FEATURES) alone.
    pub const TEXT_FEATURES: u16 = Self::DOUBLES | Self::WIDE_ATOMICS | Self::OPTIONAL_LANGUAGE;
    /// OpenCL C with arithmetic of 16 bits: with [`HALVES`](crate::HALVES) alone.
    pub const HALVES: u16 = 2048;
    /// All bits that stand for something.
    pub const ALL: u16 = Self::OPENCL_C
        | Self::MODULE
        | Self::NATIVE
        | Self::BUILT_IN
        | Self::PARTS
        | Self::SPIRV
        | Self::IMAGES
        | Self::TEXT_FEATURES
        | Self::HALVES
        | Self::NON_UNIFORM_BLOCKS;

    /// Those of the bits that say something to who has agreed on these features.
    #[must_use]
    pub fn with_features(self, features: u64) -> Self {
        let bits = [
            (crate::PARTS, Self::PARTS | Self::SPIRV),
            (crate::IMAGES, Self::IMAGES),
            (crate::TEXT_FEATURES, Self::TEXT_FEATURES),
            (crate::HALVES, Self::HALVES),
            (crate::NON_UNIFORM, Self::NON_UNIFORM_BLOCKS),
        ];
        let lacking = bits.iter().filter(|(feature, _)| features & feature == 0);
        Self(lacking.fold(self.0, |takes, (_, bits)| takes & !bits))
    }
}

/// One of a node's devices. Sizes in bytes, extents in their own units; a size without a limit is
/// the largest number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device<'a> {
    /// Its number, from zero, by which commands name it.
    pub number: u32,
    /// Its kind.
    pub kind: DeviceKind,
    /// The programs that it takes.
    pub takes: Takes,
    /// Units that run blocks independently.
    pub multiprocessors: u32,
    /// Highest clock rate, in MHz; zero if it is not known.
    pub clock_mhz: u32,
    /// The largest grid, in blocks, per dimension.
    pub max_grid_blocks: [u64; 3],
    /// The most blocks in a grid.
    pub max_grid_block_count: u64,
    /// The largest block, in threads, per dimension.
    pub max_block_threads: [u64; 3],
    /// The most threads in a block.
    pub max_block_thread_count: u64,
    /// The most elements of a thread, per dimension.
    pub max_thread_elements: [u64; 3],
    /// The most elements of a thread.
    pub max_thread_element_count: u64,
    /// Bytes that the threads of a block share, at most.
    pub shared_memory_per_block: u64,
    /// Bytes of memory.
    pub global_memory: u64,
    /// The largest buffer, in bytes.
    pub max_buffer: u64,
    /// The number of commands that can run at once.
    pub concurrent_commands: u32,
    /// The sizes that a warp can have.
    pub warp_sizes: &'a [U32],
    /// Its name for people.
    pub name: &'a str,
    /// Its maker.
    pub vendor: &'a str,
    /// The words by which people choose it on the node: `cuda:1`.
    pub selector: &'a str,
    /// The signatures of the kernels that it has built in, one in a line.
    pub kernels: &'a str,
    /// Details. Both sides have agreed on [`DETAILS`](crate::DETAILS).
    pub details: Option<DeviceDetails>,
}

/// Details of a device, most of which programs in OpenCL C ask for. A number that is zero is not
/// known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceDetails {
    /// Properties, a bit each.
    pub properties: DeviceBits,
    /// Bits of an address in its memory.
    pub address_bits: u32,
    /// The number of its vendor at PCI's registry.
    pub vendor_number: u32,
    /// Bytes of a line of its memory's cache.
    pub cache_line: u32,
    /// Bytes of its memory's cache; if it has one.
    pub cache_bytes: u64,
    /// Bytes of constant memory that a parameter may have, at most.
    pub constant_bytes: u64,
    /// The first byte of a part of a buffer is a multiple of so many bytes where a parameter is
    /// that part.
    pub part_alignment: u64,
    /// Bytes of all arguments of a kernel together, at most.
    pub argument_bytes: u64,
    /// The number by which all libraries know the device.
    pub uuid: [u8; 16],
}

/// Properties of a device, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceBits(pub u32);

impl DeviceBits {
    /// Floating point of 32 bits with numbers that are denormal.
    pub const DENORMALS: u32 = 1;
    /// Fused multiply-add of 32 bits, as fast as a product and a sum.
    pub const FUSED_MULTIPLY_ADD: u32 = 2;
    /// Its memory corrects errors.
    pub const CORRECTS_ERRORS: u32 = 4;
    /// Its memory has a cache.
    pub const CACHE: u32 = 8;
    /// The cache takes writes, too.
    pub const CACHE_TAKES_WRITES: u32 = 16;
    /// Its compiler has the functions of OpenCL C that Quipu's own for processors has beyond
    /// [`Takes::OPTIONAL_LANGUAGE`]: sub-groups that vote, shuffle, reduce and scan, single bits,
    /// products of small numbers, and atomics of floating point.
    pub const EXTENDED_LANGUAGE: u32 = 32;
    /// Kernels have fences between the blocks of a launch.
    pub const DEVICE_FENCE: u32 = 64;
    /// Kernels have barriers of all blocks of a launch.
    pub const GRID_BARRIER: u32 = 128;
    /// Bits that only sides know that have agreed on [`BETWEEN_BLOCKS`](crate::BETWEEN_BLOCKS).
    pub const BETWEEN_BLOCKS: u32 = Self::DEVICE_FENCE | Self::GRID_BARRIER;
    /// All bits that stand for something.
    pub const ALL: u32 = 255;

    /// True if all of these bits are set.
    #[must_use]
    pub const fn has(self, bits: u32) -> bool {
        self.0 & bits == bits
    }
}

impl DeviceDetails {
    fn with_features(mut self, features: u64) -> Self {
        if features & crate::BETWEEN_BLOCKS == 0 {
            self.properties.0 &= !DeviceBits::BETWEEN_BLOCKS;
        }
        self
    }

    fn read(cursor: &mut Cursor<'_>) -> Result<Self, Problem> {
        let fixed: &layout::DeviceDetails = cursor.fixed()?;
        Ok(Self {
            properties: DeviceBits(fixed.properties.get()),
            address_bits: fixed.address_bits.get(),
            vendor_number: fixed.vendor_number.get(),
            cache_line: fixed.cache_line.get(),
            cache_bytes: fixed.cache_bytes.get(),
            constant_bytes: fixed.constant_bytes.get(),
            part_alignment: fixed.part_alignment.get(),
            argument_bytes: fixed.argument_bytes.get(),
            uuid: fixed.uuid,
        })
    }

    fn check(&self) -> Result<(), Problem> {
        let unknown = self.properties.0 & !DeviceBits::ALL;
        if unknown != 0 {
            return Err(Problem::Unknown {
                field: "the device's properties",
                value: unknown.into(),
            });
        }
        let is_power = |number: u64| number == 0 || number.is_power_of_two();
        holds(
            is_power(self.part_alignment),
            "an alignment that is no power of two",
        )?;
        let says_cache = self.cache_line != 0
            || self.cache_bytes != 0
            || self.properties.has(DeviceBits::CACHE_TAKES_WRITES);
        holds(
            self.properties.has(DeviceBits::CACHE) || !says_cache,
            "only a cache that is there has properties",
        )
    }

    fn write(&self, out: &mut Vec<u8>) {
        let fixed = layout::DeviceDetails {
            properties: self.properties.0.into(),
            address_bits: self.address_bits.into(),
            vendor_number: self.vendor_number.into(),
            cache_line: self.cache_line.into(),
            cache_bytes: self.cache_bytes.into(),
            constant_bytes: self.constant_bytes.into(),
            part_alignment: self.part_alignment.into(),
            argument_bytes: self.argument_bytes.into(),
            uuid: self.uuid,
        };
        out.extend_from_slice(fixed.as_bytes());
    }
}

impl Device<'_> {
    /// What of the device is told to a side that has agreed on these features.
    #[must_use]
    pub fn with_features(self, features: u64) -> Self {
        let details = self.details.filter(|_| features & crate::DETAILS != 0);
        Self {
            takes: self.takes.with_features(features),
            details: details.map(|details| details.with_features(features)),
            ..self
        }
    }

    /// True if it says nothing to which other features belong.
    #[must_use]
    pub fn is_within(&self, features: u64) -> bool {
        *self == self.with_features(features)
    }
}

impl<'a> Body<'a> for Device<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Problem> {
        let fixed: &layout::Device = cursor.fixed()?;
        zero(RESERVED, fixed.reserved)?;
        let has_details = fixed.has_details.get();
        within("whether there are details", has_details.into(), 0, 1)?;
        let numbers = |words: [Word; 3]| words.map(Word::get);
        Ok(Self {
            details: match has_details {
                0 => None,
                _ => Some(DeviceDetails::read(cursor)?),
            },
            number: fixed.number.get(),
            kind: DeviceKind::of(fixed.kind.get())?,
            takes: Takes(fixed.takes.get()),
            multiprocessors: fixed.multiprocessors.get(),
            clock_mhz: fixed.clock_mhz.get(),
            max_grid_blocks: numbers(fixed.max_grid_blocks),
            max_grid_block_count: fixed.max_grid_block_count.get(),
            max_block_threads: numbers(fixed.max_block_threads),
            max_block_thread_count: fixed.max_block_thread_count.get(),
            max_thread_elements: numbers(fixed.max_thread_elements),
            max_thread_element_count: fixed.max_thread_element_count.get(),
            shared_memory_per_block: fixed.shared_memory_per_block.get(),
            global_memory: fixed.global_memory.get(),
            max_buffer: fixed.max_buffer.get(),
            concurrent_commands: fixed.concurrent_commands.get(),
            warp_sizes: cursor.list("the warp sizes", fixed.warp_size_count.get().into())?,
            name: cursor.text("the name", fixed.name_length.get().into())?,
            vendor: cursor.text("the vendor", fixed.vendor_length.get().into())?,
            selector: cursor.text("the selector", fixed.selector_length.get().into())?,
            kernels: cursor.text("the built-in kernels", fixed.kernels_length.get().into())?,
        })
    }

    fn check(&self) -> Result<(), Problem> {
        check_text("the name", self.name, MAX_NAME)?;
        check_text("the vendor", self.vendor, MAX_NAME)?;
        check_text("the selector", self.selector, MAX_NAME)?;
        check_text("the built-in kernels", self.kernels, MAX_TEXT)?;
        if let Some(details) = &self.details {
            details.check()?;
        }
        holds(
            self.kernels.is_empty() == (self.takes.0 & Takes::BUILT_IN == 0),
            "built-in kernels are listed if, and only if, the device takes them",
        )?;
        within("the device's number", self.number.into(), 0, 1023)?;
        zero_bits("the programs it takes", self.takes.0 & !Takes::ALL)?;
        let sizes = self.warp_sizes.len() as u64;
        within("the number of warp sizes", sizes, 0, MAX_WARP_SIZES as u64)?;
        let powers = self
            .warp_sizes
            .iter()
            .all(|size| size.get().is_power_of_two());
        holds(powers, "a warp size that is no power of two")
    }

    fn write(&self, out: &mut Vec<u8>) {
        let words = |numbers: [u64; 3]| numbers.map(Word::new);
        let fixed = layout::Device {
            number: self.number.into(),
            kind: self.kind.number().into(),
            takes: self.takes.0.into(),
            multiprocessors: self.multiprocessors.into(),
            clock_mhz: self.clock_mhz.into(),
            max_grid_blocks: words(self.max_grid_blocks),
            max_grid_block_count: self.max_grid_block_count.into(),
            max_block_threads: words(self.max_block_threads),
            max_block_thread_count: self.max_block_thread_count.into(),
            max_thread_elements: words(self.max_thread_elements),
            max_thread_element_count: self.max_thread_element_count.into(),
            shared_memory_per_block: self.shared_memory_per_block.into(),
            global_memory: self.global_memory.into(),
            max_buffer: self.max_buffer.into(),
            concurrent_commands: self.concurrent_commands.into(),
            warp_size_count: (self.warp_sizes.len() as u16).into(),
            name_length: (self.name.len() as u16).into(),
            vendor_length: (self.vendor.len() as u16).into(),
            selector_length: (self.selector.len() as u16).into(),
            kernels_length: (self.kernels.len() as u16).into(),
            has_details: u16::from(self.details.is_some()).into(),
            reserved: 0.into(),
        };
        out.extend_from_slice(fixed.as_bytes());
        if let Some(details) = &self.details {
            details.write(out);
        }
        out.extend_from_slice(self.warp_sizes.as_bytes());
        for text in [self.name, self.vendor, self.selector, self.kernels] {
            out.extend_from_slice(text.as_bytes());
        }
    }
}

fn zero_bits(field: &'static str, bits: u16) -> Result<(), Problem> {
    if bits == 0 {
        return Ok(());
    }
    Err(Problem::Unknown {
        field,
        value: bits.into(),
    })
}

/// The state of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Milliseconds since it began to serve.
    pub uptime_ms: u64,
    /// Sessions.
    pub sessions: u32,
    /// Processor cores.
    pub cores: u32,
    /// The number of threads that wanted a core in the last minute, in thousandths; zero if it is
    /// not known.
    pub load_thousandths: u32,
    /// Bytes of the machine's memory; zero if it is not known.
    pub memory_bytes: u64,
    /// Bytes of it that are free; zero if it is not known.
    pub memory_free: u64,
    /// Bytes of all sessions' buffers.
    pub session_bytes: u64,
    /// Commands of all sessions that are not over.
    pub commands_held: u64,
    /// Commands that are over, since it began to serve.
    pub commands_over: u64,
    /// Bytes that it has sent in bulk to the sessions that there are, before they were compressed.
    pub bulk_bytes: u64,
    /// The bytes that were sent for them.
    pub bulk_sent: u64,
}

impl<'a> Body<'a> for Status {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Problem> {
        let fixed: &layout::Status = cursor.fixed()?;
        zero(RESERVED, fixed.reserved)?;
        zero(RESERVED, fixed.reserved_2)?;
        Ok(Self {
            uptime_ms: fixed.uptime_ms.get(),
            sessions: fixed.sessions.get(),
            cores: fixed.cores.get(),
            load_thousandths: fixed.load_thousandths.get(),
            memory_bytes: fixed.memory_bytes.get(),
            memory_free: fixed.memory_free.get(),
            session_bytes: fixed.session_bytes.get(),
            commands_held: fixed.commands_held.get(),
            commands_over: fixed.commands_over.get(),
            bulk_bytes: fixed.bulk_bytes.get(),
            bulk_sent: fixed.bulk_sent.get(),
        })
    }

    fn check(&self) -> Result<(), Problem> {
        holds(
            self.memory_free <= self.memory_bytes,
            "more memory is free than there is",
        )
    }

    fn write(&self, out: &mut Vec<u8>) {
        let fixed = layout::Status {
            uptime_ms: self.uptime_ms.into(),
            sessions: self.sessions.into(),
            cores: self.cores.into(),
            load_thousandths: self.load_thousandths.into(),
            reserved: 0.into(),
            memory_bytes: self.memory_bytes.into(),
            memory_free: self.memory_free.into(),
            session_bytes: self.session_bytes.into(),
            commands_held: self.commands_held.into(),
            commands_over: self.commands_over.into(),
            bulk_bytes: self.bulk_bytes.into(),
            bulk_sent: self.bulk_sent.into(),
            reserved_2: 0.into(),
        };
        out.extend_from_slice(fixed.as_bytes());
    }
}

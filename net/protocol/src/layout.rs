//! The fixed parts of frames and messages, as `docs/wire.md` lays them out: little-endian, without
//! gaps, of alignment 1, so that they are read where they lie.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

macro_rules! layouts {
    ($($(#[$documentation:meta])* $name:ident[$bytes:literal] { $($field:ident: $type:ty,)* })*) => {$(
        $(#[$documentation])*
        #[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
        #[repr(C)]
        pub(crate) struct $name {
            $(pub(crate) $field: $type,)*
        }
        const _: () = assert!(size_of::<$name>() == $bytes);
    )*};
}

layouts! {
    Header[16] { length: U32, kind: U16, flags: U16, sequence: U64, }

    Hello[80] {
        magic: [u8; 8], min_version: U16, max_version: U16, role: U16, name_length: U16, features: U64,
        session: [u8; 16], epoch: U32, data_order: U16, reserved: U16, received: U64, max_frame: U32,
        patience_ms: U32, reserved_2: [u8; 16],
    }
    Welcome[128] {
        version: U16, data_order: U16, devices: U32, features: U64, session: [u8; 16], epoch: U32, patience_ms: U32,
        received: U64, max_frame: U32, max_inline: U32, max_commands: U32, max_buffers: U32, max_programs: U32,
        max_program_bytes: U32, max_buffer_bytes: U64, max_session_bytes: U64, idle_ms: U32, name_length: U16,
        peer_port: U16, peer_ip: [u8; 16], reserved: [u8; 16],
    }
    Refuse[8] { code: U16, text_length: U16, reserved: U32, }
    Acknowledge[8] { received: U64, }
    Ping[16] { token: U64, time_ns: U64, }
    Pong[32] { token: U64, time_ns: U64, received_ns: U64, sent_ns: U64, }
    Goodbye[8] { reason: U16, text_length: U16, reserved: U32, }
    Enrol[40] { token: [u8; 32], name_length: U16, reserved: [u8; 6], }
    Enrolled[8] { name_length: U16, reserved: [u8; 6], }
    Redirect[64] { session: [u8; 16], key: [u8; 32], wait_ms: U32, reserved: [u8; 12], }
    Status[88] {
        uptime_ms: U64, sessions: U32, cores: U32, load_thousandths: U32, reserved: U32, memory_bytes: U64,
        memory_free: U64, session_bytes: U64, commands_held: U64, commands_over: U64, bulk_bytes: U64,
        bulk_sent: U64, reserved_2: U64,
    }
    Load[64] {
        device: U32, queue_count: U32, waiting: U64, running: U64, over: U64, busy_ns: U64, buffer_bytes: U64,
        free_bytes: U64, reserved: U64,
    }
    Links[16] { link_count: U32, more: U32, reserved: U64, }
    Device[160] {
        number: U32, kind: U16, takes: U16, multiprocessors: U32, clock_mhz: U32, max_grid_blocks: [U64; 3],
        max_grid_block_count: U64, max_block_threads: [U64; 3], max_block_thread_count: U64,
        max_thread_elements: [U64; 3], max_thread_element_count: U64, shared_memory_per_block: U64,
        global_memory: U64, max_buffer: U64, concurrent_commands: U32, warp_size_count: U16, name_length: U16,
        vendor_length: U16, selector_length: U16, kernels_length: U16, has_details: U16, reserved: U64,
    }
    DeviceDetails[64] {
        properties: U32, address_bits: U32, vendor_number: U32, cache_line: U32, cache_bytes: U64, constant_bytes: U64,
        part_alignment: U64, argument_bytes: U64, uuid: [u8; 16],
    }
    CreateBuffer[32] { buffer: U64, size: U64, reserved: [u8; 16], }
    Id[8] { id: U64, }
    CreateProgram[24] {
        program: U64, format: U16, entry_length: U16, options_length: U16, reserved: U16, source_length: U32,
        reserved_2: U32,
    }
    Command[24] {
        event: U64, device: U32, queue: U32, priority: u8, flags: u8, wait_count: U16, reserved: U32,
    }
    Launch[24] {
        program: U64, parameter_count: U16, extent_count: U16, block_rank: u8, thread_rank: u8, element_rank: u8,
        shared_count: u8, value_bytes: U32, offset_rank: u8, all_rank: u8, reserved: U16,
    }
    Fill[48] {
        buffer: U64, offset: U64, length: U64, pattern: [u8; 16], pattern_length: u8, reserved: [u8; 7],
    }
    Copy[48] {
        source: U64, source_offset: U64, destination: U64, destination_offset: U64, row: U64, step_count: U16,
        reserved: [u8; 6],
    }
    Transfer[40] {
        buffer: U64, offset: U64, row: U64, transfer: U64, inline_bytes: U32, step_count: U16, reserved: U16,
    }
    ReadContent[40] { buffer: U64, offset: U64, row: U64, transfer: U64, size: U64, }
    ContentSizes[16] { event: U64, count: U32, reserved: U32, }
    Describe[8] { source_length: U32, options_length: U16, form: U16, }
    Part[8] { source_length: U32, form: U16, options_length: U16, }
    Peer[120] {
        peer: U64, epoch: U32, wait_ms: U32, session: [u8; 16], key: [u8; 32], ticket: [u8; 32], ip: [u8; 16],
        port: U16, role: u8, routed: u8, reserved: U32,
    }
    Send[48] { buffer: U64, offset: U64, row: U64, transfer: U64, peer: U64, remote: U64, }
    SendContent[56] { buffer: U64, offset: U64, row: U64, transfer: U64, peer: U64, remote: U64, size: U64, }
    Receive[40] { buffer: U64, offset: U64, row: U64, transfer: U64, peer: U64, }
    Tell[24] { event: U64, peer: U64, placeholder: U64, }
    Ticket[64] {
        min_version: U16, max_version: U16, epoch: U32, session: [u8; 16], ticket: [u8; 32], max_frame: U32,
        reserved: U32,
    }
    Admitted[8] { version: U16, reserved: U16, max_frame: U32, }
    Placeholder[16] { event: U64, peer: U64, }
    Resolve[16] { event: U64, failure: U16, text_length: U16, reserved: U32, }
    Completed[8] { count: U32, reserved: U32, }
    Failed[56] {
        event: U64, cause: U64, failure: U16, text_length: U16, what_length: U16, reserved: U16, numbers: [U64; 3],
        reserved_2: U64,
    }
    ReadBytes[16] { event: U64, length: U32, reserved: U32, }
    Content[16] { event: U64, length: U64, }
    ProgramSource[8] { length: U32, reserved: U32, }
    Printed[16] { lost: U64, length: U32, reserved: U32, }
    DeviceLost[8] { device: U32, memory_lost: U16, text_length: U16, }
    BuildLog[16] { event: U64, text_length: U16, reserved: [u8; 6], }
    KernelDescription[40] {
        event: U64, local_bytes: U64, required_local_size: [U32; 3], parameter_count: U16, flags: U16,
        name_length: U16, attributes_length: U16, sub_group_size: U32,
    }
    ParameterDescription[24] {
        event: U64, class: U16, flags: U16, size: U32, align: U32, name_length: U16, type_length: U16,
    }
    Chunk[24] { transfer: U64, offset: U64, length: U32, reserved: U32, }
    Rest[16] { transfer: U64, offset: U64, }
}

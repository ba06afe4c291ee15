//! The thresholds of the core, in one place: numbers beyond which it takes another path.
//!
//! With `--cfg quipu_small_limits` they are so small that short tests pass all of them: see
//! `scripts/test storm`.

const fn usually(usual: usize, small: usize) -> usize {
    if cfg!(quipu_small_limits) {
        small
    } else {
        usual
    }
}

/// Readers of a segment beyond which they are joined into one marker.
pub const MAX_READERS: usize = usually(64, 4);

/// Segments of a tracker beyond which neighbours that no longer differ are merged.
pub const COMPACT_AT: usize = usually(64, 3);

/// Commands that use rows with gaps in one memory object, beyond which the gaps of another
/// command's count as its own.
pub const MOST_USERS: usize = usually(1024, 6);

/// Wait lists from this length on are joined into one marker, which the next
/// command with the same list shares: n by n dependencies cost n, not n².
pub const JOIN_WAITS: usize = usually(8, 3);

/// A list of commands that the device can wait for by itself is joined only if
/// it is longer than this. A marker ends on the host, so the device would have
/// to be told by it: that takes longer than so many edges cost, and the device
/// stands still meanwhile. Much longer lists cost more than that each time they
/// come again. Readers of a buffer are joined at the same length.
pub const JOIN_DOMAIN_WAITS: usize = usually(64, 6);

/// Retired slots that make it worth forgetting old handles.
pub const RETIRED_DUE: usize = usually(4096, 8);

/// Commands that are handed over together, at most.
pub const BATCH: usize = usually(256, 3);

/// Events that a command may list: half of the waits that can be counted.
pub const MOST_LISTED: usize = usually((1 << 25) - 1, 1 << 12);

/// Waits inside of each other's callbacks on one thread: far less than its stack has room for.
pub const MOST_WAITS: u32 = usually(64, 64) as u32;

/// Callbacks of finished events, and wakers, that are called inside of each other, as above.
pub const MOST_AT_ONCE: u32 = usually(16, 2) as u32;

/// Commands per page of a queue's progress: the number that fits in 4 KiB behind the header.
pub const PAGE_COMMANDS: u64 = usually(4096 - 64, 8) as u64;

/// The largest generation of a slot, which has sixteen bits. The commands of a graph, whose slots
/// stay, start again after it.
pub const LAST_GENERATION: u32 = (1 << 16) - 1;

/// A slot whose generation has reached this is retired when it is given back. So a slot that a
/// graph takes has two generations left at least, and two launches in a row never have the same
/// ids.
pub const RETIRE_AT: u32 = usually(LAST_GENERATION as usize - 1, 40) as u32;

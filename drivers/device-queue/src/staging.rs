//! Large copies between pageable memory of the host and devices, by threads of the host: in pieces
//! through pinned memory. Threads take piece after piece, and each copies one while others of its
//! own are on their way.

use crate::past_caches::copy_past_caches;
use crate::workers::Workers;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::ThreadId;

/// The most bytes of a piece. Pieces of a quarter are slower (`--example staging` of the CUDA
/// driver).
pub const PIECE: usize = 2 << 20;
/// Blocks of each thread: one is copied while others are on their way.
pub const BLOCKS: usize = 3;
/// The most threads that share a copy. A core copies 8 GB/s between memory that is in no cache and
/// a block, and a device takes 55.
pub const MOST_THREADS: usize = 8;
/// For so many bytes another thread takes part: it comes some tens of microseconds later.
const WORTH_A_THREAD: u64 = 1 << 20;

/// The number of threads that share a copy of so many bytes, on this host.
#[must_use]
pub fn threads_for(length: u64) -> usize {
    // Once: to ask takes longer than to enqueue a command, and is answered for the thread that
    // asks.
    static CORES: OnceLock<usize> = OnceLock::new();
    let asked = || std::thread::available_parallelism().map_or(1, usize::from);
    threads_on(length, *CORES.get_or_init(asked))
}

/// No more than half of the cores.
fn threads_on(length: u64, cores: usize) -> usize {
    let most = (cores / 2).clamp(1, MOST_THREADS);
    (length / WORTH_A_THREAD).clamp(1, most as u64) as usize
}

/// The length of each piece but the last of so many bytes, which so many threads share. The device
/// is idle while the first pieces are copied, and the host while the last are moved. But each piece
/// takes a call, and a thread that brings bytes waits for it.
fn piece_of(length: usize, threads: usize, direction: Direction) -> usize {
    let (each, least) = match direction {
        Direction::Up => (4, 256 << 10),
        Direction::Down => (2, 512 << 10),
    };
    let even = length.div_ceil(threads * each);
    even.next_multiple_of(64 << 10).clamp(least, PIECE)
}

/// The line on which a thread moves pieces: [`BLOCKS`] blocks of pinned memory, of [`PIECE`] bytes,
/// and a queue of the device's.
///
/// # Safety
/// Blocks are so many bytes, apart from each other, and the line's alone for as long as it lives. A
/// copy that was waited for, or has [finished](Line::finish), is on its way no more.
pub unsafe trait Line {
    /// A copy on its way.
    type Copy;
    /// The reason for which a call was refused.
    type Failure;

    /// The start of a block.
    fn block(&self, number: usize) -> *mut u8;

    /// Puts a copy into the queue: of so many bytes from the start of a block to the device, or
    /// back. `place` is their place in the whole copy.
    ///
    /// # Errors
    /// If the library refuses.
    ///
    /// # Safety
    /// The place is within the whole copy, no other copy of the block is on its way, and nobody
    /// else uses these bytes, or the block's, until this one is over.
    unsafe fn put(
        &self,
        block: usize,
        place: usize,
        length: usize,
    ) -> Result<Self::Copy, Self::Failure>;

    /// Waits for a copy.
    ///
    /// # Errors
    /// If it has failed, or the library refuses.
    fn wait(&self, copy: Self::Copy) -> Result<(), Self::Failure>;

    /// Waits for all that is in the queue.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    fn finish(&self) -> Result<(), Self::Failure>;
}

/// The direction of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To the device.
    Up,
    /// From it.
    Down,
}

/// A large copy whose pieces threads take one after the other.
#[derive(Debug)]
pub struct Pieces {
    host: *mut u8,
    length: usize,
    direction: Direction,
    /// Bytes of a piece, but for the last.
    piece: usize,
    /// The thread whose copy it is.
    owner: ThreadId,
    /// The number of the next piece that nobody has taken.
    next: AtomicUsize,
    /// Bytes that are where they are to be.
    moved: AtomicUsize,
}

// SAFETY: each piece of the host's memory is one thread's.
unsafe impl Send for Pieces {}
// SAFETY: as above.
unsafe impl Sync for Pieces {}

/// One of them: where it begins, and how long it is.
#[derive(Clone, Copy)]
struct Piece {
    start: usize,
    length: usize,
}

impl Pieces {
    /// Moves so many bytes from this memory to a device, or to it: threads of `workers` call `work`
    /// with the pieces to move, each with a line of its own for [`Pieces::through`]. Returns when
    /// nothing is on its way; false if a thread has panicked with a piece. One that has no line,
    /// for want of memory, leaves its share to the others.
    ///
    /// # Errors
    /// The first error of a thread, if not all is moved.
    ///
    /// # Safety
    /// So many bytes are there and the caller's for as long: nobody else writes them, nor reads
    /// those that are written.
    pub unsafe fn share<F: Send>(
        workers: &Arc<Workers>,
        host: *mut u8,
        length: usize,
        direction: Direction,
        work: impl Fn(&Self) -> Result<(), F> + Sync,
    ) -> Result<bool, F> {
        let threads = threads_for(length as u64);
        let pieces = Self {
            host,
            length,
            direction,
            piece: piece_of(length, threads, direction),
            owner: std::thread::current().id(),
            next: AtomicUsize::new(0),
            moved: AtomicUsize::new(0),
        };
        let outcome = Mutex::new(Ok(()));
        workers.share(threads - 1, &|| {
            if let Err(error) = work(&pieces) {
                let mut outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
                if outcome.is_ok() {
                    *outcome = Err(error);
                }
            }
        });
        if pieces.moved.into_inner() == length {
            return Ok(true);
        }
        let outcome = outcome.into_inner();
        outcome.unwrap_or_else(PoisonError::into_inner)?;
        Ok(false)
    }

    /// Moves pieces until there are none left. Also after an error, nothing of these is on its way
    /// when it returns.
    ///
    /// # Errors
    /// The line's error.
    pub fn through<L: Line>(&self, line: &L) -> Result<(), L::Failure> {
        let moved = match self.direction {
            Direction::Up => self.up(line),
            Direction::Down => self.down(line),
        };
        if moved.is_err() {
            self.stop();
        }
        let over = line.finish();
        let moved = moved?;
        if over.is_ok() {
            self.moved.fetch_add(moved, Ordering::Relaxed);
        }
        over
    }

    /// Moves pieces until there are none left by calls that return when each is moved. A call gets
    /// the piece's place on the host, its place in the whole copy, and its length.
    ///
    /// # Errors
    /// The error of a call.
    pub fn one_by_one<F>(
        &self,
        mut copy: impl FnMut(*mut u8, usize, usize) -> Result<(), F>,
    ) -> Result<(), F> {
        while let Some(Piece { start, length }) = self.take() {
            copy(self.host.wrapping_add(start), start, length)?;
            self.moved.fetch_add(length, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Their direction.
    #[must_use]
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// True if there are pieces that nobody has taken.
    #[must_use]
    pub fn are_left(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.length.div_ceil(self.piece)
    }

    /// True if this thread only helps with the copy, and may leave it to others.
    #[must_use]
    pub fn is_helper(&self) -> bool {
        std::thread::current().id() != self.owner
    }

    fn take(&self) -> Option<Piece> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let start = number.checked_mul(self.piece)?;
        (start < self.length).then(|| Piece {
            start,
            length: self.piece.min(self.length - start),
        })
    }

    /// Keeps all threads from taking pieces.
    fn stop(&self) {
        self.next
            .store(self.length.div_ceil(self.piece), Ordering::Relaxed);
    }

    /// Moves pieces to the device. Gives the number of bytes that are on their way then.
    fn up<L: Line>(&self, line: &L) -> Result<usize, L::Failure> {
        let mut moved = 0;
        let mut sent: [Option<L::Copy>; BLOCKS] = [const { None }; BLOCKS];
        let turns = (0..BLOCKS).cycle();
        for (turn, piece) in turns.zip(std::iter::from_fn(|| self.take())) {
            if let Some(sent) = sent[turn].take() {
                line.wait(sent)?;
            }
            // SAFETY: so many bytes on both sides, which are this thread's; the block's bytes from
            // before are sent.
            let copy = unsafe {
                let from = self.host.add(piece.start);
                // Many bytes keep the memory so busy that it has no time for these as well.
                if self.piece == PIECE {
                    line.block(turn)
                        .copy_from_nonoverlapping(from, piece.length);
                } else {
                    copy_past_caches(from, line.block(turn), piece.length);
                }
                line.put(turn, piece.start, piece.length)
            };
            sent[turn] = Some(copy?);
            moved += piece.length;
        }
        Ok(moved)
    }

    /// Moves pieces from the device. Gives the number of bytes that have come then.
    fn down<L: Line>(&self, line: &L) -> Result<usize, L::Failure> {
        let mut moved = 0;
        let ask = |block: usize| -> Result<Option<(Piece, L::Copy)>, L::Failure> {
            let Some(piece) = self.take() else {
                return Ok(None);
            };
            // SAFETY: so many bytes on both sides; the block's bytes from before are copied.
            let copy = unsafe { line.put(block, piece.start, piece.length) };
            Ok(Some((piece, copy?)))
        };
        let mut coming: [Option<(Piece, L::Copy)>; BLOCKS] = [const { None }; BLOCKS];
        for (block, coming) in coming.iter_mut().enumerate() {
            *coming = ask(block)?;
        }
        for turn in (0..BLOCKS).cycle() {
            let Some((piece, come)) = coming[turn].take() else {
                break;
            };
            line.wait(come)?;
            // SAFETY: so many bytes on both sides, which are this thread's.
            unsafe {
                let to = self.host.add(piece.start);
                to.copy_from_nonoverlapping(line.block(turn), piece.length);
            }
            // Its block is free again.
            coming[turn] = ask(turn)?;
            moved += piece.length;
        }
        Ok(moved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    #[test]
    fn threads_are_no_more_than_are_worth_it_and_half_the_cores() {
        assert_eq!(threads_on(1 << 20, 16), 1);
        assert_eq!(threads_on(4 << 20, 16), 4);
        assert_eq!(threads_on(16 << 20, 16), MOST_THREADS);
        assert_eq!(threads_on(1 << 30, 16), MOST_THREADS);
        assert_eq!(threads_on(1 << 30, 128), MOST_THREADS);
        assert_eq!(threads_on(1 << 30, 6), 3);
        assert_eq!(threads_on(1 << 30, 1), 1);
    }

    #[test]
    fn pieces_are_large_enough_and_of_many_bytes_as_large_as_blocks() {
        for direction in [Direction::Up, Direction::Down] {
            for length in [1, 1 << 20, (4 << 20) + 5, 16 << 20, 1 << 30] {
                for threads in [1, 2, 8] {
                    let piece = piece_of(length, threads, direction);
                    assert!((256 << 10..=PIECE).contains(&piece));
                    assert!(piece == PIECE || piece * threads * 4 >= length);
                }
            }
            assert_eq!(piece_of(64 << 20, 8, direction), PIECE);
        }
        assert_eq!(piece_of(16 << 20, 8, Direction::Up), 512 << 10);
        assert_eq!(piece_of(16 << 20, 8, Direction::Down), 1 << 20);
    }

    /// A device whose copies are made when they are waited for, as late as can be; the memory's
    /// bytes are another thread's as well, but no byte is two's.
    struct Late {
        device: *mut u8,
        blocks: Vec<RefCell<Vec<u8>>>,
        direction: Direction,
        /// Block, place and length of the copies on their way, oldest first.
        queue: RefCell<Vec<(usize, usize, usize)>>,
        /// Calls until one is refused.
        left: Cell<usize>,
    }

    impl Late {
        fn new(device: *mut u8, direction: Direction, left: usize) -> Self {
            Self {
                device,
                blocks: vec![RefCell::new(vec![0; PIECE]); BLOCKS],
                direction,
                queue: RefCell::default(),
                left: Cell::new(left),
            }
        }

        fn do_first(&self) -> usize {
            let (block, place, length) = self.queue.borrow_mut().remove(0);
            let mut bytes = self.blocks[block].borrow_mut();
            // SAFETY: within the device's memory; each byte is moved once.
            unsafe {
                let there = self.device.add(place);
                match self.direction {
                    Direction::Up => there.copy_from_nonoverlapping(bytes.as_ptr(), length),
                    Direction::Down => bytes.as_mut_ptr().copy_from_nonoverlapping(there, length),
                }
            }
            block
        }
    }

    // SAFETY: a block is a vector of its own; `wait` and `finish` make the copies.
    unsafe impl Line for Late {
        type Copy = usize;
        type Failure = &'static str;

        fn block(&self, number: usize) -> *mut u8 {
            let on_its_way = self.queue.borrow();
            assert!(on_its_way.iter().all(|copy| copy.0 != number), "in use");
            self.blocks[number].borrow_mut().as_mut_ptr()
        }

        unsafe fn put(
            &self,
            block: usize,
            place: usize,
            length: usize,
        ) -> Result<usize, &'static str> {
            let left = self.left.get().checked_sub(1).ok_or("refused")?;
            self.left.set(left);
            self.queue.borrow_mut().push((block, place, length));
            Ok(block)
        }

        fn wait(&self, copy: usize) -> Result<(), &'static str> {
            while self.do_first() != copy {}
            Ok(())
        }

        fn finish(&self) -> Result<(), &'static str> {
            while !self.queue.borrow().is_empty() {
                self.do_first();
            }
            Ok(())
        }
    }

    struct Shared(*mut u8);
    // SAFETY: threads use bytes of their own.
    unsafe impl Sync for Shared {}

    /// The result of a copy whose lines are refused their call of this number.
    fn copied(
        length: usize,
        direction: Direction,
        left: usize,
    ) -> (Result<bool, &'static str>, bool) {
        let workers = Workers::new("pieces");
        let pattern: Vec<u8> = (0..length).map(|at| ((at * 31) >> 7) as u8).collect();
        let (mut host, mut device) = match direction {
            Direction::Up => (pattern.clone(), vec![0xee; length]),
            Direction::Down => (vec![0xee; length], pattern.clone()),
        };
        let shared = Shared(device.as_mut_ptr());
        let work = |pieces: &Pieces| {
            let shared = &shared;
            let line = Late::new(shared.0, direction, left);
            let done = pieces.through(&line);
            assert!(line.queue.borrow().is_empty(), "it is on its way");
            done
        };
        // SAFETY: the bytes are there, and nobody else's.
        let moved = unsafe { Pieces::share(&workers, host.as_mut_ptr(), length, direction, work) };
        (moved, host == pattern && device == pattern)
    }

    #[test]
    fn every_byte_is_moved_once_through_blocks_that_are_not_in_use() {
        for direction in [Direction::Up, Direction::Down] {
            for length in [1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE, 13 * PIECE + 5] {
                let (moved, is_whole) = copied(length, direction, usize::MAX);
                assert_eq!(moved, Ok(true));
                assert!(is_whole, "{length} {direction:?}");
            }
            assert_eq!(copied(9 * PIECE, direction, 2).0, Err("refused"));
        }
    }

    #[test]
    fn who_has_no_line_leaves_its_share_to_others() {
        let workers = Workers::new("pieces");
        let (mut host, mut device) = (vec![3_u8; 20 * PIECE], vec![0_u8; 20 * PIECE]);
        let shared = Shared(device.as_mut_ptr());
        let work = |pieces: &Pieces| {
            let shared = &shared;
            if pieces.is_helper() {
                return Err("no memory");
            }
            pieces.through(&Late::new(shared.0, Direction::Up, usize::MAX))
        };
        let (start, length) = (host.as_mut_ptr(), host.len());
        // SAFETY: the bytes are there, and nobody else's.
        let moved = unsafe { Pieces::share(&workers, start, length, Direction::Up, work) };
        assert_eq!(moved, Ok(true));
        assert!(device == host);
    }

    #[test]
    fn pieces_are_moved_one_by_one_without_a_line() {
        let workers = Workers::new("pieces");
        let length = 5 * PIECE + 3;
        let mut host = vec![0_u8; length];
        let device: Vec<u8> = (0..length).map(|at| ((at * 31) >> 7) as u8).collect();
        let work = |pieces: &Pieces| {
            pieces.one_by_one(|to, place, length| {
                // SAFETY: within both; each piece is moved once.
                unsafe { to.copy_from_nonoverlapping(device[place..].as_ptr(), length) };
                Ok::<_, ()>(())
            })?;
            assert!(!pieces.are_left());
            Ok::<_, ()>(())
        };
        let start = host.as_mut_ptr();
        // SAFETY: the bytes are there, and nobody else's.
        let moved = unsafe { Pieces::share(&workers, start, length, Direction::Down, work) };
        assert_eq!(moved, Ok(true));
        assert!(host == device);
    }

    #[test]
    fn a_thread_that_takes_a_piece_and_loses_it_leaves_the_copy_undone() {
        let workers = Workers::new("pieces");
        let mut host = vec![0; PIECE];
        let lost = |pieces: &Pieces| {
            pieces.take();
            Ok::<_, ()>(())
        };
        // SAFETY: the bytes are there, and nobody else's.
        let moved =
            unsafe { Pieces::share(&workers, host.as_mut_ptr(), PIECE, Direction::Down, lost) };
        assert_eq!(moved, Ok(false));
    }
}

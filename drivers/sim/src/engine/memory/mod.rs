//! Device memory: real bytes that only the machine's commands can touch.
//!
//! # Invariants
//!
//! * An address names its space; memory of another space, or of the host, cannot be reached with
//!   it.
//! * A region lies within one live allocation, or it is refused.
//! * An allocation in use by an uploaded command cannot be freed.
//! * Fresh memory reads as zero.
//!
//! Memory of the host's can be mapped into a space. It takes nothing of the capacity, and has
//! addresses beyond that.
//!
//! Each allocation is one block of host RAM with the alignment that was asked for, so that kernels
//! written for the host find their data aligned.

mod access;
mod allocator;
mod bytes;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

pub use access::{Access, AccessMode, MemoryAccess};
pub(crate) use access::{Backing, EffectError, Publication, ViewPlan};
use allocator::Allocator;
pub use bytes::HostMemory;
use bytes::{AlignedBytes, Bytes};

use super::configuration::{SpaceConfiguration, SpaceId};

/// The first address of a space: below lie the command queues and the event-status area of its
/// devices.
const FIRST_ADDRESS: u64 = 1 << 16;
const SPACE_SHIFT: u32 = 56;
/// No memory of the host's has an address beyond this one.
const LAST_ADDRESS: u64 = 1 << (SPACE_SHIFT - 1);
/// The largest alignment that an allocation can ask for.
const LARGEST_ALIGNMENT: u64 = 1 << 20;

/// An address in a memory space of the machine. No address is zero, and none is a host pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceAddress(u64);

impl DeviceAddress {
    fn new(space: SpaceId, offset: u64) -> Self {
        Self(u64::from(space.0) << SPACE_SHIFT | offset)
    }

    /// The address as a number: the space in the top eight bits, the offset in the rest.
    #[must_use]
    pub const fn to_raw(self) -> u64 {
        self.0
    }

    /// The address of a number from [`to_raw`](Self::to_raw). Any other number is an address as
    /// well, one that every use refuses unless an allocation happens to lie there.
    #[must_use]
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// The space it lies in.
    #[must_use]
    pub fn space(self) -> SpaceId {
        SpaceId((self.0 >> SPACE_SHIFT) as u8)
    }

    /// The address `bytes` further on; wraps, to somewhere that every use refuses.
    #[must_use]
    pub const fn add(self, bytes: u64) -> Self {
        Self(self.0.wrapping_add(bytes))
    }

    fn offset(self) -> u64 {
        self.0 & ((1 << SPACE_SHIFT) - 1)
    }
}

impl std::fmt::Display for DeviceAddress {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:#x} of {}", self.offset(), self.space())
    }
}

/// Some bytes of device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Region {
    /// The address of the first byte.
    pub address: DeviceAddress,
    /// The number of bytes.
    pub length: u64,
}

impl Region {
    /// `length` bytes from `address`.
    #[must_use]
    pub const fn new(address: DeviceAddress, length: u64) -> Self {
        Self { address, length }
    }

    fn start(self) -> u64 {
        self.address.0
    }

    fn end(self) -> u64 {
        self.address.0.saturating_add(self.length)
    }

    /// True if they share a byte. Regions of no bytes share none.
    pub(crate) fn overlaps(self, other: Self) -> bool {
        let has_bytes = self.length > 0 && other.length > 0;
        has_bytes && self.start() < other.end() && other.start() < self.end()
    }

    fn contains(self, other: Self) -> bool {
        self.start() <= other.start() && other.end() <= self.end()
    }
}

impl std::fmt::Display for Region {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} bytes at {}", self.length, self.address)
    }
}

/// The reason for which memory cannot be had, or not be used so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The space does not exist.
    #[error("{space} does not exist")]
    UnknownSpace {
        /// The space.
        space: SpaceId,
    },
    /// Nothing was asked for.
    #[error("an allocation of zero bytes in {space}: ask for at least one")]
    ZeroSize {
        /// The space.
        space: SpaceId,
    },
    /// No address can be aligned so.
    #[error("an alignment of {alignment} bytes: it must be a power of two, at most 1 MiB")]
    BadAlignment {
        /// The alignment that was asked for.
        alignment: u64,
    },
    /// The space has no such piece left.
    #[error(
        "{space} is out of memory: {asked} bytes asked for, {free} of {capacity} free, the largest piece {largest}"
    )]
    OutOfMemory {
        /// The space.
        space: SpaceId,
        /// Bytes asked for.
        asked: u64,
        /// Bytes free, all together.
        free: u64,
        /// The largest free piece.
        largest: u64,
        /// Bytes of the space.
        capacity: u64,
    },
    /// The host has no RAM to keep the bytes in.
    #[error("the host has no memory left to simulate {asked} bytes of device memory")]
    HostExhausted {
        /// Bytes asked for.
        asked: u64,
    },
    /// No live allocation starts there (to free it), or none is there (to use it).
    #[error("no live allocation at {address}: it was freed, or never made")]
    NotAllocated {
        /// The address.
        address: DeviceAddress,
    },
    /// The region goes beyond its allocation.
    #[error("{region} go beyond the allocation there, which has {allocated} bytes from {start}")]
    OutOfBounds {
        /// The region.
        region: Region,
        /// The start of the allocation.
        start: DeviceAddress,
        /// Its size.
        allocated: u64,
    },
    /// The region lies in memory that the device has no way to.
    #[error("{region} cannot be reached by a device of {needed}: copy them there first")]
    WrongSpace {
        /// The region.
        region: Region,
        /// The device's space.
        needed: SpaceId,
    },
    /// An allocation was to be freed that commands still use.
    #[error(
        "the allocation at {address} is used by {users} uploaded commands: free it when they have ended"
    )]
    InUse {
        /// The allocation.
        address: DeviceAddress,
        /// The number of commands that use it.
        users: u64,
    },
    /// The region is memory of the host's, which others may be writing.
    #[error("{region} are memory of the host's that devices use where it is: look at it there")]
    OfHost {
        /// The region.
        region: Region,
    },
    /// The space went with the last of its devices.
    #[error("{space} was lost with its devices")]
    SpaceLost {
        /// The space.
        space: SpaceId,
    },
    /// An effect asked for a region that its command did not declare.
    #[error(
        "a command uses {region} without having declared it to be {mode:?}: declare every access"
    )]
    Undeclared {
        /// The region.
        region: Region,
        /// The use that was asked for.
        mode: AccessMode,
    },
}

impl From<MemoryError> for String {
    /// For effects, whose errors are text: `access.read(region)?` works in them.
    fn from(error: MemoryError) -> Self {
        error.to_string()
    }
}

#[derive(Debug)]
struct Allocation {
    length: u64,
    users: u64,
    bytes: Arc<RwLock<Bytes>>,
}

/// One memory space: the allocations, and their bytes.
#[derive(Debug)]
pub(crate) struct Space {
    id: SpaceId,
    allocator: Allocator,
    allocations: BTreeMap<u64, Allocation>,
    /// The first address of memory of the host's.
    first_mapped: u64,
    /// The next one. No address comes again: a space has far more than any program needs.
    next_mapped: u64,
    lost: bool,
}

impl Space {
    pub(crate) fn new(id: SpaceId, configuration: &SpaceConfiguration) -> Self {
        let end = FIRST_ADDRESS.saturating_add(configuration.capacity);
        let first_mapped = end
            .checked_next_multiple_of(LARGEST_ALIGNMENT)
            .unwrap_or(u64::MAX);
        Self {
            id,
            allocator: Allocator::new(FIRST_ADDRESS, configuration.capacity),
            allocations: BTreeMap::new(),
            first_mapped,
            next_mapped: first_mapped,
            lost: false,
        }
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.allocator.capacity()
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        self.allocator.free_bytes()
    }

    pub(crate) fn largest_free(&self) -> u64 {
        self.allocator.largest_free()
    }

    pub(crate) fn live_allocations(&self) -> usize {
        self.allocations.len()
    }

    pub(crate) fn lose(&mut self) {
        self.lost = true;
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost
    }

    pub(crate) fn out_of_memory(&self, asked: u64) -> MemoryError {
        MemoryError::OutOfMemory {
            space: self.id,
            asked,
            free: self.free_bytes(),
            largest: self.largest_free(),
            capacity: self.capacity(),
        }
    }

    /// Zeroed memory; `fails` is a fault's wish.
    pub(crate) fn allocate(
        &mut self,
        size: u64,
        alignment: u64,
        fails: bool,
    ) -> Result<DeviceAddress, MemoryError> {
        if size == 0 {
            return Err(MemoryError::ZeroSize { space: self.id });
        }
        if !alignment.is_power_of_two() || alignment > LARGEST_ALIGNMENT {
            return Err(MemoryError::BadAlignment { alignment });
        }
        if self.lost {
            return Err(MemoryError::SpaceLost { space: self.id });
        }
        if fails {
            return Err(self.out_of_memory(size));
        }
        let offset = self
            .allocator
            .allocate(size, alignment)
            .ok_or_else(|| self.out_of_memory(size))?;
        let Some(bytes) = AlignedBytes::zeroed(size, alignment.max(64), 0) else {
            self.allocator.free(offset);
            return Err(MemoryError::HostExhausted { asked: size });
        };
        Ok(self.insert(offset, size, Bytes::Own(bytes)))
    }

    /// `size` bytes of memory of the host's, as aligned as any.
    pub(crate) fn map(
        &mut self,
        memory: Box<dyn HostMemory>,
        size: u64,
    ) -> Result<DeviceAddress, MemoryError> {
        if size == 0 {
            return Err(MemoryError::ZeroSize { space: self.id });
        }
        if self.lost {
            return Err(MemoryError::SpaceLost { space: self.id });
        }
        let offset = self.next_mapped;
        let end = offset.checked_add(size).filter(|end| *end < LAST_ADDRESS);
        let end = end.ok_or(MemoryError::HostExhausted { asked: size })?;
        self.next_mapped = end.next_multiple_of(LARGEST_ALIGNMENT);
        Ok(self.insert(offset, size, Bytes::Host(memory)))
    }

    fn insert(&mut self, offset: u64, length: u64, bytes: Bytes) -> DeviceAddress {
        self.allocations.insert(
            offset,
            Allocation {
                length,
                users: 0,
                bytes: Arc::new(RwLock::new(bytes)),
            },
        );
        DeviceAddress::new(self.id, offset)
    }

    /// Gives an allocation back. Works on a lost space too, so that its users can clean up.
    pub(crate) fn free(&mut self, address: DeviceAddress) -> Result<(), MemoryError> {
        let offset = address.offset();
        let allocation = self
            .allocations
            .get(&offset)
            .ok_or(MemoryError::NotAllocated { address })?;
        if allocation.users > 0 {
            return Err(MemoryError::InUse {
                address,
                users: allocation.users,
            });
        }
        self.allocations.remove(&offset);
        if offset < self.first_mapped {
            self.allocator.free(offset);
        }
        Ok(())
    }

    /// True if an uploaded command uses the allocation that starts here.
    pub(crate) fn is_in_use(&self, address: DeviceAddress) -> bool {
        let allocation = self.allocations.get(&address.offset());
        allocation.is_some_and(|allocation| allocation.users > 0)
    }

    /// Writes bytes to memory that no command uses.
    pub(crate) fn deposit(&mut self, region: Region, bytes: &[u8]) -> Result<(), MemoryError> {
        if region.length == 0 {
            return Ok(());
        }
        let (start, allocation) = self.locate(region)?;
        if allocation.users > 0 {
            return Err(MemoryError::InUse {
                address: DeviceAddress::new(self.id, start),
                users: allocation.users,
            });
        }
        let mut to = allocation
            .bytes
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let from = (region.address.offset() - start) as usize;
        to.set(from, bytes);
        Ok(())
    }

    /// The allocation that holds all of `region`.
    fn locate(&self, region: Region) -> Result<(u64, &Allocation), MemoryError> {
        if self.lost {
            return Err(MemoryError::SpaceLost { space: self.id });
        }
        let address = region.address;
        if address.space() != self.id {
            return Err(MemoryError::WrongSpace {
                region,
                needed: self.id,
            });
        }
        let (&start, allocation) = self
            .allocations
            .range(..=address.offset())
            .next_back()
            .filter(|(start, allocation)| address.offset() - **start < allocation.length)
            .ok_or(MemoryError::NotAllocated { address })?;
        if allocation.length - (address.offset() - start) < region.length {
            return Err(MemoryError::OutOfBounds {
                region,
                start: DeviceAddress::new(self.id, start),
                allocated: allocation.length,
            });
        }
        Ok((start, allocation))
    }

    /// Takes the allocations of `accesses` into use; none of them if one is refused. Empty accesses
    /// are nothing.
    pub(crate) fn take_into_use(
        &mut self,
        accesses: &[Access],
    ) -> Result<Vec<Backing>, MemoryError> {
        let mut backings = BTreeMap::new();
        for access in accesses.iter().filter(|access| access.region.length > 0) {
            let (start, allocation) = self.locate(access.region)?;
            backings.entry(start).or_insert_with(|| Backing {
                region: Region::new(DeviceAddress::new(self.id, start), allocation.length),
                bytes: Arc::clone(&allocation.bytes),
            });
        }
        for start in backings.keys() {
            if let Some(allocation) = self.allocations.get_mut(start) {
                allocation.users += 1;
            }
        }
        Ok(backings.into_values().collect())
    }

    /// Ends the use that [`take_into_use`](Self::take_into_use) began.
    pub(crate) fn end_use(&mut self, backings: &[Backing]) {
        for backing in backings {
            if let Some(allocation) = self.allocations.get_mut(&backing.region.address.offset()) {
                allocation.users -= 1;
            }
        }
    }

    /// The bytes of a region as they are now, for anybody who asks: none of the host's.
    pub(crate) fn inspect(&self, region: Region) -> Result<Vec<u8>, MemoryError> {
        if region.length > 0 && self.locate(region)?.0 >= self.first_mapped {
            return Err(MemoryError::OfHost { region });
        }
        self.read(region)
    }

    /// The bytes of a region as they are now. Of the host's, nobody writes them.
    pub(crate) fn read(&self, region: Region) -> Result<Vec<u8>, MemoryError> {
        if region.length == 0 {
            return Ok(Vec::new());
        }
        let (start, allocation) = self.locate(region)?;
        let bytes = allocation
            .bytes
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let from = (region.address.offset() - start) as usize;
        Ok(bytes.copy(from..from + region.length as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_scheduler::Region as Rows;
    use std::sync::Mutex;

    fn space() -> Space {
        Space::new(
            SpaceId(3),
            &SpaceConfiguration {
                capacity: 1 << 20,
                status_slots: 1,
            },
        )
    }

    #[test]
    fn addresses_carry_their_space_and_survive_as_numbers() {
        let mut space = space();
        let address = space.allocate(100, 4096, false).unwrap();
        assert_eq!(address.space(), SpaceId(3));
        assert_eq!(address.to_raw() % 4096, 0);
        assert_eq!(DeviceAddress::from_raw(address.to_raw()), address);
        assert_ne!(address.to_raw(), 0);
    }

    #[test]
    fn fresh_memory_is_zero_and_bounds_hold() {
        let mut space = space();
        let address = space.allocate(100, 16, false).unwrap();
        assert_eq!(space.inspect(Region::new(address, 100)), Ok(vec![0; 100]));
        assert!(matches!(
            space.inspect(Region::new(address.add(1), 100)),
            Err(MemoryError::OutOfBounds { allocated: 100, .. })
        ));
        assert!(matches!(
            space.inspect(Region::new(address, u64::MAX)),
            Err(MemoryError::OutOfBounds { .. })
        ));
        assert!(matches!(
            space.inspect(Region::new(address.add(100), 1)),
            Err(MemoryError::NotAllocated { .. })
        ));
        assert!(matches!(
            space.inspect(Region::new(DeviceAddress::from_raw(0x7fff_1234_5678), 1)),
            Err(MemoryError::WrongSpace { .. })
        ));
        space.free(address).unwrap();
        assert!(matches!(
            space.inspect(Region::new(address, 1)),
            Err(MemoryError::NotAllocated { .. })
        ));
        assert!(matches!(
            space.free(address),
            Err(MemoryError::NotAllocated { .. })
        ));
    }

    #[test]
    fn bad_requests_are_refused_by_name() {
        let mut space = space();
        assert!(matches!(
            space.allocate(0, 1, false),
            Err(MemoryError::ZeroSize { .. })
        ));
        assert!(matches!(
            space.allocate(1, 0, false),
            Err(MemoryError::BadAlignment { .. })
        ));
        assert!(matches!(
            space.allocate(1, 3, false),
            Err(MemoryError::BadAlignment { .. })
        ));
        assert!(matches!(
            space.allocate(1, 1 << 21, false),
            Err(MemoryError::BadAlignment { .. })
        ));
        assert!(matches!(
            space.allocate(u64::MAX, 1, false),
            Err(MemoryError::OutOfMemory { .. })
        ));
        let error = space.allocate((1 << 20) + 1, 1, false).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("1048577 bytes asked for, 1048576 of 1048576 free")
        );
    }

    struct Host(Arc<Mutex<Vec<u8>>>);

    impl HostMemory for Host {
        fn read(&self, offset: usize, to: &mut [u8]) {
            let bytes = self.0.lock().unwrap();
            to.copy_from_slice(&bytes[offset..offset + to.len()]);
        }

        fn write(&self, offset: usize, from: &[u8]) {
            self.0.lock().unwrap()[offset..offset + from.len()].copy_from_slice(from);
        }
    }

    #[test]
    fn memory_of_the_host_is_used_where_it_is_and_takes_no_room() {
        let mut space = space();
        let host = Arc::new(Mutex::new(vec![7_u8; 100]));
        let free = space.free_bytes();
        let [one, other] = [(); 2].map(|()| {
            let memory = Box::new(Host(host.clone()));
            space.map(memory, 100).unwrap()
        });
        assert_ne!(one, other);
        assert_eq!(space.free_bytes(), free);
        let read = |space: &Space, address: DeviceAddress, length| {
            space.read(Region::new(address, length))
        };
        // Others may be writing it.
        let region = Region::new(one.add(90), 10);
        assert_eq!(space.inspect(region), Err(MemoryError::OfHost { region }));
        assert_eq!(read(&space, one.add(90), 10), Ok(vec![7; 10]));
        assert!(read(&space, one.add(90), 11).is_err());
        space.deposit(Region::new(other, 2), &[1, 2]).unwrap();
        assert_eq!(read(&space, one, 3), Ok(vec![1, 2, 7]));
        space.free(one).unwrap();
        assert!(read(&space, one, 1).is_err());
        assert_eq!(read(&space, other, 1), Ok(vec![1]));
        space.free(other).unwrap();
        assert_eq!(space.free_bytes(), free);
    }

    /// Memory of the host. Some of its bytes belong to another thread and must not be touched.
    struct Rowed(Arc<Mutex<Vec<u8>>>);

    impl Rowed {
        fn check(&self, offset: usize, length: usize) {
            let is_own = |at| at % 8 < 4;
            assert!((offset..offset + length).all(is_own), "{offset}, {length}");
        }
    }

    impl HostMemory for Rowed {
        fn read(&self, offset: usize, to: &mut [u8]) {
            self.check(offset, to.len());
            Host(self.0.clone()).read(offset, to);
        }

        fn write(&self, offset: usize, from: &[u8]) {
            self.check(offset, from.len());
            Host(self.0.clone()).write(offset, from);
        }
    }

    #[test]
    fn of_the_hosts_memory_a_command_touches_its_rows_alone() {
        let mut space = space();
        let host = Arc::new(Mutex::new((0..24).collect::<Vec<u8>>()));
        let address = space.map(Box::new(Rowed(host.clone())), 24).unwrap();
        let whole = Region::new(address, 20);
        let accesses = vec![Access::write(whole), Access::read(whole)];
        let backings = space.take_into_use(&accesses).unwrap();
        let rows = Rows::new(address.to_raw(), 4, [(3, 8)]);
        let plan = ViewPlan {
            accesses,
            rows: vec![(0, rows.clone()), (1, rows)],
            backings,
        };
        let run = plan.run(Box::new(move |memory| {
            let bytes = memory.write(whole).unwrap();
            assert_eq!(
                [&bytes[..4], &bytes[16..]].concat(),
                [0, 1, 2, 3, 16, 17, 18, 19]
            );
            bytes[8..12].fill(7);
            Ok(())
        }));
        let (publication, _) = run.map_err(|error| format!("{error:?}")).unwrap();
        publication.publish().unwrap();
        let mut expected: Vec<u8> = (0..24).collect();
        expected[8..12].fill(7);
        assert_eq!(*host.lock().unwrap(), expected);
    }

    #[test]
    fn only_bytes_that_differ_are_merged() {
        let host = Arc::new(Mutex::new(vec![9_u8; 600]));
        let original = vec![0_u8; 590];
        let mut written = original.clone();
        let changed = [0, 1, 2, 100, 254, 255, 256, 257, 511, 512, 589];
        changed.iter().for_each(|at| written[*at] = 5);
        let own = AlignedBytes::copy_of(&[9; 600], 64, 0).unwrap();
        for mut bytes in [Bytes::Own(own), Bytes::Host(Box::new(Host(host)))] {
            bytes.merge(10, &original, &written);
            for (at, byte) in bytes.copy(0..600).into_iter().enumerate() {
                let is_changed = at >= 10 && changed.contains(&(at - 10));
                assert_eq!(byte, if is_changed { 5 } else { 9 }, "byte {at}");
            }
        }
    }

    #[test]
    fn memory_in_use_is_not_freed() {
        let mut space = space();
        let address = space.allocate(8, 8, false).unwrap();
        let accesses = [
            Access::read(Region::new(address, 4)),
            Access::write(Region::new(address.add(4), 4)),
        ];
        let backings = space.take_into_use(&accesses).unwrap();
        assert_eq!(backings.len(), 1);
        assert!(matches!(
            space.free(address),
            Err(MemoryError::InUse { users: 1, .. })
        ));
        let bad = [accesses[0], Access::read(Region::new(address, 9))];
        assert!(space.take_into_use(&bad).is_err());
        space.end_use(&backings);
        assert_eq!(space.free(address), Ok(()));
    }
}

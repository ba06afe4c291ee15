//! Memory spaces: memory that a set of devices addresses directly.
//!
//! The host's memory is a space too. Drivers declare theirs when they are
//! registered; a space's number is process-wide.

use super::Memory;
use super::space_id::SpaceId;
use crate::error::{ErrorKind, Result};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A driver, as memory objects know it. Each method is the driver's of the name in brackets, with
/// its obligations.
pub trait Allocator: Send + Sync {
    /// Allocates ([`Driver::allocate`](crate::Driver::allocate)).
    ///
    /// # Errors
    /// As there.
    fn allocate_bytes(&self, key: u32, size: u64) -> Result<u64>;

    /// Maps host memory ([`Driver::map_host_memory`](crate::Driver::map_host_memory)).
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there.
    unsafe fn map_bytes(&self, key: u32, host: NonNull<u8>, size: u64) -> Result<u64>;

    /// Frees ([`Driver::free`](crate::Driver::free)).
    ///
    /// # Safety
    /// As there.
    unsafe fn free_bytes(&self, key: u32, address: u64, size: u64);

    /// Copies to the host ([`Driver::read_allocation`](crate::Driver::read_allocation)).
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there.
    unsafe fn read_bytes(
        &self,
        key: u32,
        address: u64,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<()>;

    /// Copies from the host ([`Driver::write_allocation`](crate::Driver::write_allocation)).
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there.
    unsafe fn write_bytes(&self, key: u32, address: u64, offset: u64, bytes: &[u8]) -> Result<()>;

    /// True if a device uses an allocation ([`Driver::is_in_use`](crate::Driver::is_in_use)).
    ///
    /// # Safety
    /// As for [`Driver::is_in_use`](crate::Driver::is_in_use).
    unsafe fn uses(&self, key: u32, address: u64, memory: &Memory) -> bool;

    /// True if bytes need not pass through the host
    /// ([`Driver::has_route`](crate::Driver::has_route)).
    fn brings_directly(&self, from: SpaceId, to: SpaceId) -> bool;
}

impl SpaceId {
    /// The driver's own number of the space, if it is one of this driver's.
    #[must_use]
    pub fn key_in(self, driver: &dyn Allocator) -> Option<u32> {
        let (owner, key) = owner(self)?;
        std::ptr::addr_eq(Arc::as_ptr(&owner), driver).then_some(key)
    }
}

/// The owner of a space: a driver, and the driver's own number for it.
#[derive(Clone)]
struct Owner {
    driver: Weak<dyn Allocator>,
    key: u32,
    /// Its devices use host memory where it is.
    maps_host_memory: bool,
}

struct Owners {
    /// The owners, by the number of the space, less one.
    all: Vec<Owner>,
    /// The place there of a driver, by its address, and its own number.
    places: BTreeMap<(usize, u32), usize>,
}

static OWNERS: Mutex<Owners> = Mutex::new(Owners {
    all: Vec::new(),
    places: BTreeMap::new(),
});

/// As many as there are numbers for, without the host's and those that are of no space.
const MOST_SPACES: usize = u16::MAX as usize - 2;

fn owners() -> std::sync::MutexGuard<'static, Owners> {
    OWNERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives the driver's space `key` a number; the same each time. Its devices use host memory where
/// it is, or not: all of them say the same.
pub(crate) fn register(
    driver: &Arc<dyn Allocator>,
    key: u32,
    maps_host_memory: bool,
) -> Result<SpaceId> {
    let mut owners = owners();
    let name = (Arc::as_ptr(driver).cast::<()>().addr(), key);
    // An entry of `all` keeps the address: it is no other driver's, also when this one is gone.
    let known = owners.places.get(&name).copied();
    let place = known.unwrap_or(owners.all.len());
    if place >= MOST_SPACES {
        return Err(ErrorKind::InvalidArgument {
            what: "register a driver",
            problem: format!(
                "{MOST_SPACES} memory spaces are in use; register a driver once and share it"
            ),
        }
        .into());
    }
    if known.is_none() {
        owners.all.push(Owner {
            driver: Arc::downgrade(driver),
            key,
            maps_host_memory,
        });
        owners.places.insert(name, place);
    }
    Ok(SpaceId(place as u16 + 1))
}

/// True if the devices of a space use host memory where it is.
pub(crate) fn maps_host_memory(space: SpaceId) -> bool {
    let index = usize::from(space.0).checked_sub(1);
    index.is_some_and(|index| {
        let owners = owners();
        owners
            .all
            .get(index)
            .is_some_and(|owner| owner.maps_host_memory)
    })
}

/// The driver that owns a space, and its own number for it.
pub(crate) fn owner(space: SpaceId) -> Option<(Arc<dyn Allocator>, u32)> {
    let index = usize::from(space.0).checked_sub(1)?;
    let owner = owners().all.get(index)?.clone();
    Some((owner.driver.upgrade()?, owner.key))
}

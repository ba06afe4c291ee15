//! Memory spaces: memory that a set of devices addresses directly.
//!
//! The host's memory is a space too. Drivers declare theirs when they are
//! registered; a space's number is process-wide.

use crate::driver::Driver;
use crate::error::{ErrorKind, Result};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A memory space.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SpaceId(pub(super) u16);

impl SpaceId {
    /// The host's memory.
    pub const HOST: Self = Self(0);
    /// No space in particular: memory that nobody has written.
    pub(crate) const ANYWHERE: Self = Self(u16::MAX);
    /// More than one.
    pub(crate) const SEVERAL: Self = Self(u16::MAX - 1);

    /// The space's number.
    #[must_use]
    pub fn number(self) -> u16 {
        self.0
    }

    /// The driver's own number of the space, if it is one of this driver's.
    #[must_use]
    pub fn key_in(self, driver: &dyn Driver) -> Option<u32> {
        let (owner, key) = owner(self)?;
        std::ptr::addr_eq(Arc::as_ptr(&owner), driver).then_some(key)
    }
}

impl std::fmt::Debug for SpaceId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::HOST => write!(f, "host"),
            Self::ANYWHERE => write!(f, "anywhere"),
            Self::SEVERAL => write!(f, "several"),
            Self(number) => write!(f, "space {number}"),
        }
    }
}

/// Who allocates in a space: a driver, and the driver's own number for it.
#[derive(Clone)]
struct Owner {
    driver: Weak<dyn Driver>,
    key: u32,
}

static OWNERS: Mutex<Vec<Owner>> = Mutex::new(Vec::new());

fn owners() -> std::sync::MutexGuard<'static, Vec<Owner>> {
    OWNERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives the driver's space `key` a number; the same each time.
pub(crate) fn register(driver: &Arc<dyn Driver>, key: u32) -> Result<SpaceId> {
    let mut owners = owners();
    let known = owners.iter().position(|owner| {
        owner.key == key
            && std::ptr::addr_eq(owner.driver.as_ptr(), Arc::as_ptr(driver))
            && owner.driver.strong_count() > 0
    });
    let index = known.unwrap_or_else(|| {
        owners.push(Owner {
            driver: Arc::downgrade(driver),
            key,
        });
        owners.len() - 1
    });
    match u16::try_from(index + 1) {
        Ok(number) if number < u16::MAX - 1 => Ok(SpaceId(number)),
        _ => Err(ErrorKind::InvalidArgument {
            what: "register a driver",
            problem: "65,533 memory spaces are in use; register a driver once and share it"
                .to_owned(),
        }
        .into()),
    }
}

/// The driver that owns a space, and its own number for it.
pub(crate) fn owner(space: SpaceId) -> Option<(Arc<dyn Driver>, u32)> {
    let index = usize::from(space.0).checked_sub(1)?;
    let owner = owners().get(index)?.clone();
    Some((owner.driver.upgrade()?, owner.key))
}

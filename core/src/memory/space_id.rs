//! Numbers of memory spaces.

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

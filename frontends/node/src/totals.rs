//! Totals: the numbers that sessions count, of one session or of several.

/// Numbers that a session counts, or sums of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Bytes of buffers.
    pub(crate) buffer_bytes: u64,
    /// Commands that are not over.
    pub(crate) commands_held: u64,
    /// Commands that have come, over or not.
    pub(crate) commands: u64,
    /// Bytes that were sent in bulk.
    pub(crate) bulk_bytes: u64,
    /// Bytes that were sent for these, which may be compressed.
    pub(crate) bulk_sent: u64,
}

impl Totals {
    /// Adds another session's. Sums stop at the largest number, because a session's process may say
    /// anything.
    pub(crate) fn add(&mut self, other: &Self) {
        let Self {
            buffer_bytes,
            commands_held,
            commands,
            bulk_bytes,
            bulk_sent,
        } = other;
        self.buffer_bytes = self.buffer_bytes.saturating_add(*buffer_bytes);
        self.commands_held = self.commands_held.saturating_add(*commands_held);
        self.commands = self.commands.saturating_add(*commands);
        self.bulk_bytes = self.bulk_bytes.saturating_add(*bulk_bytes);
        self.bulk_sent = self.bulk_sent.saturating_add(*bulk_sent);
    }

    /// The numbers as a session's process sends them to the node's: in the order of the fields,
    /// little-endian.
    #[cfg(target_os = "linux")]
    pub(crate) fn to_bytes(self) -> [u8; 40] {
        let numbers = [
            self.buffer_bytes,
            self.commands_held,
            self.commands,
            self.bulk_bytes,
            self.bulk_sent,
        ];
        let mut bytes = [0; 40];
        bytes.copy_from_slice(&numbers.map(u64::to_le_bytes).concat());
        bytes
    }

    /// The numbers that were sent so; `None` if these bytes are not five numbers.
    #[cfg(target_os = "linux")]
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (numbers, []) = bytes.as_chunks::<8>() else {
            return None;
        };
        let numbers: &[[u8; 8]; 5] = numbers.try_into().ok()?;
        let [buffer_bytes, commands_held, commands, bulk_bytes, bulk_sent] =
            numbers.map(u64::from_le_bytes);
        Some(Self {
            buffer_bytes,
            commands_held,
            commands,
            bulk_bytes,
            bulk_sent,
        })
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn totals_come_back_as_they_were_sent_and_sums_do_not_wrap() {
        let totals = Totals {
            buffer_bytes: 1,
            commands_held: 2,
            commands: 3,
            bulk_bytes: u64::MAX,
            bulk_sent: 5,
        };
        let bytes = totals.to_bytes();
        assert_eq!(Totals::from_bytes(&bytes), Some(totals));
        assert_eq!(Totals::from_bytes(&bytes[1..]), None);
        assert_eq!(Totals::from_bytes(&bytes[8..]), None);
        let mut sum = totals;
        sum.add(&totals);
        assert_eq!(
            (sum.buffer_bytes, sum.commands_held, sum.commands),
            (2, 4, 6)
        );
        assert_eq!((sum.bulk_bytes, sum.bulk_sent), (u64::MAX, 10));
    }
}

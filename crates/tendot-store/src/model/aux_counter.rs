//! Counters in aux entries.

/// Counter in an aux entry, which [`Edit::AdjustCounter`](crate::Edit::AdjustCounter) changes.
///
/// Keeps the sums of additions and subtractions, so that it can be reconciled with a concurrent recount.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct AuxCounter {
    /// Sum of additions.
    pub added: u64,
    /// Sum of subtractions.
    pub subtracted: u64,
}

impl AuxCounter {
    /// Current count.
    pub const fn count(self) -> u64 {
        self.added.saturating_sub(self.subtracted)
    }

    /// Decodes the value of an aux entry; `None` if it is not a counter.
    pub fn decode(value: &[u8]) -> Option<Self> {
        let (added, subtracted) = value.split_first_chunk::<8>()?;
        let subtracted = <[u8; 8]>::try_from(subtracted).ok()?;
        Some(Self { added: u64::from_be_bytes(*added), subtracted: u64::from_be_bytes(subtracted) })
    }

    /// Encodes the counter as the value of an aux entry.
    pub fn encode(self) -> Box<[u8]> {
        [self.added.to_be_bytes(), self.subtracted.to_be_bytes()].concat().into()
    }

    /// Counter after a change.
    pub(crate) const fn adjusted(self, added: u64, subtracted: u64) -> Self {
        Self {
            added: self.added.saturating_add(added),
            subtracted: self.subtracted.saturating_add(subtracted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoding() {
        let counter = AuxCounter { added: 500, subtracted: 3 };
        assert_eq!((AuxCounter::decode(&counter.encode()), counter.count()), (Some(counter), 497));
        assert_eq!(AuxCounter::decode(b"497"), None);
        assert_eq!(AuxCounter::decode(&[0; 17]), None);
    }
}

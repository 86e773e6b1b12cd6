//! Rules for the indexes of values.

use alloc::vec::Vec;

/// Validates the indexes of the values of a record or request: at most `max`, each from 1 to 2^31 − 1, none twice.
///
/// ```
/// use tendot_proto::record::{IndexError, validate_indexes};
///
/// assert_eq!(validate_indexes([100, 1, 2].into_iter(), 3), Ok(()));
/// assert_eq!(validate_indexes([1, 2, 1].into_iter(), 3), Err(IndexError::Duplicate { index: 1 }));
/// assert_eq!(validate_indexes([0].into_iter(), 3), Err(IndexError::OutOfRange { index: 0 }));
/// assert_eq!(validate_indexes([1, 2].into_iter(), 1), Err(IndexError::TooMany { count: 2, max: 1 }));
/// ```
pub fn validate_indexes<I>(indexes: I, max: usize) -> Result<(), IndexError>
where
    I: ExactSizeIterator<Item = u32> + Clone,
{
    if indexes.len() > max {
        return Err(IndexError::TooMany { count: indexes.len(), max });
    }
    let (mut is_ascending, mut previous) = (true, 0);
    for index in indexes.clone() {
        // Peers read indexes as signed.
        if index == 0 || index > i32::MAX as u32 {
            return Err(IndexError::OutOfRange { index });
        }
        is_ascending &= index > previous;
        previous = index;
    }
    // Most records are in order; only the others are sorted.
    if is_ascending {
        return Ok(());
    }
    let mut sorted: Vec<u32> = indexes.collect();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair.first() == pair.last()) {
        Some([index, ..]) => Err(IndexError::Duplicate { index: *index }),
        _ => Ok(()),
    }
}

/// Reason for which values cannot be stored together.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum IndexError {
    /// Too many values.
    #[error("{count} values exceed the limit of {max}")]
    TooMany {
        /// Number of values.
        count: usize,
        /// Maximum number of values.
        max: usize,
    },
    /// Index 0, or above 2^31 − 1, which other implementations read as negative.
    #[error("invalid value index {index}")]
    OutOfRange {
        /// The index.
        index: u32,
    },
    /// Two values with one index.
    #[error("duplicate value index {index}")]
    Duplicate {
        /// The index.
        index: u32,
    },
}

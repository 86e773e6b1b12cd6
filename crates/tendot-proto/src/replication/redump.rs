//! Decision whether a receiver needs a new dump.

use super::states::ReplicationPosition;
use super::version_stamp::milliseconds;
use crate::now::Now;

/// Transactions of one queue that the sender still has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct QueueExtent {
    /// Id of the last transaction written; 0 if there was none.
    pub last_id: i64,
    /// Oldest transaction still stored, if any.
    pub oldest: Option<OldestTransaction>,
}

/// Oldest transaction the sender still has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OldestTransaction {
    /// Transaction id.
    pub id: i64,
    /// Unix time in milliseconds.
    pub time: i64,
}

const DAY_MILLIS: i64 = 24 * 60 * 60 * 1000;

/// Whether a receiver may have missed transactions that the sender no longer has, so that it needs a dump.
///
/// ```
/// use tendot_proto::Now;
/// use tendot_proto::replication::{OldestTransaction, ReplicationPosition, QueueExtent, needs_redump};
///
/// let now = Now { elapsed: Default::default(), unix: 1_700_000_000 };
/// let queue = QueueExtent { last_id: 900, oldest: Some(OldestTransaction { id: 500, time: 1_690_000_000_000 }) };
/// assert!(!needs_redump(&queue, ReplicationPosition { last_id: 600, last_time: 1_695_000_000_000 }, now));
/// assert!(needs_redump(&queue, ReplicationPosition { last_id: 100, last_time: 1_600_000_000_000 }, now));
/// ```
pub fn needs_redump(queue: &QueueExtent, receiver: ReplicationPosition, now: Now) -> bool {
    if queue.last_id <= 0 {
        return false;
    }
    let Some(oldest) = queue.oldest else { return queue.last_id > receiver.last_id };
    if oldest.time <= receiver.last_time {
        return false;
    }
    let within_a_day = oldest.time <= receiver.last_time.saturating_add(DAY_MILLIS);
    if receiver.last_id <= 0 {
        let recent = oldest.time.saturating_add(10 * DAY_MILLIS) > milliseconds(now);
        return !(oldest.id == 1 && (recent || within_a_day));
    }
    !(within_a_day && receiver.last_id.checked_add(1) == Some(oldest.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: i64 = 1_700_000_000_000;

    #[track_caller]
    fn check(last_id: i64, oldest: Option<(i64, i64)>, receiver: (i64, i64), expected: bool) {
        let queue = QueueExtent {
            last_id,
            oldest: oldest.map(|(id, time)| OldestTransaction { id, time: TIME + time }),
        };
        let position = ReplicationPosition { last_id: receiver.0, last_time: TIME + receiver.1 };
        let now = Now { elapsed: core::time::Duration::ZERO, unix: (TIME / 1000).cast_unsigned() };
        assert_eq!(needs_redump(&queue, position, now), expected, "{queue:?} {position:?}");
    }

    #[test]
    fn decisions() {
        // No transaction yet.
        check(0, None, (-1, -TIME), false);
        check(0, Some((1, 0)), (-1, -TIME), false);
        // The queue was deleted.
        check(9, None, (8, 0), true);
        check(9, None, (9, 0), false);
        // The receiver has queried since the queue began.
        check(9, Some((5, -DAY_MILLIS)), (2, -DAY_MILLIS), false);
        check(9, Some((5, -DAY_MILLIS)), (2, -DAY_MILLIS - 1), true);
        // A new mirror of a new server, or of one that started within a day of the last contact.
        check(9, Some((1, -9 * DAY_MILLIS)), (0, -TIME), false);
        check(9, Some((1, -10 * DAY_MILLIS)), (0, -TIME), true);
        check(9, Some((1, -10 * DAY_MILLIS)), (0, -11 * DAY_MILLIS), false);
        check(9, Some((1, -10 * DAY_MILLIS)), (0, -11 * DAY_MILLIS - 1), true);
        check(9, Some((2, -9 * DAY_MILLIS)), (0, -TIME), true);
        // The queue continues where the receiver stopped, soon after.
        check(9, Some((5, -DAY_MILLIS)), (4, -2 * DAY_MILLIS), false);
        check(9, Some((5, -DAY_MILLIS)), (4, -2 * DAY_MILLIS - 1), true);
        check(9, Some((6, -DAY_MILLIS)), (4, -2 * DAY_MILLIS), true);
        check(9, Some((4, -DAY_MILLIS)), (4, -2 * DAY_MILLIS), true);
        check(i64::MAX, Some((i64::MIN, i64::MAX - TIME)), (i64::MAX, i64::MAX - TIME - 1), true);
    }
}

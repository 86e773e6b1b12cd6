//! Decision whether a receiver needs a new dump.

use super::states::ReplicationPosition;
use super::version_stamp::unix_millis;
use crate::now::Now;

/// Transactions of one queue that the sender still has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct QueueExtent {
    /// Id of the last transaction written; 0 if there was none.
    pub last_txn_id: i64,
    /// Oldest transaction still stored, if any.
    pub oldest: Option<OldestTransaction>,
}

/// Oldest transaction the sender still has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OldestTransaction {
    /// Transaction id.
    pub id: i64,
    /// Unix time in unix_millis.
    pub timestamp_millis: i64,
}

const DAY_MILLIS: i64 = 24 * 60 * 60 * 1000;

/// Whether a receiver may have missed transactions that the sender no longer has, so that it needs a dump.
///
/// ```
/// use tendot_proto::Now;
/// use tendot_proto::replication::{OldestTransaction, ReplicationPosition, QueueExtent, needs_redump};
///
/// let now = Now { elapsed: Default::default(), unix: 1_700_000_000 };
/// let queue = QueueExtent { last_txn_id: 900, oldest: Some(OldestTransaction { id: 500, timestamp_millis: 1_690_000_000_000 }) };
/// assert!(!needs_redump(&queue, ReplicationPosition { last_txn_id: 600, last_timestamp_millis: 1_695_000_000_000 }, now));
/// assert!(needs_redump(&queue, ReplicationPosition { last_txn_id: 100, last_timestamp_millis: 1_600_000_000_000 }, now));
/// ```
pub fn needs_redump(queue: &QueueExtent, receiver: ReplicationPosition, now: Now) -> bool {
    if queue.last_txn_id <= 0 {
        return false;
    }
    let Some(oldest) = queue.oldest else { return queue.last_txn_id > receiver.last_txn_id };
    if oldest.timestamp_millis <= receiver.last_timestamp_millis {
        return false;
    }
    let is_within_a_day =
        oldest.timestamp_millis <= receiver.last_timestamp_millis.saturating_add(DAY_MILLIS);
    if receiver.last_txn_id <= 0 {
        let is_recent = oldest.timestamp_millis.saturating_add(10 * DAY_MILLIS) > unix_millis(now);
        return !(oldest.id == 1 && (is_recent || is_within_a_day));
    }
    !(is_within_a_day && receiver.last_txn_id.checked_add(1) == Some(oldest.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: i64 = 1_700_000_000_000;

    #[track_caller]
    fn check(last_txn_id: i64, oldest: Option<(i64, i64)>, receiver: (i64, i64), expected: bool) {
        let queue = QueueExtent {
            last_txn_id,
            oldest: oldest.map(|(id, time)| OldestTransaction { id, timestamp_millis: TIME + time }),
        };
        let position =
            ReplicationPosition { last_txn_id: receiver.0, last_timestamp_millis: TIME + receiver.1 };
        let now = Now { elapsed: core::time::Duration::ZERO, unix: (TIME / 1000).cast_unsigned() };
        assert_eq!(needs_redump(&queue, position, now), expected, "{queue:?} {position:?}");
    }

    #[test]
    fn decisions() {
        // No transaction yet.
        check(0, None, (-1, -TIME), false);
        check(0, Some((1, 0)), (-1, -TIME), false);
        // No transaction is stored any more.
        check(9, None, (8, 0), true);
        check(9, None, (9, 0), false);
        // The oldest stored transaction is not newer than the receiver's last timestamp.
        check(9, Some((5, -DAY_MILLIS)), (2, -DAY_MILLIS), false);
        check(9, Some((5, -DAY_MILLIS)), (2, -DAY_MILLIS - 1), true);
        // A new receiver: the first transaction is stored, and is recent or within a day of the last timestamp.
        check(9, Some((1, -9 * DAY_MILLIS)), (0, -TIME), false);
        check(9, Some((1, -10 * DAY_MILLIS)), (0, -TIME), true);
        check(9, Some((1, -10 * DAY_MILLIS)), (0, -11 * DAY_MILLIS), false);
        check(9, Some((1, -10 * DAY_MILLIS)), (0, -11 * DAY_MILLIS - 1), true);
        check(9, Some((2, -9 * DAY_MILLIS)), (0, -TIME), true);
        // The oldest stored transaction follows the last applied one, within a day.
        check(9, Some((5, -DAY_MILLIS)), (4, -2 * DAY_MILLIS), false);
        check(9, Some((5, -DAY_MILLIS)), (4, -2 * DAY_MILLIS - 1), true);
        check(9, Some((6, -DAY_MILLIS)), (4, -2 * DAY_MILLIS), true);
        check(9, Some((4, -DAY_MILLIS)), (4, -2 * DAY_MILLIS), true);
        check(i64::MAX, Some((i64::MIN, i64::MAX - TIME)), (i64::MAX, i64::MAX - TIME - 1), true);
    }
}

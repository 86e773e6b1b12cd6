use super::transaction::TransactionAction;
use crate::handle::Handle;
use crate::message::HashPartition;
use crate::record::HashOption;

/// Whether a receiver keeps a handle. If nobody knows what it hashes, it gets everything.
///
/// ```
/// use tendot_proto::Handle;
/// use tendot_proto::message::HashPartition;
/// use tendot_proto::record::HashOption;
/// use tendot_proto::replication::owns;
///
/// let receiver = |index| HashPartition { hash_option: HashOption::WHOLE, servers: 3, index };
/// assert!(owns(Handle::from("10.1000/abc"), &receiver(1)));
/// assert!(!owns(Handle::from("10.1000/abc"), &receiver(2)));
/// ```
pub fn owns(handle: Handle<'_>, receiver: &HashPartition) -> bool {
    match receiver.hash_option {
        HashOption::PREFIX | HashOption::SUFFIX | HashOption::WHOLE => {
            handle.server_index(receiver.hash_option, receiver.servers as usize)
                == Some(receiver.index as usize)
        }
        _ => true,
    }
}

/// Whether a transaction goes to a receiver: those about prefixes to all, others to who keeps the handle.
///
/// What the handle is now is for the caller to look at: a creation or update of what is gone, and a deletion of what is
/// there again, are left out, since another transaction covers them.
pub fn is_for_receiver(action: TransactionAction, handle: Handle<'_>, receiver: &HashPartition) -> bool {
    matches!(action, TransactionAction::HOME | TransactionAction::UNHOME) || owns(handle, receiver)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_gets_what() {
        let check = |action, hash_option, servers, index, expected| {
            let receiver = HashPartition { hash_option, servers, index };
            let goes = is_for_receiver(action, Handle::from("10.1000/abc"), &receiver);
            assert_eq!(goes, expected, "{action:?} {receiver:?}");
        };
        check(TransactionAction::CREATE, HashOption::WHOLE, 3, 1, true);
        check(TransactionAction::CREATE, HashOption::WHOLE, 3, 0, false);
        check(TransactionAction::DELETE, HashOption::SUFFIX, 3, 1, true);
        check(TransactionAction::DELETE, HashOption::PREFIX, 3, 1, true);
        check(TransactionAction::DELETE, HashOption::PREFIX, 3, 2, false);
        check(TransactionAction::UPDATE, HashOption::WHOLE, 1, 0, true);
        check(TransactionAction::UPDATE, HashOption::WHOLE, 1, 1, false);
        check(TransactionAction::UPDATE, HashOption::WHOLE, 0, 0, false);
        check(TransactionAction::UPDATE, HashOption(9), 3, 2, true);
        check(TransactionAction::HOME, HashOption::WHOLE, 3, 0, true);
        check(TransactionAction::UNHOME, HashOption::WHOLE, 3, 2, true);
        check(TransactionAction(7), HashOption::WHOLE, 3, 2, false);
    }
}

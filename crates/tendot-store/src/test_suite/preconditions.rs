//! Preconditions of edits and required revisions.

use super::{commit, conflict, data, key, put, tombstone};
use crate::{CommitError, Edit, NameKeyError, Precondition, RecordStatus, Store};

/// A precondition that does not hold rejects the change set and returns the actual state.
pub async fn preconditions(store: &impl Store) {
    for precondition in [Precondition::Live, Precondition::AtRevision(0), Precondition::AtRevision(1)] {
        assert_eq!(conflict(commit(store, vec![put("10.1000/1", "x", precondition)]).await), None);
    }
    let first = commit(store, vec![put("10.1000/1", "a", Precondition::NotTombstone)]).await.unwrap();
    let second = commit(store, vec![put("10.1000/1", "b", Precondition::AtRevision(first))]).await.unwrap();
    assert!(second > first);
    let late = commit(store, vec![put("10.1000/1", "c", Precondition::AtRevision(first))]).await;
    assert_eq!(conflict(late), Some((second, RecordStatus::Live)));
    commit(store, vec![put("10.1000/1", "d", Precondition::Live)]).await.unwrap();
    assert_eq!(data(store, "10.1000/1").await.unwrap(), "d");
}

fn require(name: &str, revision: Option<u64>) -> Edit {
    Edit::RequireRevision { name: name.into(), revision }
}

fn require_homed(prefix: &str, is_homed: bool) -> Edit {
    Edit::RequireHomed { prefix: prefix.into(), is_homed }
}

/// A required revision is checked at its position among the edits; if it does not hold, nothing is done.
pub async fn required_revisions(store: &impl Store) {
    let first = commit(store, vec![put("10.1000/1", "a", Precondition::Absent)]).await.unwrap();
    let tombstoned = [put("10.1000/2", "a", Precondition::Absent), tombstone("10.1000/2")];
    let end = commit(store, tombstoned.to_vec()).await.unwrap();
    commit(store, vec![Edit::Home { prefix: "10.1000".into() }]).await.unwrap();
    let created = || put("10.1000/3", "x", Precondition::Absent);
    let unmet = [
        require("10.1000/1", None),
        require("10.1000/1", Some(first + 1)),
        require("10.1000/2", None),
        require("10.1000/2", Some(first)),
        require("10.1000/4", Some(first)),
        require("10.1000/4", Some(0)),
        require_homed("10.1000", false),
        require_homed("10.1001", true),
    ];
    for edit in unmet {
        for edits in [vec![edit.clone(), created()], vec![created(), edit.clone()], vec![edit.clone()]] {
            let at = edits.iter().position(|one| *one == edit).unwrap();
            match commit(store, edits).await.unwrap_err() {
                CommitError::RecordConflict(conflict) => {
                    assert_eq!((conflict.edit, &*conflict.name), (at, edit.name()));
                }
                CommitError::HomedConflict { edit: number, prefix, is_homed } => {
                    assert_eq!((number, &*prefix, is_homed), (at, edit.name(), &*prefix == "10.1000"));
                }
                other => panic!("{edit:?}: {other}"),
            }
            assert_eq!(data(store, "10.1000/3").await, None, "{edit:?}");
        }
    }
    let met = vec![
        require("10.1000/1", Some(first)),
        require("10.1000/2", Some(end)),
        require("10.1000/3", None),
        require_homed("10.1000", true),
        require_homed("10.1001", false),
        created(),
        put("10.1000/1", "b", Precondition::AtRevision(first)),
        Edit::Unhome { prefix: "10.1000".into() },
        require_homed("10.1000", false),
    ];
    let revision = commit(store, met).await.unwrap();
    assert_eq!(data(store, "10.1000/1").await.unwrap(), "b");
    // A precondition sees earlier edits of its change set.
    let late = vec![put("10.1000/1", "c", Precondition::NotTombstone), require("10.1000/1", Some(revision))];
    assert_eq!(conflict(commit(store, late).await), Some((revision + 1, RecordStatus::Live)));
    let gone = Edit::Remove { name: "10.1000/1".into(), precondition: Precondition::Live };
    commit(store, vec![gone, require("10.1000/1", None)]).await.unwrap();
    let refused = commit(store, vec![require("", None)]).await.unwrap_err();
    assert!(matches!(refused, CommitError::InvalidName { edit: 0, error: NameKeyError::Empty }));
}

/// Requirements are not logged and use no revision.
pub async fn requirements_are_not_logged(store: &impl Store) {
    assert_eq!(commit(store, vec![require("10.1000/1", None)]).await.unwrap(), 0);
    let first = commit(store, vec![put("10.1000/1", "a", Precondition::Absent)]).await.unwrap();
    let alone = vec![require("10.1000/1", Some(first)), require_homed("10.1000", false)];
    for _ in 0..3 {
        assert_eq!(commit(store, alone.clone()).await.unwrap(), first);
    }
    let with = vec![require("10.1000/1", Some(first)), put("10.1000/2", "b", Precondition::Absent)];
    assert_eq!(commit(store, with).await.unwrap(), first + 1);
    let log = store.read_log(0, 100).await.unwrap();
    let log_entries: Vec<_> =
        log.iter().map(|log_entry| (log_entry.sequence, log_entry.revision, &*log_entry.name)).collect();
    assert_eq!(log_entries, [(1, first, "10.1000/1"), (2, first + 1, "10.1000/2")]);
    assert_eq!(store.get(&key("10.1000/1")).await.unwrap().unwrap().revision, first);
}

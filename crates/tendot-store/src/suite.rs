//! The tests that every store has to pass, each on an empty one.

use std::collections::BTreeMap;

use tendot_proto::{Permissions, Reference, Ttl, Value};

use crate::{Change, CommitError, Edit, EditKind, Expect, Key, KeyError, State, Store};

/// All of them, by name: `for (name, test) in suite::all() { block_on(test(&new_store())) }`.
#[macro_export]
macro_rules! store_suite {
    ($block_on:expr, $store:expr) => {
        $crate::store_suite! { @each $block_on, $store,
            names_are_one_without_regard_to_ascii_case
            records_come_back_as_they_were
            expectations
            changes_are_whole_or_not
            tombstones_stay
            removed_names_may_be_given_again
            lists
            prefixes
            the_log
            odd_names
        }
    };
    (@each $block_on:expr, $store:expr, $($test:ident)*) => {
        $(#[test]
        fn $test() {
            $block_on($crate::suite::$test(&$store));
        })*
    };
}

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

fn put(name: &str, data: &str, expect: Expect) -> Edit {
    Edit::Put { name: name.into(), values: vec![Value::new(1, "URL", data.to_owned())], expect }
}

async fn commit(store: &impl Store, edits: Vec<Edit>) -> Result<u64, CommitError> {
    let change = Change { by: "tester".into(), at: 1_700_000_000_000, edits };
    store.commit(change).await.map(|committed| committed.revision)
}

async fn data(store: &impl Store, name: &str) -> Option<String> {
    let entry = store.get(&key(name)).await.unwrap()?;
    Some(String::from_utf8(entry.values[0].data.to_vec()).unwrap())
}

/// What is there instead of what was expected: its revision and state.
#[track_caller]
fn conflict<T: std::fmt::Debug>(result: Result<T, CommitError>) -> Option<(u64, State)> {
    match result.unwrap_err() {
        CommitError::Conflict(conflict) => conflict.there.map(|(_, revision, state)| (revision, state)),
        other => panic!("{other}"),
    }
}

/// One name, whatever its ASCII case, and the first spelling stays; other letters are what they are.
pub async fn names_are_one_without_regard_to_ascii_case(store: &impl Store) {
    let first = commit(store, vec![put("10.1000/Abc", "one", Expect::Absent)]).await.unwrap();
    let again = commit(store, vec![put("10.1000/ABC", "two", Expect::Absent)]).await;
    assert_eq!(conflict(again), Some((first, State::Live)));
    commit(store, vec![put("10.1000/aBC", "three", Expect::Any)]).await.unwrap();
    let entry = store.get(&key("10.1000/abc")).await.unwrap().unwrap();
    assert_eq!((&*entry.name, &*entry.values[0].data), ("10.1000/Abc", &b"three"[..]));
    for (number, name) in
        ["10.1000/é", "10.1000/É", "10.1000/K", "10.1000/\u{212a}", "10.1000/ı"].iter().enumerate()
    {
        let made = commit(store, vec![put(name, &number.to_string(), Expect::Absent)]).await;
        assert!(made.is_ok(), "{name}");
    }
    assert_eq!(data(store, "10.1000/É").await.unwrap(), "1");
    assert_eq!(data(store, "10.1000/k").await.unwrap(), "2");
}

/// Every field of every value, in their order.
pub async fn records_come_back_as_they_were(store: &impl Store) {
    let odd = Value {
        index: 7,
        timestamp: 1_704_164_645,
        ttl: Ttl::Absolute(1_893_456_000),
        permissions: Permissions(0x0c),
        value_type: b"10320/\xff".to_vec().into(),
        data: (0..=255).collect::<Vec<u8>>().into(),
        references: vec![Reference::new(300, &b"0.NA/10.1000"[..]), Reference::new(0, &b""[..])],
    };
    let values = vec![
        Value::new(100, "HS_ADMIN", "not what it should be"),
        odd,
        Value {
            ttl: Ttl::Other { kind: 9, seconds: 5 },
            ..Value::new(1, "URL", "https://example.org/10.1000/X")
        },
        Value { permissions: Permissions(0xff), timestamp: u32::MAX, ..Value::new(u32::MAX, "", "") },
        Value::new(2, "URL", "https://example.org/".repeat(3_000)),
    ];
    let name: Box<str> = "10.1000/x".into();
    let edit = Edit::Put { name: name.clone(), values: values.clone(), expect: Expect::Absent };
    let revision = commit(store, vec![edit]).await.unwrap();
    let entry = store.get(&key("10.1000/X")).await.unwrap().unwrap();
    assert_eq!((entry.revision, entry.state), (revision, State::Live));
    assert_eq!(entry.values, values);
    // A record may have no values at all.
    let edit = Edit::Put { name, values: Vec::new(), expect: Expect::Revision(revision) };
    commit(store, vec![edit]).await.unwrap();
    assert_eq!(store.get(&key("10.1000/x")).await.unwrap().unwrap().values, []);
}

/// What has to be there before.
pub async fn expectations(store: &impl Store) {
    for expect in [Expect::Live, Expect::Revision(0), Expect::Revision(1)] {
        assert_eq!(conflict(commit(store, vec![put("10.1000/1", "x", expect)]).await), None);
    }
    let first = commit(store, vec![put("10.1000/1", "a", Expect::Any)]).await.unwrap();
    let second = commit(store, vec![put("10.1000/1", "b", Expect::Revision(first))]).await.unwrap();
    assert!(second > first);
    let late = commit(store, vec![put("10.1000/1", "c", Expect::Revision(first))]).await;
    assert_eq!(conflict(late), Some((second, State::Live)));
    commit(store, vec![put("10.1000/1", "d", Expect::Live)]).await.unwrap();
    assert_eq!(data(store, "10.1000/1").await.unwrap(), "d");
}

/// One edit that cannot be carried out takes all with it; edits see those before them.
pub async fn changes_are_whole_or_not(store: &impl Store) {
    commit(store, vec![put("10.1000/1", "a", Expect::Absent)]).await.unwrap();
    let log = store.changes(0, 100).await.unwrap().len();
    let refused = commit(
        store,
        vec![
            put("10.1000/2", "b", Expect::Absent),
            Edit::Home { prefix: "10.1000".into() },
            put("10.1000/1", "c", Expect::Absent),
        ],
    )
    .await;
    let CommitError::Conflict(conflict) = refused.unwrap_err() else { panic!() };
    assert_eq!((conflict.edit, &*conflict.name), (2, "10.1000/1"));
    assert_eq!(data(store, "10.1000/2").await, None);
    assert!(!store.is_homed(b"10.1000").await.unwrap());
    assert_eq!(store.changes(0, 100).await.unwrap().len(), log);

    let twice = vec![put("10.1000/3", "a", Expect::Absent), put("10.1000/3", "b", Expect::Absent)];
    assert!(commit(store, twice).await.is_err());
    assert_eq!(data(store, "10.1000/3").await, None);
    let both = vec![put("10.1000/3", "a", Expect::Absent), put("10.1000/3", "b", Expect::Live)];
    let revision = commit(store, both).await.unwrap();
    assert_eq!(data(store, "10.1000/3").await.unwrap(), "b");
    let logged = store.changes(log as u64, 100).await.unwrap();
    let kinds: Vec<_> = logged.iter().map(|line| (line.revision, line.kind)).collect();
    assert_eq!(kinds, [(revision, EditKind::Create), (revision, EditKind::Update)]);
}

/// A tombstone is there and is not given again, by nobody.
pub async fn tombstones_stay(store: &impl Store) {
    let name: Box<str> = "10.1000/1".into();
    commit(store, vec![put(&name, "a", Expect::Absent)]).await.unwrap();
    let end =
        commit(store, vec![Edit::Tombstone { name: name.clone(), expect: Expect::Live }]).await.unwrap();
    let entry = store.get(&key(&name)).await.unwrap().unwrap();
    assert_eq!((entry.state, &*entry.values[0].data), (State::Tombstone, &b"a"[..]));
    for expect in [Expect::Any, Expect::Absent, Expect::Live, Expect::Revision(end)] {
        assert_eq!(
            conflict(commit(store, vec![put(&name, "b", expect)]).await),
            Some((end, State::Tombstone))
        );
        let remove = Edit::Remove { name: name.clone(), expect };
        assert_eq!(conflict(commit(store, vec![remove]).await), Some((end, State::Tombstone)));
    }
}

/// What was removed is gone, but the log has it.
pub async fn removed_names_may_be_given_again(store: &impl Store) {
    commit(store, vec![put("10.1000/Abc", "a", Expect::Absent)]).await.unwrap();
    let remove = Edit::Remove { name: "10.1000/ABC".into(), expect: Expect::Live };
    commit(store, vec![remove.clone()]).await.unwrap();
    assert_eq!(store.get(&key("10.1000/abc")).await.unwrap(), None);
    assert_eq!(conflict(commit(store, vec![remove]).await), None);
    commit(store, vec![put("10.1000/aBC", "b", Expect::Absent)]).await.unwrap();
    assert_eq!(&*store.get(&key("10.1000/abc")).await.unwrap().unwrap().name, "10.1000/aBC");
    let log = store.changes(0, 10).await.unwrap();
    let lines: Vec<_> = log.iter().map(|line| (line.kind, &*line.name)).collect();
    let expected = [
        (EditKind::Create, "10.1000/Abc"),
        (EditKind::Remove, "10.1000/Abc"),
        (EditKind::Create, "10.1000/aBC"),
    ];
    assert_eq!(lines, expected);
}

/// Names of one prefix, in order, in pieces.
pub async fn lists(store: &impl Store) {
    let mut expected = BTreeMap::new();
    let mut edits = Vec::new();
    for prefix in ["10.1", "10.10", "10.100", "10.1.1", "10.1Z"] {
        for number in 0..25 {
            let name = format!("{prefix}/n{}", number * 7 % 25);
            edits.push(put(&name, "x", Expect::Absent));
            expected.entry(prefix.to_ascii_uppercase()).or_insert_with(Vec::new).push(name);
        }
    }
    commit(store, edits).await.unwrap();
    commit(store, vec![Edit::Tombstone { name: "10.1/n3".into(), expect: Expect::Live }]).await.unwrap();
    for (prefix, mut names) in expected {
        names.sort_by_key(|name| name.to_ascii_uppercase());
        for limit in [1, 7, 25, 1000] {
            let (mut seen, mut after) = (Vec::new(), None);
            loop {
                let listed =
                    store.list(prefix.to_lowercase().as_bytes(), after.as_ref(), limit).await.unwrap();
                assert!(listed.len() <= limit);
                let Some(last) = listed.last() else { break };
                after = Some(key(&last.name));
                for listed in listed {
                    let gone = &*listed.name == "10.1/n3";
                    assert_eq!(listed.state == State::Tombstone, gone, "{}", listed.name);
                    seen.push(listed.name.into_string());
                }
            }
            assert_eq!(seen, names, "{prefix} by {limit}");
        }
    }
    assert_eq!(store.list(b"10", None, 10).await.unwrap(), []);
    let beyond = key("10.2/x");
    assert_eq!(store.list(b"10.1", Some(&beyond), 10).await.unwrap(), [], "after all of them");
}

/// Prefixes are homed and unhomed, without regard to ASCII case.
pub async fn prefixes(store: &impl Store) {
    let home = |prefix: &str| Edit::Home { prefix: prefix.into() };
    commit(store, vec![home("10.1000"), home("10.5555"), home("20.abc")]).await.unwrap();
    assert!(store.is_homed(b"20.ABC").await.unwrap() && store.is_homed(b"20.abc").await.unwrap());
    assert!(!store.is_homed(b"10.100").await.unwrap() && !store.is_homed(b"").await.unwrap());
    assert_eq!(store.homed(None, 2).await.unwrap(), ["10.1000".into(), "10.5555".into()]);
    assert_eq!(store.homed(Some(b"10.5555"), 9).await.unwrap(), ["20.ABC".into()]);
    // Too long to be one, and the store goes on.
    let long = "1".repeat(256);
    let refused = commit(store, vec![home(&long)]).await.unwrap_err();
    assert!(
        matches!(refused, CommitError::Name { error: KeyError::PrefixTooLong { length: 256 }, .. }),
        "{refused}"
    );
    assert!(!store.is_homed("1".repeat(5_000).as_bytes()).await.unwrap());
    assert_eq!(store.list("1".repeat(5_000).as_bytes(), None, 9).await.unwrap(), []);
    assert_eq!(store.homed(Some("2".repeat(5_000).as_bytes()), 9).await.unwrap(), []);
    commit(store, vec![home(&long[1..])]).await.unwrap();
    commit(store, vec![Edit::Unhome { prefix: long[1..].into() }]).await.unwrap();
    commit(store, vec![Edit::Unhome { prefix: "20.Abc".into() }, home("10.1000")]).await.unwrap();
    assert_eq!(store.homed(None, 9).await.unwrap(), ["10.1000".into(), "10.5555".into()]);
}

/// The log has every edit once, in order, and can be read in pieces.
pub async fn the_log(store: &impl Store) {
    for number in 0..30 {
        let change = Change {
            by: format!("person {number}").into(),
            at: 1_700_000_000_000 + number,
            edits: vec![put(&format!("10.1000/{}", number % 20), "x", Expect::Any)],
        };
        store.commit(change).await.unwrap();
    }
    let whole = store.changes(0, 1000).await.unwrap();
    assert_eq!(whole.len(), 30);
    for (number, line) in whole.iter().enumerate() {
        assert_eq!(line.sequence, number as u64 + 1);
        assert_eq!((line.at, &*line.by), (1_700_000_000_000 + number as u64, &*format!("person {number}")));
        assert_eq!(line.kind, if number < 20 { EditKind::Create } else { EditKind::Update });
        assert_eq!(*line.name, *format!("10.1000/{}", number % 20));
    }
    assert!(whole.windows(2).all(|pair| pair[0].revision < pair[1].revision));
    let (mut pieces, mut after) = (Vec::new(), 0);
    loop {
        let piece = store.changes(after, 7).await.unwrap();
        let Some(last) = piece.last() else { break };
        after = last.sequence;
        pieces.extend(piece);
    }
    assert_eq!(pieces, whole);
    assert_eq!(store.changes(u64::MAX, 10).await.unwrap(), []);
}

/// Names that are hard on keys: long, short, without a slash, one the beginning of another, with bytes of all kinds.
pub async fn odd_names(store: &impl Store) {
    let long = |end: &str| format!("10.1000/{}{end}", "x".repeat(4_088 - end.len()));
    let names = [
        "a".into(),
        "/".into(),
        "10.1000".into(),
        "10.1000/".into(),
        "10.1000/\u{0}".into(),
        "10.1000//".into(),
        "10.1000/\u{7f}\u{10ffff}".into(),
        format!("10.1000/{}", "x".repeat(1_900)),
        format!("10.1000/{}", "x".repeat(1_974)),
        format!("10.1000/{}", "x".repeat(1_975)),
        long("1"),
        long("2"),
        format!("{}/x", "1".repeat(4_094)),
    ];
    for (number, name) in names.iter().enumerate() {
        let made = commit(store, vec![put(name, &number.to_string(), Expect::Absent)]).await;
        assert!(made.is_ok(), "{number}: {made:?}");
    }
    for (number, name) in names.iter().enumerate() {
        assert_eq!(data(store, name).await, Some(number.to_string()), "{number}");
        let entry = store.get(&key(name)).await.unwrap().unwrap();
        assert_eq!(*entry.name, **name);
    }
    let listed = store.list(b"10.1000", None, 100).await.unwrap();
    assert_eq!(listed.len(), 10, "all with this prefix, also the one that is nothing else");
    assert_eq!(data(store, &long("3")).await, None);
    let too_long = long("12");
    let refused = commit(store, vec![put(&format!("{too_long}4"), "x", Expect::Any)]).await.unwrap_err();
    assert!(matches!(refused, CommitError::Name { edit: 0, error: KeyError::TooLong { length: 4_097 } }));
    let refused = commit(store, vec![put("", "x", Expect::Any)]).await.unwrap_err();
    assert!(matches!(refused, CommitError::Name { edit: 0, error: KeyError::Empty }));
}

#[cfg(test)]
mod tests {
    mod memory {
        crate::store_suite!(pollster::block_on, crate::Memory::new());
    }

    mod embedded {
        use std::path::PathBuf;

        use crate::Embedded;

        /// A directory that stays until the machine is cleaned up: the store is still open when the test ends.
        fn directory() -> PathBuf {
            tempfile::tempdir().unwrap().keep()
        }

        crate::store_suite!(pollster::block_on, Embedded::open(&directory()).unwrap());
    }
}

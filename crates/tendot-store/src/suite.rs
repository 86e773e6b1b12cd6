//! The tests that every store has to pass, each on an empty one.

use std::collections::BTreeMap;

use tendot_proto::{Permissions, Reference, Ttl, Value};

use crate::{
    Before, Change, CommitError, Edit, EditKind, Entry, Expect, Key, KeyError, Order, Past, State, Store,
};

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
            visits
            prefixes
            the_log
            odd_names
            requirements
            requirements_leave_nothing
            counts
            records_of_a_revision
            versions
            histories
            histories_in_pieces
            histories_without_secrets
            registrations
            histories_of_registrations
            notes
            notes_in_pieces
            required_notes
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

/// All records, or those under a prefix, each once and in order, as long as more are wanted.
pub async fn visits(store: &impl Store) {
    let names = ["10.1", "10.1/a", "10.1/B", "10.1/c", "10.1.1/x", "10.10/x"];
    commit(store, names.iter().map(|name| put(name, name, Expect::Absent)).collect()).await.unwrap();
    commit(store, vec![Edit::Tombstone { name: "10.1/c".into(), expect: Expect::Live }]).await.unwrap();
    let all = ["10.1", "10.1.1/x", "10.1/a", "10.1/B", "10.1/c", "10.10/x"];
    for (prefix, expected) in [
        (None, &all[..]),
        (Some("10.1"), &["10.1", "10.1/a", "10.1/B", "10.1/c"]),
        (Some("10.10"), &["10.10/x"]),
        (Some("10"), &[]),
        (Some(&"1".repeat(256)), &[]),
    ] {
        let prefix = prefix.map(str::as_bytes);
        for limit in 1..=all.len() {
            let (mut seen, mut after) = (Vec::new(), None);
            loop {
                let before = seen.len();
                let visit = |entry: &Entry| {
                    assert!(seen.len() - before < limit, "more were not wanted");
                    assert_eq!(entry.state == State::Tombstone, &*entry.name == "10.1/c");
                    assert_eq!(&*entry.values[0].data, entry.name.as_bytes());
                    seen.push(entry.name.clone());
                    seen.len() - before < limit
                };
                store.visit(prefix, after.as_ref(), visit).await.unwrap();
                let Some(last) = seen.get(before..).and_then(<[_]>::last) else { break };
                after = Some(key(last));
            }
            assert_eq!(
                seen.iter().map(|name| &**name).collect::<Vec<_>>(),
                expected,
                "{prefix:?} by {limit}"
            );
        }
    }
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

fn require(name: &str, revision: Option<u64>) -> Edit {
    Edit::Require { name: name.into(), revision }
}

fn require_homed(prefix: &str, is_homed: bool) -> Edit {
    Edit::RequireHomed { prefix: prefix.into(), is_homed }
}

/// What is required has to be there as it was, at its place among the edits; else nothing is done.
pub async fn requirements(store: &impl Store) {
    let first = commit(store, vec![put("10.1000/1", "a", Expect::Absent)]).await.unwrap();
    let ended = [put("10.1000/2", "a", Expect::Absent), tombstone("10.1000/2")];
    let end = commit(store, ended.to_vec()).await.unwrap();
    commit(store, vec![Edit::Home { prefix: "10.1000".into() }]).await.unwrap();
    let made = || put("10.1000/3", "x", Expect::Absent);
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
        for edits in [vec![edit.clone(), made()], vec![made(), edit.clone()], vec![edit.clone()]] {
            let at = edits.iter().position(|one| *one == edit).unwrap();
            match commit(store, edits).await.unwrap_err() {
                CommitError::Conflict(conflict) => {
                    assert_eq!((conflict.edit, &*conflict.name), (at, edit.name()));
                }
                CommitError::Homed { edit: number, prefix, is_homed } => {
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
        made(),
        put("10.1000/1", "b", Expect::Revision(first)),
        Edit::Unhome { prefix: "10.1000".into() },
        require_homed("10.1000", false),
    ];
    let revision = commit(store, met).await.unwrap();
    assert_eq!(data(store, "10.1000/1").await.unwrap(), "b");
    // An edit of the same change comes before what is required after it.
    let late = vec![put("10.1000/1", "c", Expect::Any), require("10.1000/1", Some(revision))];
    assert_eq!(conflict(commit(store, late).await), Some((revision + 1, State::Live)));
    let gone = Edit::Remove { name: "10.1000/1".into(), expect: Expect::Live };
    commit(store, vec![gone, require("10.1000/1", None)]).await.unwrap();
    let refused = commit(store, vec![require("", None)]).await.unwrap_err();
    assert!(matches!(refused, CommitError::Name { edit: 0, error: KeyError::Empty }));
}

/// Requirements are in no log and use no number.
pub async fn requirements_leave_nothing(store: &impl Store) {
    assert_eq!(commit(store, vec![require("10.1000/1", None)]).await.unwrap(), 0);
    let first = commit(store, vec![put("10.1000/1", "a", Expect::Absent)]).await.unwrap();
    let alone = vec![require("10.1000/1", Some(first)), require_homed("10.1000", false)];
    for _ in 0..3 {
        assert_eq!(commit(store, alone.clone()).await.unwrap(), first);
    }
    let with = vec![require("10.1000/1", Some(first)), put("10.1000/2", "b", Expect::Absent)];
    assert_eq!(commit(store, with).await.unwrap(), first + 1);
    let log = store.changes(0, 100).await.unwrap();
    let lines: Vec<_> = log.iter().map(|line| (line.sequence, line.revision, &*line.name)).collect();
    assert_eq!(lines, [(1, first, "10.1000/1"), (2, first + 1, "10.1000/2")]);
    assert_eq!(store.get(&key("10.1000/1")).await.unwrap().unwrap().revision, first);
}

fn tombstone(name: &str) -> Edit {
    Edit::Tombstone { name: name.into(), expect: Expect::Live }
}

/// Names of one prefix, in pieces; those that have ended are not counted.
pub async fn counts(store: &impl Store) {
    let mut edits = vec![put("10.1", "x", Expect::Absent)];
    for prefix in ["10.1", "10.10", "10.1.1"] {
        edits.extend((0..25).map(|number| put(&format!("{prefix}/n{number}"), "x", Expect::Absent)));
    }
    edits.push(put(&format!("10.1/{}", "x".repeat(3_000)), "x", Expect::Absent));
    edits.extend(["10.1/n3", "10.1/n24", "10.10/n0"].map(tombstone));
    commit(store, edits).await.unwrap();
    let counts: [(&[u8], u64); 6] =
        [(b"10.1", 25), (b"10.10", 24), (b"10.1.1", 25), (b"10", 0), (b"10.2", 0), (b"", 0)];
    for (prefix, expected) in counts {
        for limit in [1, 2, 7, 26, 27, 28, usize::MAX] {
            let (mut live, mut after, mut calls) = (0, None, 0);
            loop {
                let counted = store.count_under(prefix, after.as_ref(), limit).await.unwrap();
                assert!(counted.live <= limit as u64);
                live += counted.live;
                calls += 1;
                after = counted.next;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(live, expected, "{prefix:?} by {limit}");
            assert!(calls <= 27 / limit + 1, "{prefix:?} by {limit}: {calls} calls");
        }
    }
    let none = store.count_under("1".repeat(5_000).as_bytes(), None, 9).await.unwrap();
    assert_eq!((none.live, none.next), (0, None));
    // Whoever knows the number of all without counting knows the right one.
    assert!(store.size().await.unwrap().is_none_or(|size| size == 77));
}

/// The records that a change made what they are, as long as they are that. An import is one change.
pub async fn records_of_a_revision(store: &impl Store) {
    let names: Vec<String> = (0..40).map(|number| format!("10.1000/Rec-{number:02}")).collect();
    let long = format!("10.1000/{}", "x".repeat(3_000));
    commit(store, vec![put("10.1000/before", "x", Expect::Absent)]).await.unwrap();
    let all = names.iter().chain([&long]).map(|name| put(name, "x", Expect::Absent)).collect();
    let import = commit(store, all).await.unwrap();
    assert_eq!(revision_in_pieces(store, import, 100).await.len(), 41);
    let later = vec![
        put("10.1000/rec-00", "y", Expect::Live),
        tombstone("10.1000/rec-07"),
        Edit::Remove { name: "10.1000/rec-08".into(), expect: Expect::Live },
        put("10.1000/rec-08a", "y", Expect::Absent),
    ];
    let later = commit(store, later).await.unwrap();
    let untouched = |name: &String| !["00", "07", "08"].iter().any(|number| name.ends_with(number));
    let expected: Vec<_> = names.iter().filter(|name| untouched(name)).chain([&long]).cloned().collect();
    for limit in [1, 2, 37, 38, 39, 1_000] {
        assert_eq!(revision_in_pieces(store, import, limit).await, expected, "by {limit}");
    }
    let touched = ["10.1000/Rec-00", "10.1000/Rec-07", "10.1000/rec-08a"];
    assert_eq!(revision_in_pieces(store, later, 2).await, touched);
    assert!(revision_in_pieces(store, later + 1, 2).await.is_empty());
}

/// What was made of a record may be kept until it changes; failed changes may count, those of others do not.
pub async fn versions(store: &impl Store) {
    let Some(versions) = store.versions() else { return };
    commit(store, vec![put("10.1000/a", "1", Expect::Absent)]).await.unwrap();
    let version = || versions.of(&key("10.1000/A")).unwrap();
    let (before, other) = (version(), versions.of(&key("10.1000/b")).unwrap());
    commit(store, vec![put("10.1000/c", "1", Expect::Absent)]).await.unwrap();
    assert!(versions.is_current(before) && versions.is_current(other));
    commit(store, vec![put("10.1000/a", "2", Expect::Live)]).await.unwrap();
    assert!(!versions.is_current(before) && versions.is_current(other));
    let before = version();
    commit(store, vec![put("0.NA/10.1000", "1", Expect::Any)]).await.unwrap();
    assert!(!versions.is_current(before) && !versions.is_current(other));
    let before = version();
    commit(store, vec![Edit::Home { prefix: "10.1000".into() }]).await.unwrap();
    assert!(!versions.is_current(before));
    let before = version();
    commit(store, vec![Edit::Remove { name: "10.1000/a".into(), expect: Expect::Live }]).await.unwrap();
    assert!(!versions.is_current(before));
}

/// A change as a test tells it: its kind, and the state and data of what was there before.
fn told(past: &Past) -> (EditKind, Option<(State, String)>) {
    let before = match &past.before {
        Before::Nothing => None,
        Before::Record(entry) => {
            let data = entry.values.iter().map(|value| String::from_utf8_lossy(&value.data)).collect();
            Some((entry.state, data))
        }
        Before::Unknown => panic!("nothing is unknown"),
    };
    (past.line.kind, before)
}

const ALL: Order = Order::OldestFirst { after: 0 };

/// What ever changed under a name and what was there before, also where it is gone or has ended, and of no other name.
pub async fn histories(store: &impl Store) {
    use EditKind::{Create, Remove, Tombstone, Update};
    let long = |end: &str| format!("10.1000/{}{end}", "x".repeat(4_000));
    let remove = |name: &str| Edit::Remove { name: name.into(), expect: Expect::Live };
    let live = |data: &str| Some((State::Live, data.to_owned()));
    for name in ["10.1000/Abc", "10.1000", &"y".repeat(1_900), &long("1")] {
        // Names that begin as this one does have histories of their own, wherever these stand.
        for beside in [format!("{name}\u{0}"), format!("{name}\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}\u{1}")] {
            commit(store, vec![put(&beside, "beside", Expect::Absent)]).await.unwrap();
        }
        assert_eq!(store.history(&key(name), ALL, 10).await.unwrap().items, []);
        commit(store, vec![put(name, "a", Expect::Absent)]).await.unwrap();
        commit(store, vec![put(&name.to_ascii_uppercase(), "b", Expect::Live)]).await.unwrap();
        // Several of one change, among others.
        let several = vec![
            put("10.1000/other", "x", Expect::Any),
            put(name, "c", Expect::Live),
            Edit::Home { prefix: "10.1000".into() },
            remove(name),
            put(name, "d", Expect::Absent),
            put(name, "e", Expect::Live),
        ];
        let revision = commit(store, several).await.unwrap();
        commit(store, vec![tombstone(&name.to_ascii_lowercase())]).await.unwrap();
        commit(store, vec![put(name, "refused", Expect::Any)]).await.unwrap_err();
        let history = store.history(&key(&name.to_ascii_lowercase()), ALL, 10).await.unwrap();
        let expected = [
            (Create, None),
            (Update, live("a")),
            (Update, live("b")),
            (Remove, live("c")),
            (Create, None),
            (Update, live("d")),
            (Tombstone, live("e")),
        ];
        assert_eq!(history.items.iter().map(told).collect::<Vec<_>>(), expected, "{name}");
        assert_eq!(history.next, None);
        let revisions: Vec<u64> = history.items.iter().map(|past| past.line.revision).collect();
        assert_eq!(revisions[2..6], [revision; 4]);
        let Before::Record(entry) = &history.items[3].before else { panic!() };
        assert_eq!((entry.revision, &*entry.name), (revision, name));
        for past in &history.items {
            let line = store.changes(past.line.sequence - 1, 1).await.unwrap();
            assert_eq!(line, std::slice::from_ref(&past.line), "each is the log's");
            assert_eq!(&*past.line.name, name);
        }
    }
    assert_eq!(store.history(&key(&long("2")), ALL, 10).await.unwrap().items, []);
    assert_eq!(store.history(&key("10.1000/Ab"), ALL, 10).await.unwrap().items, []);
    // Many that came to be together, and again after they were removed.
    let names: Vec<String> = (0..4_097).map(|number| format!("10.1000/many-{number}")).collect();
    for count in [1, 2, 200, 4_096, 4_097] {
        let of_all = |edit: &dyn Fn(&str) -> Edit| names.iter().take(count).map(|name| edit(name)).collect();
        commit(store, of_all(&|name| put(name, "a", Expect::Absent))).await.unwrap();
        commit(store, of_all(&|name| put(name, "b", Expect::Live))).await.unwrap();
        commit(store, of_all(&remove)).await.unwrap();
        let expected = [(Create, None), (Update, live("a")), (Remove, live("b"))];
        for name in names.iter().take(count).step_by(count.div_ceil(20)).chain(names.get(count - 1)) {
            let history =
                store.history(&key(name), Order::NewestFirst { before: u64::MAX }, 3).await.unwrap();
            let found: Vec<_> = history.items.iter().rev().map(told).collect();
            assert_eq!(found, expected, "{name} of {count}");
            assert!(history.items.iter().all(|past| *past.line.name == **name));
        }
    }
    // What is gone has its history still.
    commit(store, vec![put("10.1000/gone", "a", Expect::Absent)]).await.unwrap();
    commit(store, vec![remove("10.1000/gone")]).await.unwrap();
    let history = store.history(&key("10.1000/GONE"), ALL, 10).await.unwrap();
    let told: Vec<_> = history.items.iter().map(told).collect();
    assert_eq!(told, [(Create, None), (Remove, live("a"))]);
}

/// From both ends, in pieces of any size; those of large records are small.
pub async fn histories_in_pieces(store: &impl Store) {
    for number in 0..20 {
        commit(store, vec![put("10.1000/1", &number.to_string(), Expect::Any)]).await.unwrap();
        commit(store, vec![put(&format!("10.1000/1{number}"), "x", Expect::Any)]).await.unwrap();
    }
    let name = key("10.1000/1");
    let all = store.history(&name, ALL, 100).await.unwrap().items;
    assert_eq!(all.len(), 20);
    for limit in [0, 1, 3, 19, 20, 21] {
        let (mut forth, mut back) = (ALL, Order::NewestFirst { before: u64::MAX });
        for (order, is_back) in [(&mut forth, false), (&mut back, true)] {
            let mut seen = Vec::new();
            loop {
                let piece = store.history(&name, *order, limit).await.unwrap();
                assert!(piece.items.len() <= limit.max(1));
                seen.extend(piece.items);
                let Some(next) = piece.next else { break };
                *order = if is_back {
                    Order::NewestFirst { before: next }
                } else {
                    Order::OldestFirst { after: next }
                };
            }
            if is_back {
                seen.reverse();
            }
            assert_eq!(seen, all, "by {limit}");
        }
    }
    for order in [Order::OldestFirst { after: u64::MAX }, Order::NewestFirst { before: 0 }] {
        assert_eq!(store.history(&name, order, 9).await.unwrap().items, []);
    }
    let large = "x".repeat(3 << 20);
    for _ in 0..5 {
        commit(store, vec![put("10.1000/large", &large, Expect::Any)]).await.unwrap();
    }
    let piece = store.history(&key("10.1000/large"), ALL, 100).await.unwrap();
    assert!(piece.items.len() < 5 && piece.next.is_some());
}

/// Who changes a secret wants the old one gone.
pub async fn histories_without_secrets(store: &impl Store) {
    let put = |secret: &'static str| Edit::Put {
        name: "10.1000/1".into(),
        values: vec![Value::new(300, "HS_SECKEY", secret), Value::new(1, "URL", "https://example.org/")],
        expect: Expect::Any,
    };
    commit(store, vec![put("first secret"), put("second secret")]).await.unwrap();
    commit(store, vec![put("third secret")]).await.unwrap();
    commit(store, vec![tombstone("10.1000/1")]).await.unwrap();
    let history = store.history(&key("10.1000/1"), ALL, 10).await.unwrap();
    let there = Some((State::Live, "https://example.org/".to_owned()));
    let before: Vec<_> = history.items.iter().map(|past| told(past).1).collect();
    assert_eq!(before, [None, there.clone(), there.clone(), there]);
}

fn register(name: &str, data: &str, registration: &str) -> Edit {
    let values = vec![Value::new(1, "URL", data.to_owned())];
    Edit::Register {
        name: name.into(),
        values,
        registration: registration.as_bytes().into(),
        expect: Expect::Any,
    }
}

async fn registration(store: &impl Store, name: &str) -> Option<String> {
    let entry = store.get(&key(name)).await.unwrap()?;
    Some(String::from_utf8(entry.registration.into_vec()).unwrap())
}

/// What the registry knows of a name comes with `Register`, goes with the record, and stays with everything else.
pub async fn registrations(store: &impl Store) {
    let remove = Edit::Remove { name: "10.1000/1".into(), expect: Expect::Live };
    let large = "x".repeat(100_000);
    let steps = [
        (put("10.1000/1", "a", Expect::Absent), Some("")),
        (register("10.1000/1", "b", "known"), Some("known")),
        (put("10.1000/1", "c", Expect::Live), Some("known")),
        (register("10.1000/1", "d", &large), Some(&*large)),
        (register("10.1000/1", "e", ""), Some("")),
        (register("10.1000/1", "f", "known again"), Some("known again")),
        (remove.clone(), None),
        (put("10.1000/1", "g", Expect::Absent), Some("")),
        (remove.clone(), None),
        (register("10.1000/1", "h", "known at last"), Some("known at last")),
        (put("10.1000/1", "i", Expect::Live), Some("known at last")),
        (tombstone("10.1000/1"), Some("known at last")),
    ];
    for (number, (edit, expected)) in steps.into_iter().enumerate() {
        commit(store, vec![edit]).await.unwrap();
        assert_eq!(registration(store, "10.1000/1").await.as_deref(), expected, "step {number}");
    }
    let refused = commit(store, vec![register("10.1000/1", "j", "too late")]).await;
    assert!(matches!(conflict(refused), Some((_, State::Tombstone))));
    assert_eq!(registration(store, "10.1000/1").await.unwrap(), "known at last");
    // Edits of one change see each other's, also among others.
    let name = "10.1000/2";
    let edits = vec![
        register("10.1000/3", "a", "of another"),
        register(name, "a", "one"),
        put(name, "b", Expect::Live),
        Edit::Home { prefix: "10.1000".into() },
    ];
    commit(store, edits).await.unwrap();
    assert_eq!(registration(store, name).await.unwrap(), "one");
    assert_eq!(registration(store, "10.1000/3").await.unwrap(), "of another");
    let edits = vec![
        Edit::Remove { name: name.into(), expect: Expect::Live },
        put(name, "c", Expect::Absent),
        register("10.1000/4", "a", "two"),
        tombstone("10.1000/4"),
    ];
    commit(store, edits).await.unwrap();
    assert_eq!(registration(store, name).await.unwrap(), "");
    assert_eq!(registration(store, "10.1000/4").await.unwrap(), "two");
    // What is refused leaves none, and takes nobody's place.
    let refused = vec![register("10.1000/5", "a", "refused"), put("10.1000/1", "x", Expect::Any)];
    commit(store, refused).await.unwrap_err();
    commit(store, vec![register("10.1000/6", "a", "six")]).await.unwrap();
    assert_eq!(registration(store, "10.1000/5").await, None);
    assert_eq!(registration(store, "10.1000/6").await.unwrap(), "six");
    let mut seen = Vec::new();
    let visit = |entry: &Entry| {
        seen.push(String::from_utf8_lossy(&entry.registration).into_owned());
        true
    };
    store.visit(Some(b"10.1000"), None, visit).await.unwrap();
    assert_eq!(seen, ["known at last", "", "of another", "two", "six"]);
}

/// What was known before is in the history, also of secrets' records and of those that are gone.
pub async fn histories_of_registrations(store: &impl Store) {
    let secret = |registration: &str| Edit::Register {
        name: "10.1000/1".into(),
        values: vec![Value::new(300, "HS_SECKEY", "secret")],
        registration: registration.as_bytes().into(),
        expect: Expect::Any,
    };
    commit(store, vec![register("10.1000/1", "a", "one")]).await.unwrap();
    commit(store, vec![put("10.1000/1", "b", Expect::Live), secret("two"), secret("three")]).await.unwrap();
    commit(store, vec![put("10.1000/1", "c", Expect::Live)]).await.unwrap();
    commit(store, vec![Edit::Remove { name: "10.1000/1".into(), expect: Expect::Live }]).await.unwrap();
    commit(store, vec![put("10.1000/1", "d", Expect::Absent)]).await.unwrap();
    commit(store, vec![tombstone("10.1000/1")]).await.unwrap();
    let history = store.history(&key("10.1000/1"), ALL, 10).await.unwrap();
    let before = history.items.iter().map(|past| match &past.before {
        Before::Record(entry) => Some(String::from_utf8_lossy(&entry.registration).into_owned()),
        _ => None,
    });
    let expected =
        [None, Some("one"), Some("one"), Some("two"), Some("three"), Some("three"), None, Some("")];
    assert_eq!(before.collect::<Vec<_>>(), expected.map(|known| known.map(str::to_owned)));
}

fn put_note(key: &[u8], body: &str) -> Edit {
    Edit::PutNote { key: key.into(), body: body.as_bytes().into() }
}

fn remove_note(key: &[u8]) -> Edit {
    Edit::RemoveNote { key: key.into() }
}

async fn note(store: &impl Store, key: &[u8]) -> Option<String> {
    let body = store.note(key).await.unwrap()?;
    Some(String::from_utf8(body.into_vec()).unwrap())
}

/// Notes are put, replaced and removed; they have no revision and no line in the log.
pub async fn notes(store: &impl Store) {
    assert_eq!(note(store, b"a").await, None);
    assert_eq!(commit(store, vec![put_note(b"a", "one")]).await.unwrap(), 0);
    assert_eq!(note(store, b"a").await.unwrap(), "one");
    let first = commit(store, vec![put("10.1000/1", "x", Expect::Absent)]).await.unwrap();
    let alone = vec![put_note(b"a", "two"), put_note(b"A", ""), put_note(b"b", "b"), remove_note(b"b")];
    assert_eq!(commit(store, alone).await.unwrap(), first);
    assert_eq!(note(store, b"a").await.unwrap(), "two");
    assert_eq!(note(store, b"A").await.unwrap(), "");
    assert_eq!(note(store, b"b").await, None);
    let with = vec![put_note(b"c", "c"), put("10.1000/2", "x", Expect::Absent), remove_note(b"a")];
    assert_eq!(commit(store, with).await.unwrap(), first + 1);
    assert_eq!((note(store, b"a").await, note(store, b"c").await.unwrap()), (None, "c".to_owned()));
    assert_eq!(commit(store, vec![remove_note(b"never there")]).await.unwrap(), first + 1);
    let log = store.changes(0, 100).await.unwrap();
    let lines: Vec<_> = log.iter().map(|line| (line.revision, &*line.name)).collect();
    assert_eq!(lines, [(first, "10.1000/1"), (first + 1, "10.1000/2")]);
    // What is refused leaves none and removes none.
    let refused = vec![put_note(b"d", "d"), remove_note(b"c"), put("10.1000/1", "x", Expect::Absent)];
    commit(store, refused).await.unwrap_err();
    assert_eq!((note(store, b"d").await, note(store, b"c").await.unwrap()), (None, "c".to_owned()));
    // Any bytes are a key, up to a length.
    let longest = [0xff; Key::LONGEST_NOTE];
    for key in [&b"\0"[..], b"\0\0", &longest] {
        commit(store, vec![put_note(key, "odd")]).await.unwrap();
        assert_eq!(note(store, key).await.unwrap(), "odd");
    }
    let too_long = [0xff; Key::LONGEST_NOTE + 1];
    for key in [&b""[..], &too_long] {
        let require = Edit::RequireNote { key: key.into(), body: None };
        for edit in [put_note(key, "none"), remove_note(key), require] {
            let refused = commit(store, vec![put_note(b"e", "e"), edit]).await.unwrap_err();
            assert!(matches!(refused, CommitError::Note { edit: 1 }), "{refused}");
        }
        assert_eq!(note(store, key).await, None);
    }
    assert_eq!(note(store, b"e").await, None);
}

/// Notes by the beginning of their keys, in order, in pieces.
pub async fn notes_in_pieces(store: &impl Store) {
    let keys = ["a", "a/", "a/1", "a/2", "a/20", "a/3", "a0", "b/1"];
    commit(store, keys.iter().rev().map(|key| put_note(key.as_bytes(), key)).collect()).await.unwrap();
    let cases = [
        ("", None, 100, &keys[..]),
        ("", None, 2, &keys[..2]),
        ("", Some(""), 100, &keys),
        ("", Some("a/2"), 2, &keys[4..6]),
        ("", Some("a/25"), 1, &keys[5..6]),
        ("a/", None, 100, &keys[1..6]),
        ("a/", None, 0, &[]),
        ("a/", Some("a"), 3, &keys[1..4]),
        ("a/", Some("a/"), 100, &keys[2..6]),
        ("a/", Some("a/3"), 100, &[]),
        ("a/", Some("b"), 100, &[]),
        ("a/2", None, 100, &keys[3..5]),
        ("c", None, 100, &[]),
        ("a/1/", None, 100, &[]),
        (&"b".repeat(5_000), None, 100, &[]),
        ("", Some(&"a/2".repeat(5_000)), 1, &keys[5..6]),
    ];
    for (number, (beginning, after, limit, expected)) in cases.into_iter().enumerate() {
        let found = store.notes(beginning.as_bytes(), after.map(str::as_bytes), limit).await.unwrap();
        assert!(found.iter().all(|(key, body)| key == body));
        let found: Vec<_> = found.iter().map(|(key, _)| String::from_utf8_lossy(key)).collect();
        assert_eq!(found, expected, "case {number}");
    }
}

/// A note has to be what was read, at its place among the edits; else nothing is done.
pub async fn required_notes(store: &impl Store) {
    let require = |key: &[u8], body: Option<&str>| Edit::RequireNote {
        key: key.into(),
        body: body.map(|body| body.as_bytes().into()),
    };
    commit(store, vec![put_note(b"a", "one")]).await.unwrap();
    let made = || [put("10.1000/1", "x", Expect::Absent), put_note(b"made", "x")];
    let unmet: [&dyn Fn() -> Vec<Edit>; 7] = [
        &|| vec![require(b"a", None)],
        &|| vec![require(b"a", Some("two"))],
        &|| vec![require(b"a", Some(""))],
        &|| vec![require(b"b", Some(""))],
        &|| vec![put_note(b"a", "two"), require(b"a", Some("one"))],
        &|| vec![remove_note(b"a"), require(b"a", Some("one"))],
        &|| vec![put_note(b"b", "two"), require(b"b", None)],
    ];
    for edits in unmet {
        for edits in [
            edits(),
            made().into_iter().chain(edits()).collect(),
            edits().into_iter().chain(made()).collect(),
        ] {
            let at = edits.iter().position(|edit| matches!(edit, Edit::RequireNote { .. })).unwrap();
            let refused = commit(store, edits).await.unwrap_err();
            assert!(matches!(refused, CommitError::Note { edit } if edit == at), "{refused}");
            assert_eq!((data(store, "10.1000/1").await, note(store, b"made").await), (None, None));
            assert_eq!((note(store, b"a").await.unwrap(), note(store, b"b").await), ("one".to_owned(), None));
        }
    }
    let met = vec![
        require(b"a", Some("one")),
        require(b"b", None),
        put_note(b"a", "two"),
        require(b"a", Some("two")),
        remove_note(b"a"),
        require(b"a", None),
        put_note(b"b", "three"),
    ];
    let revision = commit(store, met.into_iter().chain(made()).collect()).await.unwrap();
    assert_eq!((note(store, b"a").await, note(store, b"b").await.unwrap()), (None, "three".to_owned()));
    assert_eq!(commit(store, vec![require(b"b", Some("three"))]).await.unwrap(), revision);
}

async fn revision_in_pieces(store: &impl Store, revision: u64, limit: usize) -> Vec<String> {
    let (mut names, mut after) = (Vec::new(), None);
    loop {
        let piece = store.of_revision(revision, after.as_ref(), limit).await.unwrap();
        assert!(piece.names.len() <= limit);
        names.extend(piece.names.into_iter().map(|listed| listed.name.into_string()));
        after = piece.next;
        if after.is_none() {
            return names;
        }
    }
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

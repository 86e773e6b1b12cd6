//! The tests that every store has to pass, each on an empty one.

use std::collections::BTreeMap;

use tendot_proto::{Permissions, Reference, Ttl, Value};

use crate::{Change, CommitError, Edit, EditKind, Entry, Expect, Key, KeyError, State, Store};

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

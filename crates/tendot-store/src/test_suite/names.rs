//! Lists, scans and counts of names; unusual names; homed prefixes.

use std::collections::BTreeMap;

use super::{commit, data, key, put, tombstone};
use crate::{CommitError, Edit, NameKeyError, Precondition, RecordStatus, Store, StoredRecord};

/// Names of one prefix in order, page by page.
pub async fn list_names(store: &impl Store) {
    let mut expected = BTreeMap::new();
    let mut edits = Vec::new();
    for prefix in ["10.1", "10.10", "10.100", "10.1.1", "10.1Z"] {
        for number in 0..25 {
            let name = format!("{prefix}/n{}", number * 7 % 25);
            edits.push(put(&name, "x", Precondition::Absent));
            expected.entry(prefix.to_ascii_uppercase()).or_insert_with(Vec::new).push(name);
        }
    }
    commit(store, edits).await.unwrap();
    commit(store, vec![Edit::Tombstone { name: "10.1/n3".into(), precondition: Precondition::Live }])
        .await
        .unwrap();
    for (prefix, mut names) in expected {
        names.sort_by_key(|name| name.to_ascii_uppercase());
        for limit in [1, 7, 25, 1000] {
            let (mut seen, mut after) = (Vec::new(), None);
            loop {
                let listed =
                    store.list_names(prefix.to_lowercase().as_bytes(), after.as_ref(), limit).await.unwrap();
                assert!(listed.len() <= limit);
                let Some(last) = listed.last() else { break };
                after = Some(key(&last.name));
                for listed in listed {
                    let gone = &*listed.name == "10.1/n3";
                    assert_eq!(listed.status == RecordStatus::Tombstone, gone, "{}", listed.name);
                    seen.push(listed.name.into_string());
                }
            }
            assert_eq!(seen, names, "{prefix} by {limit}");
        }
    }
    assert_eq!(store.list_names(b"10", None, 10).await.unwrap(), []);
    let beyond = key("10.2/x");
    assert_eq!(store.list_names(b"10.1", Some(&beyond), 10).await.unwrap(), [], "after all of them");
}

/// First names from start keys on, which may end anywhere in a name.
pub async fn seek_names(store: &impl Store) {
    let names = ["10.1", "10.1/a", "10.1/Ab", "10.1/b\u{e9}", "10.1/日本", "10.1.1/x", "10.10/x", "/", "/x"];
    commit(store, names.iter().map(|name| put(name, "x", Precondition::Absent)).collect()).await.unwrap();
    commit(store, vec![tombstone("10.1/Ab")]).await.unwrap();
    let starts: [(&[u8], Option<&str>); 9] = [
        (b"", Some("10.1/a")),
        (b"10.1/", Some("10.1/a")),
        (b"10.1/A\0", Some("10.1/Ab")),
        (b"10.1/A\xff", Some("10.1/b\u{e9}")),
        ("10.1/B\u{e9}".as_bytes(), Some("10.1/b\u{e9}")),
        (b"10.1/B\xc3\xff", Some("10.1/日本")),
        ("10.1/日本0".as_bytes(), None),
        (b"10.1/\xff", None),
        (b"9", None),
    ];
    let (keys, expected): (Vec<Vec<u8>>, Vec<_>) =
        starts.iter().map(|(start, first)| (start.to_vec(), first.map(str::to_owned))).unzip();
    let found = store.seek_names(b"10.1", &keys).await.unwrap();
    let tombstones = found.iter().flatten().filter(|found| found.status == RecordStatus::Tombstone);
    assert_eq!(tombstones.map(|found| &*found.name).collect::<Vec<_>>(), ["10.1/Ab"]);
    let found: Vec<_> = found.into_iter().map(|found| found.map(|found| found.name.into_string())).collect();
    assert_eq!(found, expected);
    let first = async |prefix: &[u8]| store.seek_names(prefix, &[Vec::new()]).await.unwrap().remove(0);
    assert_eq!(first(b"10.10").await.map(|found| found.name), Some("10.10/x".into()));
    assert_eq!(first(b"").await.map(|found| found.name), Some("/".into()));
    assert_eq!(first(b"10.2").await, None);
    assert_eq!(first("1".repeat(5_000).as_bytes()).await, None);
    assert_eq!(store.seek_names(b"10.1", &[]).await.unwrap(), []);
    // Start keys of any length.
    assert_eq!(
        store.seek_names(b"10.1", &[[b"10.1/B", &[b'X'; 5_000][..]].concat()]).await.unwrap().len(),
        1
    );
}

/// All records, or those of one prefix, once and in order, until the visitor stops.
pub async fn scan_records(store: &impl Store) {
    let names = ["10.1", "10.1/a", "10.1/B", "10.1/c", "10.1.1/x", "10.10/x"];
    commit(store, names.iter().map(|name| put(name, name, Precondition::Absent)).collect()).await.unwrap();
    commit(store, vec![Edit::Tombstone { name: "10.1/c".into(), precondition: Precondition::Live }])
        .await
        .unwrap();
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
                let visit = |entry: &StoredRecord| {
                    assert!(seen.len() - before < limit, "visited after the end");
                    assert_eq!(entry.status == RecordStatus::Tombstone, &*entry.name == "10.1/c");
                    assert_eq!(&*entry.values[0].data, entry.name.as_bytes());
                    seen.push(entry.name.clone());
                    seen.len() - before < limit
                };
                store.scan_records(prefix, after.as_ref(), visit).await.unwrap();
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

/// Prefixes are homed and unhomed without ASCII case.
pub async fn homed_prefixes(store: &impl Store) {
    let home = |prefix: &str| Edit::Home { prefix: prefix.into() };
    commit(store, vec![home("10.1000"), home("10.5555"), home("20.abc")]).await.unwrap();
    assert!(store.is_homed(b"20.ABC").await.unwrap() && store.is_homed(b"20.abc").await.unwrap());
    assert!(!store.is_homed(b"10.100").await.unwrap() && !store.is_homed(b"").await.unwrap());
    assert_eq!(store.list_homed(None, 2).await.unwrap(), ["10.1000".into(), "10.5555".into()]);
    assert_eq!(store.list_homed(Some(b"10.5555"), 9).await.unwrap(), ["20.ABC".into()]);
    // Too long for a prefix; the store stays usable.
    let long = "1".repeat(256);
    let refused = commit(store, vec![home(&long)]).await.unwrap_err();
    assert!(
        matches!(
            refused,
            CommitError::InvalidName { error: NameKeyError::PrefixTooLong { length: 256 }, .. }
        ),
        "{refused}"
    );
    assert!(!store.is_homed("1".repeat(5_000).as_bytes()).await.unwrap());
    assert_eq!(store.list_names("1".repeat(5_000).as_bytes(), None, 9).await.unwrap(), []);
    assert_eq!(store.list_homed(Some("2".repeat(5_000).as_bytes()), 9).await.unwrap(), []);
    commit(store, vec![home(&long[1..])]).await.unwrap();
    commit(store, vec![Edit::Unhome { prefix: long[1..].into() }]).await.unwrap();
    commit(store, vec![Edit::Unhome { prefix: "20.Abc".into() }, home("10.1000")]).await.unwrap();
    assert_eq!(store.list_homed(None, 9).await.unwrap(), ["10.1000".into(), "10.5555".into()]);
}

/// Names that are hard on storage keys: long, short, without a slash, prefixes of each other, any bytes.
pub async fn unusual_names(store: &impl Store) {
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
        let created = commit(store, vec![put(name, &number.to_string(), Precondition::Absent)]).await;
        assert!(created.is_ok(), "{number}: {created:?}");
    }
    for (number, name) in names.iter().enumerate() {
        assert_eq!(data(store, name).await, Some(number.to_string()), "{number}");
        let entry = store.get(&key(name)).await.unwrap().unwrap();
        assert_eq!(*entry.name, **name);
    }
    let listed = store.list_names(b"10.1000", None, 100).await.unwrap();
    assert_eq!(listed.len(), 10, "all names with this prefix, and the prefix itself");
    assert_eq!(data(store, &long("3")).await, None);
    let too_long = long("12");
    let refused =
        commit(store, vec![put(&format!("{too_long}4"), "x", Precondition::NotTombstone)]).await.unwrap_err();
    assert!(matches!(
        refused,
        CommitError::InvalidName { edit: 0, error: NameKeyError::TooLong { length: 4_097 } }
    ));
    let refused = commit(store, vec![put("", "x", Precondition::NotTombstone)]).await.unwrap_err();
    assert!(matches!(refused, CommitError::InvalidName { edit: 0, error: NameKeyError::Empty }));
}

/// Live names of one prefix are counted page by page; tombstones are not counted.
pub async fn count_names(store: &impl Store) {
    let mut edits = vec![put("10.1", "x", Precondition::Absent)];
    for prefix in ["10.1", "10.10", "10.1.1"] {
        edits.extend((0..25).map(|number| put(&format!("{prefix}/n{number}"), "x", Precondition::Absent)));
    }
    edits.push(put(&format!("10.1/{}", "x".repeat(3_000)), "x", Precondition::Absent));
    edits.extend(["10.1/n3", "10.1/n24", "10.10/n0"].map(tombstone));
    commit(store, edits).await.unwrap();
    let counts: [(&[u8], u64); 6] =
        [(b"10.1", 25), (b"10.10", 24), (b"10.1.1", 25), (b"10", 0), (b"10.2", 0), (b"", 0)];
    for (prefix, expected) in counts {
        for limit in [1, 2, 7, 26, 27, 28, usize::MAX] {
            let (mut live, mut after, mut calls) = (0, None, 0);
            loop {
                let counted = store.count_names(prefix, after.as_ref(), limit).await.unwrap();
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
    let none = store.count_names("1".repeat(5_000).as_bytes(), None, 9).await.unwrap();
    assert_eq!((none.live, none.next), (0, None));
    // If the store returns a name count, it is exact.
    assert!(store.name_count().await.unwrap().is_none_or(|size| size == 77));
}

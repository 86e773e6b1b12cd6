//! Suggestions find names with one typing error anywhere in the suffix, on every store, in a bounded number of lookups.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tendot_proto::{HandleValue, ValuePermissions};
use tendot_server::http::HttpLimits;
use tendot_store::test_suite::CountingStore;
use tendot_store::{AnyStore, Edit, MemoryStore};

use crate::support::edits::{home_edit, put_edit};
use crate::support::http_server::{TestServer, bind, start_over};
use crate::support::stores::{StoreKind, over_stores};

over_stores!(one_typing_error);

/// Maximum number of lookups of one request.
const MAX_LOOKUPS: u64 = 2_000;

fn put(name: &str) -> Edit {
    put_edit(name, vec![HandleValue::new(1, "URL", "https://example.org/")])
}

fn serve(store: AnyStore, names: &[String]) -> TestServer {
    let mut edits: Vec<Edit> = names.iter().map(|name| put(name)).collect();
    edits.push(home_edit("10.5555"));
    start_over(store, bind(), edits, HttpLimits::default(), None, |http| http)
}

fn suggestions(server: &TestServer, name: &str) -> Vec<String> {
    let path: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let response = server.request("GET", &format!("/{path}"), "Accept: application/json");
    assert_eq!(response.status, 404, "{name}: {}", response.text());
    let problem = response.json();
    let names = problem["suggestions"].as_array().cloned().unwrap_or_default();
    names.iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

/// All spellings with one character wrong, missing or too many, or two neighbours swapped.
fn misspellings(suffix: &str) -> BTreeSet<String> {
    let letters: Vec<char> = suffix.chars().collect();
    let mut spellings = BTreeSet::new();
    let mut add = |edit: &dyn Fn(&mut Vec<char>)| {
        let mut edited = letters.clone();
        edit(&mut edited);
        spellings.insert(edited.iter().collect::<String>());
    };
    for at in 0..=letters.len() {
        for other in ['x', '0', '!', '~', 'é', '日'] {
            add(&|edited| edited.insert(at, other));
            if at < letters.len() {
                add(&|edited| edited[at] = other);
            }
        }
        if at < letters.len() {
            add(&|edited| _ = edited.remove(at));
            add(&|edited| edited.insert(at, edited[at]));
        }
        if at + 1 < letters.len() {
            add(&|edited| edited.swap(at, at + 1));
        }
    }
    spellings.retain(|spelling| !spelling.is_empty() && !spelling.eq_ignore_ascii_case(suffix));
    spellings
}

fn one_typing_error(store: StoreKind) {
    let registered = ["journal.2019/a-07", "Hello-b", "aab", "Éé-日本", "tt"];
    let mut names: Vec<String> = registered.iter().map(|suffix| format!("10.5555/{suffix}")).collect();
    // Names around them in key order, and below them.
    for other in
        ["j", "journ", "journal.2018/zz", "journal.2019/a-07/supplement", "joz", "zz", "!", "日", "hexxo-b"]
    {
        names.push(format!("10.5555/{other}"));
    }
    names.extend(["10.555/journal.2019/a-07".into(), "10.55555/journal.2019/a-07".into()]);
    let server = serve(store.open(), &names);
    assert_eq!(suggestions(&server, "10.5555/joxrnal.2019/a-07"), ["10.5555/journal.2019/a-07"]);
    assert_eq!(suggestions(&server, "10.5555/JORNAL.2019/A-07"), ["10.5555/journal.2019/a-07"]);
    for suffix in registered {
        for spelling in misspellings(suffix) {
            let (misspelled, expected) = (format!("10.5555/{spelling}"), format!("10.5555/{suffix}"));
            if names.iter().any(|name| name.eq_ignore_ascii_case(&misspelled)) {
                continue;
            }
            let found = suggestions(&server, &misspelled);
            assert!(found.contains(&expected), "{misspelled} finds {found:?}, not {expected}");
        }
    }
    assert_eq!(suggestions(&server, "10.5555/xournal.2019/x-07"), [""; 0], "two errors");
}

/// Suggestions and lookups of one request.
fn counted(server: &TestServer, lookups: &AtomicU64, name: &str) -> (Vec<String>, u64) {
    let before = lookups.load(Ordering::Relaxed);
    let found = suggestions(server, name);
    let count = lookups.load(Ordering::Relaxed) - before;
    assert!(count <= MAX_LOOKUPS, "{name}: {count} lookups");
    (found, count)
}

fn serve_counted(names: &[String]) -> (TestServer, Arc<AtomicU64>) {
    let (store, lookups) = CountingStore::new(MemoryStore::new().into());
    (serve(AnyStore::boxed(store), names), lookups)
}

/// Branches along the path decide how many lookups a search takes, not the number of names.
#[test]
fn lookups_in_many_names() {
    // 100,000 names in which every character of the suffix can be any digit, and the same with letters at every third place.
    let word = |number: u32| format!("10.5555/p{:02}-{:03}x{:02}", number % 100, number / 100, number % 37);
    let names: Vec<String> = (0..100_000).map(word).collect();
    let (server, lookups) = serve_counted(&names);
    let registered: BTreeSet<&String> = names.iter().collect();
    let mut counts = Vec::new();
    for number in (0..100_000).step_by(3_571) {
        let name = word(number);
        for at in 8..name.len() {
            let (before, rest) = name.split_at(at);
            for misspelled in [
                format!("{before}{}", &rest[1..]),
                format!("{before}~{}", &rest[1..]),
                format!("{before}~{rest}"),
            ] {
                if registered.contains(&misspelled) {
                    continue;
                }
                let (found, count) = counted(&server, &lookups, &misspelled);
                assert!(
                    found.contains(&name) || found.len() == 5,
                    "{misspelled} finds {found:?}, not {name}"
                );
                counts.push(count);
            }
        }
    }
    counts.sort_unstable();
    let (median, max) = (counts[counts.len() / 2], counts[counts.len() - 1]);
    assert!(max < 1_000, "{max} lookups, median {median}");
}

/// Names made to be searched for long: many branches at every place, many different characters, many hidden names.
#[test]
fn attack_lookups() {
    let path: String = (0..400).map(|at| char::from(b'a' + (at * 7 % 26) as u8)).collect();
    let mut names = Vec::new();
    for at in 0..path.len() {
        for other in ('!'..='~').filter(|other| !other.is_ascii_lowercase() && *other != '/') {
            names.push(format!("10.5555/{}{other}-", &path[..at]));
        }
    }
    let ideograph = |number: u32| char::from_u32(0x4e00 + number).unwrap();
    names.extend((0..20_000).map(|number| format!("10.5555/{}{}", ideograph(number), ideograph(number + 1))));
    // Names without public values are not suggested, but found.
    let hidden: Vec<String> =
        (0..2_000).map(|number| format!("10.5555/hidden{}", ideograph(number))).collect();
    let (server, lookups) = serve_counted(&names);
    let secret = HandleValue { permissions: ValuePermissions(0), ..HandleValue::new(1, "URL", "x") };
    server.commit(hidden.iter().map(|name| put_edit(name, vec![secret.clone()])).collect());
    let mut counts = Vec::new();
    for name in [
        format!("10.5555/{path}"),
        format!("10.5555/{path}{path}"),
        format!("10.5555/{}", &path[..200]),
        "10.5555/~".into(),
        "10.5555/hidden".into(),
        "10.5555/hidde".into(),
        format!("10.5555/{}", "~".repeat(2_000)),
        format!("10.5555/{}{}", ideograph(9_000), ideograph(1)),
    ] {
        let (found, count) = counted(&server, &lookups, &name);
        assert!(found.iter().all(|found| !found.contains("hidden")), "{name}: {found:?}");
        counts.push(count);
    }
    assert!(counts.iter().any(|count| *count >= 1_500), "no search reaches its limit: {counts:?}");
}

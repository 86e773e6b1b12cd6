//! The attacks on rights, names and records that were thought of, each with the answer that it gets.

mod scene;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use pollster::block_on;
use scene::*;
use tendot_proto::record::ValueList;
use tendot_proto::{Handle, Permissions, Reference, Value, Work};
use tendot_registry::{Error, Limits, Note, Operation, Query, Registry, Settings, Write};
use tendot_store::{
    Change, CommitError, Committed, Counted, Edit, Embedded, Entry, Expect, History, Key, Listed, Logged,
    Memory, Order, Piece, Store, StoreError,
};

const ADMIN: &str = "300:10.1/a";

/// Who may change values may not change who may.
#[test]
fn attack_p1_modify_value_is_not_modify_admin() {
    let check_with = |bits, what: &Write<'_>, expected| {
        let registry = registry();
        put(registry.store(), "10.1/x", vec![url(1, "https://a/"), admin(100, bits, ADMIN)]);
        check(&registry, ADMIN, what, expected);
    };
    let give = || admin(100, 0x0fff, ADMIN);
    check_with(0x0010, &modify("10.1/x", vec![give()]), 400);
    check_with(0x0f7f, &modify("10.1/x", vec![give()]), 400);
    check_with(0x0080, &modify("10.1/x", vec![give()]), 1);
    check_with(0x0010, &modify("10.1/x", vec![url(1, "https://b/")]), 1);
    // A value becomes an administrator.
    let become_admin = || Value { index: 1, ..give() };
    check_with(0x0010, &modify("10.1/x", vec![become_admin()]), 400);
    check_with(0x0200, &modify("10.1/x", vec![become_admin()]), 400);
    check_with(0x0210, &modify("10.1/x", vec![become_admin()]), 1);
    // An administrator becomes a value.
    check_with(0x0010, &modify("10.1/x", vec![url(100, "https://b/")]), 400);
    check_with(0x0110, &forced(modify("10.1/x", vec![url(100, "https://b/")])), 1);
    // The same by the other ways.
    check_with(0x0050, &add("10.1/x", true, vec![give()]), 400);
    check_with(0x0080, &add("10.1/x", true, vec![give()]), 1);
    check_with(0x0040, &add("10.1/x", false, vec![admin(101, 0x0fff, ADMIN)]), 400);
    check_with(0x0200, &add("10.1/x", false, vec![admin(101, 0x0fff, ADMIN)]), 1);
    check_with(0x0200, &add("10.1/x", false, vec![admin(101, 1, ADMIN), url(2, "https://b/")]), 400);
    check_with(0x0240, &add("10.1/x", false, vec![admin(101, 1, ADMIN), url(2, "https://b/")]), 1);
    check_with(0x0020, &remove("10.1/x", &[100]), 400);
    check_with(0x0100, &forced(remove("10.1/x", &[100])), 1);
    check_with(0x0100, &remove("10.1/x", &[1]), 400);
    check_with(0x0070, &overwrite("10.1/x", vec![url(1, "https://a/"), give()]), 400);
    check_with(0x0080, &overwrite("10.1/x", vec![url(1, "https://a/"), give()]), 1);
    check_with(0x0070, &overwrite("10.1/x", vec![url(2, "https://a/")]), 400);
    check_with(0x0170, &forced(overwrite("10.1/x", vec![url(2, "https://a/")])), 1);
    check_with(0x0200, &overwrite("10.1/x", vec![url(2, "https://a/"), give()]), 1);
    // To delete and to create would be another way; creating is the prefix's to give.
    check_with(0x0002, &overwrite("10.1/x", vec![url(2, "https://a/"), give()]), 400);
    check_with(0x0ffd, &delete("10.1/x"), 400);
    check_with(0x0002, &delete("10.1/x"), 1);
}

/// One value with a half of the rights and another with the other half are not one with both.
#[test]
fn attack_p1_rights_do_not_add_up() {
    let registry = registry();
    let halves = vec![url(1, "https://a/"), admin(100, 0x0010, ADMIN), admin(101, 0x0200, ADMIN)];
    put(registry.store(), "10.1/x", halves);
    check(&registry, ADMIN, &modify("10.1/x", vec![admin(1, 1, ADMIN)]), 400);
}

/// What nobody may change is not changed by any way; what exists is not replaced without being asked to.
#[test]
fn attack_p2_read_only_values() {
    let registry = registry();
    let (writable, read_only) = (note(1, 0x0e), note(2, 0x0a));
    put(registry.store(), "10.1/x", vec![writable, read_only, admin(100, 0x0fff, ADMIN)]);
    let other = |index| Value::new(index, "NOTE", "y");
    check(&registry, ADMIN, &modify("10.1/x", vec![other(2)]), 401);
    check(&registry, "operator", &modify("10.1/x", vec![other(2)]), 401);
    check(&registry, ADMIN, &add("10.1/x", false, vec![other(2)]), 201);
    check(&registry, ADMIN, &add("10.1/x", true, vec![other(2)]), 401);
    check(&registry, ADMIN, &remove("10.1/x", &[1, 2]), 401);
    check(&registry, ADMIN, &overwrite("10.1/x", vec![note(1, 0x0e)]), 401);
    check(&registry, "anonymous", &modify("10.1/x", vec![other(2)]), 402);
    check(&registry, "300:10.1/b", &modify("10.1/x", vec![other(2)]), 400);
    check(&registry, ADMIN, &add("10.1/x", false, vec![other(1)]), 201);
    check(&registry, ADMIN, &add("10.1/x", true, vec![note(2, 0x0a)]), 1);
    check(&registry, ADMIN, &add("10.1/x", true, vec![other(1)]), 1);
    assert_eq!(values(registry.store(), "10.1/x").unwrap()[1].timestamp, BEFORE);
}

/// Everybody may write into a value that says so: not decide who may read it, and not make an administrator of it.
#[test]
fn attack_p2_public_write() {
    let registry = registry();
    put(registry.store(), "10.1/x", vec![note(1, 0x0f), admin(100, 0x0fff, ADMIN)]);
    let public = |value: Value<'static>| Value { permissions: Permissions(0x0f), ..value };
    let new = || public(Value::new(1, "NOTE", "y"));
    check(&registry, "anonymous", &modify("10.1/x", vec![new()]), 1);
    check(&registry, "anonymous", &remove("10.1/x", &[1]), 402);
    check(&registry, "anonymous", &modify("10.1/x", vec![Value::new(1, "NOTE", "y")]), 402);
    check(&registry, "anonymous", &modify("10.1/x", vec![public(admin(1, 0x0fff, ADMIN))]), 402);
    check(&registry, "anonymous", &modify("10.1/x", vec![public(Value::new(1, "URL", "https://e/"))]), 402);
    check(&registry, "anonymous", &modify("10.1/x", vec![new(), url(100, "https://e/")]), 402);
}

/// Index 0 in a record is any key of who is named; a client that names no index has the rights of the key that it
/// proves, and of no other.
#[test]
fn attack_p3_index_0() {
    let attempt = |entry: &str, claimed: &str, proven: &str, authorized: u32, done: u32| {
        let registry = registry();
        put(registry.store(), "10.1/x", vec![url(1, "https://a/"), admin(100, 0x0fff, entry)]);
        let what = delete("10.1/x");
        let operation = Operation::Write(what.clone());
        let claim = Reference::parse(claimed);
        let outcome = block_on(registry.authorize(&operation, &claim, &mut Work::new(20_000)));
        assert_eq!(code(&outcome), authorized, "{entry} {claimed}");
        check(&registry, proven, &what, done);
    };
    attempt("300:10.1/a", "300:10.1/a", "300:10.1/a", 1, 1);
    attempt("300:10.1/a", "301:10.1/a", "301:10.1/a", 400, 400);
    attempt("0:10.1/a", "300:10.1/a", "300:10.1/a", 1, 1);
    attempt("0:10.1/a", "301:10.1/a", "301:10.1/a", 1, 1);
    attempt("300:10.1/a", "0:10.1/a", "300:10.1/a", 1, 1);
    attempt("300:10.1/a", "0:10.1/a", "301:10.1/a", 1, 400);
    attempt("0:10.1/a", "0:10.1/a", "7:10.1/a", 1, 1);
    attempt("0:10.1/a", "0:10.1/b", "300:10.1/b", 400, 400);
    attempt("0:10.1/a", "300:10.1/a/b", "300:10.1/a/b", 400, 400);
}

/// A reference to any value of a record stands for its keys, not for the groups in it.
#[test]
fn attack_p3_index_0_is_no_group() {
    let registry = registry();
    put(registry.store(), "10.1/g", vec![group(200, &["300:10.1/b"])]);
    put(registry.store(), "10.1/x", vec![admin(100, 0x0fff, "0:10.1/g")]);
    check(&registry, "300:10.1/b", &delete("10.1/x"), 400);
    // Not even if a value has that index, which none can get by a deposit.
    put(registry.store(), "10.1/g", vec![group(0, &["300:10.1/b"])]);
    check(&registry, "300:10.1/b", &delete("10.1/x"), 400);
}

#[test]
fn attack_p4_groups_in_groups() {
    let chain = |depth: usize| {
        let registry = registry();
        for number in 1..=depth {
            let member =
                if number == depth { "300:10.1/b".to_owned() } else { format!("200:10.1/g{}", number + 1) };
            put(registry.store(), &format!("10.1/g{number}"), vec![group(200, &[&member])]);
        }
        put(registry.store(), "0.NA/10.1", vec![admin(100, 0x0001, "200:10.1/g1")]);
        registry
    };
    for (depth, expected) in [(1, 1), (7, 1), (8, 1), (9, 400), (30, 400)] {
        check(&chain(depth), "300:10.1/b", &create("10.1/new", vec![]), expected);
    }
}

#[test]
fn attack_p5_groups_without_end() {
    let check_with = |groups: Vec<(&str, Value<'static>)>, expected| {
        let registry = registry();
        for (name, group) in groups {
            put(registry.store(), name, vec![group]);
        }
        put(registry.store(), "10.1/x", vec![admin(100, 0x0fff, "200:10.1/g")]);
        check(&registry, "300:10.1/b", &delete("10.1/x"), expected);
    };
    check_with(vec![("10.1/g", group(200, &["300:10.1/b"]))], 1);
    check_with(vec![("10.1/G", group(200, &["200:10.1/g", "300:10.1/b"]))], 1);
    // A cycle, and one that writes its names in another case each time.
    let cycle = || vec![("10.1/g", group(200, &["200:10.1/h"])), ("10.1/h", group(200, &["200:10.1/G"]))];
    check_with(cycle(), 400);
    // More members than are looked at.
    let crowd = |count: u32| {
        let mut members: Vec<_> = (0..count).map(|index| Reference::new(index + 1, &b"10.1/c"[..])).collect();
        members.push(Reference::parse("300:10.1/b"));
        Value::with_data(200, "HS_VLIST", ValueList { members }.to_bytes())
    };
    check_with(vec![("10.1/g", crowd(255))], 1);
    check_with(vec![("10.1/g", crowd(256))], 400);
    check_with(vec![("10.1/g", crowd(50_000))], 400);
    // A group that is elsewhere, though a record of that name is still in the store.
    let elsewhere = vec![("10.1/g", group(200, &["200:10.9/h"])), ("10.9/h", group(200, &["300:10.1/b"]))];
    check_with(elsewhere, 400);
    // What looks like a group is none.
    check_with(
        vec![("10.1/g", Value { value_type: b"HS_VLIST.x"[..].into(), ..group(200, &["300:10.1/b"]) })],
        400,
    );
    check_with(vec![("10.1/g", Value::new(200, "HS_VLIST", "not one"))], 400);
    check_with(vec![("10.1/g", group(201, &["300:10.1/b"]))], 400);
}

/// What has been ended gives no rights: a group, the record of a prefix, a key.
#[test]
fn attack_p5_ended_records() {
    let registry = registry();
    put(registry.store(), "10.1/g", vec![group(200, &["300:10.1/b"]), Value::new(300, "HS_SECKEY", "x")]);
    put(registry.store(), "10.1/x", vec![admin(100, 0x0fff, "200:10.1/g")]);
    for ended in ["10.1/g", "0.NA/10.1"] {
        commit(registry.store(), Edit::Tombstone { name: ended.into(), expect: Expect::Live });
    }
    check(&registry, "300:10.1/b", &delete("10.1/x"), 400);
    check(&registry, "300:0.NA/10.1", &create("10.1/new", vec![]), 400);
    let keys = block_on(registry.keys(Handle::from("10.1/g"), &mut Work::new(1_000))).unwrap();
    assert_eq!(keys, []);
}

/// A walk that would cost more than a request may ends without the right.
#[test]
fn attack_p5_work() {
    let registry = registry();
    put(registry.store(), "10.1/g", vec![group(200, &["300:10.1/b"])]);
    put(registry.store(), "10.1/x", vec![admin(100, 0x0fff, "200:10.1/g")]);
    for steps in 0..200 {
        let what = delete("10.1/x");
        let outcome = block_on(registry.write(&what, &caller("300:10.1/b"), NOW, &mut Work::new(steps)));
        if outcome.is_ok() {
            assert!(steps > 40, "{steps} steps were enough");
            return;
        }
        assert!(matches!(outcome, Err(Error::Exhausted(_))), "{outcome:?}");
    }
    panic!("never enough");
}

/// The last administrator is taken away, or the last right, only by who says so expressly, and is told even then.
#[test]
fn attack_p6_locking_out() {
    let attempts = [
        remove("10.1/x", &[100]),
        modify("10.1/x", vec![url(100, "https://b/")]),
        modify("10.1/x", vec![admin(100, 0, ADMIN)]),
        add("10.1/x", true, vec![admin(100, 0xe000, ADMIN)]),
        overwrite("10.1/x", vec![url(1, "https://a/")]),
        overwrite("10.1/x", vec![url(1, "https://a/"), admin(100, 0, ADMIN)]),
    ];
    for what in attempts {
        let registry = registry();
        put(registry.store(), "10.1/x", vec![url(1, "https://a/"), admin(100, 0x0fff, ADMIN)]);
        for who in [ADMIN, "operator"] {
            assert!(matches!(write(&registry, who, &what), Err(Error::LockedOut)), "{what:?}");
            check(&registry, who, &what, 401);
        }
        // Those who may not do it do not learn what it would come to.
        check(&registry, "300:10.1/b", &what, 400);
        check(&registry, "anonymous", &what, 402);
        let done = write(&registry, ADMIN, &forced(what.clone())).unwrap();
        assert_eq!(done.notes, [Note::NoAdministrator], "{what:?}");
        // Those of the prefix can help; who took it away can not.
        let rescue = || add("10.1/x", true, vec![admin(100, 0x0fff, ADMIN)]);
        check(&registry, ADMIN, &rescue(), 400);
        check(&registry, "300:0.NA/10.2", &rescue(), 400);
        check(&registry, "300:0.NA/10.1", &rescue(), 1);
        // With another administrator it is nothing special.
        check(&registry, ADMIN, &add("10.1/x", false, vec![admin(101, 1, "300:10.1/b")]), 1);
        check(&registry, ADMIN, &remove("10.1/x", &[100]), 1);
    }
    // A record that never had one is told, and can be changed further.
    let registry = registry();
    let one = "300:0.NA/10.1";
    for what in
        [create("10.1/y", vec![admin(100, 0, ADMIN)]), add("10.1/y", false, vec![url(1, "https://a/")])]
    {
        assert_eq!(write(&registry, one, &what).unwrap().notes, [Note::NoAdministrator]);
    }
}

/// Where nobody administers a record, those of the prefix can give it somebody who does; others cannot.
#[test]
fn attack_p6_locked_out() {
    let registry = registry();
    put(registry.store(), "10.1/x", vec![url(1, "https://a/"), admin(100, 0x0fff, ADMIN)]);
    let done = write(&registry, ADMIN, &forced(remove("10.1/x", &[100]))).unwrap();
    assert_eq!(done.notes, [Note::NoAdministrator]);
    let rescue = || add("10.1/x", false, vec![admin(100, 0x0fff, ADMIN)]);
    check(&registry, ADMIN, &rescue(), 400);
    check(&registry, "300:0.NA/10.2", &rescue(), 400);
    // Who may not create names under the prefix is not asked.
    put(registry.store(), "0.NA/10.1", vec![admin(100, 0x0ffe, "300:0.NA/10.1")]);
    check(&registry, "300:0.NA/10.1", &rescue(), 400);
    put(registry.store(), "0.NA/10.1", vec![admin(100, 0x0201, "300:0.NA/10.1")]);
    check(&registry, "300:0.NA/10.1", &delete("10.1/x"), 400);
    check(&registry, "300:0.NA/10.1", &rescue(), 1);
    // With an administrator it is that one's alone again.
    check(&registry, "300:0.NA/10.1", &delete("10.1/x"), 400);
    let done = write(&registry, ADMIN, &forced(overwrite("10.1/x", vec![url(1, "https://a/")]))).unwrap();
    assert_eq!(done.notes, [Note::NoAdministrator]);
    // Reading stays closed.
    put(registry.store(), "10.1/y", vec![note(1, 0x0c)]);
    let query = Query { public_only: false, ..Query::new(Handle::from("10.1/y")) };
    assert_eq!(resolve(&registry, "300:0.NA/10.1", &query), Err(400));
}

#[test]
fn attack_p7_prefixes_of_others() {
    let registry = registry();
    let (one, two) = ("300:0.NA/10.1", "300:0.NA/10.2");
    check(&registry, two, &create("10.1/new", vec![]), 400);
    check(&registry, two, &create("0.NA/10.1234", vec![]), 400);
    check(&registry, two, &create("0.NA/10.1.5", vec![]), 400);
    check(&registry, two, &overwrite("0.NA/10.1", vec![admin(100, 0x0fff, two)]), 400);
    check(&registry, two, &create("10.1.5/new", vec![]), 301);
    check(&registry, two, &Write::Home { prefix: Handle::from("10.1.5") }, 400);
    check(&registry, two, &Write::Unhome { prefix: Handle::from("10.1") }, 400);
    // To create names is not to derive prefixes, and the other way round.
    put(registry.store(), "0.NA/10.1", vec![admin(100, 0x0ffb, one)]);
    check(&registry, one, &create("0.NA/10.1.5", vec![]), 400);
    put(registry.store(), "0.NA/10.1", vec![admin(100, 0x0004, one)]);
    check(&registry, one, &create("10.1/new", vec![]), 400);
    check(&registry, one, &create("0.NA/10.1.5", vec![]), 1);
    // Who may derive from a prefix has no right under what is derived.
    commit(registry.store(), Edit::Home { prefix: "10.1.5".into() });
    put(registry.store(), "0.NA/10.1.5", vec![admin(100, 0x0fff, "300:0.NA/10.1.5")]);
    check(&registry, one, &create("10.1.5/new", vec![]), 400);
    check(&registry, "300:0.NA/10.1.5", &create("10.1.5/new", vec![]), 1);
    // Prefixes that are derived from none by the right of the root.
    check(&registry, one, &create("0.NA/30", vec![]), 400);
    put(registry.store(), "0.NA/0.NA", vec![admin(100, 0x0001, "300:0.NA/0.NA")]);
    check(&registry, "300:0.NA/0.NA", &create("0.NA/30", vec![]), 1);
}

/// A store in which somebody is always faster.
struct Faster {
    store: Memory,
    /// Done before the next commits, one each.
    before: Mutex<Vec<Edit>>,
    commits: AtomicUsize,
}

impl Store for Faster {
    async fn get(&self, key: &Key) -> Result<Option<Entry>, StoreError> {
        self.store.get(key).await
    }

    async fn list(
        &self,
        prefix: &[u8],
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Listed>, StoreError> {
        self.store.list(prefix, after, limit).await
    }

    async fn is_homed(&self, prefix: &[u8]) -> Result<bool, StoreError> {
        self.store.is_homed(prefix).await
    }

    async fn visit(
        &self,
        prefix: Option<&[u8]>,
        after: Option<&Key>,
        visit: impl FnMut(&Entry) -> bool + Send,
    ) -> Result<(), StoreError> {
        self.store.visit(prefix, after, visit).await
    }

    async fn homed(&self, after: Option<&[u8]>, limit: usize) -> Result<Vec<Box<str>>, StoreError> {
        self.store.homed(after, limit).await
    }

    async fn count_under(
        &self,
        prefix: &[u8],
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Counted, StoreError> {
        self.store.count_under(prefix, after, limit).await
    }

    async fn history(&self, key: &Key, order: Order, limit: usize) -> Result<History, StoreError> {
        self.store.history(key, order, limit).await
    }

    async fn note(&self, key: &[u8]) -> Result<Option<Box<[u8]>>, StoreError> {
        self.store.note(key).await
    }

    async fn notes(
        &self,
        beginning: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<tendot_store::Note>, StoreError> {
        self.store.notes(beginning, after, limit).await
    }

    async fn of_revision(
        &self,
        revision: u64,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Piece, StoreError> {
        self.store.of_revision(revision, after, limit).await
    }

    async fn commit(&self, change: Change) -> Result<Committed, CommitError> {
        if &*change.by != "test" {
            self.commits.fetch_add(1, Ordering::Relaxed);
            let faster = self.before.lock().unwrap().pop();
            if let Some(edit) = faster {
                commit(&self.store, edit);
            }
        }
        self.store.commit(change).await
    }

    async fn changes(&self, after: u64, limit: usize) -> Result<Vec<Logged>, StoreError> {
        self.store.changes(after, limit).await
    }
}

fn faster(before: Vec<Edit>) -> Registry<Faster> {
    let store = Faster { store: Memory::new(), before: Mutex::new(before), commits: AtomicUsize::new(0) };
    let registry = with(store, Settings::default());
    put(registry.store(), "10.1/x", vec![url(1, "https://a/"), admin(100, 0x0fff, ADMIN)]);
    registry
}

/// A right that is taken away while a write is under way is not used.
#[test]
fn attack_p9_right_removed_meanwhile() {
    let put = |values| Edit::Put { name: "10.1/x".into(), values, expect: Expect::Any };
    let taken_away = || put(vec![url(1, "https://b/"), admin(100, 0x0fff, "300:10.1/b")]);
    for what in [
        modify("10.1/x", vec![url(1, "https://e/")]),
        add("10.1/x", false, vec![url(2, "https://e/")]),
        remove("10.1/x", &[1]),
        forced(overwrite("10.1/x", vec![url(1, "https://e/")])),
        delete("10.1/x"),
    ] {
        let registry = faster(vec![taken_away()]);
        assert_eq!(code(&write(&registry, ADMIN, &what)), 400, "{what:?}");
        assert_eq!(registry.store().commits.load(Ordering::Relaxed), 1);
        assert_eq!(&*values(registry.store(), "10.1/x").unwrap()[0].data, b"https://b/");
    }
    // What somebody else changed meanwhile is not lost.
    let other = put(vec![url(1, "https://a/"), url(3, "https://c/"), admin(100, 0x0fff, ADMIN)]);
    let registry = faster(vec![other]);
    assert_eq!(code(&write(&registry, ADMIN, &modify("10.1/x", vec![url(1, "https://b/")]))), 1);
    let data: Vec<_> = values(registry.store(), "10.1/x").unwrap().iter().map(|value| value.index).collect();
    assert_eq!(data, [1, 3, 100]);
    // A name that somebody else created meanwhile.
    let created = Edit::Put { name: "10.1/NEW".into(), values: vec![], expect: Expect::Absent };
    let registry = faster(vec![created]);
    assert_eq!(code(&write(&registry, "300:0.NA/10.1", &create("10.1/new", vec![]))), 101);
}

/// A right that comes from elsewhere, a group, a prefix, a prefix that is kept here, counts as it is when the write is
/// carried out.
#[test]
fn attack_p9_what_gives_the_right_changed_meanwhile() {
    let put = |name: &str, values| Edit::Put { name: name.into(), values, expect: Expect::Any };
    let end = |name: &str| Edit::Tombstone { name: name.into(), expect: Expect::Live };
    let gone = |name: &str| Edit::Remove { name: name.into(), expect: Expect::Live };
    let unhome = |prefix: &str| Edit::Unhome { prefix: prefix.into() };
    let member = "300:10.1/b";
    // The group `10.2/g` administers the prefix 10.1 and the record `10.1/x`, and `10.2/h` is in it.
    let scene = |before: Vec<Edit>| {
        let registry = faster(before);
        let store = registry.store();
        scene::put(store, "0.NA/10.1", vec![admin(100, 0x0fff, "200:10.2/g")]);
        scene::put(store, "10.1/x", vec![url(1, "https://a/"), admin(100, 0x0fff, "200:10.2/g")]);
        scene::put(store, "10.1/orphan", vec![url(1, "https://a/")]);
        scene::put(store, "10.2/g", vec![group(200, &["200:10.2/h"])]);
        scene::put(store, "10.2/h", vec![group(200, &[member])]);
        registry
    };
    let attempt = |who, what: &Write<'_>, before: &Edit, expected| {
        assert_eq!(code(&write(&scene(vec![]), who, what)), 1, "{what:?}");
        let registry = scene(vec![before.clone()]);
        assert_eq!(code(&write(&registry, who, what)), expected, "{what:?} {before:?}");
        assert_eq!(registry.store().commits.load(Ordering::Relaxed), 1);
        let by: Vec<_> = block_on(registry.store().changes(0, 100)).unwrap();
        assert!(by.iter().all(|line| &*line.by == "test"), "{what:?} {before:?}");
    };
    let by_prefix = [
        create("10.1/new", vec![]),
        create("0.NA/10.1.5", vec![]),
        modify("10.1/orphan", vec![url(1, "https://e/")]),
    ];
    for what in &by_prefix {
        attempt(member, what, &put("0.NA/10.1", vec![admin(100, 0x0fff, "300:0.NA/10.1")]), 400);
        attempt(member, what, &put("0.NA/10.1", vec![admin(100, 0x0800, "200:10.2/g")]), 400);
        attempt(member, what, &gone("0.NA/10.1"), 400);
        attempt(member, what, &end("0.NA/10.1"), 400);
    }
    let by_group = [
        delete("10.1/x"),
        modify("10.1/x", vec![url(1, "https://e/")]),
        add("10.1/x", false, vec![url(2, "https://e/")]),
        remove("10.1/x", &[1]),
        overwrite("10.1/x", vec![url(1, "https://e/"), admin(100, 0x0fff, "200:10.2/g")]),
    ];
    for what in by_group.iter().chain(&by_prefix) {
        attempt(member, what, &put("10.2/h", vec![]), 400);
        attempt(member, what, &put("10.2/g", vec![group(200, &["300:10.1/c"])]), 400);
        attempt(member, what, &gone("10.2/h"), 400);
        attempt(member, what, &end("10.2/g"), 400);
        attempt(member, what, &unhome("10.2"), 400);
    }
    // Names that are no longer kept here are written by nobody.
    for what in by_group.iter().chain([&by_prefix[0], &by_prefix[2]]) {
        attempt(member, what, &unhome("10.1"), 301);
        attempt("operator", what, &unhome("10.1"), 301);
    }
    attempt(member, &by_prefix[0], &unhome("0.NA"), 400);
    // Judged anew, not refused: what changed gives the right still, or again, or has nothing to do with it.
    for (before, commits) in [
        (put("10.2/g", vec![group(200, &[member])]), 2),
        (put("0.NA/10.1", vec![admin(100, 0x0001, member)]), 2),
        (put("10.2/other", vec![]), 1),
        (put("10.1/x", vec![]), 1),
        (unhome("10.9"), 1),
    ] {
        let registry = scene(vec![before.clone()]);
        assert_eq!(code(&write(&registry, member, &by_prefix[0])), 1, "{before:?}");
        assert_eq!(registry.store().commits.load(Ordering::Relaxed), commits, "{before:?}");
    }
}

/// The same at a store on disk, with the right given and taken while others write by it: whatever is written was
/// allowed at that place of the log.
#[test]
fn attack_p9_right_given_and_taken() {
    let directory = tempfile::tempdir().unwrap();
    let registry = with(Embedded::open(directory.path()).unwrap(), Settings::default());
    let prefix = |bits| Edit::Put {
        name: "0.NA/10.1".into(),
        values: vec![admin(100, bits, "300:10.1/b")],
        expect: Expect::Any,
    };
    commit(registry.store(), prefix(0));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (registry, is_over) = (&registry, &is_over);
            scope.spawn(move || {
                for number in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    let name = format!("10.1/{thread}-{number}");
                    let outcome = write(registry, "300:10.1/b", &create(&name, vec![]));
                    assert!([1, 3, 400].contains(&code(&outcome)), "{outcome:?}");
                }
            });
        }
        for number in 0..60 {
            commit(registry.store(), prefix(number % 2));
            // Time to use it.
            std::thread::sleep(Duration::from_millis(10 * u64::from(number % 2)));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let (mut changes, mut written, mut may) = (0, 0, false);
    for line in block_on(registry.store().changes(0, 1_000_000)).unwrap() {
        if &*line.name == "0.NA/10.1" {
            // The first makes the scene, the second takes the right; then it is taken, given, taken ...
            changes += 1;
            may = changes > 2 && changes % 2 == 0;
        } else if &*line.by == "300:10.1/b" {
            written += 1;
            assert!(may, "{line:?} after {changes} changes");
        }
    }
    assert_eq!(changes, 62);
    assert!(written > 0);
}

/// Nobody tries for ever.
#[test]
fn attack_p9_always_too_late() {
    let edit = |number: u32| {
        let values = vec![Value::new(number, "X", ""), admin(100, 0x0fff, ADMIN)];
        Edit::Put { name: "10.1/x".into(), values, expect: Expect::Any }
    };
    let registry = faster((200..300).map(edit).collect());
    let outcome = write(&registry, ADMIN, &add("10.1/x", false, vec![url(2, "https://b/")]));
    assert!(matches!(outcome, Err(Error::Contended { tries: 8 })), "{outcome:?}");
    assert_eq!(registry.store().commits.load(Ordering::Relaxed), 8);
}

/// A hidden value is in no answer to those who may not read it, and one that nobody may read is in none at all.
#[test]
fn attack_p10_hidden_values() {
    let registry = registry();
    let record = vec![url(1, "https://a/"), note(2, 0x0c), note(3, 0x04), admin(100, 0x0400, ADMIN)];
    put(registry.store(), "10.1/x", record);
    let xml = "<namespace><template delimiter='@'><foreach><value/></foreach></template></namespace>";
    let prefix = vec![Value::new(1, "HS_NAMESPACE", xml), admin(100, 0x0fff, "300:0.NA/10.1")];
    put(registry.store(), "0.NA/10.1", prefix);
    let name = Handle::from("10.1/x");
    let made = Handle::from("10.1/x@y");
    for name in [name, made] {
        for who in ["anonymous", "300:10.1/b", ADMIN, "operator"] {
            for (indexes, types) in [
                (vec![], vec![]),
                (vec![1, 2, 3], vec![]),
                (vec![1], vec![&b"NOTE"[..]]),
                (vec![1], vec![b"note."]),
            ] {
                let query = Query { indexes, types, ..Query::new(name) };
                let answered = resolve(&registry, who, &query).unwrap();
                assert!(answered.iter().all(|index| [1, 100].contains(index)), "{who} {query:?}");
            }
        }
    }
    let all = |indexes: &[u32]| Query { public_only: false, indexes: indexes.to_vec(), ..Query::new(name) };
    assert_eq!(resolve(&registry, "anonymous", &all(&[])), Err(402));
    assert_eq!(resolve(&registry, "300:10.1/b", &all(&[])), Err(400));
    assert_eq!(resolve(&registry, "300:0.NA/10.1", &all(&[])), Err(400));
    assert_eq!(resolve(&registry, ADMIN, &all(&[])), Ok(vec![1, 2, 100]));
    assert_eq!(resolve(&registry, "operator", &all(&[])), Ok(vec![1, 2, 100]));
    assert_eq!(resolve(&registry, ADMIN, &all(&[2, 3])), Ok(vec![2]));
    for who in ["anonymous", "300:10.1/b", ADMIN, "operator"] {
        assert_eq!(resolve(&registry, who, &all(&[3])), Err(401), "{who}");
    }
    // Where derived prefixes are is not told by values that are not public.
    let site =
        |permissions| Value { permissions: Permissions(permissions), ..Value::new(2, "HS_SERV.PREFIX", "x") };
    put(registry.store(), "0.NA/10.2", vec![site(0x0c)]);
    assert_eq!(resolve(&registry, ADMIN, &Query::new(Handle::from("0.NA/10.2.1"))), Err(100));
    put(registry.store(), "0.NA/10.2", vec![site(0x0e)]);
    assert_eq!(resolve(&registry, ADMIN, &Query::new(Handle::from("0.NA/10.2.1"))), Err(303));
}

/// A secret cannot be guessed by writing what it might be and seeing whether that would be a change.
#[test]
fn attack_p10_guessing_by_writing() {
    let registry = registry();
    let secret =
        |data: &'static str| Value { permissions: Permissions(0x0c), ..Value::new(301, "HS_SECKEY", data) };
    let owner = || admin(100, 0x0fff, ADMIN);
    put(registry.store(), "10.1/x", vec![secret("right"), owner()]);
    for guess in ["right", "wrong"] {
        check(&registry, "300:10.1/b", &add("10.1/x", true, vec![secret(guess)]), 400);
        check(&registry, "300:10.1/b", &overwrite("10.1/x", vec![secret(guess), owner()]), 400);
        check(&registry, "anonymous", &add("10.1/x", true, vec![secret(guess)]), 402);
    }
    check(&registry, ADMIN, &add("10.1/x", true, vec![secret("right")]), 1);
    check(&registry, ADMIN, &overwrite("10.1/x", vec![secret("right"), owner()]), 1);
}

/// One name, 64 clients, as many spellings: exactly one gets it.
#[test]
fn attack_r1_one_name_many_spellings() {
    one_wins(&registry());
    let directory = tempfile::tempdir().unwrap();
    one_wins(&with(Embedded::open(directory.path()).unwrap(), Settings::default()));
}

fn one_wins(registry: &Registry<impl Store>) {
    let start = std::sync::Barrier::new(64);
    let won: Vec<bool> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..64_u32)
            .map(|number| {
                let start = &start;
                scope.spawn(move || {
                    let spelled = |(at, letter): (usize, char)| {
                        if number >> at & 1 == 1 { letter.to_ascii_uppercase() } else { letter }
                    };
                    let name =
                        format!("10.1/{}", "abcdef".chars().enumerate().map(spelled).collect::<String>());
                    start.wait();
                    let outcome = write(registry, "300:0.NA/10.1", &create(&name, vec![]));
                    match &outcome {
                        Ok(done) => assert_eq!(*done.name, *name),
                        Err(Error::AlreadyExists { name: first }) => assert_ne!(**first, *name),
                        Err(error) => panic!("{error}"),
                    }
                    outcome.is_ok()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(won.iter().filter(|won| **won).count(), 1);
}

/// Letters that only some languages take for the same are not.
#[test]
fn attack_r2_other_letters() {
    let registry = registry();
    for suffix in ["é", "É", "k", "\u{212a}", "i", "ı", "İ", "ß", "ẞ"] {
        check(&registry, "operator", &create(&format!("10.1/{suffix}"), vec![]), 1);
    }
    for suffix in ["K", "I"] {
        check(&registry, "operator", &create(&format!("10.1/{suffix}"), vec![]), 101);
    }
}

/// The same text composed and decomposed is two names; who makes the second is told, or refused if the operator likes.
#[test]
fn attack_r3_composed_and_decomposed() {
    let registry = registry();
    let owner = || admin(100, 0x0fff, ADMIN);
    let notes = |name: &str, values| write(&registry, "operator", &create(name, values)).unwrap().notes;
    assert_eq!(notes("10.1/\u{e9}", vec![url(1, "https://composed/"), owner()]), []);
    let with = |name: &str| Note::ConfusableWith { name: name.into() };
    assert_eq!(notes("10.1/e\u{301}", vec![url(2, "https://decomposed/"), owner()]), [with("10.1/\u{e9}")]);
    // The other way round, in another ASCII case, and with what has been ended.
    assert_eq!(notes("10.1/Xe\u{301}", vec![owner()]), []);
    assert_eq!(notes("10.1/x\u{e9}", vec![owner()]), [with("10.1/Xe\u{301}")]);
    assert_eq!(notes("10.1/\u{f6}", vec![owner()]), []);
    commit(registry.store(), Edit::Tombstone { name: "10.1/\u{f6}".into(), expect: Expect::Live });
    assert_eq!(notes("10.1/o\u{308}", vec![owner()]), [with("10.1/\u{f6}")]);
    let limits = Limits { confusable_names: false, ..Limits::default() };
    let strict = scene::with(Memory::new(), Settings { limits, ..Settings::default() });
    check(&strict, "operator", &create("10.1/\u{e9}", vec![]), 1);
    check(&strict, "operator", &create("10.1/e\u{301}", vec![]), 102);
    check(&strict, "300:0.NA/10.2", &create("10.1/e\u{301}", vec![]), 400);
    check(&strict, "operator", &create("10.1/a\u{301}", vec![]), 1);
    assert_eq!(resolve(&registry, "anonymous", &Query::new(Handle::from("10.1/\u{e9}"))), Ok(vec![1, 100]));
    assert_eq!(resolve(&registry, "anonymous", &Query::new(Handle::from("10.1/E\u{301}"))), Ok(vec![2, 100]));
}

/// What nobody sees is in no new name, but is looked for if asked.
#[test]
fn attack_r4_invisible_characters() {
    let registry = registry();
    check(&registry, "operator", &create("10.1/a\u{200b}", vec![]), 102);
    check(&registry, "operator", &create("10.1/\u{202e}a", vec![]), 102);
    check(&registry, "operator", &create("10.1/а", vec![]), 1);
    put(registry.store(), "10.1/a\u{200b}", vec![url(1, "https://a/")]);
    assert_eq!(resolve(&registry, "anonymous", &Query::new(Handle::from("10.1/a\u{200b}"))), Ok(vec![1]));
}

/// Letters that look like those of another script are taken, and told if they stand beside such.
#[test]
fn attack_r4_mixed_scripts() {
    let registry = registry();
    let notes = |name: &str| {
        let create = create(name, vec![admin(100, 0x0fff, ADMIN)]);
        write(&registry, "operator", &create).unwrap().notes
    };
    assert_eq!(notes("10.1/p\u{430}per"), [Note::MixedScripts]);
    for name in ["10.1/paper", "10.1/дом-1", "10.1/例-paper", "10.1/Ü é"] {
        assert_eq!(notes(name), [], "{name}");
    }
    assert_eq!(resolve(&registry, "anonymous", &Query::new(Handle::from("10.1/p\u{430}per"))), Ok(vec![100]));
}

/// A list costs what it may list, before any of it is read.
#[test]
fn attack_list_of_any_length() {
    let registry = registry();
    let list = |limit, steps| {
        let mut work = Work::new(steps);
        let prefix = Handle::from("10.1");
        code(&block_on(registry.list(prefix, None, limit, &caller("operator"), &mut work)))
    };
    assert_eq!(list(1_000, 2_000), 1);
    assert_eq!(list(1_000, 900), 3);
    assert_eq!(list(usize::MAX, 250_000), 3);
    let homed =
        |limit| code(&block_on(registry.list_homed(None, limit, &caller("operator"), &mut Work::new(1_000))));
    assert_eq!((homed(1_000), homed(1_001), homed(usize::MAX)), (1, 3, 3));
}

#[test]
fn attack_n7_n8_names() {
    let registry = registry();
    let long = format!("10.1/{}", "x".repeat(2_044));
    for name in ["", "10.1", "/", "//", "/x", &long] {
        check(&registry, "operator", &create(name, vec![]), 102);
    }
    check(&registry, "operator", &create(&format!("10.1/{}", "/".repeat(255)), vec![]), 1);
    check(&registry, "operator", &create(&long[..2_048], vec![]), 1);
    let resolved = |name: &[u8]| resolve(&registry, "anonymous", &Query::new(Handle::new(name)));
    for suffix in [&b"\x80"[..], b"\xc0\xaf", b"\xed\xa0\x80"] {
        let name = [b"10.1/", suffix].concat();
        let handle = Handle::new(&name);
        let values = || vec![url(1, "https://a/")];
        for what in [
            Write::Create { name: handle, values: values(), overwrite: true, mint: None, force: false },
            Write::Create {
                name: handle,
                values: values(),
                overwrite: false,
                mint: Some([7; 16]),
                force: false,
            },
            Write::Delete { name: handle, for_ever: true },
            Write::Add { name: handle, values: values(), overwrite: true, force: false },
            Write::Modify { name: handle, values: values(), force: false },
            Write::Remove { name: handle, indexes: vec![1], force: false },
            Write::Home { prefix: handle },
        ] {
            check(&registry, "operator", &what, 102);
        }
        assert_eq!(resolved(&name), Err(102));
    }
    assert_eq!(resolved(long.as_bytes()), Err(102));
    assert_eq!(resolved(b""), Err(100));
    assert_eq!(resolved(b"/"), Err(301));
}

/// Prefixes that are longer than any, at any store.
#[test]
fn attack_r8_long_prefixes() {
    let directory = tempfile::tempdir().unwrap();
    let stored = with(Embedded::open(directory.path()).unwrap(), Settings::default());
    let prefixes = ["1".repeat(2_046), "1.".repeat(1_022) + "1", "0.NA/1".to_owned() + &".1".repeat(1_000)];
    for prefix in prefixes {
        let name = if prefix.contains('/') { prefix.clone() } else { format!("{prefix}/x") };
        let query = Query::new(Handle::from(&*name));
        let expected = if prefix.contains('/') { Err(100) } else { Err(301) };
        assert_eq!(resolve(&stored, "anonymous", &query), expected);
        assert_eq!(resolve(&registry(), "anonymous", &query), expected);
        check(&stored, "operator", &Write::Home { prefix: Handle::from(&*prefix) }, 102);
    }
    check(&stored, "operator", &Write::Home { prefix: Handle::from(&*"1".repeat(255)) }, 1);
}

#[test]
fn attack_n9_n10_values() {
    let registry = registry();
    put(registry.store(), "10.1/x", (1..=2_048).map(|index| Value::new(index, "X", "")).collect());
    let many = |count| (1..=count).map(|index| Value::new(index, "X", "")).collect();
    check(&registry, "operator", &create("10.1/new", many(2_049)), 202);
    check(&registry, "operator", &add("10.1/x", false, vec![Value::new(3_000, "X", "")]), 202);
    let large = |length| vec![Value::new(1, "X", "x".repeat(length))];
    check(&registry, "operator", &create("10.1/new", large((1 << 20) + 1)), 202);
    check(&registry, "operator", &create("10.1/new", large(262_144)), 202);
    let twice = || vec![url(1, "https://a/"), url(1, "https://b/")];
    check(&registry, "operator", &create("10.1/new", twice()), 201);
    check(&registry, "operator", &add("10.1/x", true, twice()), 201);
    check(&registry, "operator", &modify("10.1/x", twice()), 201);
    for index in [0, 1 << 31, u32::MAX] {
        check(&registry, "operator", &create("10.1/new", vec![url(index, "https://a/")]), 202);
    }
    check(&registry, "operator", &add("10.1/x", false, vec![]), 202);
    check(&registry, "operator", &modify("10.1/x", vec![]), 202);
    check(&registry, "operator", &remove("10.1/x", &[]), 202);
    check(&registry, "operator", &create("10.1/new", many(2_048)), 1);
}

/// A question with many indexes and types about many values costs what it costs.
#[test]
fn attack_n9_expensive_question() {
    let registry = registry();
    put(registry.store(), "10.1/x", (1..=2_048).map(|index| Value::new(index, "X", "")).collect());
    let query = Query { indexes: (10_000..60_000).collect(), ..Query::new(Handle::from("10.1/x")) };
    assert_eq!(resolve(&registry, "anonymous", &query), Err(3));
    let query = Query { indexes: (2_000..2_050).collect(), ..query };
    assert_eq!(resolve(&registry, "anonymous", &query).map(|found| found.len()), Ok(49));
}

#[test]
fn attack_h1_h2_d8_addresses() {
    let registry = registry();
    put(registry.store(), "10.1/x", vec![url(1, "relative/but/old"), url(2, "https://a/")]);
    for address in [
        "https://x/\r\nSet-Cookie:a=1",
        "https://x/\0",
        "javascript:alert(1)",
        "data:text/html,x",
        "vbscript:x",
        "file:///etc/passwd",
        " java\tscript:alert(1)",
        "/relative",
        "//example.org/",
        "https://user:password@example.org/",
        "https://\u{430}pple.example/",
        "https://xn--pple-43d.example/",
        "https://xn--80ak6aa92e.com/",
    ] {
        check(&registry, "operator", &create("10.1/new", vec![url(1, address)]), 202);
        check(&registry, "operator", &add("10.1/x", false, vec![url(3, address)]), 202);
        check(&registry, "operator", &add("10.1/x", true, vec![url(2, address)]), 202);
        check(&registry, "operator", &modify("10.1/x", vec![url(2, address)]), 202);
        check(&registry, "operator", &overwrite("10.1/x", vec![url(2, address)]), 202);
        // Those who may not do it do not learn what would be wrong with it.
        check(&registry, "anonymous", &create("10.1/new", vec![url(1, address)]), 402);
        check(&registry, "300:0.NA/10.2", &create("10.1/new", vec![url(1, address)]), 400);
    }
    // What was there before is not in the way.
    let kept = vec![url(1, "relative/but/old"), url(2, "https://b/")];
    check(&registry, "operator", &overwrite("10.1/x", kept), 1);
    check(
        &registry,
        "operator",
        &add("10.1/x", true, vec![url(1, "relative/but/old"), url(3, "https://c/")]),
        1,
    );
}

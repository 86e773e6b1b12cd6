//! The attacks on the registry that were thought of, each with the answer that it gets; those on handles are in `attacks.rs`.

mod parties;

use std::sync::Barrier;

use parties::*;
use tendot_proto::{Handle, Now, Value};
use tendot_registry::doi::{Draft, NameChange, NameEnd, NameState, NewName};
use tendot_registry::party::{
    NewPrefix, NewRegistrant, Policy, PrefixChange, RegistrantChange, Role, TokenEnd,
};
use tendot_registry::report::Resolutions;
use tendot_registry::transfer::{NewTransfer, TransferDecision, What};
use tendot_registry::{Caller, Note, Query, Refusal, Registry, Subject, Task, Write};
use tendot_store::{Change, Edit, Expect, Order, Store};
use tendot_testing::block_on;

const KEY: &str = "300:10.9/key";

fn write<S: Store>(registry: &Registry<S>, write: &Write<'_>, caller: &Caller) -> char {
    let now = Now { elapsed: std::time::Duration::ZERO, unix: NOW / 1_000 };
    letter(&block_on(registry.write(write, caller, now, &mut work())).map_err(Refusal::from))
}

fn create<'a>(name: &'a str, values: Vec<Value<'a>>) -> Write<'a> {
    Write::Create { name: Handle::from(name), values, overwrite: false, mint: None, force: false }
}

fn add<'a>(name: &'a str, values: Vec<Value<'a>>) -> Write<'a> {
    Write::Add { name: Handle::from(name), values, overwrite: false, force: false }
}

fn modify(name: &str) -> Write<'_> {
    let values = vec![Value::new(1, "URL", "https://changed/")];
    Write::Modify { name: Handle::from(name), values, force: false }
}

fn read_hidden<S: Store>(scene: &Scene<S>, name: &str, caller: &Caller) -> char {
    let query = Query { public_only: false, indexes: vec![5], ..Query::new(Handle::from(name)) };
    letter(&block_on(scene.registry.resolve(&query, caller, &mut work())).map_err(Refusal::from))
}

fn list<S: Store>(scene: &Scene<S>, prefix: &str, caller: &Caller) -> char {
    let mut paid = work();
    let list = scene.registry.list(Handle::from(prefix), None, 10, caller, &mut paid);
    letter(&block_on(list).map_err(Refusal::from))
}

/// Who takes away the last administrator locks nobody out but the keys: the registrant's token helps.
#[test]
fn attack_p6_locked_out() {
    let scene = InMemory.scene();
    let name = "10.71000/x";
    let remove = |force| Write::Remove { name: Handle::from(name), indexes: vec![100], force };
    assert_eq!(write(&scene.registry, &remove(false), &key(KEY)), '!');
    assert_eq!(write(&scene.registry, &remove(true), &key(KEY)), '+');
    assert_eq!(
        scene.change(name, "https://b/", &scene.caller('2')).map_err(|refusal| refusal.code),
        Err("not-yours")
    );
    scene.change(name, "https://b/", &scene.caller('1')).unwrap();
    assert_eq!(write(&scene.registry, &modify(name), &key(KEY)), '+');
    check_whole(&scene.registry);
}

/// Nobody gets a prefix by making its record, nor one derived from another's, nor one of another agency's range.
#[test]
fn attack_p7_prefix_take_over() {
    let scene = InMemory.scene();
    assert_eq!(
        write(&scene.registry, &Write::Home { prefix: Handle::from("0.NA/0.NA") }, &Caller::Operator),
        '+'
    );
    for role in "nAB123kws".chars() {
        let caller = scene.caller(role);
        for (name, there) in [
            ("0.NA/10.71000", 'c'),
            ("0.na/10.71000.5", ' '),
            ("0.NA/10.71002.5", ' '),
            ("0.NA/10.99999", ' '),
            ("0.TENDOT/agency/evil", '0'),
            ("0.tendot/token/evil", '0'),
        ] {
            let expected = match (there, role) {
                (' ', 'n') => '?',
                (' ', _) => '-',
                (there, _) => there,
            };
            let found = write(&scene.registry, &create(name, vec![admin(100, KEY)]), &caller);
            assert_eq!(found, expected, "{name} by {role}");
        }
    }
    // Alpha has a range of its own; beta, which has none, does not get at it, nor is one of it the next free one.
    let next = |prefix: Option<&str>, registrant: &str, role| {
        let (registrant, prefix) = (scene.id(registrant), prefix.map(Into::into));
        let new = NewPrefix { registrant, prefix, test: false, policy: Policy::default() };
        scene.by(&new, &scene.caller(role)).map(|made| made.done.prefix).map_err(|refusal| refusal.code)
    };
    assert_eq!(next(Some("10.71500"), "B1", 'B'), Err("out-of-range"));
    assert_eq!(next(Some("10.72500"), "A1", 'A'), Err("out-of-range"));
    assert_eq!(next(Some("10.69999"), "B1", 'B'), Err("out-of-range"));
    assert_eq!(next(Some("10.71000.1"), "B1", 'B'), Err("out-of-range"));
    assert_eq!(next(Some("10.71000"), "B1", 'B'), Err("prefix-taken"));
    assert_eq!(next(Some("10.0070000"), "B1", 'B'), Err("out-of-range"));
    assert_eq!(next(Some("11.1"), "B1", 'B'), Err("bad-prefix"));
    scene.agency("narrow", Some(("10.70000", "10.70001")));
    assert_eq!(next(None, "B1", 'B').as_deref(), Ok("10.70002"));
    assert_eq!(next(None, "A1", 'A').as_deref(), Ok("10.71003"));
    assert_eq!(next(Some("10.70003"), "B1", 'B').as_deref(), Ok("10.70003"));
    assert_eq!(next(None, "B1", 'B').as_deref(), Ok("10.70004"));
    let policy = |pattern: &str| {
        let policy = Some(Policy { pattern: Some(pattern.into()), ..Policy::default() });
        let change = PrefixChange { prefix: ONE.into(), policy, expect: None };
        scene.by(&change, &scene.caller('A')).map(drop).map_err(|refusal| refusal.code)
    };
    assert_eq!(policy("a)|(?:.*"), Err("bad-pattern"), "which would let anything pass");
    assert_eq!(policy("(a{1000}){1000}"), Err("bad-pattern"));
    assert_eq!(policy("[a-z]+"), Ok(()));
    check_whole(&scene.registry);
}

/// A prefix changes hands: keys that stand in its records have no right any more, at once and in no way.
#[test]
fn attack_p8_keys_of_who_had_it() {
    let scene = InMemory.scene();
    let (own, other) = ("10.71000/own", "10.71000/x");
    // Whoever made the name put his own key there, and a second one at that.
    let values = vec![Value::new(1, "URL", "https://a/"), hidden(), admin(100, KEY), admin(101, KEY)];
    assert_eq!(write(&scene.registry, &create(own, values), &key(KEY)), '+');
    let secret = key(KEY);
    let attempts = |caller: &Caller, new: &str| {
        [
            write(&scene.registry, &modify(own), caller),
            write(&scene.registry, &modify(other), caller),
            write(&scene.registry, &add(own, vec![admin(102, KEY)]), caller),
            write(
                &scene.registry,
                &Write::Remove { name: Handle::from(own), indexes: vec![102], force: false },
                caller,
            ),
            write(&scene.registry, &create(new, vec![admin(100, KEY)]), caller),
            read_hidden(&scene, own, caller),
            list(&scene, ONE, caller),
            letter(&scene.change(other, "https://b/", caller)),
        ]
    };
    for caller in [&secret, &scene.caller('1')] {
        assert_eq!(attempts(caller, &format!("10.71000/{caller}")), ['+'; 8], "{caller}");
    }
    let before = block_on(scene.registry.store().changes(0, 10_000)).unwrap().len();
    scene.give(What::Prefix(ONE.into()), "B1", true, &Caller::Operator).unwrap();
    for caller in [&secret, &scene.caller('1'), &scene.caller('A')] {
        let new = format!("10.71000/later-{caller}");
        // What was there is not even taken out again.
        assert_eq!(attempts(caller, &new), ['-'; 8], "{caller}");
    }
    let log = block_on(scene.registry.store().changes(before as u64, 10)).unwrap();
    assert_eq!(log.iter().map(|line| &*line.name).filter(|name| *name == "0.NA/10.71000").count(), 1);
    // Who has it now may do everything, also with what only the old keys administer.
    let new = scene.caller('3');
    assert_eq!(attempts(&new, "10.71000/new"), ['+'; 8]);
    // Another's name under it is not touched.
    assert_eq!(letter(&scene.change("10.71000/given", "https://b/", &new)), '-');
    assert_eq!(letter(&scene.change("10.71000/given", "https://b/", &scene.caller('2'))), '+');
    // And a name that goes takes the keys out of its record.
    scene.give(What::Names(vec![own.into()]), "A2", true, &Caller::Operator).unwrap();
    assert_eq!(write(&scene.registry, &modify(own), &key("300:10.9/two")), '+');
    assert_eq!(write(&scene.registry, &modify(own), &secret), '-');
}

/// What happens between the plan of a change and its commit.
type Happens<S> = Box<dyn FnOnce(Registry<Watched<S>>) + Send>;

fn does<S: Store>(registry: &Registry<S>, task: &impl Task) {
    let done = block_on(registry.carry_out(task, &Caller::Operator, NOW, &mut work()));
    assert!(done.is_ok(), "{:?}", done.err());
}

fn forced(what: What, to: &str) -> NewTransfer {
    NewTransfer { what, to: to.into(), force: true, random: [9; 16] }
}

/// Rights that go in the middle of single changes.
#[test]
fn attack_p9_races() {
    races(watched_in_memory);
    races(watched_on_disk());
}

fn races<S: Store + 'static>(mut scene: impl FnMut() -> Scene<Watched<S>>) {
    type Doing<'d, S> = &'d dyn Fn(&Scene<Watched<S>>, &Caller) -> char;
    let mut attempt =
        |role, doing: Doing<'_, S>, event: &dyn Fn(&Scene<Watched<S>>) -> Happens<S>, expected| {
            let scene = scene();
            scene.registry.store().before_commit(event(&scene));
            assert_eq!(doing(&scene, &scene.caller(role)), expected, "{role}");
            assert!(scene.registry.store().is_over());
            check_whole(&scene.registry);
        };
    let name = "10.71000/x";
    let put: Doing<'_, S> = &|scene, caller| letter(&scene.put("10.71000/new", "https://a/", caller));
    let change: Doing<'_, S> = &|scene, caller| letter(&scene.change(name, "https://b/", caller));
    let end: Doing<'_, S> = &|scene, caller| letter(&scene.end(name, caller));
    let native: Doing<'_, S> = &|scene, caller| write(&scene.registry, &modify(name), caller);
    let made: Doing<'_, S> =
        &|scene, caller| write(&scene.registry, &create("10.71000/made", vec![admin(100, KEY)]), caller);
    let token: Doing<'_, S> = &|scene, caller| {
        let token = scene.new_token(Role::Registrant, Some(scene.id("A1")), None, vec![], None);
        letter(&scene.by(&token, caller))
    };
    let give: Doing<'_, S> =
        &|scene, caller| letter(&scene.give(What::Prefix(ONE.into()), "B1", false, caller));
    let revoked = |scene: &Scene<Watched<S>>| -> Happens<S> {
        let id = scene.token_id('1');
        Box::new(move |registry| does(&registry, &TokenEnd { id }))
    };
    let unlisted = |scene: &Scene<Watched<S>>| -> Happens<S> {
        let (id, admins) = (scene.id("A1"), Some(Vec::new()));
        Box::new(move |registry| does(&registry, &RegistrantChange { id, admins, ..Default::default() }))
    };
    let moved = |scene: &Scene<Watched<S>>| -> Happens<S> {
        let to = scene.id("B1");
        Box::new(move |registry| does(&registry, &forced(What::Prefix(ONE.into()), &to)))
    };
    let given = |scene: &Scene<Watched<S>>| -> Happens<S> {
        let to = scene.id("A2");
        Box::new(move |registry| does(&registry, &forced(What::Names(vec![name.into()]), &to)))
    };
    let ended = |_: &Scene<Watched<S>>| -> Happens<S> {
        Box::new(move |registry| does(&registry, &forced(What::Agency("alpha".into()), "beta")))
    };
    for doing in [put, change, end, native, made, token, give] {
        attempt('1', doing, &revoked, '?');
        attempt('k', doing, &unlisted, '-');
        attempt('A', doing, &ended, '?');
        attempt('1', doing, &ended, '+');
    }
    for role in ['1', 'k', 'A'] {
        for doing in [put, change, end, native, made, give] {
            attempt(role, doing, &moved, '-');
        }
    }
    for role in ['1', 'k'] {
        for doing in [change, end, native] {
            attempt(role, doing, &given, '-');
        }
    }
    // What is accepted has to be theirs still who gave it.
    let accept: Doing<'_, S> = &|scene, caller| {
        // Proposed without the event, which is for the second commit.
        let id = scene.give(What::Prefix(ONE.into()), "B1", false, &scene.caller('A')).unwrap();
        letter(&scene.by(&TransferDecision { id, accept: true }, caller))
    };
    let later = |happens: Happens<S>| -> Happens<S> {
        Box::new(move |registry| {
            let store = registry.store().clone();
            store.before_commit(happens);
        })
    };
    attempt('3', accept, &|_| later(Box::new(|_| {})), '+');
    attempt(
        '3',
        accept,
        &|scene| {
            let to = scene.id("A2");
            later(Box::new(move |registry| does(&registry, &forced(What::Prefix(ONE.into()), &to))))
        },
        'c',
    );
    attempt(
        '3',
        accept,
        &|scene| {
            let id = scene.token_id('3');
            later(Box::new(move |registry| does(&registry, &TokenEnd { id })))
        },
        '?',
    );
    // The agency that proposed it no longer has the registrant.
    attempt('3', accept, &|_| scene_agency_moves(), 'c');
}

/// Alpha ends between its proposal and the answer to it.
fn scene_agency_moves<S: Store + 'static>() -> Happens<S> {
    Box::new(move |registry| {
        let store = registry.store().clone();
        store.before_commit(|registry| does(&registry, &forced(What::Agency("alpha".into()), "gamma2")));
        let new = r#"{"code": "gamma2", "name": "Another"}"#;
        does(&registry, &serde_json::from_str::<tendot_registry::party::NewAgency>(new).unwrap());
    })
}

/// What comes to an agency while it ends goes with the rest of it; prefixes that come while administrators change have
/// the new ones.
#[test]
fn attack_p9_what_comes_meanwhile() {
    meanwhile(watched_in_memory);
    meanwhile(watched_on_disk());
}

fn meanwhile<S: Store + 'static>(mut scene: impl FnMut() -> Scene<Watched<S>>) {
    let end = NewTransfer { random: [8; 16], ..forced(What::Agency("alpha".into()), "beta") };
    let mut attempt = |is_end: bool, event: &dyn Fn(&Scene<Watched<S>>) -> Happens<S>| {
        let scene = scene();
        scene.registry.store().before_commit(event(&scene));
        if is_end {
            scene.done(&end);
        } else {
            let (id, admins) = (scene.id("A1"), Some(vec!["300:10.9/other".into()]));
            scene.done(&RegistrantChange { id, admins, ..Default::default() });
        }
        assert!(scene.registry.store().is_over());
        check_whole(&scene.registry);
        let (left, _) = {
            let mut paid = work();
            let left = scene.registry.registrants(Some("alpha"), None, 10, &Caller::Operator, NOW, &mut paid);
            block_on(left).unwrap()
        };
        assert_eq!(left.is_empty(), is_end);
    };
    for is_end in [true, false] {
        attempt(is_end, &|_| {
            Box::new(|registry| {
                let (agency, name, random) = (Some("alpha".into()), "New".into(), [77; 16]);
                does(&registry, &NewRegistrant { agency, name, contact: None, admins: Vec::new(), random });
            })
        });
        attempt(is_end, &|scene| {
            let registrant = scene.id("A1");
            Box::new(move |registry| {
                let policy = Policy::default();
                does(&registry, &NewPrefix { registrant, prefix: None, test: false, policy });
            })
        });
        attempt(is_end, &|scene| {
            let to = scene.id("A1");
            Box::new(move |registry| does(&registry, &forced(What::Prefix(THREE.into()), &to)))
        });
        attempt(is_end, &|scene| {
            let to = scene.id("A1");
            Box::new(move |registry| {
                let draft = deposit("10.72000/gift", "https://a/");
                does(&registry, &NewName { draft, random: [0; 16] });
                does(&registry, &forced(What::Names(vec!["10.72000/gift".into()]), &to));
            })
        });
    }
}

/// A value that only administrators may read is told to no one else, by whichever way.
#[test]
fn attack_p10_hidden_values() {
    let scene = InMemory.scene();
    let name = "10.71000/secret";
    let url =
        Value { permissions: tendot_proto::Permissions(0x0c), ..Value::new(1, "URL", "https://hidden/") };
    let loc = Value::new(2, "10320/loc", r#"<locations><location href="https://a/"/></locations>"#);
    let values = vec![url, loc, hidden(), admin(100, "200:0.NA/10.71000")];
    assert_eq!(write(&scene.registry, &create(name, values), &key(KEY)), '+');
    for (role, expected) in [('n', false), ('3', false), ('2', false), ('p', false), ('1', true), ('k', true)]
    {
        let caller = scene.caller(role);
        let found = block_on(scene.registry.registered(name, &caller, NOW, &mut work())).unwrap();
        assert_eq!(found.values.iter().any(|value| value.index == 5), expected, "{role}");
        assert_eq!(found.url().is_some(), expected, "{role}");
        let mut paid = work();
        let names = scene.registry.names(Some(ONE), None, None, 100, &caller, NOW, &mut paid);
        let item = block_on(names).unwrap().items.into_iter().find(|item| *item.name == *name).unwrap();
        assert_eq!(item.url, None, "{role}");
        assert_eq!(read_hidden(&scene, name, &caller) == '+', expected, "{role}");
    }
    scene.change(name, "https://b/", &scene.caller('1')).unwrap();
    let order = Order::OldestFirst { after: 0 };
    let mut paid = work();
    let history = scene.registry.history(Handle::from(name), order, 10, &Caller::Anonymous, NOW, &mut paid);
    assert!(!format!("{:?}", block_on(history).unwrap()).contains("hidden"));
}

/// What is another's can't be told from what is not there; what things are called can't be guessed.
#[test]
fn attack_p11_of_others() {
    let scene = InMemory.scene();
    let stranger = scene.caller('3');
    let told = |refusal: Option<Refusal>, id: &str| {
        let refusal = refusal.unwrap();
        (refusal.reason, refusal.code, refusal.detail.replace(id, "ID"), refusal.pointer)
    };
    let transfer = scene.give(What::Prefix(ONE.into()), "A2", false, &scene.caller('1')).unwrap();
    let pairs: [(&str, &str); 3] = [
        (&scene.token_id('1'), "0123456789ab"),
        (&transfer, "0123456789ab"),
        ("10.71000/r", "10.71000/none"),
    ];
    type Asked<'a> = &'a dyn Fn(&str) -> Option<Refusal>;
    let revoke: Asked<'_> = &|id| scene.by(&TokenEnd { id: id.into() }, &stranger).err();
    let read: Asked<'_> = &|id| block_on(scene.registry.transfer(id, &stranger, NOW, &mut work())).err();
    let decide: Asked<'_> =
        &|id| scene.by(&TransferDecision { id: id.into(), accept: true }, &stranger).err();
    let see: Asked<'_> = &|name| block_on(scene.registry.registered(name, &stranger, NOW, &mut work())).err();
    let change: Asked<'_> = &|name| scene.change(name, "https://b/", &stranger).err();
    let end: Asked<'_> = &|name| scene.end(name, &stranger).err();
    let put: Asked<'_> = &|name| scene.put(name, "https://b/", &stranger).err();
    let give: Asked<'_> = &|name| scene.give(What::Names(vec![name.into()]), "B1", false, &stranger).err();
    let batch: Asked<'_> =
        &|name| scene.batch(&[line(1, deposit(name, "https://b/"))], &stranger).remove(0).result.err();
    let native = |write: Write<'_>| {
        let now = Now { elapsed: std::time::Duration::ZERO, unix: NOW / 1_000 };
        let done = block_on(scene.registry.write(&write, &key("300:10.9/evil"), now, &mut work()));
        done.err().map(Refusal::from)
    };
    let made: Asked<'_> = &|name| native(create(name, vec![]));
    let modified: Asked<'_> = &|name| native(modify(name));
    let deleted: Asked<'_> = &|name| native(Write::Delete { name: Handle::from(name), for_ever: true });
    let resolved: Asked<'_> = &|name| {
        let query = Query::new(Handle::from(name));
        block_on(scene.registry.resolve(&query, &stranger, &mut work())).err().map(Refusal::from)
    };
    let history: Asked<'_> = &|name| {
        let (order, mut paid) = (Order::OldestFirst { after: 0 }, work());
        let history = scene.registry.history(Handle::from(name), order, 10, &stranger, NOW, &mut paid);
        block_on(history).err().map(Refusal::from)
    };
    for ((there, not), asked) in [
        (pairs[0], &[revoke][..]),
        (pairs[1], &[read, decide]),
        (pairs[2], &[see, change, end, put, give, batch, made, modified, deleted, resolved, history]),
    ] {
        for (number, ask) in asked.iter().enumerate() {
            assert_eq!(told(ask(there), there), told(ask(not), not), "{there} {number}");
        }
    }
    // The same after it was given back unused.
    scene.end("10.71000/r", &scene.caller('1')).unwrap();
    assert_eq!(told(history("10.71000/r"), "10.71000/r"), told(history("10.71000/none"), "10.71000/none"));
    // No id tells another.
    let ids: Vec<_> = (0..100)
        .map(|_| {
            let token = scene.new_token(Role::Operator, None, None, vec![], None);
            scene.done(&token).done.id
        })
        .collect();
    for (one, two) in ids.iter().zip(&ids[1..]) {
        let same = one.bytes().zip(two.bytes()).filter(|(one, two)| one == two).count();
        assert!(one.len() == 12 && same < 6, "{one} {two}");
    }
}

/// One name, 64 clients, as many spellings and three doors: exactly one gets it, and all others are told who did.
#[test]
fn attack_r1_one_name_many_spellings() {
    one_wins(&InMemory.scene());
    one_wins(&OnDisk::new().scene());
    one_wins(&InDatabase::new().scene());
}

fn one_wins<S: Store>(scene: &Scene<S>) {
    let (start, registry, caller) = (Barrier::new(64), &scene.registry, scene.caller('1'));
    let told: Vec<(String, Result<(), Box<str>>)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..64_u32)
            .map(|number| {
                let (start, caller) = (&start, &caller);
                scope.spawn(move || {
                    let spelled = |(at, letter): (usize, char)| {
                        if number >> at & 1 == 1 { letter.to_ascii_uppercase() } else { letter }
                    };
                    let name =
                        format!("{ONE}/{}", "abcdef".chars().enumerate().map(spelled).collect::<String>());
                    let draft = deposit(&name, &format!("https://{number}.example/"));
                    start.wait();
                    let refusal = match number % 3 {
                        0 => {
                            let new = NewName { draft, random: [0; 16] };
                            block_on(registry.carry_out(&new, caller, NOW, &mut work())).err()
                        }
                        1 => {
                            let write = create(&name, vec![admin(100, KEY)]);
                            let now = Now { elapsed: std::time::Duration::ZERO, unix: NOW / 1_000 };
                            let done = block_on(registry.write(&write, caller, now, &mut work()));
                            done.err().map(Refusal::from)
                        }
                        _ => {
                            let new = NewName { draft, random: [0; 16] };
                            block_on(registry.carry_out(&new, &key(KEY), NOW, &mut work())).err()
                        }
                    };
                    let outcome = match refusal {
                        None => Ok(()),
                        Some(refusal) => {
                            assert_eq!(refusal.code, "already-registered");
                            Err(refusal.existing.unwrap().0)
                        }
                    };
                    (name, outcome)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let won: Vec<_> = told.iter().filter(|(_, outcome)| outcome.is_ok()).collect();
    assert_eq!(won.len(), 1);
    let mut others = told.iter().filter_map(|(_, outcome)| outcome.as_ref().err());
    assert!(others.all(|name| **name == *won[0].0), "all are told how it is spelled");
}

/// Letters that only some languages take for the same are not.
#[test]
fn attack_r2_other_letters() {
    let scene = InMemory.scene();
    let put = |suffix: &str| letter(&scene.put(&format!("{ONE}/{suffix}"), "https://a/", &scene.caller('1')));
    for suffix in ["é", "É", "k", "\u{212a}", "i", "ı", "İ", "ß", "ẞ"] {
        assert_eq!(put(suffix), '+', "{suffix}");
    }
    for suffix in ["K", "I"] {
        assert_eq!(put(suffix), 'c', "{suffix}");
    }
}

/// The same text composed and decomposed: told, or refused if the prefix says so; also within one batch and by handles.
#[test]
fn attack_r3_composed_and_decomposed() {
    let scene = InMemory.scene();
    let one = scene.caller('1');
    let put = |name: &str| {
        let made = scene.by(&NewName { draft: deposit(name, "https://a/"), random: [0; 16] }, &one);
        made.map(|made| made.done.notes).map_err(|refusal| refusal.code)
    };
    let with = |name: &str| Note::ConfusableWith { name: name.into() };
    assert_eq!(put("10.71000/\u{e9}"), Ok(vec![]));
    assert_eq!(put("10.71000/e\u{301}"), Ok(vec![with("10.71000/\u{e9}")]));
    let batch = |names: [&str; 2]| {
        let lines: Vec<_> = names.iter().map(|name| line(1, deposit(name, "https://a/"))).collect();
        let outcomes = scene.batch(&lines, &one);
        (told(&outcomes).remove(1), outcomes.into_iter().nth(1).unwrap().notes)
    };
    let (last, notes) = batch(["10.71000/\u{f6}", "10.71000/o\u{308}"]);
    assert_eq!((&*last, &*notes), ("created 10.71000/o\u{308}", &[with("10.71000/\u{f6}")][..]));
    let policy = r#"{"policy": {"confusable": "refuse"}}"#;
    scene.done(&PrefixChange { prefix: ONE.into(), ..serde_json::from_str(policy).unwrap() });
    assert_eq!(put("10.71000/\u{e4}"), Ok(vec![]));
    assert_eq!(put("10.71000/a\u{308}"), Err("confusable"));
    assert_eq!(batch(["10.71000/\u{fc}", "10.71000/u\u{308}"]).0, "refused confusable");
    assert_eq!(write(&scene.registry, &create("10.71000/a\u{308}", vec![admin(100, KEY)]), &key(KEY)), 'c');
}

/// What nobody sees is in no name that is registered; letters of several scripts are told, or refused.
#[test]
fn attack_r4_confusables() {
    let scene = InMemory.scene();
    let one = scene.caller('1');
    let put = |suffix: &str| {
        let draft = deposit(&format!("{ONE}/{suffix}"), "https://a/");
        let made = scene.by(&NewName { draft, random: [0; 16] }, &one);
        made.map(|made| made.done.notes).map_err(|refusal| refusal.code)
    };
    for suffix in ["a\u{200b}", "\u{202e}a", "a\u{e0041}", "a\u{0}", "a\nb", "\u{feff}a", "a\u{ad}"] {
        assert_eq!(put(suffix), Err("bad-name"), "{suffix:?}");
    }
    assert_eq!(put("p\u{430}per"), Ok(vec![Note::MixedScripts]));
    assert_eq!(put("дом-1"), Ok(vec![]));
    let policy = r#"{"policy": {"confusable": "refuse"}}"#;
    scene.done(&PrefixChange { prefix: ONE.into(), ..serde_json::from_str(policy).unwrap() });
    assert_eq!(put("p\u{430}pers"), Err("confusable"));
    for (text, code) in [("", "missing"), ("a\u{202e}b", "not-visible")] {
        let (agency, name, random) = (Some("alpha".into()), text.into(), [5; 16]);
        let new = NewRegistrant { agency, name, contact: None, admins: Vec::new(), random };
        assert_eq!(scene.by(&new, &Caller::Operator).map_err(|refusal| refusal.code).err(), Some(code));
    }
}

/// What is sent is read strictly, and told with its place.
#[test]
fn attack_d1_json() {
    let deep = |open: &str, close: &str| format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
    let metadata = |inner: &str| format!(r#"{{"name": "10.1/a", "metadata": {inner}}}"#);
    let values = |inner: &str| format!(r#"{{"name": "10.1/a", "values": {inner}}}"#);
    for (json, code) in [
        (deep("[", "]"), "malformed"),
        (deep("{\"a\":", "}"), "malformed"),
        (metadata(&deep("[", "]")), "bad-metadata"),
        (metadata(&deep("{\"a\":", "}")), "bad-metadata"),
        (values(&deep("[", "]")), "malformed"),
        (r#"{"name": "10.1/a", "name": "10.1/b"}"#.into(), "malformed"),
        (r#"{"name": "10.1/a", "n\u0061me": "10.1/b"}"#.into(), "malformed"),
        (metadata(r#"{"primaryReferentType": "Creation", "primaryReferentType": "Party"}"#), "bad-metadata"),
        (values(r#"[{"index": 1, "index": 2, "type": "URL", "data": "https://a/"}]"#), "malformed"),
        (values(r#"[{"index": 1e400, "type": "URL", "data": "https://a/"}]"#), "malformed"),
        (values(r#"[{"index": 1.5, "type": "URL", "data": "https://a/"}]"#), "malformed"),
        (metadata("1e400"), "bad-metadata"),
        (r#"{"name": "10.1/\ud800"}"#.into(), "malformed"),
        (metadata(r#"{"primaryReferentType": "\udfff"}"#), "bad-metadata"),
        ("\u{feff}{\"name\": \"10.1/a\"}".into(), "malformed"),
        (r#"{"name": "10.1/a"} {}"#.into(), "malformed"),
        (r#"{"name": "10.1/a", "state": "tombstone"}"#.into(), "malformed"),
        (r#"{"name": ["10.1/a"]}"#.into(), "malformed"),
        (r#"{"nmae": "10.1/a"}"#.into(), "malformed"),
        ("".into(), "malformed"),
        ("null".into(), "malformed"),
    ] {
        let refusal = Draft::from_json(json.as_bytes()).unwrap_err();
        let shown: String = json.chars().take(80).collect();
        assert_eq!(refusal.code, code, "{shown}: {}", refusal.detail);
        assert!(!refusal.detail.is_empty() && refusal.detail.len() < 1_000, "{shown}");
    }
    assert_eq!(Draft::from_json(b"{\"name\": \"\xff\"}").unwrap_err().code, "malformed");
    // Read as peers read it, and not taken.
    let draft =
        draft(r#"{"name": "10.71000/d1", "values": [{"index": -1, "type": "URL", "data": "https://a/"}]}"#);
    let scene = InMemory.scene();
    let refusal = scene.by(&NewName { draft, random: [0; 16] }, &scene.caller('1')).map(drop).unwrap_err();
    assert_eq!(refusal.code, "bad-value");
}

/// Addresses that lead nowhere, or elsewhere than they seem to.
#[test]
fn attack_d8_addresses() {
    let scene = InMemory.scene();
    let one = scene.caller('1');
    let long = format!("https://example.org/{}", "x".repeat(100_000));
    for address in [
        "/relative",
        "//example.org/",
        &long,
        "https://\u{430}pple.example/",
        "https://xn--pple-43d.example/",
        "https://user:password@example.org/",
        "javascript:alert(1)",
        "https://x/\r\nSet-Cookie:a=1",
        "",
    ] {
        let new = NewName { draft: deposit("10.71000/d8", address), random: [0; 16] };
        let refusal = scene.by(&new, &one).map(drop).unwrap_err();
        assert_eq!((refusal.code, refusal.pointer.as_deref()), ("bad-url", Some("/url")), "{address}");
        let draft = Draft { url: Some(address.into()), ..Draft::default() };
        let change = NameChange { name: "10.71000/x".into(), draft, expect: None };
        assert_eq!(scene.by(&change, &one).map(drop).unwrap_err().code, "bad-url", "{address}");
        let draft = Draft {
            name: Some("10.71000/d8".into()),
            values: Some(vec![Value::new(2, "URL", address.to_owned())]),
            ..Draft::default()
        };
        let refusal = scene.by(&NewName { draft, random: [0; 16] }, &one).map(drop).unwrap_err();
        assert_eq!((refusal.code, refusal.pointer.as_deref()), ("bad-value", Some("/values/0")), "{address}");
    }
    // Where a prefix has hosts, nothing leads past them.
    let hosts = Some(Policy { hosts: vec!["example.org".into()], ..Policy::default() });
    scene.done(&PrefixChange { prefix: ONE.into(), policy: hosts, expect: None });
    let loc = |href: &str| {
        Value::new(2, "10320/loc", format!(r#"<locations><location href="{href}"/></locations>"#))
    };
    let with = |value: Value<'static>| Draft {
        values: Some(vec![value]),
        ..deposit("10.71000/hosts", "https://www.example.org/")
    };
    let put = |draft: Draft| {
        scene.by(&NewName { draft, random: [0; 16] }, &one).map(drop).map_err(|refusal| refusal.code)
    };
    assert_eq!(put(deposit("10.71000/hosts", "https://evil.net/")), Err("host"));
    assert_eq!(put(with(Value::new(2, "URL", "https://example.org.evil.net/"))), Err("host"));
    assert_eq!(put(with(loc("https://evil.net/"))), Err("host"));
    let native = |value: Value<'static>| write(&scene.registry, &add("10.71000/x", vec![value]), &key(KEY));
    assert_eq!((native(loc("https://evil.net/")), native(loc("https://example.org/"))), ('!', '+'));
    assert_eq!(put(with(loc("https://example.org/x"))), Ok(()));
}

/// Who was known yesterday: a token that was revoked, or has expired, one of an agency that ended, a key that was removed.
#[test]
fn attack_a14_old_tokens() {
    let scene = InMemory.scene();
    let by = |role: char, at| {
        block_on(scene.registry.by_token(&scene.tokens[&role], at, &mut work())).unwrap().is_some()
    };
    assert!(by('1', NOW) && by('x', NOW - 1));
    assert!(!by('x', NOW) && !by('v', NOW) && !by('v', 0));
    for role in "xve".chars() {
        assert_eq!(letter(&scene.put("10.71000/a14", "https://a/", &scene.caller(role))), '?', "{role}");
    }
    // A token is all of it: not another's secret, not a part, not in other letters.
    let (one, two) = (&scene.tokens[&'1'], &scene.tokens[&'2']);
    let (id, secret) = one.rsplit_once('_').unwrap();
    let (_, other) = two.rsplit_once('_').unwrap();
    for wrong in [
        format!("{id}_{other}"),
        format!("{id}_"),
        id.to_owned(),
        format!("{id}_{}", secret.to_uppercase()),
        format!("{id}_{}", &secret[..63]),
        format!("{one} "),
        one.replace("tendot_", ""),
        "tendot_".to_owned(),
        String::new(),
        format!("tendot_../agency/alpha_{secret}"),
        format!("tendot_{}_{secret}", "x".repeat(100_000)),
    ] {
        assert_eq!(block_on(scene.registry.by_token(&wrong, NOW, &mut work())).unwrap(), None, "{wrong:.40}");
    }
    // Whoever reads the store has no token.
    let mut kept = String::new();
    block_on(scene.registry.store().visit(None, None, |entry| {
        kept.push_str(&String::from_utf8_lossy(&entry.registration));
        true
    }))
    .unwrap();
    assert!(kept.contains("\"hash\""));
    for token in scene.tokens.values() {
        let (_, secret) = token.rsplit_once('_').unwrap();
        assert!(!kept.contains(secret));
    }
    // Nor who lists them.
    let (tokens, _) =
        block_on(scene.registry.tokens(None, 100, &Caller::Operator, NOW, &mut work())).unwrap();
    assert!(tokens.len() > 10);
    // At once, whatever was done with it before.
    let caller = scene.caller('1');
    scene.put("10.71000/before", "https://a/", &caller).unwrap();
    scene.by(&TokenEnd { id: scene.token_id('1') }, &caller).unwrap();
    assert_eq!(letter(&scene.put("10.71000/after", "https://a/", &caller)), '?');
    assert_eq!(letter(&scene.by(&NameEnd { name: "10.71000/x".into(), expect: None }, &caller)), '?');
    let found =
        block_on(scene.registry.registered("10.71000/x", &Caller::Anonymous, NOW, &mut work())).unwrap();
    assert_eq!(found.state, NameState::Registered);
}

/// Who gets names under the prefix of another gets a group in its record, and nothing there is lost by it.
#[test]
fn attack_p12_groups_in_the_way() {
    let mut scene = InMemory.scene();
    let record = "0.NA/10.71005";
    let there = vec![Value::new(201, "NOTE", "of the prefix"), Value::new(203, "HS_PUBKEY", "a key")];
    let edits = vec![Edit::Put { name: record.into(), values: there.clone(), expect: Expect::Absent }];
    block_on(scene.registry.store().commit(Change { by: "import".into(), at: NOW, edits })).unwrap();
    scene.prefix("A1", Some("10.71005"), Policy::default());
    for number in 0..3 {
        let (name, to) = (format!("10.71005/{number}"), format!("new {number}"));
        scene.registrant(&to, "alpha", &[&format!("300:10.9/{number}")]);
        scene.put(&name, "https://a/", &Caller::Operator).unwrap();
        scene.give(What::Names(vec![name.into()]), &to, true, &Caller::Operator).unwrap();
    }
    let values = values(&scene, record);
    let indexes: Vec<u32> = values.iter().map(|value| value.index).filter(|index| *index > 200).collect();
    assert_eq!(indexes, [201, 202, 203, 204, 205]);
    for value in there {
        assert!(values.iter().any(|kept| kept.index == value.index && kept.data == value.data));
    }
    // Each administers what is theirs.
    for (number, other) in [(0, 1), (1, 2), (2, 0)] {
        let name = format!("10.71005/{number}");
        assert_eq!(write(&scene.registry, &modify(&name), &key(&format!("300:10.9/{other}"))), '-');
        assert_eq!(write(&scene.registry, &modify(&name), &key(&format!("300:10.9/{number}"))), '+');
    }
    // When a registrant changes its administrators, its own group changes and no other value.
    let change = RegistrantChange { id: scene.id("new 1"), admins: Some(vec![]), ..Default::default() };
    scene.done(&change);
    let changed = self::values(&scene, record);
    let is_other = |value: &&Value<'_>| value.index != 204;
    assert!(values.iter().filter(is_other).eq(changed.iter().filter(is_other)));
    assert_ne!(values, changed);
}

fn values<S: Store>(scene: &Scene<S>, name: &str) -> Vec<Value<'static>> {
    let key = tendot_store::Key::new(name).unwrap();
    block_on(scene.registry.store().get(&key)).unwrap().unwrap().values
}

/// What natives put where the registry has its own values: it is lost to nobody, and no record has an index twice.
#[test]
fn attack_p13_indexes_of_the_registry() {
    let scene = InMemory.scene();
    let code = |done: Result<(), Refusal>| done.map_err(|refusal| (refusal.code, refusal.detail));
    let taken = |name: &str| {
        let detail = format!("`{name}` has a value at index 100, where its administrator has to stand");
        Err(("index-taken", detail))
    };
    let odd = "10.71000/odd";
    let note = Value::new(100, "NOTE", "mine");
    let made = vec![Value::new(1, "URL", "https://a/"), note, admin(7, "200:0.NA/10.71000")];
    assert_eq!(write(&scene.registry, &create(odd, made), &key(KEY)), '+');
    let before = values(&scene, odd);
    assert_eq!(code(scene.change(odd, "https://b/", &scene.caller('1'))), taken(odd));
    let give = || scene.give(What::Names(vec![odd.into()]), "A2", true, &Caller::Operator).map(drop);
    let refusal = give().unwrap_err();
    assert_eq!(refusal.pointer.as_deref(), Some("/names/0"));
    assert_eq!(code(Err(refusal)), taken(odd));
    assert_eq!(values(&scene, odd), before);
    // Who says which values there are is heard.
    let draft = Draft { values: Some(vec![Value::new(5, "NOTE", "mine")]), ..Draft::default() };
    scene.by(&NameChange { name: odd.into(), draft, expect: None }, &scene.caller('1')).unwrap();
    assert!(give().is_ok());
    // An administrator gives way to the address.
    let first = "10.71000/first";
    let made = vec![admin(1, KEY), admin(101, KEY), Value::new(2, "URL", "https://a/")];
    assert_eq!(write(&scene.registry, &create(first, made), &key(KEY)), '+');
    for address in ["https://b/", "https://c/"] {
        assert_eq!(code(scene.change(first, address, &scene.caller('1'))), Ok(()));
    }
    let found = values(&scene, first);
    let found: Vec<(u32, bool)> = found.iter().map(|one| (one.index, one.has_type("HS_ADMIN"))).collect();
    assert_eq!(found, [(1, false), (2, false), (100, true), (101, true), (102, true)]);
}

/// A token that ends while changes are read is good for no more of them.
#[test]
fn attack_a15_reading_on() {
    let scene = InMemory.scene();
    let read = |role: char, at| {
        let (start, caller, mut paid) = (tendot_registry::Cursor::default(), scene.caller(role), work());
        let changes = scene.registry.changes(&start, 1_000, &caller, at, &mut paid);
        block_on(changes).map_err(Refusal::from).map(|changes| {
            let names: Vec<_> = changes.items.iter().map(|item| &*item.name).collect();
            (
                names.contains(&"10.71000/r"),
                changes.items.iter().any(|item| item.subject == Subject::Transfer),
            )
        })
    };
    assert_eq!(read('x', NOW - 1).unwrap(), (true, false));
    assert_eq!(letter(&read('x', NOW)), '?');
    let history = |at| {
        let (order, caller, mut paid) = (Order::OldestFirst { after: 0 }, scene.caller('x'), work());
        let history = scene.registry.history(Handle::from("10.71000/r"), order, 10, &caller, at, &mut paid);
        letter(&block_on(history).map_err(Refusal::from))
    };
    assert_eq!((history(NOW - 1), history(NOW)), ('+', '?'));
    // Transfers are for the operator alone.
    for (role, expected) in
        [('n', (false, false)), ('1', (true, false)), ('o', (true, true)), ('O', (true, true))]
    {
        assert_eq!(read(role, NOW).unwrap(), expected, "{role}");
    }
}

/// What two processes count at the same time is counted.
#[test]
fn attack_d9_counted_at_the_same_time() {
    let scene = watched_in_memory();
    let counted = |count| [Resolutions { prefix: ONE.into(), fingerprint: 7, count }];
    scene.registry.store().before_commit(move |registry| {
        block_on(registry.note_resolutions(&counted(1), NOW)).unwrap();
    });
    block_on(scene.registry.note_resolutions(&counted(2), NOW)).unwrap();
    assert!(scene.registry.store().is_over());
    let notes = block_on(scene.registry.store().notes(b"figures/", None, 10)).unwrap();
    assert!(String::from_utf8_lossy(&notes[0].1).contains("\"count\":3"), "{notes:?}");
}

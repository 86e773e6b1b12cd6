//! Attacks on the registry API and its rules, each with its expected outcome. `handle_attacks.rs` has the attacks by handle
//! operations.

use std::sync::Barrier;

use tendot_proto::{Handle, HandleValue, ValuePermissions};
use tendot_registry::party::{
    AllocatePrefix, CreateAgency, CreateRegistrant, PrefixPolicy, RevokeToken, Role, UpdatePrefix,
    UpdateRegistrant,
};
use tendot_registry::registration::{DoiStatus, RegisterDoi, RegistrationRequest, RetireDoi, UpdateDoi};
use tendot_registry::report::ResolutionCount;
use tendot_registry::transfer::{DecideTransfer, ProposeTransfer, TransferSubject};
use tendot_registry::{
    Caller, ChangeCursor, ChangeSubject, HandleWrite, RegistryError, ResolveQuery, WriteWarning,
};
use tendot_store::{ChangeSet, Edit, HistoryOrder, NameKey, Precondition, Store};
use tendot_testing::block_on;

use crate::fixtures::registry_fixture::*;
use crate::fixtures::{CommitHook, check_invariants};
use crate::support::{StoreKind, store_tests};

store_tests!(memory, embedded => {
    attack_p9_races, attack_p9_phantoms, attack_r1_one_name_many_spellings
});
store_tests!(postgres => { attack_r1_one_name_many_spellings });

const KEY: &str = "300:10.9/key";

fn write(fixture: &RegistryFixture, write: &HandleWrite<'_>, caller: &Caller) -> char {
    outcome_letter(&fixture.write(write, caller))
}

fn create<'a>(name: &'a str, values: Vec<HandleValue<'a>>) -> HandleWrite<'a> {
    HandleWrite::Create { name: Handle::from(name), values, overwrite: false, uuid_bytes: None, force: false }
}

fn add<'a>(name: &'a str, values: Vec<HandleValue<'a>>) -> HandleWrite<'a> {
    HandleWrite::AddValues { name: Handle::from(name), values, overwrite: false, force: false }
}

fn modify(name: &str) -> HandleWrite<'_> {
    let values = vec![HandleValue::new(1, "URL", "https://changed/")];
    HandleWrite::ModifyValues { name: Handle::from(name), values, force: false }
}

fn read_hidden(fixture: &RegistryFixture, name: &str, caller: &Caller) -> char {
    let query =
        ResolveQuery { public_only: false, indexes: vec![5], ..ResolveQuery::new(Handle::from(name)) };
    outcome_letter(
        &block_on(fixture.registry.resolve(&query, caller, &mut budget())).map_err(RegistryError::from),
    )
}

fn list(fixture: &RegistryFixture, prefix: &str, caller: &Caller) -> char {
    let mut budget = budget();
    let list = fixture.registry.list_handles(Handle::from(prefix), None, 10, caller, &mut budget);
    outcome_letter(&block_on(list).map_err(RegistryError::from))
}

/// Removing the last administrator locks out keys only: the registrant's token can recover the record.
#[test]
fn attack_p6_recovery_by_token() {
    let fixture = RegistryFixture::in_memory();
    let name = "10.71000/x";
    let remove = |force| HandleWrite::RemoveValues { name: Handle::from(name), indexes: vec![100], force };
    assert_eq!(write(&fixture, &remove(false), &key_caller(KEY)), '!');
    assert_eq!(write(&fixture, &remove(true), &key_caller(KEY)), '+');
    assert_eq!(
        fixture.update(name, "https://b/", &fixture.caller('2')).map_err(|error| error.code),
        Err("forbidden")
    );
    fixture.update(name, "https://b/", &fixture.caller('1')).unwrap();
    assert_eq!(write(&fixture, &modify(name), &key_caller(KEY)), '+');
    check_invariants(&fixture.registry);
}

/// No caller gets a prefix by creating its record, one derived from a foreign prefix, or one of another agency's range.
#[test]
fn attack_p7_prefix_take_over() {
    let fixture = RegistryFixture::in_memory();
    assert_eq!(
        write(&fixture, &HandleWrite::Home { prefix: Handle::from("0.NA/0.NA") }, &Caller::Operator),
        '+'
    );
    for letter in "nAB123kws".chars() {
        let caller = fixture.caller(letter);
        for (name, rejected_with) in [
            ("0.NA/10.71000", 'c'),
            ("0.na/10.71000.5", ' '),
            ("0.NA/10.71002.5", ' '),
            ("0.NA/10.99999", ' '),
            ("0.TENDOT/agency/evil", '0'),
            ("0.tendot/token/evil", '0'),
        ] {
            let expected = match (rejected_with, letter) {
                (' ', 'n') => '?',
                (' ', _) => '-',
                (rejected_with, _) => rejected_with,
            };
            let actual = write(&fixture, &create(name, vec![admin_value(100, KEY)]), &caller);
            assert_eq!(actual, expected, "{name} by {letter}");
        }
    }
    // Beta, which has no range, gets no prefix of alpha's range, neither by name nor as the next free one.
    let allocate = |prefix: Option<&str>, registrant: &str, letter| {
        let (registrant, prefix) = (fixture.id(registrant), prefix.map(Into::into));
        let command = AllocatePrefix { registrant, prefix, is_test: false, policy: PrefixPolicy::default() };
        fixture
            .execute_as(&command, &fixture.caller(letter))
            .map(|created| created.output.prefix)
            .map_err(|error| error.code)
    };
    assert_eq!(allocate(Some("10.71500"), "B1", 'B'), Err("prefix-out-of-range"));
    assert_eq!(allocate(Some("10.72500"), "A1", 'A'), Err("prefix-out-of-range"));
    assert_eq!(allocate(Some("10.69999"), "B1", 'B'), Err("prefix-out-of-range"));
    assert_eq!(allocate(Some("10.71000.1"), "B1", 'B'), Err("prefix-out-of-range"));
    assert_eq!(allocate(Some("10.71000"), "B1", 'B'), Err("prefix-in-use"));
    assert_eq!(allocate(Some("10.0070000"), "B1", 'B'), Err("prefix-out-of-range"));
    assert_eq!(allocate(Some("11.1"), "B1", 'B'), Err("invalid-prefix"));
    fixture.agency("narrow", Some(("10.70000", "10.70001")));
    assert_eq!(allocate(None, "B1", 'B').as_deref(), Ok("10.70002"));
    assert_eq!(allocate(None, "A1", 'A').as_deref(), Ok("10.71003"));
    assert_eq!(allocate(Some("10.70003"), "B1", 'B').as_deref(), Ok("10.70003"));
    assert_eq!(allocate(None, "B1", 'B').as_deref(), Ok("10.70004"));
    let policy = |pattern: &str| {
        let policy = Some(PrefixPolicy { pattern: Some(pattern.into()), ..PrefixPolicy::default() });
        let change = UpdatePrefix { prefix: PREFIX_A1.into(), policy, expected_revision: None };
        fixture.execute_as(&change, &fixture.caller('A')).map(drop).map_err(|error| error.code)
    };
    assert_eq!(policy("a)|(?:.*"), Err("invalid-pattern"), "the pattern would match everything");
    assert_eq!(policy("(a{1000}){1000}"), Err("invalid-pattern"));
    assert_eq!(policy("[a-z]+"), Ok(()));
    check_invariants(&fixture.registry);
}

/// After a prefix transfer, keys in its records grant nothing, at once and by no operation.
#[test]
fn attack_p8_previous_holder_keys() {
    let fixture = RegistryFixture::in_memory();
    let (own_name, other_name) = ("10.71000/own", "10.71000/x");
    // The creator added its own key twice.
    let values = vec![
        HandleValue::new(1, "URL", "https://a/"),
        hidden_value(),
        admin_value(100, KEY),
        admin_value(101, KEY),
    ];
    assert_eq!(write(&fixture, &create(own_name, values), &key_caller(KEY)), '+');
    let key = key_caller(KEY);
    let attempts = |caller: &Caller, new: &str| {
        [
            write(&fixture, &modify(own_name), caller),
            write(&fixture, &modify(other_name), caller),
            write(&fixture, &add(own_name, vec![admin_value(102, KEY)]), caller),
            write(
                &fixture,
                &HandleWrite::RemoveValues { name: Handle::from(own_name), indexes: vec![102], force: false },
                caller,
            ),
            write(&fixture, &create(new, vec![admin_value(100, KEY)]), caller),
            read_hidden(&fixture, own_name, caller),
            list(&fixture, PREFIX_A1, caller),
            outcome_letter(&fixture.update(other_name, "https://b/", caller)),
        ]
    };
    for caller in [&key, &fixture.caller('1')] {
        assert_eq!(attempts(caller, &format!("10.71000/{caller}")), ['+'; 8], "{caller}");
    }
    let before = block_on(fixture.registry.store().read_log(0, 10_000)).unwrap().len();
    fixture.transfer(TransferSubject::Prefix(PREFIX_A1.into()), "B1", true, &Caller::Operator).unwrap();
    for caller in [&key, &fixture.caller('1'), &fixture.caller('A')] {
        let new = format!("10.71000/later-{caller}");
        // Not even removing values that they added before.
        assert_eq!(attempts(caller, &new), ['-'; 8], "{caller}");
    }
    let log = block_on(fixture.registry.store().read_log(before as u64, 10)).unwrap();
    assert_eq!(log.iter().map(|line| &*line.name).filter(|name| *name == "0.NA/10.71000").count(), 1);
    // The new holder may do everything, also with records that only the old keys administer.
    let new = fixture.caller('3');
    assert_eq!(attempts(&new, "10.71000/new"), ['+'; 8]);
    // A name under the prefix with another owner stays with that owner.
    assert_eq!(outcome_letter(&fixture.update("10.71000/transferred", "https://b/", &new)), '-');
    assert_eq!(
        outcome_letter(&fixture.update("10.71000/transferred", "https://b/", &fixture.caller('2'))),
        '+'
    );
    // A name transfer removes the old keys from the record.
    fixture.transfer(TransferSubject::Names(vec![own_name.into()]), "A2", true, &Caller::Operator).unwrap();
    assert_eq!(write(&fixture, &modify(own_name), &key_caller("300:10.9/two")), '+');
    assert_eq!(write(&fixture, &modify(own_name), &key), '-');
}

fn forced(subject: TransferSubject, to: &str) -> ProposeTransfer {
    ProposeTransfer { subject, to: to.into(), force: true, random_bytes: [9; 16] }
}

/// A permission that is revoked before the commit of a command is not used.
fn attack_p9_races(kind: StoreKind) {
    let source = FixtureSource::new(kind);
    type Attempt<'a> = &'a dyn Fn(&RegistryFixture, &Caller) -> char;
    let check = |letter, attempt: Attempt<'_>, hook: &dyn Fn(&RegistryFixture) -> CommitHook, expected| {
        let (fixture, store) = source.hooked_fixture();
        store.before_commit(hook(&fixture));
        assert_eq!(attempt(&fixture, &fixture.caller(letter)), expected, "{letter}");
        assert!(store.has_run_all_hooks());
        check_invariants(&fixture.registry);
    };
    let name = "10.71000/x";
    let register: Attempt<'_> =
        &|fixture, caller| outcome_letter(&fixture.register("10.71000/new", "https://a/", caller));
    let update: Attempt<'_> = &|fixture, caller| outcome_letter(&fixture.update(name, "https://b/", caller));
    let retire: Attempt<'_> = &|fixture, caller| outcome_letter(&fixture.retire(name, caller));
    let handle_modify: Attempt<'_> = &|fixture, caller| write(fixture, &modify(name), caller);
    let handle_create: Attempt<'_> =
        &|fixture, caller| write(fixture, &create("10.71000/created", vec![admin_value(100, KEY)]), caller);
    let token: Attempt<'_> = &|fixture, caller| {
        let token = fixture.new_token(Role::Registrant, Some(fixture.id("A1")), None, vec![], None);
        outcome_letter(&fixture.execute_as(&token, caller))
    };
    let transfer: Attempt<'_> = &|fixture, caller| {
        outcome_letter(&fixture.transfer(TransferSubject::Prefix(PREFIX_A1.into()), "B1", false, caller))
    };
    let revoked = |fixture: &RegistryFixture| -> CommitHook {
        let id = fixture.token_id('1');
        Box::new(move |store| store.execute(&RevokeToken { id }))
    };
    let unlisted = |fixture: &RegistryFixture| -> CommitHook {
        let (id, admins) = (fixture.id("A1"), Some(Vec::new()));
        Box::new(move |store| store.execute(&UpdateRegistrant { id, admins, ..Default::default() }))
    };
    let prefix_transferred = |fixture: &RegistryFixture| -> CommitHook {
        let to = fixture.id("B1");
        Box::new(move |store| store.execute(&forced(TransferSubject::Prefix(PREFIX_A1.into()), &to)))
    };
    let name_transferred = |fixture: &RegistryFixture| -> CommitHook {
        let to = fixture.id("A2");
        Box::new(move |store| store.execute(&forced(TransferSubject::Names(vec![name.into()]), &to)))
    };
    let closed = |_: &RegistryFixture| -> CommitHook {
        Box::new(move |store| store.execute(&forced(TransferSubject::Agency("alpha".into()), "beta")))
    };
    for attempt in [register, update, retire, handle_modify, handle_create, token, transfer] {
        check('1', attempt, &revoked, '?');
        check('k', attempt, &unlisted, '-');
        check('A', attempt, &closed, '?');
        check('1', attempt, &closed, '+');
    }
    for letter in ['1', 'k', 'A'] {
        for attempt in [register, update, retire, handle_modify, handle_create, transfer] {
            check(letter, attempt, &prefix_transferred, '-');
        }
    }
    for letter in ['1', 'k'] {
        for attempt in [update, retire, handle_modify] {
            check(letter, attempt, &name_transferred, '-');
        }
    }
    // A transfer is accepted only while the proposer still has the subject.
    let accept: Attempt<'_> = &|fixture, caller| {
        // The hook is for the second commit, not for the proposal.
        let id = fixture
            .transfer(TransferSubject::Prefix(PREFIX_A1.into()), "B1", false, &fixture.caller('A'))
            .unwrap();
        outcome_letter(&fixture.execute_as(&DecideTransfer { id, accept: true }, caller))
    };
    let later = |hook: CommitHook| -> CommitHook {
        Box::new(move |store| {
            store.before_commit(hook);
        })
    };
    check('3', accept, &|_| later(Box::new(|_| {})), '+');
    check(
        '3',
        accept,
        &|fixture| {
            let to = fixture.id("A2");
            later(Box::new(move |store| {
                store.execute(&forced(TransferSubject::Prefix(PREFIX_A1.into()), &to));
            }))
        },
        'c',
    );
    check(
        '3',
        accept,
        &|fixture| {
            let id = fixture.token_id('3');
            later(Box::new(move |store| store.execute(&RevokeToken { id })))
        },
        '?',
    );
    // The agency that proposed it is closed.
    check('3', accept, &|_| close_proposing_agency(), 'c');
}

/// Closes alpha between its proposal and the decision.
fn close_proposing_agency() -> CommitHook {
    Box::new(move |store| {
        store
            .before_commit(|store| store.execute(&forced(TransferSubject::Agency("alpha".into()), "gamma2")));
        let new = r#"{"code": "gamma2", "name": "Another"}"#;
        store.execute(&serde_json::from_str::<CreateAgency>(new).unwrap());
    })
}

/// Objects that an agency gets while it is closed are transferred, too; prefixes that a registrant gets while its
/// administrators change get the new ones.
fn attack_p9_phantoms(kind: StoreKind) {
    let source = FixtureSource::new(kind);
    let close =
        ProposeTransfer { random_bytes: [8; 16], ..forced(TransferSubject::Agency("alpha".into()), "beta") };
    let attempt = |is_closing: bool, hook: &dyn Fn(&RegistryFixture) -> CommitHook| {
        let (fixture, store) = source.hooked_fixture();
        store.before_commit(hook(&fixture));
        if is_closing {
            fixture.execute_as_operator(&close);
        } else {
            let (id, admins) = (fixture.id("A1"), Some(vec!["300:10.9/other".into()]));
            fixture.execute_as_operator(&UpdateRegistrant { id, admins, ..Default::default() });
        }
        assert!(store.has_run_all_hooks());
        check_invariants(&fixture.registry);
        let (remaining, _) = {
            let mut budget = budget();
            let remaining = fixture.registry.list_registrants(
                Some("alpha"),
                None,
                10,
                &Caller::Operator,
                NOW,
                &mut budget,
            );
            block_on(remaining).unwrap()
        };
        assert_eq!(remaining.is_empty(), is_closing);
    };
    for is_closing in [true, false] {
        attempt(is_closing, &|_| {
            Box::new(|store| {
                let (agency, name, random_bytes) = (Some("alpha".into()), "New".into(), [77; 16]);
                store.execute(&CreateRegistrant {
                    agency,
                    name,
                    contact: None,
                    admins: Vec::new(),
                    random_bytes,
                });
            })
        });
        attempt(is_closing, &|fixture| {
            let registrant = fixture.id("A1");
            Box::new(move |store| {
                let policy = PrefixPolicy::default();
                store.execute(&AllocatePrefix { registrant, prefix: None, is_test: false, policy });
            })
        });
        attempt(is_closing, &|fixture| {
            let to = fixture.id("A1");
            Box::new(move |store| store.execute(&forced(TransferSubject::Prefix(PREFIX_B1.into()), &to)))
        });
        attempt(is_closing, &|fixture| {
            let to = fixture.id("A1");
            Box::new(move |store| {
                let body = request("10.72000/gift", "https://a/");
                store.execute(&RegisterDoi { request: body, random_bytes: [0; 16] });
                store.execute(&forced(TransferSubject::Names(vec!["10.72000/gift".into()]), &to));
            })
        });
    }
}

/// Hidden values are returned only to administrators, by every query.
#[test]
fn attack_p10_hidden_values() {
    let fixture = RegistryFixture::in_memory();
    let name = "10.71000/secret";
    let url =
        HandleValue { permissions: ValuePermissions(0x0c), ..HandleValue::new(1, "URL", "https://hidden/") };
    let loc = HandleValue::new(2, "10320/loc", r#"<locations><location href="https://a/"/></locations>"#);
    let values = vec![url, loc, hidden_value(), admin_value(100, "200:0.NA/10.71000")];
    assert_eq!(write(&fixture, &create(name, values), &key_caller(KEY)), '+');
    for (letter, expected) in
        [('n', false), ('3', false), ('2', false), ('p', false), ('1', true), ('k', true)]
    {
        let caller = fixture.caller(letter);
        let found = block_on(fixture.registry.get_doi(name, &caller, NOW, &mut budget())).unwrap();
        assert_eq!(found.values.iter().any(|value| value.index == 5), expected, "{letter}");
        assert_eq!(found.url().is_some(), expected, "{letter}");
        let mut budget = budget();
        let names = fixture.registry.list_dois(Some(PREFIX_A1), None, None, 100, &caller, NOW, &mut budget);
        let item = block_on(names).unwrap().items.into_iter().find(|item| *item.name == *name).unwrap();
        assert_eq!(item.url, None, "{letter}");
        assert_eq!(read_hidden(&fixture, name, &caller) == '+', expected, "{letter}");
    }
    fixture.update(name, "https://b/", &fixture.caller('1')).unwrap();
    let order = HistoryOrder::OldestFirst { after: 0 };
    let mut budget = budget();
    let history =
        fixture.registry.record_history(Handle::from(name), order, 10, &Caller::Anonymous, NOW, &mut budget);
    assert!(!format!("{:?}", block_on(history).unwrap()).contains("hidden"));
}

/// Private objects of others get the same errors as absent ones, and ids cannot be guessed.
#[test]
fn attack_p11_private_objects_look_absent() {
    let fixture = RegistryFixture::in_memory();
    let stranger = fixture.caller('3');
    let fields = |error: Option<RegistryError>, id: &str| {
        let error = error.unwrap();
        (error.kind, error.code, error.detail.replace(id, "ID"), error.pointer)
    };
    let transfer = fixture
        .transfer(TransferSubject::Prefix(PREFIX_A1.into()), "A2", false, &fixture.caller('1'))
        .unwrap();
    let pairs: [(&str, &str); 3] = [
        (&fixture.token_id('1'), "0123456789ab"),
        (&transfer, "0123456789ab"),
        ("10.71000/r", "10.71000/none"),
    ];
    type Attempt<'a> = &'a dyn Fn(&str) -> Option<RegistryError>;
    let revoke: Attempt<'_> = &|id| fixture.execute_as(&RevokeToken { id: id.into() }, &stranger).err();
    let read: Attempt<'_> =
        &|id| block_on(fixture.registry.get_transfer(id, &stranger, NOW, &mut budget())).err();
    let decide: Attempt<'_> =
        &|id| fixture.execute_as(&DecideTransfer { id: id.into(), accept: true }, &stranger).err();
    let read_doi: Attempt<'_> =
        &|name| block_on(fixture.registry.get_doi(name, &stranger, NOW, &mut budget())).err();
    let update: Attempt<'_> = &|name| fixture.update(name, "https://b/", &stranger).err();
    let retire: Attempt<'_> = &|name| fixture.retire(name, &stranger).err();
    let register: Attempt<'_> = &|name| fixture.register(name, "https://b/", &stranger).err();
    let transfer_name: Attempt<'_> =
        &|name| fixture.transfer(TransferSubject::Names(vec![name.into()]), "B1", false, &stranger).err();
    let batch: Attempt<'_> = &|name| {
        fixture.batch(&[batch_line(1, request(name, "https://b/"))], &stranger).remove(0).result.err()
    };
    let handle_write = |write: HandleWrite<'_>| fixture.write(&write, &key_caller("300:10.9/evil")).err();
    let handle_create: Attempt<'_> = &|name| handle_write(create(name, vec![]));
    let handle_modify: Attempt<'_> = &|name| handle_write(modify(name));
    let handle_delete: Attempt<'_> =
        &|name| handle_write(HandleWrite::Delete { name: Handle::from(name), permanent: true });
    let resolve: Attempt<'_> = &|name| {
        let query = ResolveQuery::new(Handle::from(name));
        block_on(fixture.registry.resolve(&query, &stranger, &mut budget())).err().map(RegistryError::from)
    };
    let history: Attempt<'_> = &|name| {
        let (order, mut budget) = (HistoryOrder::OldestFirst { after: 0 }, budget());
        let history =
            fixture.registry.record_history(Handle::from(name), order, 10, &stranger, NOW, &mut budget);
        block_on(history).err().map(RegistryError::from)
    };
    for ((private, absent), attempts) in [
        (pairs[0], &[revoke][..]),
        (pairs[1], &[read, decide]),
        (
            pairs[2],
            &[
                read_doi,
                update,
                retire,
                register,
                transfer_name,
                batch,
                handle_create,
                handle_modify,
                handle_delete,
                resolve,
                history,
            ],
        ),
    ] {
        for (number, attempt) in attempts.iter().enumerate() {
            assert_eq!(
                fields(attempt(private), private),
                fields(attempt(absent), absent),
                "{private} {number}"
            );
        }
    }
    // Also after the reserved name was deleted.
    fixture.retire("10.71000/r", &fixture.caller('1')).unwrap();
    assert_eq!(
        fields(history("10.71000/r"), "10.71000/r"),
        fields(history("10.71000/none"), "10.71000/none")
    );
    // Ids have no common pattern.
    let ids: Vec<_> = (0..100)
        .map(|_| {
            let token = fixture.new_token(Role::Operator, None, None, vec![], None);
            fixture.execute_as_operator(&token).output.id
        })
        .collect();
    for (first, second) in ids.iter().zip(&ids[1..]) {
        let equal_bytes = first.bytes().zip(second.bytes()).filter(|(first, second)| first == second).count();
        assert!(first.len() == 12 && equal_bytes < 6, "{first} {second}");
    }
}

/// 64 clients register one name in 64 spellings by three interfaces: exactly one succeeds, and the errors of all others have
/// its spelling.
fn attack_r1_one_name_many_spellings(kind: StoreKind) {
    let fixture = FixtureSource::new(kind).fixture();
    let (start, registry, caller) = (Barrier::new(64), &fixture.registry, fixture.caller('1'));
    let outcomes: Vec<(String, Result<(), Box<str>>)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..64_u32)
            .map(|number| {
                let (start, caller) = (&start, &caller);
                scope.spawn(move || {
                    let recased = |(position, letter): (usize, char)| {
                        if number >> position & 1 == 1 { letter.to_ascii_uppercase() } else { letter }
                    };
                    let name = format!(
                        "{PREFIX_A1}/{}",
                        "abcdef".chars().enumerate().map(recased).collect::<String>()
                    );
                    let body = request(&name, &format!("https://{number}.example/"));
                    start.wait();
                    let error = match number % 3 {
                        0 => {
                            let command = RegisterDoi { request: body, random_bytes: [0; 16] };
                            block_on(registry.execute(&command, caller, NOW, &mut budget())).err()
                        }
                        1 => {
                            let write = create(&name, vec![admin_value(100, KEY)]);
                            let written =
                                block_on(registry.write(&write, caller, write_time(), &mut budget()));
                            written.err().map(RegistryError::from)
                        }
                        _ => {
                            let command = RegisterDoi { request: body, random_bytes: [0; 16] };
                            block_on(registry.execute(&command, &key_caller(KEY), NOW, &mut budget())).err()
                        }
                    };
                    let outcome = match error {
                        None => Ok(()),
                        Some(error) => {
                            assert_eq!(error.code, "already-registered");
                            Err(error.existing.unwrap().name)
                        }
                    };
                    (name, outcome)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let winners: Vec<_> = outcomes.iter().filter(|(_, outcome)| outcome.is_ok()).collect();
    assert_eq!(winners.len(), 1);
    let mut others = outcomes.iter().filter_map(|(_, outcome)| outcome.as_ref().err());
    assert!(others.all(|name| **name == *winners[0].0), "the errors have the registered spelling");
}

/// Letters that are equal only in some languages, or only by Unicode case folding, are different.
#[test]
fn attack_r2_other_letters() {
    let fixture = RegistryFixture::in_memory();
    let register = |suffix: &str| {
        outcome_letter(&fixture.register(
            &format!("{PREFIX_A1}/{suffix}"),
            "https://a/",
            &fixture.caller('1'),
        ))
    };
    for suffix in ["é", "É", "k", "\u{212a}", "i", "ı", "İ", "ß", "ẞ"] {
        assert_eq!(register(suffix), '+', "{suffix}");
    }
    for suffix in ["K", "I"] {
        assert_eq!(register(suffix), 'c', "{suffix}");
    }
}

/// The same text composed and decomposed: a warning, or an error by the prefix policy; also within a batch and for handles.
#[test]
fn attack_r3_composed_and_decomposed() {
    let fixture = RegistryFixture::in_memory();
    let caller = fixture.caller('1');
    let register = |name: &str| {
        let created = fixture.execute_as(
            &RegisterDoi { request: request(name, "https://a/"), random_bytes: [0; 16] },
            &caller,
        );
        created.map(|created| created.output.warnings).map_err(|error| error.code)
    };
    let confusable_with = |name: &str| WriteWarning::ConfusableWith { name: name.into() };
    assert_eq!(register("10.71000/\u{e9}"), Ok(vec![]));
    assert_eq!(register("10.71000/e\u{301}"), Ok(vec![confusable_with("10.71000/\u{e9}")]));
    let batch = |names: [&str; 2]| {
        let lines: Vec<_> = names.iter().map(|name| batch_line(1, request(name, "https://a/"))).collect();
        let outcomes = fixture.batch(&lines, &caller);
        (outcome_texts(&outcomes).remove(1), outcomes.into_iter().nth(1).unwrap().warnings)
    };
    let (last, warnings) = batch(["10.71000/\u{f6}", "10.71000/o\u{308}"]);
    assert_eq!(
        (&*last, &*warnings),
        ("created 10.71000/o\u{308}", &[confusable_with("10.71000/\u{f6}")][..])
    );
    let policy = r#"{"policy": {"confusable": "refuse"}}"#;
    fixture.execute_as_operator(&UpdatePrefix {
        prefix: PREFIX_A1.into(),
        ..serde_json::from_str(policy).unwrap()
    });
    assert_eq!(register("10.71000/\u{e4}"), Ok(vec![]));
    assert_eq!(register("10.71000/a\u{308}"), Err("confusable"));
    assert_eq!(batch(["10.71000/\u{fc}", "10.71000/u\u{308}"]).0, "refused confusable");
    assert_eq!(
        write(&fixture, &create("10.71000/a\u{308}", vec![admin_value(100, KEY)]), &key_caller(KEY)),
        'c'
    );
}

/// Invisible characters are rejected; mixed scripts get a warning, or an error by the prefix policy.
#[test]
fn attack_r4_confusables() {
    let fixture = RegistryFixture::in_memory();
    let caller = fixture.caller('1');
    let register = |suffix: &str| {
        let body = request(&format!("{PREFIX_A1}/{suffix}"), "https://a/");
        let created = fixture.execute_as(&RegisterDoi { request: body, random_bytes: [0; 16] }, &caller);
        created.map(|created| created.output.warnings).map_err(|error| error.code)
    };
    for suffix in ["a\u{200b}", "\u{202e}a", "a\u{e0041}", "a\u{0}", "a\nb", "\u{feff}a", "a\u{ad}"] {
        assert_eq!(register(suffix), Err("invalid-name"), "{suffix:?}");
    }
    assert_eq!(register("p\u{430}per"), Ok(vec![WriteWarning::MixedScripts]));
    assert_eq!(register("дом-1"), Ok(vec![]));
    let policy = r#"{"policy": {"confusable": "refuse"}}"#;
    fixture.execute_as_operator(&UpdatePrefix {
        prefix: PREFIX_A1.into(),
        ..serde_json::from_str(policy).unwrap()
    });
    assert_eq!(register("p\u{430}pers"), Err("confusable"));
    for (text, code) in [("", "missing"), ("a\u{202e}b", "invisible-character")] {
        let (agency, name, random_bytes) = (Some("alpha".into()), text.into(), [5; 16]);
        let command = CreateRegistrant { agency, name, contact: None, admins: Vec::new(), random_bytes };
        assert_eq!(
            fixture.execute_as(&command, &Caller::Operator).map_err(|error| error.code).err(),
            Some(code)
        );
    }
}

/// JSON is parsed strictly, and errors have the location.
#[test]
fn attack_d1_json() {
    let deep = |open: &str, close: &str| format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
    let metadata = |inner: &str| format!(r#"{{"name": "10.1/a", "metadata": {inner}}}"#);
    let values = |inner: &str| format!(r#"{{"name": "10.1/a", "values": {inner}}}"#);
    for (json, code) in [
        (deep("[", "]"), "malformed"),
        (deep("{\"a\":", "}"), "malformed"),
        (metadata(&deep("[", "]")), "invalid-metadata"),
        (metadata(&deep("{\"a\":", "}")), "invalid-metadata"),
        (values(&deep("[", "]")), "malformed"),
        (r#"{"name": "10.1/a", "name": "10.1/b"}"#.into(), "malformed"),
        (r#"{"name": "10.1/a", "n\u0061me": "10.1/b"}"#.into(), "malformed"),
        (
            metadata(r#"{"primaryReferentType": "Creation", "primaryReferentType": "Party"}"#),
            "invalid-metadata",
        ),
        (values(r#"[{"index": 1, "index": 2, "type": "URL", "data": "https://a/"}]"#), "malformed"),
        (values(r#"[{"index": 1e400, "type": "URL", "data": "https://a/"}]"#), "malformed"),
        (values(r#"[{"index": 1.5, "type": "URL", "data": "https://a/"}]"#), "malformed"),
        (metadata("1e400"), "invalid-metadata"),
        (r#"{"name": "10.1/\ud800"}"#.into(), "malformed"),
        (metadata(r#"{"primaryReferentType": "\udfff"}"#), "invalid-metadata"),
        ("\u{feff}{\"name\": \"10.1/a\"}".into(), "malformed"),
        (r#"{"name": "10.1/a"} {}"#.into(), "malformed"),
        (r#"{"name": "10.1/a", "state": "tombstone"}"#.into(), "malformed"),
        (r#"{"name": ["10.1/a"]}"#.into(), "malformed"),
        (r#"{"nmae": "10.1/a"}"#.into(), "malformed"),
        ("".into(), "malformed"),
        ("null".into(), "malformed"),
    ] {
        let error = RegistrationRequest::from_json(json.as_bytes()).unwrap_err();
        let excerpt: String = json.chars().take(80).collect();
        assert_eq!(error.code, code, "{excerpt}: {}", error.detail);
        assert!(!error.detail.is_empty() && error.detail.len() < 1_000, "{excerpt}");
    }
    assert_eq!(RegistrationRequest::from_json(b"{\"name\": \"\xff\"}").unwrap_err().code, "malformed");
    // Parsed as other implementations do, then rejected.
    let body = request_from_json(
        r#"{"name": "10.71000/d1", "values": [{"index": -1, "type": "URL", "data": "https://a/"}]}"#,
    );
    let fixture = RegistryFixture::in_memory();
    let error = fixture
        .execute_as(&RegisterDoi { request: body, random_bytes: [0; 16] }, &fixture.caller('1'))
        .map(drop)
        .unwrap_err();
    assert_eq!(error.code, "invalid-value");
}

/// Invalid and misleading URLs.
#[test]
fn attack_d8_urls() {
    let fixture = RegistryFixture::in_memory();
    let caller = fixture.caller('1');
    let long_url = format!("https://example.org/{}", "x".repeat(100_000));
    for url in [
        "/relative",
        "//example.org/",
        &long_url,
        "https://\u{430}pple.example/",
        "https://xn--pple-43d.example/",
        "https://user:password@example.org/",
        "javascript:alert(1)",
        "https://x/\r\nSet-Cookie:a=1",
        "",
    ] {
        let command = RegisterDoi { request: request("10.71000/d8", url), random_bytes: [0; 16] };
        let error = fixture.execute_as(&command, &caller).map(drop).unwrap_err();
        assert_eq!((error.code, error.pointer.as_deref()), ("invalid-url", Some("/url")), "{url}");
        let body = RegistrationRequest { url: Some(url.into()), ..RegistrationRequest::default() };
        let change = UpdateDoi { name: "10.71000/x".into(), request: body, expected_revision: None };
        assert_eq!(fixture.execute_as(&change, &caller).map(drop).unwrap_err().code, "invalid-url", "{url}");
        let body = RegistrationRequest {
            name: Some("10.71000/d8".into()),
            values: Some(vec![HandleValue::new(2, "URL", url.to_owned())]),
            ..RegistrationRequest::default()
        };
        let error = fixture
            .execute_as(&RegisterDoi { request: body, random_bytes: [0; 16] }, &caller)
            .map(drop)
            .unwrap_err();
        assert_eq!((error.code, error.pointer.as_deref()), ("invalid-value", Some("/values/0")), "{url}");
    }
    // The host list of a prefix covers all values with URLs.
    let hosts = Some(PrefixPolicy { hosts: vec!["example.org".into()], ..PrefixPolicy::default() });
    fixture.execute_as_operator(&UpdatePrefix {
        prefix: PREFIX_A1.into(),
        policy: hosts,
        expected_revision: None,
    });
    let loc = |href: &str| {
        HandleValue::new(2, "10320/loc", format!(r#"<locations><location href="{href}"/></locations>"#))
    };
    let request_with = |value: HandleValue<'static>| RegistrationRequest {
        values: Some(vec![value]),
        ..request("10.71000/hosts", "https://www.example.org/")
    };
    let register = |body: RegistrationRequest| {
        fixture
            .execute_as(&RegisterDoi { request: body, random_bytes: [0; 16] }, &caller)
            .map(drop)
            .map_err(|error| error.code)
    };
    assert_eq!(register(request("10.71000/hosts", "https://evil.net/")), Err("host-not-allowed"));
    assert_eq!(
        register(request_with(HandleValue::new(2, "URL", "https://example.org.evil.net/"))),
        Err("host-not-allowed")
    );
    assert_eq!(register(request_with(loc("https://evil.net/"))), Err("host-not-allowed"));
    let handle_add =
        |value: HandleValue<'static>| write(&fixture, &add("10.71000/x", vec![value]), &key_caller(KEY));
    assert_eq!((handle_add(loc("https://evil.net/")), handle_add(loc("https://example.org/"))), ('!', '+'));
    assert_eq!(register(request_with(loc("https://example.org/x"))), Ok(()));
}

/// Revoked and expired tokens, and tokens of a closed agency, are rejected.
#[test]
fn attack_a14_old_tokens() {
    let fixture = RegistryFixture::in_memory();
    let is_valid = |letter: char, now_ms| {
        block_on(fixture.registry.authenticate_token(&fixture.tokens[&letter], now_ms, &mut budget()))
            .unwrap()
            .is_some()
    };
    assert!(is_valid('1', NOW) && is_valid('x', NOW - 1));
    assert!(!is_valid('x', NOW) && !is_valid('v', NOW) && !is_valid('v', 0));
    for letter in "xve".chars() {
        assert_eq!(
            outcome_letter(&fixture.register("10.71000/a14", "https://a/", &fixture.caller(letter))),
            '?',
            "{letter}"
        );
    }
    // Another secret, a truncated token, another case.
    let (valid_token, second_token) = (&fixture.tokens[&'1'], &fixture.tokens[&'2']);
    let (id, secret) = valid_token.rsplit_once('_').unwrap();
    let (_, other_secret) = second_token.rsplit_once('_').unwrap();
    for invalid_token in [
        format!("{id}_{other_secret}"),
        format!("{id}_"),
        id.to_owned(),
        format!("{id}_{}", secret.to_uppercase()),
        format!("{id}_{}", &secret[..63]),
        format!("{valid_token} "),
        valid_token.replace("tendot_", ""),
        "tendot_".to_owned(),
        String::new(),
        format!("tendot_../agency/alpha_{secret}"),
        format!("tendot_{}_{secret}", "x".repeat(100_000)),
    ] {
        assert_eq!(
            block_on(fixture.registry.authenticate_token(&invalid_token, NOW, &mut budget())).unwrap(),
            None,
            "{invalid_token:.40}"
        );
    }
    // The store has no token secrets.
    let mut registrations = String::new();
    block_on(fixture.registry.store().scan_records(None, None, |entry| {
        registrations.push_str(&String::from_utf8_lossy(&entry.registration));
        true
    }))
    .unwrap();
    assert!(registrations.contains("\"hash\""));
    for token in fixture.tokens.values() {
        let (_, secret) = token.rsplit_once('_').unwrap();
        assert!(!registrations.contains(secret));
    }
    // The list of tokens has no secrets, either.
    let (tokens, _) =
        block_on(fixture.registry.list_tokens(None, 100, &Caller::Operator, NOW, &mut budget())).unwrap();
    assert!(tokens.len() > 10);
    // Revocation takes effect at once.
    let caller = fixture.caller('1');
    fixture.register("10.71000/before", "https://a/", &caller).unwrap();
    fixture.execute_as(&RevokeToken { id: fixture.token_id('1') }, &caller).unwrap();
    assert_eq!(outcome_letter(&fixture.register("10.71000/after", "https://a/", &caller)), '?');
    assert_eq!(
        outcome_letter(
            &fixture.execute_as(&RetireDoi { name: "10.71000/x".into(), expected_revision: None }, &caller)
        ),
        '?'
    );
    let found =
        block_on(fixture.registry.get_doi("10.71000/x", &Caller::Anonymous, NOW, &mut budget())).unwrap();
    assert_eq!(found.state, DoiStatus::Registered);
}

/// The admin group of a new owner of names gets a free index in the prefix record; no other value is lost.
#[test]
fn attack_p12_group_index_collisions() {
    let mut fixture = RegistryFixture::in_memory();
    let record = "0.NA/10.71005";
    let existing =
        vec![HandleValue::new(201, "NOTE", "of the prefix"), HandleValue::new(203, "HS_PUBKEY", "a key")];
    let edits =
        vec![Edit::Put { name: record.into(), values: existing.clone(), precondition: Precondition::Absent }];
    block_on(fixture.registry.store().commit(ChangeSet {
        author: "import".into(),
        timestamp_ms: NOW,
        edits,
    }))
    .unwrap();
    fixture.prefix("A1", Some("10.71005"), PrefixPolicy::default());
    for number in 0..3 {
        let (name, to) = (format!("10.71005/{number}"), format!("new {number}"));
        fixture.registrant(&to, "alpha", &[&format!("300:10.9/{number}")]);
        fixture.register(&name, "https://a/", &Caller::Operator).unwrap();
        fixture.transfer(TransferSubject::Names(vec![name.into()]), &to, true, &Caller::Operator).unwrap();
    }
    let values = values(&fixture, record);
    let indexes: Vec<u32> = values.iter().map(|value| value.index).filter(|index| *index > 200).collect();
    assert_eq!(indexes, [201, 202, 203, 204, 205]);
    for value in existing {
        assert!(values.iter().any(|other| other.index == value.index && other.data == value.data));
    }
    // Each owner administers its own names.
    for (number, other) in [(0, 1), (1, 2), (2, 0)] {
        let name = format!("10.71005/{number}");
        assert_eq!(write(&fixture, &modify(&name), &key_caller(&format!("300:10.9/{other}"))), '-');
        assert_eq!(write(&fixture, &modify(&name), &key_caller(&format!("300:10.9/{number}"))), '+');
    }
    // A change of administrators changes the registrant's own group and no other value.
    let change = UpdateRegistrant { id: fixture.id("new 1"), admins: Some(vec![]), ..Default::default() };
    fixture.execute_as_operator(&change);
    let changed = self::values(&fixture, record);
    let is_other = |value: &&HandleValue<'_>| value.index != 204;
    assert!(values.iter().filter(is_other).eq(changed.iter().filter(is_other)));
    assert_ne!(values, changed);
}

fn values(fixture: &RegistryFixture, name: &str) -> Vec<HandleValue<'static>> {
    let key = NameKey::new(name).unwrap();
    block_on(fixture.registry.store().get(&key)).unwrap().unwrap().values
}

/// Values of handle clients at indexes that the registry uses are not overwritten, and no record gets a duplicate index.
#[test]
fn attack_p13_reserved_indexes() {
    let fixture = RegistryFixture::in_memory();
    let code = |outcome: Result<(), RegistryError>| outcome.map_err(|error| (error.code, error.detail));
    let reserved_index = |name: &str| {
        let detail = format!("index 100 of `{name}` is reserved for HS_ADMIN but has another value");
        Err(("reserved-index", detail))
    };
    let name = "10.71000/odd";
    let note = HandleValue::new(100, "NOTE", "mine");
    let initial = vec![HandleValue::new(1, "URL", "https://a/"), note, admin_value(7, "200:0.NA/10.71000")];
    assert_eq!(write(&fixture, &create(name, initial), &key_caller(KEY)), '+');
    let before = values(&fixture, name);
    assert_eq!(code(fixture.update(name, "https://b/", &fixture.caller('1'))), reserved_index(name));
    let transfer = || {
        fixture.transfer(TransferSubject::Names(vec![name.into()]), "A2", true, &Caller::Operator).map(drop)
    };
    let error = transfer().unwrap_err();
    assert_eq!(error.pointer.as_deref(), Some("/names/0"));
    assert_eq!(code(Err(error)), reserved_index(name));
    assert_eq!(values(&fixture, name), before);
    // A request that lists the values replaces them.
    let body = RegistrationRequest {
        values: Some(vec![HandleValue::new(5, "NOTE", "mine")]),
        ..RegistrationRequest::default()
    };
    fixture
        .execute_as(
            &UpdateDoi { name: name.into(), request: body, expected_revision: None },
            &fixture.caller('1'),
        )
        .unwrap();
    assert!(transfer().is_ok());
    // An administrator at the URL's index is moved.
    let first = "10.71000/first";
    let initial = vec![admin_value(1, KEY), admin_value(101, KEY), HandleValue::new(2, "URL", "https://a/")];
    assert_eq!(write(&fixture, &create(first, initial), &key_caller(KEY)), '+');
    for url in ["https://b/", "https://c/"] {
        assert_eq!(code(fixture.update(first, url, &fixture.caller('1'))), Ok(()));
    }
    let found = values(&fixture, first);
    let found: Vec<(u32, bool)> =
        found.iter().map(|value| (value.index, value.has_type("HS_ADMIN"))).collect();
    assert_eq!(found, [(1, false), (2, false), (100, true), (101, true), (102, true)]);
}

/// A token that expires during a change feed reads no further.
#[test]
fn attack_a15_token_expires_during_feed() {
    let fixture = RegistryFixture::in_memory();
    let read = |letter: char, now_ms| {
        let (start, caller, mut budget) = (ChangeCursor::default(), fixture.caller(letter), budget());
        let changes = fixture.registry.list_changes(&start, 1_000, &caller, now_ms, &mut budget);
        block_on(changes).map_err(RegistryError::from).map(|changes| {
            let names: Vec<_> = changes.items.iter().map(|item| &*item.name).collect();
            (
                names.contains(&"10.71000/r"),
                changes.items.iter().any(|item| item.subject == ChangeSubject::Transfer),
            )
        })
    };
    assert_eq!(read('x', NOW - 1).unwrap(), (true, false));
    assert_eq!(outcome_letter(&read('x', NOW)), '?');
    let history = |now_ms| {
        let (order, caller, mut budget) =
            (HistoryOrder::OldestFirst { after: 0 }, fixture.caller('x'), budget());
        let history = fixture.registry.record_history(
            Handle::from("10.71000/r"),
            order,
            10,
            &caller,
            now_ms,
            &mut budget,
        );
        outcome_letter(&block_on(history).map_err(RegistryError::from))
    };
    assert_eq!((history(NOW - 1), history(NOW)), ('+', '?'));
    // Only the operator sees transfers.
    for (letter, expected) in
        [('n', (false, false)), ('1', (true, false)), ('o', (true, true)), ('O', (true, true))]
    {
        assert_eq!(read(letter, NOW).unwrap(), expected, "{letter}");
    }
}

/// Statistics that two processes write concurrently are added.
#[test]
fn attack_d9_concurrent_statistics() {
    let (fixture, store) = FixtureSource::new(StoreKind::Memory).hooked_fixture();
    let counts = |count| [ResolutionCount { prefix: PREFIX_A1.into(), name_hash: 7, count }];
    store.before_commit(move |store| {
        block_on(store.registry().add_resolutions(&counts(1), NOW)).unwrap();
    });
    block_on(fixture.registry.add_resolutions(&counts(2), NOW)).unwrap();
    assert!(store.has_run_all_hooks());
    let entries = block_on(fixture.registry.store().list_aux(b"stats/", None, 10)).unwrap();
    assert!(String::from_utf8_lossy(&entries[0].value).contains("\"count\":3"), "{entries:?}");
}

//! Changes between the plan of a command and its commit.

use super::*;

store_tests!(memory, embedded => { attack_p9_races, attack_p9_phantoms });

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
        Box::new(move |store| store.execute(&RevokeToken { id, cascade: false }))
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
            later(Box::new(move |store| store.execute(&RevokeToken { id, cascade: false })))
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
        let remaining = {
            let mut budget = budget();
            let remaining = fixture.registry.list_registrants(
                Some("alpha"),
                None,
                10,
                CallContext::new(&Caller::Operator, NOW, &mut budget),
            );
            block_on(remaining).unwrap().items
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

//! Batch registration: each line has its own outcome, quotas hold, and permissions are checked as of the commit.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Barrier;
use std::task::{Context, Waker};

use tendot_proto::{Handle, HandleValue};
use tendot_registry::batch::{BatchGroup, BatchJournal, BatchLine, BatchLineOutcome, GroupJournal};
use tendot_registry::party::{PrefixPolicy, RevokeToken, UpdatePrefix, UpdateRegistrant};
use tendot_registry::registration::{RegisterDoi, RegistrationRequest, RetireDoi, is_minted};
use tendot_registry::transfer::{ProposeTransfer, TransferSubject};
use tendot_registry::{CallContext, HandleWrite, IdempotencyKey, LogAuthor, Registry, RegistryErrorKind};
use tendot_store::{ChangeSet, Edit, Precondition, Store};
use tendot_testing::{block_on, repetitions};

use crate::fixtures::registry_fixture::*;
use crate::fixtures::{CommitHook, check_invariants};
use crate::support::{StoreKind, TestRegistry, store_tests};

store_tests!(memory, embedded => {
    mixed_lines, quotas, attack_d9_concurrent_quota, quota_of_two_registries, corrected_quota,
    dry_runs_commit_nothing,
    attack_p9_permission_races, attack_p9_record_races,
});
store_tests!(postgres => {
    mixed_lines, quotas, attack_d9_concurrent_quota, quota_of_two_registries, corrected_quota,
    dry_runs_commit_nothing,
});

fn name(suffix: &str) -> String {
    format!("{PREFIX_A1}/{suffix}")
}

fn lines(bodies: Vec<RegistrationRequest>) -> Vec<BatchLine> {
    (1..).zip(bodies).map(|(number, body)| batch_line(number, body)).collect()
}

fn mint_request() -> RegistrationRequest {
    RegistrationRequest {
        prefix: Some(PREFIX_A1.into()),
        url: Some("https://a/".into()),
        ..RegistrationRequest::default()
    }
}

/// A long group lets other tasks run between its lines, although the store never waits.
#[test]
fn groups_yield_between_lines() {
    let fixture = RegistryFixture::in_memory();
    let caller = fixture.caller('1');
    let lines = lines((0..50).map(|number| request(&name(&number.to_string()), "https://a/")).collect());
    let mut planned = pin!(fixture.registry.dry_run_batch(&lines, &caller, NOW));
    let mut context = Context::from_waker(Waker::noop());
    let yields = (0..).take_while(|_| planned.as_mut().poll(&mut context).is_pending()).count();
    assert!(yields >= 50, "{yields}");
}

/// If the aux entry for all lines together is too large, each line is committed with its own.
#[test]
fn aux_entry_too_large_falls_back_to_single_lines() {
    let fixture = FixtureSource::new(StoreKind::Embedded).fixture();
    let lines = lines(["a", "b", "c"].map(|suffix| request(&name(suffix), "https://a/")).into());
    let render = |outcomes: &[BatchLineOutcome]| {
        // Too large for several lines, and for the second line if it succeeds.
        let is_small = outcomes.len() == 1 && (outcomes[0].number != 2 || outcomes[0].result.is_err());
        vec![b'x'; if is_small { 1 } else { 5 << 20 }]
    };
    let outcomes = fixture.journaled_batch(&lines, &fixture.caller('1'), "key", render).unwrap();
    assert_eq!(
        outcome_texts(&outcomes),
        ["created 10.71000/a", "refused rejected-by-store", "created 10.71000/c"]
    );
    assert_eq!(outcomes[1].name.as_deref(), Some("10.71000/b"));
    assert_eq!(journaled_results(fixture.registry.store()), ["x", "x", "x"]);
}

fn mixed_lines(kind: StoreKind) {
    let fixture = FixtureSource::new(kind).fixture();
    let caller = fixture.caller('1');
    fixture.register(&name("gone"), "https://a/", &caller).unwrap();
    fixture.retire(&name("gone"), &caller).unwrap();
    let reserved = |name: &str| request_from_json(&format!(r#"{{"name": "{name}", "state": "reserved"}}"#));
    let registered =
        |name: &str| request_from_json(&format!(r#"{{"name": "{name}", "state": "registered"}}"#));
    let cases = [
        (request(&name("a"), "https://a/"), "created 10.71000/a"),
        (request(&name("A"), "https://b/"), "updated 10.71000/a"),
        (request(&name("a"), "https://b/"), "unchanged 10.71000/a"),
        (request(&name("b"), "javascript:x"), "refused invalid-url"),
        (RegistrationRequest::default(), "refused missing"),
        (request(&format!("{PREFIX_A2}/x"), "https://a/"), "refused forbidden"),
        (request("10.5/x", "https://a/"), "refused unknown-prefix"),
        (request(&name("GONE"), "https://a/"), "refused already-registered"),
        (mint_request(), "created"),
        (mint_request(), "created"),
        (request(&name("transferred"), "https://b/"), "refused forbidden"),
        (request("10.71000/", "https://a/"), "refused invalid-name"),
        (request("10.71000", "https://a/"), "refused invalid-name"),
        (request(&name("a\u{200b}"), "https://a/"), "refused invalid-name"),
        (reserved(&name("x")), "refused invalid-state-transition"),
        (reserved(&name("later")), "created 10.71000/later"),
        (registered(&name("later")), "refused missing"),
        (registered(&name("R")), "updated 10.71000/r"),
        (request_from_json(r#"{"name": "10.71000/q", "prefix": "10.71001"}"#), "refused prefix-mismatch"),
        (request_from_json(r#"{"prefix": "10.71000/x"}"#), "refused invalid-prefix"),
        (request(&name("x"), "https://a/"), "unchanged 10.71000/x"),
        (request(&format!("{PREFIX_A1_OTHER}/x"), "https://a/"), "created 10.71001/x"),
        (request(&name("B"), "https://a/"), "created 10.71000/B"),
    ];
    let mut lines: Vec<BatchLine> = Vec::new();
    let mut expected = Vec::new();
    for (number, (body, expected_text)) in (1..).zip(cases) {
        // The same random bytes for both minted names.
        let random_bytes = [7; 16];
        lines.push(BatchLine { random_bytes, ..batch_line(number, body) });
        expected.push(expected_text);
    }
    lines.push(BatchLine {
        number: 24,
        request: RegistrationRequest::from_json(b"{\"name\": 7}"),
        name: None,
        random_bytes: [0; 16],
    });
    expected.push("refused malformed");
    let before = fixture.log_len();
    let dry_run = block_on(fixture.registry.dry_run_batch(&lines, &caller, NOW)).unwrap();
    assert_eq!(fixture.log_len(), before, "a dry run changes nothing");
    let render = |outcomes: &[BatchLineOutcome]| outcome_texts(outcomes).join("\n").into_bytes();
    let outcomes = fixture.journaled_batch(&lines, &caller, "key", render).unwrap();
    assert_eq!(outcome_texts(&outcomes), outcome_texts(&dry_run));
    for ((outcome, actual), expected) in outcomes.iter().zip(outcome_texts(&outcomes)).zip(&expected) {
        let is_expected =
            if *expected == "created" { actual.starts_with("created ") } else { actual == *expected };
        assert!(is_expected, "line {}: {actual}, not {expected}", outcome.number);
    }
    assert_eq!(outcomes.len(), expected.len());
    assert!(outcomes.iter().zip(1..).all(|(outcome, number)| outcome.number == number));
    let minted: BTreeSet<_> = [8, 9].map(|index: usize| outcomes[index].name.clone().unwrap()).into();
    assert!(
        minted.len() == 2 && minted.iter().all(|name| is_minted(name.split_once('/').unwrap().1)),
        "{minted:?}"
    );
    assert_eq!(journaled_results(fixture.registry.store()), [outcome_texts(&outcomes).join("\n")]);
    // One log entry per name, in the order of the lines.
    let log = block_on(fixture.registry.store().read_log(before as u64, 100)).unwrap();
    let logged: Vec<_> = log.iter().map(|line| line.name.to_string()).collect();
    let mut names: Vec<String> = Vec::new();
    for outcome in outcomes.iter().filter(|outcome| outcome.result.is_ok()) {
        let name = outcome.name.as_deref().unwrap().to_owned();
        if name != "10.71000/x" && !names.contains(&name) {
            names.push(name);
        }
    }
    assert_eq!(logged, names);
    assert!(
        log.iter()
            .all(|line| *LogAuthor::parse(&line.author).principal
                == *format!("registrant:{}", fixture.id("A1")))
    );
    check_invariants(&fixture.registry);
    // The same batch again: minted names are new, all other lines are unchanged.
    let repeated = outcome_texts(&fixture.batch(&lines, &caller));
    let unchanged = repeated.iter().filter(|text| text.starts_with("unchanged")).count();
    // The first line changes the URL, and the second changes it back.
    assert_eq!(
        (unchanged, repeated[0].as_str(), repeated[1].as_str()),
        (6, "updated 10.71000/a", "updated 10.71000/a")
    );
}

fn quotas(kind: StoreKind) {
    let fixture = FixtureSource::new(kind).fixture();
    let caller = fixture.caller('1');
    let set_quota = |quota| {
        let policy = Some(PrefixPolicy { quota: Some(quota), ..PrefixPolicy::default() });
        fixture.execute_as_operator(&UpdatePrefix {
            prefix: PREFIX_A1_OTHER.into(),
            policy,
            expected_revision: None,
        });
    };
    let name = |suffix: &str| format!("{PREFIX_A1_OTHER}/{suffix}");
    set_quota(3);
    let batch = |suffixes: &[&str]| {
        let bodies = suffixes.iter().map(|suffix| request(&name(suffix), "https://a/")).collect();
        let texts = outcome_texts(&fixture.batch(&lines(bodies), &caller));
        texts
            .iter()
            .map(|text| text.split(' ').next_back().unwrap().replace("10.71001/", ""))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        batch(&["a", "A", "b", "c", "d", "a", "e"]),
        ["a", "a", "b", "c", "quota-exceeded", "a", "quota-exceeded"]
    );
    let register = |suffix: &str| outcome_letter(&fixture.register(&name(suffix), "https://a/", &caller));
    assert_eq!((register("d"), register("a")), ('f', 'c'));
    // The quota of another prefix is not affected.
    assert_eq!(outcome_letter(&fixture.register(&format!("{PREFIX_A1}/d"), "https://a/", &caller)), '+');
    // Retiring a name frees quota, by the registry API and by the Handle protocol.
    fixture.retire(&name("a"), &caller).unwrap();
    assert_eq!((register("d"), register("e")), ('+', 'f'));
    let write = |write: HandleWrite<'_>| outcome_letter(&fixture.write(&write, &key_caller("300:10.9/key")));
    let create = |name: &str| {
        let values = vec![HandleValue::new(1, "URL", "https://a/"), admin_value(100, "300:10.9/key")];
        let name = Handle::from(name);
        write(HandleWrite::Create {
            name,
            values,
            overwrite: false,
            keep_secrets: false,
            uuid_bytes: None,
            force: false,
        })
    };
    let delete = |name: &str| write(HandleWrite::Delete { name: Handle::from(name), permanent: false });
    assert_eq!(create(&name("n")), 'f');
    assert_eq!(
        (delete(&name("b")), create(&name("n")), create(&name("m")), register("m")),
        ('+', '+', 'f', 'f')
    );
    set_quota(5);
    assert_eq!(batch(&["o", "p", "q"]), ["o", "p", "quota-exceeded"]);
    set_quota(1);
    assert_eq!(batch(&["q", "o"]), ["quota-exceeded", "o"]);
    check_invariants(&fixture.registry);
}

/// Concurrent registrations neither exceed the quota nor leave any of it unused.
fn attack_d9_concurrent_quota(kind: StoreKind) {
    const THREADS: u64 = 8;
    let fixture = FixtureSource::new(kind).fixture();
    let rounds = repetitions("TENDOT_TEST_QUOTA_ROUNDS", 10, 60);
    let (caller, registry) = (&fixture.caller('1'), &fixture.registry);
    for round in 1..=rounds {
        // One more name than in the last round; every other round is long after the last count, so that names are counted while
        // they are registered.
        let now_ms = NOW + round / 2 * 60_000;
        let policy = Some(PrefixPolicy { quota: Some(round), ..PrefixPolicy::default() });
        fixture.execute_as_operator(&UpdatePrefix {
            prefix: PREFIX_A1_OTHER.into(),
            policy,
            expected_revision: None,
        });
        let start = &Barrier::new(usize::try_from(THREADS).unwrap());
        let outcomes: Vec<char> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    scope.spawn(move || {
                        let body = request(&format!("{PREFIX_A1_OTHER}/{round}-{thread}"), "https://a/");
                        start.wait();
                        if thread.is_multiple_of(2) {
                            let lines = lines(vec![body]);
                            let batch = registry.execute_batch(batch_group(&lines, caller, now_ms));
                            return outcome_letter(&block_on(batch).unwrap().remove(0).result);
                        }
                        let command = RegisterDoi { request: body, random_bytes: [0; 16] };
                        outcome_letter(&block_on(
                            registry.execute(&command, CallContext::new(caller, now_ms, &mut budget())),
                        ))
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let count = |letter| outcomes.iter().filter(|outcome| **outcome == letter).count();
        assert_eq!((count('+'), count('f')), (1, 7), "{round}: {outcomes:?}");
        let names = block_on(registry.store().count_names(PREFIX_A1_OTHER.as_bytes(), None, 1_000)).unwrap();
        assert_eq!(names.live, round);
    }
}

fn set_quota(fixture: &RegistryFixture, quota: u64) {
    let policy = Some(PrefixPolicy { quota: Some(quota), ..PrefixPolicy::default() });
    let prefix = PREFIX_A1_OTHER.into();
    fixture.execute_as_operator(&UpdatePrefix { prefix, policy, expected_revision: None });
}

/// Two servers that share a store register names under one prefix, alone and in batches: exactly as many as the quota allows, and
/// none fails for another reason.
fn quota_of_two_registries(kind: StoreKind) {
    const QUOTA: u64 = 500;
    let fixture = FixtureSource::new(kind).fixture();
    set_quota(&fixture, QUOTA);
    let (caller, other) = (&fixture.caller('1'), &fixture.registry.other());
    let registries: [&Registry; 2] = [&fixture.registry, other];
    let body = |name: String| request(&format!("{PREFIX_A1_OTHER}/{name}"), "https://a/");
    let outcomes: Vec<char> = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (number, registry) in registries.into_iter().enumerate() {
            threads.push(scope.spawn(move || {
                let single = |name: u64| {
                    let body = body(format!("single-{number}-{name}"));
                    let command = RegisterDoi { request: body, random_bytes: [0; 16] };
                    let mut budget = budget();
                    let call = CallContext::new(caller, NOW, &mut budget);
                    outcome_letter(&block_on(registry.execute(&command, call)))
                };
                (0..QUOTA / 2).map(single).collect::<Vec<_>>()
            }));
            threads.push(scope.spawn(move || {
                let batch = |batch: u64| {
                    let name = |line: u64| body(format!("batch-{number}-{batch}-{line}"));
                    let lines = lines((0..20).map(name).collect());
                    let outcomes =
                        block_on(registry.execute_batch(batch_group(&lines, caller, NOW))).unwrap();
                    outcomes.iter().map(|outcome| outcome_letter(&outcome.result)).collect::<Vec<_>>()
                };
                (0..QUOTA / 20).flat_map(batch).collect::<Vec<_>>()
            }));
        }
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let count = |letter| outcomes.iter().filter(|outcome| **outcome == letter).count() as u64;
    assert_eq!(count('+'), QUOTA);
    assert_eq!(count('f'), outcomes.len() as u64 - QUOTA, "{outcomes:?}");
    let names = block_on(fixture.registry.store().count_names(PREFIX_A1_OTHER.as_bytes(), None, 1_000));
    assert_eq!(names.unwrap().live, QUOTA);
}

/// A dry run obeys the quota, and neither creates its counter nor corrects it.
fn dry_runs_commit_nothing(kind: StoreKind) {
    let fixture = FixtureSource::new(kind).fixture();
    let (registry, caller) = (&fixture.registry, fixture.caller('1'));
    let batch =
        lines(["a", "b"].map(|name| request(&format!("{PREFIX_A1_OTHER}/{name}"), "https://a/")).into());
    let single = RegisterDoi {
        request: request(&format!("{PREFIX_A1_OTHER}/a"), "https://a/"),
        random_bytes: [0; 16],
    };
    let dry_runs = |now_ms| {
        let before = block_on(registry.store().head()).unwrap();
        let mut budget = budget();
        let call = CallContext::new(&caller, now_ms, &mut budget);
        let single = block_on(registry.dry_run(&single, call)).is_ok();
        let batch = block_on(registry.dry_run_batch(&batch, &caller, now_ms)).unwrap();
        assert_eq!(block_on(registry.store().head()).unwrap(), before);
        (single, batch.iter().filter(|outcome| outcome.result.is_ok()).count())
    };
    set_quota(&fixture, 1);
    assert_eq!(dry_runs(NOW), (true, 1), "without a counter");
    let change = ChangeSet {
        author: "import".into(),
        timestamp_ms: NOW,
        edits: vec![Edit::Put {
            name: format!("{PREFIX_A1_OTHER}/import").into(),
            values: Vec::new(),
            precondition: Precondition::Absent,
        }],
    };
    block_on(registry.store().commit(change)).unwrap();
    assert_eq!(dry_runs(NOW), (false, 0), "a full prefix without a counter");
    set_quota(&fixture, 3);
    let outcomes = block_on(registry.execute_batch(batch_group(&batch[..1], &caller, NOW))).unwrap();
    assert!(outcomes[0].result.is_ok());
    assert_eq!(dry_runs(NOW + 3_600_000).1, 2, "with a counter that was not compared for an hour");
}

/// Names written without the registry, such as by an import, are counted after the next check.
fn corrected_quota(kind: StoreKind) {
    let fixture = FixtureSource::new(kind).fixture();
    set_quota(&fixture, 5);
    let caller = fixture.caller('1');
    let register = |suffix: &str, now_ms: u64| {
        let body = request(&format!("{PREFIX_A1_OTHER}/{suffix}"), "https://a/");
        let command = RegisterDoi { request: body, random_bytes: [0; 16] };
        let mut budget = budget();
        outcome_letter(&block_on(
            fixture.registry.execute(&command, CallContext::new(&caller, now_ms, &mut budget)),
        ))
    };
    assert_eq!(register("a", NOW), '+');
    let write = |edits: Vec<Edit>| {
        let change = ChangeSet { author: "import".into(), timestamp_ms: NOW, edits };
        block_on(fixture.registry.store().commit(change)).unwrap();
    };
    let name = |number: u32| format!("{PREFIX_A1_OTHER}/import-{number}").into();
    let put =
        |number| Edit::Put { name: name(number), values: Vec::new(), precondition: Precondition::Absent };
    write((0..3).map(put).collect());
    let later = NOW + 60_000;
    assert_eq!((register("b", later), register("c", later)), ('+', 'f'));
    write(vec![Edit::Remove { name: name(0), precondition: Precondition::Live }]);
    assert_eq!(register("c", later), 'f');
    let later = later + 60_000;
    assert_eq!((register("c", later), register("d", later)), ('+', 'f'));
}

/// Concurrent registrations share one count of the names; if it is cancelled, the next registration counts again.
#[test]
fn one_count_serves_all_waiters() {
    let (fixture, store) = FixtureSource::new(StoreKind::Memory).hooked_fixture();
    let (caller, registry) = (&fixture.caller('1'), &fixture.registry);
    let policy = Some(PrefixPolicy { quota: Some(4), ..PrefixPolicy::default() });
    fixture.execute_as_operator(&UpdatePrefix {
        prefix: PREFIX_A1_OTHER.into(),
        policy,
        expected_revision: None,
    });
    let before = store.count_calls();
    let register = |number: usize| async move {
        let body = request(&format!("{PREFIX_A1_OTHER}/{number}"), "https://a/");
        let command = RegisterDoi { request: body, random_bytes: [0; 16] };
        outcome_letter(
            &registry.execute(&command, CallContext::new(caller, NOW + 60_000, &mut budget())).await,
        )
    };
    let mut waiting: Vec<_> = (0..8).map(|number| Box::pin(register(number))).collect();
    let mut context = Context::from_waker(Waker::noop());
    for future in &mut waiting {
        assert!(future.as_mut().poll(&mut context).is_pending());
    }
    assert_eq!(store.count_calls() - before, 1);
    drop(waiting.remove(0));
    for future in &mut waiting {
        assert!(future.as_mut().poll(&mut context).is_pending());
    }
    assert_eq!(store.count_calls() - before, 2, "the next waiter counts");
    let outcomes: String = waiting.into_iter().map(block_on).collect();
    assert_eq!((&*outcomes, store.count_calls() - before), ("++++fff", 2));
}

/// Makes the hook for a fixture.
type HookFactory<'f> = &'f dyn Fn(&RegistryFixture) -> CommitHook;

fn forced(subject: TransferSubject, to: Box<str>) -> ProposeTransfer {
    ProposeTransfer { subject, to, force: true, random_bytes: [9; 16] }
}

/// Outcomes of the batch of [`attempt_batch`].
type Outcomes = [String; 3];

fn refused(code: &str) -> Outcomes {
    [&*format!("refused {code}"); 3].map(str::to_owned)
}

fn all_applied() -> Outcomes {
    ["created 10.71000/new", "updated 10.71000/x", "created 10.71000/p"].map(str::to_owned)
}

/// Executes a batch by a caller, with a hook before its first commit, and checks its outcomes and the log.
fn attempt_batch(source: &FixtureSource, letter: char, hook: HookFactory<'_>, expected: Outcomes) {
    let (fixture, store) = source.hooked_fixture();
    let caller = fixture.caller(letter);
    let before = fixture.log_len();
    store.before_commit(hook(&fixture));
    let bodies = ["new", "x", "p"].map(|suffix| request(&name(suffix), "https://c/"));
    let outcomes = fixture.batch(&lines(bodies.into()), &caller);
    assert!(store.has_run_all_hooks());
    assert_eq!(outcome_texts(&outcomes), expected, "{letter}");
    let author = match letter {
        'k' => "300:10.9/key".to_owned(),
        'A' => "agency:alpha".to_owned(),
        _ => format!("registrant:{}", fixture.id("A1")),
    };
    let log = block_on(fixture.registry.store().read_log(before as u64, 1_000)).unwrap();
    let written = log.iter().filter(|line| *LogAuthor::parse(&line.author).principal == *author).count();
    let applied = expected.iter().filter(|text| !text.starts_with("refused")).count();
    assert_eq!(written, applied, "{letter}: {log:?}");
    check_invariants(&fixture.registry);
}

/// A permission that is revoked before the commit of a batch is not used, and each line gets its own outcome.
fn attack_p9_permission_races(kind: StoreKind) {
    let source = FixtureSource::new(kind);
    let attempt = |letter, hook: HookFactory<'_>, expected| attempt_batch(&source, letter, hook, expected);
    attempt('1', &|_| Box::new(|_| {}), all_applied());
    attempt(
        '1',
        &|fixture| {
            let id = fixture.token_id('1');
            Box::new(move |store| store.execute(&RevokeToken { id, cascade: false }))
        },
        refused("invalid-token"),
    );
    attempt(
        '1',
        &|fixture| {
            let id = fixture.token_id('2');
            Box::new(move |store| store.execute(&RevokeToken { id, cascade: false }))
        },
        all_applied(),
    );
    attempt(
        '1',
        &|fixture| {
            let to = fixture.id("B1");
            Box::new(move |store| store.execute(&forced(TransferSubject::Prefix(PREFIX_A1.into()), to)))
        },
        refused("forbidden"),
    );
    // The agency of the former holder has lost its permission, too.
    attempt(
        'A',
        &|fixture| {
            let to = fixture.id("B1");
            Box::new(move |store| store.execute(&forced(TransferSubject::Prefix(PREFIX_A1.into()), to)))
        },
        refused("forbidden"),
    );
    let without_x = ["created 10.71000/new", "refused forbidden", "created 10.71000/p"].map(str::to_owned);
    attempt(
        '1',
        &|fixture| {
            let to = fixture.id("A2");
            Box::new(move |store| {
                store.execute(&forced(TransferSubject::Names(vec!["10.71000/x".into()]), to));
            })
        },
        without_x,
    );
    attempt('k', &|_| Box::new(|_| {}), all_applied());
    attempt(
        'k',
        &|fixture| {
            let (id, admins) = (fixture.id("A1"), Some(vec!["300:10.9/new".into()]));
            Box::new(move |store| store.execute(&UpdateRegistrant { id, admins, ..Default::default() }))
        },
        refused("forbidden"),
    );
    attempt(
        'A',
        &|_| {
            Box::new(move |store| {
                store.execute(&forced(TransferSubject::Agency("alpha".into()), "beta".into()));
            })
        },
        refused("invalid-token"),
    );
    attempt(
        '1',
        &|_| {
            Box::new(move |store| {
                store.execute(&forced(TransferSubject::Agency("alpha".into()), "beta".into()));
            })
        },
        all_applied(),
    );
}

/// A policy or a name that is changed before the commit of a batch is respected, and each line gets its own outcome.
fn attack_p9_record_races(kind: StoreKind) {
    let source = FixtureSource::new(kind);
    let attempt = |letter, hook: HookFactory<'_>, expected| attempt_batch(&source, letter, hook, expected);
    let policy = |policy: PrefixPolicy| {
        move |_: &RegistryFixture| -> CommitHook {
            let policy = Some(policy.clone());
            Box::new(move |store| {
                store.execute(&UpdatePrefix { prefix: PREFIX_A1.into(), policy, expected_revision: None });
            })
        }
    };
    // Existing names need not match the pattern.
    let pattern = PrefixPolicy { pattern: Some("n.*".into()), ..PrefixPolicy::default() };
    let fits = ["created 10.71000/new", "updated 10.71000/x", "refused suffix-pattern"].map(str::to_owned);
    attempt('1', &policy(pattern), fits);
    attempt(
        '1',
        &policy(PrefixPolicy { hosts: vec!["example.org".into()], ..PrefixPolicy::default() }),
        refused("host-not-allowed"),
    );
    let quota = PrefixPolicy { quota: Some(4), ..PrefixPolicy::default() };
    let fits = ["created 10.71000/new", "updated 10.71000/x", "refused quota-exceeded"].map(str::to_owned);
    attempt('1', &policy(quota), fits);
    let existing_updated =
        ["updated 10.71000/NEW", "updated 10.71000/x", "created 10.71000/p"].map(str::to_owned);
    attempt(
        '1',
        &|_| {
            Box::new(|store| {
                let body = request("10.71000/NEW", "https://a/");
                store.execute(&RegisterDoi { request: body, random_bytes: [0; 16] });
            })
        },
        existing_updated,
    );
    let retired =
        ["created 10.71000/new", "refused already-registered", "created 10.71000/p"].map(str::to_owned);
    attempt(
        '1',
        &|_| {
            Box::new(|store| {
                store.execute(&RetireDoi { name: "10.71000/X".into(), expected_revision: None });
            })
        },
        retired,
    );
    attempt(
        '1',
        &|_| {
            Box::new(|store| {
                // The registry itself does not unhome an allocated prefix.
                let edits = vec![Edit::Unhome { prefix: "10.71000".into() }];
                let change = ChangeSet { author: "test".into(), timestamp_ms: NOW, edits };
                block_on(store.registry().store().commit(change)).unwrap();
            })
        },
        refused("not-responsible"),
    );
}

/// Two runs of the same batch at two servers of one store: the one that was started first stops, so that no name is minted twice.
#[test]
fn earlier_run_of_the_same_batch_stops() {
    let (fixture, store) = FixtureSource::new(StoreKind::Memory).hooked_fixture();
    let (caller, other_server) = (fixture.caller('1'), store.registry());
    let before = fixture.log_len();
    let open = |registry: &TestRegistry, run| {
        let key = IdempotencyKey::new(&caller, "key").unwrap();
        block_on(async {
            let lock = registry.lock_key(key).await;
            registry.open_journal(lock, "test", [run; 16], NOW).await.unwrap()
        })
    };
    let execute = |registry: &TestRegistry, journal: &BatchJournal, random| {
        let lines = [BatchLine { random_bytes: [random; 16], ..batch_line(1, mint_request()) }];
        let entry = GroupJournal { journal, raw: &[], render: &|_| "result".into() };
        let group = BatchGroup { journal: Some(&entry), ..batch_group(&lines, &caller, NOW) };
        block_on(registry.execute_batch(group)).map(|outcomes| outcome_texts(&outcomes))
    };
    let first = open(&fixture.registry, 1);
    let second = open(&other_server, 2);
    assert!(execute(&other_server, &second, 2).unwrap()[0].starts_with("created 10.71000/"));
    let error = execute(&fixture.registry, &first, 1).unwrap_err();
    assert_eq!((error.code, error.kind), ("key-in-use", RegistryErrorKind::Conflict));
    // The second run does not repeat a line, either.
    let error = execute(&other_server, &second, 3).unwrap_err();
    assert_eq!(error.code, "key-in-use");
    assert_eq!(fixture.log_len() - before, 1);
}

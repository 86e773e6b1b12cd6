//! Many names at once: each line gets its answer, and what changes meanwhile counts.

mod parties;

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::task::{Context, Waker};

use parties::*;
use tendot_proto::{Handle, Now, Value};
use tendot_registry::doi::{Draft, Line, is_minted};
use tendot_registry::party::{Policy, PrefixChange, RegistrantChange, TokenEnd};
use tendot_registry::transfer::{NewTransfer, What};
use tendot_registry::{Caller, Registry, Task, Write};
use tendot_store::{Edit, Store};
use tendot_testing::block_on;

fn name(suffix: &str) -> String {
    format!("{ONE}/{suffix}")
}

fn lines(drafts: Vec<Draft>) -> Vec<Line> {
    (1..).zip(drafts).map(|(number, draft)| line(number, draft)).collect()
}

fn minted() -> Draft {
    Draft { prefix: Some(ONE.into()), url: Some("https://a/".into()), ..Draft::default() }
}

/// What cannot be kept of all lines together is kept of each: none is lost, and each is noted with its own change.
#[test]
fn notes_that_are_too_large() {
    let scene = OnDisk::new().scene();
    let lines = lines(["a", "b", "c"].map(|suffix| deposit(&name(suffix), "https://a/")).into());
    let beside = |outcomes: &[tendot_registry::doi::LineOutcome]| {
        let Some(first) = outcomes.first() else { return Vec::new() };
        // Nothing can be kept of the second if it is done, and of several.
        let is_small = outcomes.len() == 1 && (first.number != 2 || first.result.is_err());
        let body = vec![b'x'; if is_small { 1 } else { 5 << 20 }].into();
        let key: Box<[u8]> = format!("receipt/{}", first.number).into_bytes().into();
        vec![Edit::RequireNote { key: key.clone(), body: None }, Edit::PutNote { key, body }]
    };
    let one = scene.caller('1');
    let outcomes = block_on(scene.registry.deposit(&lines, &one, NOW, false, beside)).unwrap();
    assert_eq!(told(&outcomes), ["created 10.71000/a", "refused not-kept", "created 10.71000/c"]);
    assert_eq!(outcomes[1].name.as_deref(), Some("10.71000/b"));
    let notes = block_on(scene.registry.store().notes(b"receipt/", None, 9)).unwrap();
    assert_eq!(notes.len(), 3);
}

#[test]
fn good_and_bad_lines() {
    mixed(&InMemory);
    mixed(&OnDisk::new());
    mixed(&InDatabase::new());
}

fn mixed(stage: &impl Stage) {
    let scene = stage.scene();
    let one = scene.caller('1');
    scene.put(&name("gone"), "https://a/", &one).unwrap();
    scene.end(&name("gone"), &one).unwrap();
    let reserved = |name: &str| draft(&format!(r#"{{"name": "{name}", "state": "reserved"}}"#));
    let registered = |name: &str| draft(&format!(r#"{{"name": "{name}", "state": "registered"}}"#));
    let cases = [
        (deposit(&name("a"), "https://a/"), "created 10.71000/a"),
        (deposit(&name("A"), "https://b/"), "updated 10.71000/a"),
        (deposit(&name("a"), "https://b/"), "unchanged 10.71000/a"),
        (deposit(&name("b"), "javascript:x"), "refused bad-url"),
        (Draft::default(), "refused missing"),
        (deposit(&format!("{TWO}/x"), "https://a/"), "refused not-yours"),
        (deposit("10.5/x", "https://a/"), "refused no-such-prefix"),
        (deposit(&name("GONE"), "https://a/"), "refused already-registered"),
        (minted(), "created"),
        (minted(), "created"),
        (deposit(&name("given"), "https://b/"), "refused not-yours"),
        (deposit("10.71000/", "https://a/"), "refused bad-name"),
        (deposit("10.71000", "https://a/"), "refused bad-name"),
        (deposit(&name("a\u{200b}"), "https://a/"), "refused bad-name"),
        (reserved(&name("x")), "refused already-public"),
        (reserved(&name("later")), "created 10.71000/later"),
        (registered(&name("later")), "refused missing"),
        (registered(&name("R")), "updated 10.71000/r"),
        (draft(r#"{"name": "10.71000/q", "prefix": "10.71001"}"#), "refused other-prefix"),
        (draft(r#"{"prefix": "10.71000/x"}"#), "refused bad-prefix"),
        (deposit(&name("x"), "https://a/"), "unchanged 10.71000/x"),
        (deposit(&format!("{OTHER}/x"), "https://a/"), "created 10.71001/x"),
        (deposit(&name("B"), "https://a/"), "created 10.71000/B"),
    ];
    let mut lines: Vec<Line> = Vec::new();
    let mut expected = Vec::new();
    for (number, (draft, told)) in (1..).zip(cases) {
        // Two of them are to get the same random bytes.
        let random = [7; 16];
        lines.push(Line { random, ..line(number, draft) });
        expected.push(told);
    }
    lines.push(Line { number: 24, draft: Draft::from_json(b"{\"name\": 7}"), name: None, random: [0; 16] });
    expected.push("refused malformed");
    let before = scene.changes();
    let beside = |outcomes: &[tendot_registry::doi::LineOutcome]| {
        vec![Edit::PutNote {
            key: b"receipt"[..].into(),
            body: told(outcomes).join("\n").into_bytes().into(),
        }]
    };
    let dry = block_on(scene.registry.deposit(&lines, &one, NOW, true, beside)).unwrap();
    assert_eq!(scene.changes(), before, "a trial changes nothing");
    assert_eq!(block_on(scene.registry.store().note(b"receipt")).unwrap(), None);
    let outcomes = block_on(scene.registry.deposit(&lines, &one, NOW, false, beside)).unwrap();
    assert_eq!(told(&outcomes), told(&dry));
    for ((outcome, told), expected) in outcomes.iter().zip(told(&outcomes)).zip(&expected) {
        let is_it = if *expected == "created" { told.starts_with("created ") } else { told == *expected };
        assert!(is_it, "line {}: {told}, not {expected}", outcome.number);
    }
    assert_eq!(outcomes.len(), expected.len());
    assert!(outcomes.iter().zip(1..).all(|(outcome, number)| outcome.number == number));
    let made: BTreeSet<_> = [8, 9].map(|at: usize| outcomes[at].name.clone().unwrap()).into();
    assert!(
        made.len() == 2 && made.iter().all(|name| is_minted(name.split_once('/').unwrap().1)),
        "{made:?}"
    );
    let receipt = block_on(scene.registry.store().note(b"receipt")).unwrap().unwrap();
    assert_eq!(String::from_utf8(receipt.into()).unwrap(), told(&outcomes).join("\n"));
    // One line in the log a name, in the order of the lines.
    let log = block_on(scene.registry.store().changes(before as u64, 100)).unwrap();
    let logged: Vec<_> = log.iter().map(|line| line.name.to_string()).collect();
    let mut names: Vec<String> = Vec::new();
    for outcome in outcomes.iter().filter(|outcome| outcome.result.is_ok()) {
        let name = outcome.name.as_deref().unwrap().to_owned();
        if name != "10.71000/x" && !names.contains(&name) {
            names.push(name);
        }
    }
    assert_eq!(logged, names);
    assert!(log.iter().all(|line| *line.by == *format!("registrant:{}", scene.id("A1"))));
    check_whole(&scene.registry);
    // The same once more: minted names are new, all else is as it was.
    let again = told(&scene.batch(&lines, &one));
    let unchanged = again.iter().filter(|told| told.starts_with("unchanged")).count();
    // The second line changes back what the first did.
    assert_eq!(
        (unchanged, again[0].as_str(), again[1].as_str()),
        (6, "updated 10.71000/a", "updated 10.71000/a")
    );
}

#[test]
fn quotas() {
    quota(&InMemory);
    quota(&OnDisk::new());
    quota(&InDatabase::new());
}

fn quota(stage: &impl Stage) {
    let scene = stage.scene();
    let one = scene.caller('1');
    let set = |quota| {
        let policy = Some(Policy { quota: Some(quota), ..Policy::default() });
        scene.done(&PrefixChange { prefix: OTHER.into(), policy, expect: None });
    };
    let name = |suffix: &str| format!("{OTHER}/{suffix}");
    set(3);
    let batch = |suffixes: &[&str]| {
        let drafts = suffixes.iter().map(|suffix| deposit(&name(suffix), "https://a/")).collect();
        let told = told(&scene.batch(&lines(drafts), &one));
        told.iter()
            .map(|told| told.split(' ').next_back().unwrap().replace("10.71001/", ""))
            .collect::<Vec<_>>()
    };
    assert_eq!(batch(&["a", "A", "b", "c", "d", "a", "e"]), ["a", "a", "b", "c", "quota", "a", "quota"]);
    let put = |suffix: &str| letter(&scene.put(&name(suffix), "https://a/", &one));
    assert_eq!((put("d"), put("a")), ('f', 'c'));
    // Another prefix has room.
    assert_eq!(letter(&scene.put(&format!("{ONE}/d"), "https://a/", &one)), '+');
    // Who ends one has room for another, by whichever door.
    scene.end(&name("a"), &one).unwrap();
    assert_eq!((put("d"), put("e")), ('+', 'f'));
    let write = |what: Write<'_>, caller: &Caller| {
        let now = Now { elapsed: std::time::Duration::ZERO, unix: NOW / 1_000 };
        let done = block_on(scene.registry.write(&what, caller, now, &mut work()));
        letter(&done.map_err(Into::into))
    };
    let create = |name: &str| {
        let values = vec![Value::new(1, "URL", "https://a/"), admin(100, "300:10.9/key")];
        let (name, mint) = (Handle::from(name), None);
        write(Write::Create { name, values, overwrite: false, mint, force: false }, &key("300:10.9/key"))
    };
    let delete =
        |name: &str| write(Write::Delete { name: Handle::from(name), for_ever: false }, &key("300:10.9/key"));
    assert_eq!(create(&name("n")), 'f');
    assert_eq!((delete(&name("b")), create(&name("n")), create(&name("m")), put("m")), ('+', '+', 'f', 'f'));
    set(5);
    assert_eq!(batch(&["o", "p", "q"]), ["o", "p", "quota"]);
    set(1);
    assert_eq!(batch(&["q", "o"]), ["quota", "o"]);
    check_whole(&scene.registry);
}

/// However many come at once, there are never more names than there may be, and not fewer.
#[test]
fn attack_d9_quota_at_once() {
    at_once(&InMemory.scene(), 60);
    at_once(&OnDisk::new().scene(), 5);
    at_once(&InDatabase::new().scene(), 20);
}

fn at_once<S: Store>(scene: &Scene<S>, rounds: u64) {
    const THREADS: u64 = 8;
    let (one, registry) = (&scene.caller('1'), &scene.registry);
    for round in 1..=rounds {
        // Room for one more than the last time, and a crowd that wants it; every other time long after, so that the names are
        // counted while they come.
        let at = NOW + round / 2 * 60_000;
        let policy = Some(Policy { quota: Some(round), ..Policy::default() });
        scene.done(&PrefixChange { prefix: OTHER.into(), policy, expect: None });
        let start = &Barrier::new(usize::try_from(THREADS).unwrap());
        let outcomes: Vec<char> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    scope.spawn(move || {
                        let draft = deposit(&format!("{OTHER}/{round}-{thread}"), "https://a/");
                        start.wait();
                        if thread.is_multiple_of(2) {
                            let lines = lines(vec![draft]);
                            let batch = registry.deposit(&lines, one, at, false, |_| Vec::new());
                            return letter(&block_on(batch).unwrap().remove(0).result);
                        }
                        let new = tendot_registry::doi::NewName { draft, random: [0; 16] };
                        letter(&block_on(registry.carry_out(&new, one, at, &mut work())))
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let count = |letter| outcomes.iter().filter(|outcome| **outcome == letter).count();
        assert_eq!((count('+'), count('f')), (1, 7), "{round}: {outcomes:?}");
        let counted = block_on(registry.store().count_under(OTHER.as_bytes(), None, 1_000)).unwrap();
        assert_eq!(counted.live, round);
    }
}

/// Who needs to know how many names there are waits for the one who counts them, and goes on if that one is gone.
#[test]
fn one_counts_for_all() {
    let scene = watched_in_memory();
    let (one, registry) = (&scene.caller('1'), &scene.registry);
    let policy = Some(Policy { quota: Some(4), ..Policy::default() });
    scene.done(&PrefixChange { prefix: OTHER.into(), policy, expect: None });
    let before = registry.store().counts();
    let deposit = |number: usize| async move {
        let draft = deposit(&format!("{OTHER}/{number}"), "https://a/");
        let new = tendot_registry::doi::NewName { draft, random: [0; 16] };
        letter(&registry.carry_out(&new, one, NOW + 60_000, &mut work()).await)
    };
    let mut waiting: Vec<_> = (0..8).map(|number| Box::pin(deposit(number))).collect();
    let mut context = Context::from_waker(Waker::noop());
    for future in &mut waiting {
        assert!(future.as_mut().poll(&mut context).is_pending());
    }
    assert_eq!(registry.store().counts() - before, 1);
    drop(waiting.remove(0));
    for future in &mut waiting {
        assert!(future.as_mut().poll(&mut context).is_pending());
    }
    assert_eq!(registry.store().counts() - before, 2, "the next one");
    let outcomes: String = waiting.into_iter().map(block_on).collect();
    assert_eq!((&*outcomes, registry.store().counts() - before), ("++++fff", 2));
}

/// What happens between the plan of a change and its commit, of a scene.
type Event<'e, S> = &'e dyn Fn(&Scene<Watched<S>>) -> Happens<S>;
type Happens<S> = Box<dyn FnOnce(Registry<Watched<S>>) + Send>;

fn does<S: Store>(registry: &Registry<S>, task: &impl Task) {
    let done = block_on(registry.carry_out(task, &Caller::Operator, NOW, &mut work()));
    assert!(done.is_ok(), "{:?}", done.err());
}

fn forced(what: What, to: Box<str>) -> NewTransfer {
    NewTransfer { what, to, force: true, random: [9; 16] }
}

/// Whoever loses a right while a batch is under way writes nothing by it, and each line gets its right answer.
#[test]
fn attack_p9_races() {
    races(watched_in_memory);
    races(watched_on_disk());
}

fn races<S: Store + 'static>(mut scene: impl FnMut() -> Scene<Watched<S>>) {
    let refused = |code: &str| [&*format!("refused {code}"); 3].map(str::to_owned);
    let all = ["created 10.71000/new", "updated 10.71000/x", "created 10.71000/p"].map(str::to_owned);
    let mut attempt = |role: char, event: Event<'_, S>, expected: [String; 3]| {
        let scene = scene();
        let caller = scene.caller(role);
        let event = event(&scene);
        let before = scene.changes();
        scene.registry.store().before_commit(event);
        let drafts = ["new", "x", "p"].map(|suffix| deposit(&name(suffix), "https://c/"));
        let outcomes = scene.batch(&lines(drafts.into()), &caller);
        assert!(scene.registry.store().is_over());
        assert_eq!(told(&outcomes), expected, "{role}");
        let by =
            if role == 'k' { "300:10.9/key".to_owned() } else { format!("registrant:{}", scene.id("A1")) };
        let by = if role == 'A' { "agency:alpha".to_owned() } else { by };
        let log = block_on(scene.registry.store().changes(before as u64, 1_000)).unwrap();
        let written = log.iter().filter(|line| *line.by == *by).count();
        let done = expected.iter().filter(|told| !told.starts_with("refused")).count();
        assert_eq!(written, done, "{role}: {log:?}");
        check_whole(&scene.registry);
    };
    attempt('1', &|_| Box::new(|_| {}), all.clone());
    attempt(
        '1',
        &|scene| {
            let id = scene.token_id('1');
            Box::new(move |registry| does(&registry, &TokenEnd { id }))
        },
        refused("bad-token"),
    );
    attempt(
        '1',
        &|scene| {
            let id = scene.token_id('2');
            Box::new(move |registry| does(&registry, &TokenEnd { id }))
        },
        all.clone(),
    );
    attempt(
        '1',
        &|scene| {
            let to = scene.id("B1");
            Box::new(move |registry| does(&registry, &forced(What::Prefix(ONE.into()), to)))
        },
        refused("not-yours"),
    );
    // The agency of who had it has no say either.
    attempt(
        'A',
        &|scene| {
            let to = scene.id("B1");
            Box::new(move |registry| does(&registry, &forced(What::Prefix(ONE.into()), to)))
        },
        refused("not-yours"),
    );
    let lost = ["created 10.71000/new", "refused not-yours", "created 10.71000/p"].map(str::to_owned);
    attempt(
        '1',
        &|scene| {
            let to = scene.id("A2");
            Box::new(move |registry| does(&registry, &forced(What::Names(vec!["10.71000/x".into()]), to)))
        },
        lost,
    );
    attempt('k', &|_| Box::new(|_| {}), all.clone());
    attempt(
        'k',
        &|scene| {
            let (id, admins) = (scene.id("A1"), Some(vec!["300:10.9/new".into()]));
            Box::new(move |registry| does(&registry, &RegistrantChange { id, admins, ..Default::default() }))
        },
        refused("not-yours"),
    );
    attempt(
        'A',
        &|_| Box::new(move |registry| does(&registry, &forced(What::Agency("alpha".into()), "beta".into()))),
        refused("bad-token"),
    );
    attempt(
        '1',
        &|_| Box::new(move |registry| does(&registry, &forced(What::Agency("alpha".into()), "beta".into()))),
        all.clone(),
    );
    let policy = |policy: Policy| {
        move |_: &Scene<Watched<S>>| -> Happens<S> {
            let policy = Some(policy.clone());
            Box::new(move |registry| {
                does(&registry, &PrefixChange { prefix: ONE.into(), policy, expect: None });
            })
        }
    };
    // What is there already need not match.
    let pattern = Policy { pattern: Some("n.*".into()), ..Policy::default() };
    let fits = ["created 10.71000/new", "updated 10.71000/x", "refused pattern"].map(str::to_owned);
    attempt('1', &policy(pattern), fits);
    attempt('1', &policy(Policy { hosts: vec!["example.org".into()], ..Policy::default() }), refused("host"));
    let quota = Policy { quota: Some(4), ..Policy::default() };
    let fits = ["created 10.71000/new", "updated 10.71000/x", "refused quota"].map(str::to_owned);
    attempt('1', &policy(quota), fits);
    let other = ["updated 10.71000/NEW", "updated 10.71000/x", "created 10.71000/p"].map(str::to_owned);
    attempt(
        '1',
        &|_| {
            Box::new(|registry| {
                let draft = deposit("10.71000/NEW", "https://a/");
                does(&registry, &tendot_registry::doi::NewName { draft, random: [0; 16] });
            })
        },
        other,
    );
    let ended =
        ["created 10.71000/new", "refused already-registered", "created 10.71000/p"].map(str::to_owned);
    attempt(
        '1',
        &|_| {
            Box::new(|registry| {
                does(&registry, &tendot_registry::doi::NameEnd { name: "10.71000/X".into(), expect: None });
            })
        },
        ended,
    );
    attempt(
        '1',
        &|_| {
            Box::new(|registry| {
                let now = Now { elapsed: std::time::Duration::ZERO, unix: NOW / 1_000 };
                let unhome = Write::Unhome { prefix: Handle::from("0.NA/10.71000") };
                block_on(registry.write(&unhome, &Caller::Operator, now, &mut work())).unwrap();
            })
        },
        refused("not-kept-here"),
    );
}

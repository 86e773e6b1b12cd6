//! Lists, by who has little to spend: a page looks at so much and no more, and who goes on misses nothing.

mod parties;

use parties::*;
use pollster::block_on;
use serde_json::{Value as Json, json};
use tendot_proto::Work;
use tendot_registry::transfer::What;
use tendot_registry::{Caller, Refusal};
use tendot_store::{Change, Edit, Expect, Key, Memory, Store};

/// As much as a request has.
fn little() -> Work {
    Work::new(20_000)
}

type Page = Result<(Vec<String>, Option<String>), Refusal>;

/// All that a list has, and how many pages it took.
fn walk(page: impl Fn(Option<&str>) -> Page) -> (Vec<String>, usize) {
    let (mut all, mut next, mut pages) = (Vec::new(), None::<String>, 0);
    loop {
        let (items, place) = page(next.as_deref()).unwrap_or_else(|refusal| panic!("{next:?}: {refusal:?}"));
        pages += 1;
        all.extend(items);
        assert!(place.is_none() || place != next, "it goes on where it was: {place:?}");
        assert!(pages < 1_000);
        next = place;
        if next.is_none() {
            return (all, pages);
        }
    }
}

/// Entries that stand in the store, whoever put them there.
fn fill(scene: &Scene<Memory>, entries: impl Iterator<Item = (String, Json)>) {
    let register = |(name, registration): (String, Json)| Edit::Register {
        name: name.into(),
        values: Vec::new(),
        registration: registration.to_string().into_bytes().into(),
        expect: Expect::Absent,
    };
    let edits = entries.map(register).collect();
    block_on(scene.registry.store().commit(Change { by: "operator".into(), at: NOW, edits })).unwrap();
}

fn kept(scene: &Scene<Memory>, name: &str) -> Json {
    let entry = block_on(scene.registry.store().get(&Key::new(name).unwrap())).unwrap().unwrap();
    serde_json::from_slice(&entry.registration).unwrap()
}

fn names(
    scene: &Scene<Memory>,
    prefix: Option<&str>,
    of: Option<&str>,
    caller: &Caller,
) -> (Vec<String>, usize) {
    walk(|after| {
        let mut paid = little();
        let names = scene.registry.names(prefix, of, after, 1_000, caller, NOW, &mut paid);
        let names = block_on(names)?;
        Ok((names.items.into_iter().map(|item| item.name.into()).collect(), names.next))
    })
}

fn transfers(scene: &Scene<Memory>, caller: &Caller) -> (Vec<String>, usize) {
    walk(|after| {
        let mut paid = little();
        let transfers = scene.registry.transfers(after, 1_000, caller, NOW, &mut paid);
        let (items, next) = block_on(transfers)?;
        Ok((items.into_iter().map(|item| item.transfer.id.into()).collect(), next))
    })
}

#[test]
fn names_under_prefixes_of_others() {
    let scene = InMemory.scene();
    let given: Vec<Box<str>> = (0..1_200).map(|number| format!("{ONE}/given-{number:04}").into()).collect();
    for (number, name) in given.iter().enumerate() {
        let line = line(1, deposit(name, "https://a/"));
        let told = scene.batch(&[line], &Caller::Operator);
        assert!(told[0].result.is_ok(), "{number}");
    }
    let id = scene.give(What::Names(given.clone()), "B1", true, &Caller::Operator).unwrap();
    let (mut found, pages) = names(&scene, None, Some(&scene.id("B1")), &Caller::Anonymous);
    found.sort();
    assert!(found.iter().map(|name| &**name).eq(given.iter().map(|name| &**name)));
    assert!(pages > 1, "all of them cost more than there is");
    // The list of transfers has some of their names, the transfer has all.
    let mut paid = little();
    let (items, _) =
        block_on(scene.registry.transfers(None, 10, &scene.caller('3'), NOW, &mut paid)).unwrap();
    let item = items.iter().find(|item| item.transfer.id == id).unwrap();
    assert_eq!((&item.transfer.what, item.count), (&What::Names(given[..10].to_vec()), Some(given.len())));
    let whole = block_on(scene.registry.transfer(&id, &scene.caller('3'), NOW, &mut little())).unwrap();
    assert_eq!(whole.it.what, What::Names(given));
}

#[test]
fn transfers_among_those_of_others() {
    let scene = InMemory.scene();
    let before = transfers(&scene, &scene.caller('3')).0;
    let own = scene.give(What::Prefix(ONE.into()), "B1", false, &Caller::Operator).unwrap();
    let mut transfer = kept(&scene, &format!("0.TENDOT/transfer/{own}"));
    let others = (0..3_000).map(|number| {
        // Before and after it.
        let id = format!("{}{number:05}", if number % 2 == 0 { "000" } else { "zzz" });
        transfer["id"] = json!(id);
        transfer["to"] = json!(format!("t{number}"));
        transfer["from"] = json!([format!("f{number}")]);
        (format!("0.TENDOT/transfer/{id}"), transfer.clone())
    });
    fill(&scene, others);
    for (role, is_asked) in [('3', false), ('B', true), ('k', true), ('O', false)] {
        let (found, pages) = transfers(&scene, &scene.caller(role));
        let found: Vec<&String> = found.iter().filter(|id| !before.contains(id)).collect();
        match role {
            'O' => assert!(found.len() > 3_000),
            _ => assert!(found.contains(&&String::from(own.clone())) && found.len() < 5, "{role} {found:?}"),
        }
        // Who acts for many has to be looked up; for one registrant nothing has.
        assert_eq!(pages > 4, is_asked, "{role} {pages}");
    }
}

/// Whether a page holds few large things, and many small ones.
#[test]
fn pages_of_large_things() {
    let scene = InMemory.scene();
    let id = scene.give(What::Prefix(ONE.into()), "B1", false, &Caller::Operator).unwrap();
    let mut transfer = kept(&scene, &format!("0.TENDOT/transfer/{id}"));
    transfer.as_object_mut().unwrap().remove("prefix");
    transfer["names"] = json!(vec![format!("{ONE}/{}", "x".repeat(90)); 10_000]);
    let large = (0..20).map(|number| {
        transfer["id"] = json!(format!("large{number:02}"));
        (format!("0.TENDOT/transfer/large{number:02}"), transfer.clone())
    });
    fill(&scene, large);
    let (found, pages) = transfers(&scene, &Caller::Operator);
    assert_eq!(found.iter().filter(|id| id.starts_with("large")).count(), 20);
    assert_eq!(pages, 3, "of 8 MiB each");
    let metadata = json!({"x": "x".repeat(100_000)});
    let mut deposit = kept(&scene, "10.71000/x");
    deposit["metadata"] = metadata;
    fill(&scene, (0..200).map(|number| (format!("{THREE}/large-{number}"), deposit.clone())));
    let (found, pages) = names(&scene, Some(THREE), None, &Caller::Anonymous);
    assert_eq!((found.len(), pages), (200, 3));
}

/// What is looked for among much else that is not it.
#[test]
fn little_among_much() {
    const MANY: usize = 25_000;
    let scene = InMemory.scene();
    let registrant = kept(&scene, &format!("0.TENDOT/registrant/{}", scene.id("B1")));
    fill(&scene, (0..MANY).map(|number| (format!("0.TENDOT/registrant/0{number:06}"), registrant.clone())));
    let (found, pages) = walk(|after| {
        let mut paid = little();
        let list = scene.registry.registrants(Some("ALPHA"), after, 10, &Caller::Anonymous, NOW, &mut paid);
        let (items, next) = block_on(list)?;
        Ok((items.into_iter().map(|held| held.it.name.into()).collect(), next))
    });
    assert_eq!((found.len(), pages), (2, 3));
    let token = kept(&scene, &format!("0.TENDOT/token/{}", scene.token_id('B')));
    fill(&scene, (0..MANY).map(|number| (format!("0.TENDOT/token/0{number:06}"), token.clone())));
    let (found, pages) = walk(|after| {
        let mut paid = little();
        let caller = scene.caller('A');
        let tokens = scene.registry.tokens(after, 10, &caller, NOW, &mut paid);
        let (items, next) = block_on(tokens)?;
        Ok((items.into_iter().map(|held| held.it.id.into()).collect(), next))
    });
    assert!(found.contains(&scene.token_id('1').into()) && !found.contains(&scene.token_id('3').into()));
    assert_eq!(pages, 2 + found.len().div_ceil(10), "{found:?}");
    // Prefixes of somebody else.
    let prefix = kept(&scene, &format!("0.NA/{THREE}"));
    let empty = (0..MANY).map(|number| {
        let (name, mut prefix) = (format!("10.1{number:06}"), prefix.clone());
        prefix["prefix"] = json!(name);
        (format!("0.NA/{name}"), prefix)
    });
    fill(&scene, empty);
    let prefixes = |registrant: Option<&str>, agency: Option<&str>| {
        walk(|after| {
            let (items, next) =
                block_on(scene.registry.prefixes(registrant, agency, after, 10, &mut little()))?;
            Ok((items.into_iter().map(|held| held.it.prefix.into()).collect(), next))
        })
    };
    assert_eq!(prefixes(Some("nobody"), None), (vec![], 3));
    assert_eq!(prefixes(None, Some("nobody")), (vec![], 3));
    assert_eq!(prefixes(Some(&scene.id("A1")), None), (vec![ONE.into(), OTHER.into()], 3));
}

//! Paging with a small budget: a page reads a bounded number of records, and all pages together are complete.

use serde_json::{Value as Json, json};
use tendot_proto::Budget;
use tendot_registry::registration::DoiFilter;
use tendot_registry::transfer::TransferSubject;
use tendot_registry::{CallContext, Caller, RegistryError, ResultPage};
use tendot_store::{ChangeSet, Edit, NameKey, Precondition, Store};
use tendot_testing::{block_on, repetitions};

use crate::fixtures::registry_fixture::*;

/// Budget of a request at a server.
fn request_budget() -> Budget {
    Budget::new(20_000)
}

type PageResult = Result<(Vec<String>, Option<Box<str>>), RegistryError>;

/// All items of a list, and the number of pages.
fn read_all(page: impl Fn(Option<&str>) -> PageResult) -> (Vec<String>, usize) {
    let (mut all, mut next, mut pages) = (Vec::new(), None::<Box<str>>, 0);
    loop {
        let (items, cursor) = page(next.as_deref()).unwrap_or_else(|error| panic!("{next:?}: {error:?}"));
        pages += 1;
        all.extend(items);
        assert!(cursor.is_none() || cursor != next, "the cursor does not advance: {cursor:?}");
        assert!(pages < 1_000);
        next = cursor;
        if next.is_none() {
            return (all, pages);
        }
    }
}

/// Writes entries to the store without authorization.
fn fill(fixture: &RegistryFixture, entries: impl Iterator<Item = (String, Json)>) {
    let register = |(name, registration): (String, Json)| {
        // Registrations of DOIs have a tag: registered, with metadata.
        let tag = if name.starts_with("10.") { "B" } else { "" };
        Edit::Register {
            name: name.into(),
            values: Vec::new(),
            registration: format!("{tag}{registration}").into_bytes().into(),
            precondition: Precondition::Absent,
        }
    };
    let edits = entries.map(register).collect();
    block_on(fixture.registry.store().commit(ChangeSet {
        author: "operator".into(),
        timestamp_ms: NOW,
        edits,
    }))
    .unwrap();
}

fn registration(fixture: &RegistryFixture, name: &str) -> Json {
    let entry = block_on(fixture.registry.store().get(&NameKey::new(name).unwrap())).unwrap().unwrap();
    let tag_len = usize::from(name.starts_with("10."));
    serde_json::from_slice(&entry.registration[tag_len..]).unwrap()
}

fn names(
    fixture: &RegistryFixture,
    prefix: Option<&str>,
    registrant: Option<&str>,
    caller: &Caller,
) -> (Vec<String>, usize) {
    read_all(|after| {
        let mut budget = request_budget();
        let names = fixture.registry.list_dois(
            DoiFilter { prefix, registrant },
            after,
            1_000,
            CallContext::new(caller, NOW, &mut budget),
        );
        let names = block_on(names)?;
        Ok((names.items.into_iter().map(|item| item.name.into()).collect(), names.next))
    })
}

fn transfers(fixture: &RegistryFixture, caller: &Caller) -> (Vec<String>, usize) {
    read_all(|after| {
        let mut budget = request_budget();
        let transfers =
            fixture.registry.list_transfers(after, 1_000, CallContext::new(caller, NOW, &mut budget));
        let ResultPage { items, next } = block_on(transfers)?;
        Ok((items.into_iter().map(|item| item.transfer.id.into()).collect(), next))
    })
}

#[test]
fn names_under_foreign_prefixes() {
    let fixture = RegistryFixture::in_memory();
    let transferred: Vec<Box<str>> =
        (0..1_200).map(|number| format!("{PREFIX_A1}/transferred-{number:04}").into()).collect();
    for (number, name) in transferred.iter().enumerate() {
        let line = batch_line(1, request(name, "https://a/"));
        let outcomes = fixture.batch(&[line], &Caller::Operator);
        assert!(outcomes[0].result.is_ok(), "{number}");
    }
    let id =
        fixture.transfer(TransferSubject::Names(transferred.clone()), "B1", true, &Caller::Operator).unwrap();
    let (mut found, pages) = names(&fixture, None, Some(&fixture.id("B1")), &Caller::Anonymous);
    found.sort();
    assert!(found.iter().map(|name| &**name).eq(transferred.iter().map(|name| &**name)));
    assert!(pages > 1, "all of them exceed the budget of one request");
    // The list has only the first names of a transfer; the transfer has all.
    let mut budget = request_budget();
    let items = block_on(fixture.registry.list_transfers(
        None,
        10,
        CallContext::new(&fixture.caller('3'), NOW, &mut budget),
    ))
    .unwrap()
    .items;
    let item = items.iter().find(|item| item.transfer.id == id).unwrap();
    assert_eq!(
        (&item.transfer.subject, item.count),
        (&TransferSubject::Names(transferred[..10].to_vec()), Some(transferred.len()))
    );
    let complete = block_on(
        fixture
            .registry
            .get_transfer(&id, CallContext::new(&fixture.caller('3'), NOW, &mut request_budget())),
    )
    .unwrap();
    assert_eq!(complete.value.subject, TransferSubject::Names(transferred));
}

#[test]
fn own_transfers_among_many() {
    let fixture = RegistryFixture::in_memory();
    let before = transfers(&fixture, &fixture.caller('3')).0;
    let own =
        fixture.transfer(TransferSubject::Prefix(PREFIX_A1.into()), "B1", false, &Caller::Operator).unwrap();
    let mut transfer = registration(&fixture, &format!("0.TENDOT/transfer/{own}"));
    let others = (0..3_000).map(|number| {
        // Sorted before and after the own one.
        let id = format!("{}{number:05}", if number % 2 == 0 { "000" } else { "zzz" });
        transfer["id"] = json!(id);
        transfer["to"] = json!(format!("t{number}"));
        transfer["from"] = json!([format!("f{number}")]);
        (format!("0.TENDOT/transfer/{id}"), transfer.clone())
    });
    fill(&fixture, others);
    for (letter, needs_lookups) in [('3', false), ('B', true), ('k', true), ('O', false)] {
        let (found, pages) = transfers(&fixture, &fixture.caller(letter));
        let found: Vec<&String> = found.iter().filter(|id| !before.contains(id)).collect();
        match letter {
            'O' => assert!(found.len() > 3_000),
            _ => {
                assert!(found.contains(&&String::from(own.clone())) && found.len() < 5, "{letter} {found:?}");
            }
        }
        // Visibility for an agency or a key needs lookups; for a registrant's token it does not.
        assert_eq!(pages > 4, needs_lookups, "{letter} {pages}");
    }
}

/// Pages hold few large objects, or many small ones.
#[test]
fn pages_are_bounded_in_bytes() {
    let fixture = RegistryFixture::in_memory();
    let id =
        fixture.transfer(TransferSubject::Prefix(PREFIX_A1.into()), "B1", false, &Caller::Operator).unwrap();
    let mut transfer = registration(&fixture, &format!("0.TENDOT/transfer/{id}"));
    transfer.as_object_mut().unwrap().remove("prefix");
    transfer["names"] = json!(vec![format!("{PREFIX_A1}/{}", "x".repeat(90)); 10_000]);
    let large = (0..20).map(|number| {
        transfer["id"] = json!(format!("large{number:02}"));
        (format!("0.TENDOT/transfer/large{number:02}"), transfer.clone())
    });
    fill(&fixture, large);
    let (found, pages) = transfers(&fixture, &Caller::Operator);
    assert_eq!(found.iter().filter(|id| id.starts_with("large")).count(), 20);
    assert_eq!(pages, 3, "of 8 MiB each");
    let metadata = json!({"x": "x".repeat(100_000)});
    let mut large = registration(&fixture, "10.71000/x");
    large["metadata"] = metadata;
    fill(&fixture, (0..200).map(|number| (format!("{PREFIX_B1}/large-{number}"), large.clone())));
    let (found, pages) = names(&fixture, Some(PREFIX_B1), None, &Caller::Anonymous);
    assert_eq!((found.len(), pages), (200, 3));
}

/// Few matches among many other records.
#[test]
fn sparse_matches() {
    const PAGE_RECORDS: usize = 10_000;
    let other_records = repetitions("TENDOT_TEST_OTHER_RECORDS", 11_000, 25_000) as usize;
    let pages_without_match = other_records / PAGE_RECORDS;
    let fixture = RegistryFixture::in_memory();
    let registrant = registration(&fixture, &format!("0.TENDOT/registrant/{}", fixture.id("B1")));
    fill(
        &fixture,
        (0..other_records).map(|number| (format!("0.TENDOT/registrant/0{number:06}"), registrant.clone())),
    );
    let (found, pages) = read_all(|after| {
        let mut budget = request_budget();
        let list = fixture.registry.list_registrants(
            Some("ALPHA"),
            after,
            10,
            CallContext::new(&Caller::Anonymous, NOW, &mut budget),
        );
        let ResultPage { items, next } = block_on(list)?;
        Ok((items.into_iter().map(|versioned| versioned.value.name.into()).collect(), next))
    });
    assert_eq!((found.len(), pages), (2, pages_without_match + 1));
    let token = registration(&fixture, &format!("0.TENDOT/token/{}", fixture.token_id('B')));
    fill(&fixture, (0..other_records).map(|number| (format!("0.TENDOT/token/0{number:06}"), token.clone())));
    let (found, pages) = read_all(|after| {
        let mut budget = request_budget();
        let caller = fixture.caller('A');
        let tokens = fixture.registry.list_tokens(after, 10, CallContext::new(&caller, NOW, &mut budget));
        let ResultPage { items, next } = block_on(tokens)?;
        Ok((items.into_iter().map(|versioned| versioned.value.id.into()).collect(), next))
    });
    assert!(found.contains(&fixture.token_id('1').into()) && !found.contains(&fixture.token_id('3').into()));
    assert_eq!(pages, pages_without_match + found.len().div_ceil(10), "{found:?}");
    // Prefixes of another registrant.
    let prefix = registration(&fixture, &format!("0.NA/{PREFIX_B1}"));
    let other_prefixes = (0..other_records).map(|number| {
        let (name, mut prefix) = (format!("10.1{number:06}"), prefix.clone());
        prefix["prefix"] = json!(name);
        (format!("0.NA/{name}"), prefix)
    });
    fill(&fixture, other_prefixes);
    let prefixes = |registrant: Option<&str>, agency: Option<&str>| {
        read_all(|after| {
            let ResultPage { items, next } = block_on(fixture.registry.list_prefixes(
                registrant,
                agency,
                after,
                10,
                &mut request_budget(),
            ))?;
            Ok((items.into_iter().map(|versioned| versioned.value.prefix.into()).collect(), next))
        })
    };
    assert_eq!(prefixes(Some("unknown"), None), (vec![], pages_without_match + 1));
    assert_eq!(prefixes(None, Some("unknown")), (vec![], pages_without_match + 1));
    assert_eq!(
        prefixes(Some(&fixture.id("A1")), None),
        (vec![PREFIX_A1.into(), PREFIX_A1_OTHER.into()], pages_without_match + 1)
    );
}

//! What has to be true of a registry at any time.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;
use tendot_proto::record::{Admin, ValueList};
use tendot_registry::{Caller, Registry};
use tendot_store::{Entry, Key, State, Store};
use tendot_testing::block_on;

use super::{NOW, work};

/// Everything fits together: agencies, registrants, prefixes, their records, names that were given away and where that is
/// noted. Told is the number of names.
#[track_caller]
pub fn check_whole<S: Store>(registry: &Registry<S>) -> usize {
    let operator = &Caller::Operator;
    let (agencies, _) = block_on(registry.agencies(None, 1_000, &mut work())).unwrap();
    let ended: BTreeSet<_> =
        agencies.iter().filter(|held| held.it.ended.is_some()).map(|held| held.it.code.clone()).collect();
    let mut paid = work();
    let registrants = registry.registrants(None, None, 10_000, operator, NOW, &mut paid);
    let (registrants, _) = block_on(registrants).unwrap();
    let registrants: BTreeMap<_, _> =
        registrants.into_iter().map(|held| (held.it.id.clone(), held.it)).collect();
    for registrant in registrants.values() {
        assert!(!ended.contains(&registrant.agency), "{registrant:?} is with an agency that has ended");
    }
    let (prefixes, _) = block_on(registry.prefixes(None, None, None, 10_000, &mut work())).unwrap();
    let mut noted = BTreeSet::new();
    for (key, name) in block_on(registry.store().notes(b"owned/", None, 1_000_000)).unwrap() {
        let registrant = String::from_utf8(key.to_vec()).unwrap().split('/').nth(1).unwrap().to_owned();
        noted.insert((registrant, String::from_utf8(name.to_vec()).unwrap()));
    }
    let (mut owned, mut names) = (BTreeSet::new(), 0);
    for held in prefixes {
        let prefix = held.it;
        let holder = &registrants[&prefix.registrant];
        assert_eq!(holder.agency, prefix.agency, "{prefix:?}");
        let record = get(registry.store(), &format!("0.NA/{}", prefix.prefix)).unwrap();
        assert_eq!(group(&record, 200), holder.admins, "{prefix:?}");
        let mut entries = Vec::new();
        block_on(registry.store().visit(Some(prefix.prefix.as_bytes()), None, |entry| {
            entries.push(entry.clone());
            true
        }))
        .unwrap();
        for entry in entries {
            names += 1;
            if entry.registration.is_empty() {
                continue;
            }
            let deposit: Json = serde_json::from_slice(&entry.registration).unwrap();
            let owner = deposit["owner"].as_str().unwrap_or(&prefix.registrant);
            if let Some(owner) = deposit["owner"].as_str() {
                owned.insert((owner.to_owned(), entry.name.to_string()));
            }
            let admin = entry.values.iter().find(|value| value.index == 100).unwrap();
            let reference = Admin::from_bytes(&admin.data).unwrap().reference;
            assert_eq!(reference.handle().to_string(), format!("0.NA/{}", prefix.prefix));
            // What was ended stays as it was.
            if entry.state == State::Live {
                let members = group(&record, reference.index);
                assert_eq!(members, registrants[owner].admins, "{} is of {owner}", entry.name);
            }
        }
    }
    assert_eq!(noted, owned, "what is noted, and what is so");
    names
}

fn get(store: &impl Store, name: &str) -> Option<Entry> {
    block_on(store.get(&Key::new(name).unwrap())).unwrap()
}

fn group(record: &Entry, index: u32) -> Vec<Box<str>> {
    let value = record.values.iter().find(|value| value.index == index).unwrap();
    let list = ValueList::from_bytes(&value.data).unwrap();
    list.members.iter().map(|member| member.to_string().into()).collect()
}

//! Parties, and names that they have registered, reserved and ended.

#![allow(dead_code, reason = "each file of tests uses its own part")]

use std::sync::atomic::{AtomicU8, Ordering};

use tendot_proto::Work;
use tendot_registry::doi::{Draft, NameChange, NameEnd, NewName};
use tendot_registry::party::{NewAgency, NewPrefix, NewRegistrant, Policy};
use tendot_registry::transfer::{NewTransfer, What};
use tendot_registry::{Caller, Registry, Task};
use tendot_store::Store;

/// When the first of it was done; each further thing is a day later.
pub(crate) const BEGIN: u64 = 1_700_000_000_000;
pub(crate) const DAY: u64 = 86_400_000;

/// Kernel metadata with a title.
pub(crate) fn metadata(title: &str) -> String {
    format!(
        r#"{{"primaryReferentType":"Creation","referentCreation":{{"name":[{{"value":"{title}","type":"Title","primaryLanguage":"en"}}],"structuralType":"Digital","mode":["Visual"],"character":["Language"],"type":["Article"],"principalAgent":[{{"name":{{"value":"Bak, Per","type":"Name"}},"role":"Author"}},{{"name":{{"value":"Tang, Chao","type":"Name"}},"role":"Author"}}]}}}}"#
    )
}

/// Who made it all, and for whom.
pub(crate) struct Parties {
    pub(crate) first: Box<str>,
    pub(crate) second: Box<str>,
    done: AtomicU8,
}

impl Parties {
    /// Agencies ALPHA and BETA with a registrant each; the first has the prefix 10.70000, and under it names: PAPER has
    /// metadata, PLAIN has none, SECRET is reserved, and GONE was ended.
    pub(crate) async fn new<S: Store>(registry: &Registry<S>) -> Self {
        let mut parties = Self { first: "".into(), second: "".into(), done: AtomicU8::new(0) };
        for (code, name) in [("ALPHA", "Alpha Agency"), ("BETA", "Beta Agency")] {
            let agency = NewAgency {
                code: code.into(),
                name: name.into(),
                metadata: Default::default(),
                range: None,
                locations: None,
            };
            parties.carry_out(registry, &agency).await;
        }
        parties.first = parties.register(registry, "ALPHA", "First Press").await;
        parties.second = parties.register(registry, "BETA", "Second House").await;
        let prefix = NewPrefix {
            registrant: parties.first.clone(),
            prefix: Some("10.70000".into()),
            test: false,
            policy: Policy::default(),
        };
        parties.carry_out(registry, &prefix).await;
        parties.deposit(registry, "10.70000/PAPER", Some("Self-organized criticality"), "registered").await;
        parties.deposit(registry, "10.70000/PLAIN", None, "registered").await;
        parties.deposit(registry, "10.70000/SECRET", Some("Not told yet"), "reserved").await;
        parties.deposit(registry, "10.70000/GONE", Some("What was"), "registered").await;
        parties.end(registry, "10.70000/GONE").await;
        parties
    }

    async fn register<S: Store>(&self, registry: &Registry<S>, agency: &str, name: &str) -> Box<str> {
        let registrant = NewRegistrant {
            agency: Some(agency.into()),
            name: name.into(),
            contact: None,
            admins: Vec::new(),
            random: [self.done.load(Ordering::Relaxed) + 1; 16],
        };
        self.carry_out(registry, &registrant).await.id
    }

    pub(crate) async fn deposit<S: Store>(
        &self,
        registry: &Registry<S>,
        name: &str,
        title: Option<&str>,
        state: &str,
    ) {
        let metadata = title.map_or_else(|| "null".to_owned(), metadata);
        let url = format!("https://example.org/{}", name.to_lowercase());
        let json = format!(r#"{{"name":"{name}","url":"{url}","metadata":{metadata},"state":"{state}"}}"#);
        let draft = Draft::from_json(json.as_bytes()).unwrap();
        self.carry_out(registry, &NewName { draft, random: [0; 16] }).await;
    }

    pub(crate) async fn change<S: Store>(&self, registry: &Registry<S>, name: &str, json: &str) {
        let draft = Draft::from_json(json.as_bytes()).unwrap();
        self.carry_out(registry, &NameChange { name: name.into(), draft, expect: None }).await;
    }

    pub(crate) async fn end<S: Store>(&self, registry: &Registry<S>, name: &str) {
        self.carry_out(registry, &NameEnd { name: name.into(), expect: None }).await;
    }

    pub(crate) async fn transfer<S: Store>(&self, registry: &Registry<S>, what: What, to: &str) {
        let random = [self.done.load(Ordering::Relaxed) + 100; 16];
        self.carry_out(registry, &NewTransfer { what, to: to.into(), force: true, random }).await;
    }

    async fn carry_out<S: Store, T: Task>(&self, registry: &Registry<S>, task: &T) -> T::Done {
        let at = BEGIN + DAY * u64::from(self.done.fetch_add(1, Ordering::Relaxed));
        let carried = registry.carry_out(task, &Caller::Operator, at, &mut Work::new(100_000)).await;
        carried.unwrap_or_else(|refusal| panic!("{refusal:?}")).done
    }
}

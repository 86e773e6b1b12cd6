//! Fixtures of the registry: agencies and registrants with registered, reserved and retired names, created without a server.

use std::sync::atomic::{AtomicU8, Ordering};

use tendot_proto::Budget;
use tendot_registry::party::{AllocatePrefix, CreateAgency, CreateRegistrant, MetadataPolicy, PrefixPolicy};
use tendot_registry::registration::{RegisterDoi, RegistrationRequest, RetireDoi, UpdateDoi};
use tendot_registry::transfer::{ProposeTransfer, TransferSubject};
use tendot_registry::{CallContext, Caller, Command, Registry};

/// Time of the first command; each further command is a day later.
const FIRST_COMMAND_AT_MS: u64 = 1_700_000_000_000;
const DAY_MS: u64 = 86_400_000;

/// Kernel metadata with a title.
pub(crate) fn kernel_metadata(title: &str) -> String {
    format!(
        r#"{{"primaryReferentType":"Creation","referentCreation":{{"name":[{{"value":"{title}","type":"Title","primaryLanguage":"en"}}],"structuralType":"Digital","mode":["Visual"],"character":["Language"],"type":["Article"],"principalAgent":[{{"name":{{"value":"Bak, Per","type":"Name"}},"role":"Author"}},{{"name":{{"value":"Tang, Chao","type":"Name"}},"role":"Author"}}]}}}}"#
    )
}

/// Two registrants, of which the first has a prefix with names.
pub(crate) struct PartyFixtures {
    /// Id of the first registrant.
    pub(crate) first: Box<str>,
    /// Id of the second registrant.
    pub(crate) second: Box<str>,
    executed: AtomicU8,
}

impl PartyFixtures {
    /// Creates agencies ALPHA and BETA with a registrant each. The first registrant has the prefix 10.70000 with the names
    /// PAPER, which has metadata, PLAIN, which has none, SECRET, which is reserved, and GONE, which is retired.
    pub(crate) async fn create(registry: &Registry) -> Self {
        let mut parties = Self { first: "".into(), second: "".into(), executed: AtomicU8::new(0) };
        for (code, name) in [("ALPHA", "Alpha Agency"), ("BETA", "Beta Agency")] {
            let agency = CreateAgency {
                code: code.into(),
                name: name.into(),
                metadata_policy: MetadataPolicy::Optional,
                prefix_range: None,
                locations: None,
            };
            parties.execute(registry, &agency).await;
        }
        parties.first = parties.add_registrant(registry, "ALPHA", "First Press").await;
        parties.second = parties.add_registrant(registry, "BETA", "Second House").await;
        let prefix = AllocatePrefix {
            registrant: parties.first.clone(),
            prefix: Some("10.70000".into()),
            is_test: false,
            policy: PrefixPolicy::default(),
        };
        parties.execute(registry, &prefix).await;
        parties.register(registry, "10.70000/PAPER", Some("Self-organized criticality"), "registered").await;
        parties.register(registry, "10.70000/PLAIN", None, "registered").await;
        parties.register(registry, "10.70000/SECRET", Some("Unpublished title"), "reserved").await;
        parties.register(registry, "10.70000/GONE", Some("What was"), "registered").await;
        parties.retire(registry, "10.70000/GONE").await;
        parties
    }

    async fn add_registrant(&self, registry: &Registry, agency: &str, name: &str) -> Box<str> {
        let registrant = CreateRegistrant {
            agency: Some(agency.into()),
            name: name.into(),
            contact: None,
            admins: Vec::new(),
            random_bytes: [self.executed.load(Ordering::Relaxed) + 1; 16],
        };
        self.execute(registry, &registrant).await.id
    }

    pub(crate) async fn register(&self, registry: &Registry, name: &str, title: Option<&str>, state: &str) {
        let metadata = title.map_or_else(|| "null".to_owned(), kernel_metadata);
        let url = format!("https://example.org/{}", name.to_lowercase());
        let json = format!(r#"{{"name":"{name}","url":"{url}","metadata":{metadata},"state":"{state}"}}"#);
        let request = RegistrationRequest::from_json(json.as_bytes()).unwrap();
        self.execute(registry, &RegisterDoi { request, random_bytes: [0; 16] }).await;
    }

    pub(crate) async fn update(&self, registry: &Registry, name: &str, json: &str) {
        let request = RegistrationRequest::from_json(json.as_bytes()).unwrap();
        self.execute(registry, &UpdateDoi { name: name.into(), request, expected_revision: None }).await;
    }

    pub(crate) async fn retire(&self, registry: &Registry, name: &str) {
        self.execute(registry, &RetireDoi { name: name.into(), expected_revision: None }).await;
    }

    pub(crate) async fn transfer(&self, registry: &Registry, subject: TransferSubject, to: &str) {
        let random_bytes = [self.executed.load(Ordering::Relaxed) + 100; 16];
        self.execute(registry, &ProposeTransfer { subject, to: to.into(), force: true, random_bytes }).await;
    }

    async fn execute<T: Command>(&self, registry: &Registry, command: &T) -> T::Output {
        let now_ms = FIRST_COMMAND_AT_MS + DAY_MS * u64::from(self.executed.fetch_add(1, Ordering::Relaxed));
        let outcome = registry
            .execute(command, CallContext::new(&Caller::Operator, now_ms, &mut Budget::new(100_000)))
            .await;
        outcome.unwrap_or_else(|error| panic!("{error:?}")).output
    }
}

//! Model test: random commands by random callers have the outcomes of a model that consists of a few maps.

#![allow(clippy::print_stdout, reason = "the seed is needed when a test fails")]

mod check;
mod keys;
mod names;
mod parties;

use std::collections::{BTreeMap, BTreeSet};

use tendot_proto::{Handle, HandleValue};
use tendot_registry::party::{
    AllocatePrefix, CreateAgency, CreateRegistrant, CreateToken, PrefixPolicy, RevokeToken, Role, Scope,
    UpdatePrefix, UpdateRegistrant,
};
use tendot_registry::registration::{
    DoiFilter, DoiStatus, RegisterDoi, RegistrationRequest, RegistrationState, RetireDoi, UpdateDoi,
};
use tendot_registry::transfer::{DecideTransfer, ProposeTransfer, TransferState, TransferSubject};
use tendot_registry::{
    CallContext, Caller, Command, Error, HandleWrite, RegistryError, RegistrySettings, Resolution,
    ResolveQuery,
};
use tendot_store::AnyStore;
use tendot_testing::{SeededRng, block_on, repetitions};

use crate::fixtures::check_invariants;
use crate::fixtures::registry_fixture::{
    admin_value, batch_group, batch_line, budget, key_caller, outcome_letter, request, request_from_json,
};
use crate::support::stores::empty_store;
use crate::support::{StoreKind, TestRegistry, store_tests};

store_tests!(memory, embedded, postgres => { random_commands });

/// Time of the first command.
const START_MS: u64 = 1_700_000_000_000;

/// Quota of the second prefix.
const QUOTA: usize = 40;

/// `TENDOT_TEST_SEED` selects another sequence of commands.
fn random_commands(kind: StoreKind) {
    let (ordinary, full) = match kind {
        StoreKind::Memory => (10_000, 100_000),
        StoreKind::Embedded => (3_000, 10_000),
        StoreKind::Postgres => (1_500, 5_000),
    };
    let steps = repetitions("TENDOT_TEST_MODEL_STEPS", ordinary, full);
    let from_env = std::env::var("TENDOT_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    // A fixed seed, so that no run fails by chance.
    let seed = from_env.unwrap_or(7);
    println!("TENDOT_TEST_SEED={seed}");
    let (store, _directory) = empty_store(kind);
    let mut model = RegistryModel::new(store, seed);
    for step in 0..steps {
        model.now = START_MS + step * 500;
        model.step(step);
        if step % (steps / 5) == steps / 5 - 1 {
            model.check_against_model();
        }
    }
    for (outcome, times) in &model.outcomes {
        println!("{outcome} {times}");
    }
    let all = [
        "register",
        "update",
        "retire",
        "batch",
        "handle write",
        "key write",
        "transfer",
        "decide",
        "admins",
        "token",
        "agency closed",
    ];
    let has_succeeded = |command: &&str| model.outcomes.contains_key(&format!("{command} +"));
    assert!(all.iter().all(has_succeeded), "{:?}", model.outcomes);
}

/// Caller of a command.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum ModelActor {
    Anonymous,
    Operator,
    Agency(String),
    Registrant(Box<str>),
    /// Handle key, which may be a key of a registrant.
    Key(String),
    /// Token of a registrant with some scopes, a prefix or an expiry, see [`RegistryModel::restricted`].
    Restricted(Box<str>),
}

#[derive(Clone, Debug)]
struct ModelName {
    spelling: String,
    state: DoiStatus,
    /// Owner, if it is not the holder of the prefix.
    owner: Option<Box<str>>,
    url: String,
    /// Secret at index 300.
    secret: Option<String>,
}

#[derive(Clone, Debug)]
struct ModelTransfer {
    subject: TransferSubject,
    from: BTreeSet<Box<str>>,
    to: Box<str>,
    proposed_by: ModelActor,
    /// Id of the proposer's token.
    token: Option<Box<str>>,
    state: TransferState,
}

#[derive(Clone, Debug)]
struct ModelRegistrant {
    agency: String,
    keys: BTreeSet<String>,
}

#[derive(Clone, Debug)]
struct ModelPrefix {
    holder: Box<str>,
    is_test: bool,
}

struct RegistryModel {
    registry: TestRegistry,
    rng: SeededRng,
    now: u64,
    /// Codes, and whether the agency is closed.
    agencies: BTreeMap<String, bool>,
    registrants: BTreeMap<Box<str>, ModelRegistrant>,
    prefixes: BTreeMap<String, ModelPrefix>,
    names: BTreeMap<String, ModelName>,
    transfers: BTreeMap<Box<str>, ModelTransfer>,
    /// Tokens, and whether they are valid.
    tokens: BTreeMap<ModelActor, (Caller, Box<str>, bool)>,
    /// The last restricted token.
    restricted: Caller,
    outcomes: BTreeMap<String, u64>,
    limited_prefix: String,
}

type Expected = Result<(), char>;

impl RegistryModel {
    fn new(store: AnyStore, seed: u64) -> Self {
        let mut model = Self {
            registry: TestRegistry::new(store, RegistrySettings::default()),
            rng: SeededRng::new(seed),
            now: START_MS,
            agencies: BTreeMap::new(),
            registrants: BTreeMap::new(),
            prefixes: BTreeMap::new(),
            names: BTreeMap::new(),
            transfers: BTreeMap::new(),
            tokens: BTreeMap::new(),
            restricted: Caller::Anonymous,
            outcomes: BTreeMap::new(),
            limited_prefix: String::new(),
        };
        for number in 0..3 {
            model.new_agency(number);
        }
        for number in 0..8 {
            let agency = format!("agency{}", number % 3);
            let keys = BTreeSet::from([format!("300:10.9/key{number}")]);
            let admins = keys.iter().map(|key| key.as_str().into()).collect();
            let random_bytes = model.rng.bytes();
            let (name, contact) = (format!("Registrant {number}").into(), None);
            let new = CreateRegistrant {
                agency: Some(agency.as_str().into()),
                name,
                contact,
                admins,
                random_bytes,
            };
            let created = model.execute_as_operator(&new);
            model.registrants.insert(created.id.clone(), ModelRegistrant { agency, keys });
            model.new_token(ModelActor::Registrant(created.id));
        }
        for number in 0..6 {
            model.new_prefix(number == 2);
        }
        let policy = Some(PrefixPolicy { quota: Some(QUOTA as u64), ..PrefixPolicy::default() });
        model.limited_prefix = model.prefixes.keys().nth(1).unwrap().clone();
        model.execute_as_operator(&UpdatePrefix {
            prefix: model.limited_prefix.as_str().into(),
            policy,
            expected_revision: None,
        });
        model
    }

    fn execute_as<T: Command>(&self, command: &T, actor: &ModelActor) -> Result<T::Output, RegistryError> {
        let caller = self.caller(actor);
        let outcome =
            block_on(self.registry.execute(command, CallContext::new(&caller, self.now, &mut budget())));
        outcome.map(|outcome| outcome.output)
    }

    #[track_caller]
    fn execute_as_operator<T: Command>(&self, command: &T) -> T::Output {
        self.execute_as(command, &ModelActor::Operator).unwrap_or_else(|error| panic!("{error:?}"))
    }

    fn new_agency(&mut self, number: usize) {
        let code = format!("agency{number}");
        let new = format!(r#"{{"code": "{code}", "name": "An agency", "metadata": "optional"}}"#);
        self.execute_as_operator(&serde_json::from_str::<CreateAgency>(&new).unwrap());
        self.agencies.insert(code.clone(), false);
        self.new_token(ModelActor::Agency(code));
    }

    fn new_prefix(&mut self, is_test: bool) {
        let ids: Vec<_> = self.registrants.keys().cloned().collect();
        let registrant = self.rng.pick(&ids).clone();
        let new = AllocatePrefix {
            registrant: registrant.clone(),
            prefix: None,
            is_test,
            policy: PrefixPolicy::default(),
        };
        let created = self.execute_as_operator(&new);
        self.prefixes.insert(created.prefix.to_string(), ModelPrefix { holder: registrant, is_test });
    }

    fn new_token(&mut self, actor: ModelActor) {
        let (role, subject) = match &actor {
            ModelActor::Agency(code) => (Role::Agency, code.as_str().into()),
            ModelActor::Registrant(id) => (Role::Registrant, id.clone()),
            _ => return,
        };
        let random_bytes = self.rng.bytes();
        let (scopes, prefixes, expires_ms, label) = (None, Vec::new(), None, None);
        let new =
            CreateToken { role, subject: Some(subject), scopes, prefixes, expires_ms, label, random_bytes };
        let created = self.execute_as_operator(&new);
        let caller =
            block_on(self.registry.authenticate_token(&new.plaintext(), self.now, &mut budget())).unwrap();
        self.tokens.insert(actor, (Caller::Token(caller.unwrap()), created.id, true));
    }

    fn caller(&self, actor: &ModelActor) -> Caller {
        match actor {
            ModelActor::Anonymous => Caller::Anonymous,
            ModelActor::Operator => Caller::Operator,
            ModelActor::Key(identity) => key_caller(identity),
            ModelActor::Restricted(_) => self.restricted.clone(),
            token => self.tokens[token].0.clone(),
        }
    }

    /// Whether a caller is authenticated.
    fn authenticated(&self, actor: &ModelActor) -> Expected {
        let is_authenticated = match actor {
            ModelActor::Anonymous => false,
            ModelActor::Operator | ModelActor::Key(_) | ModelActor::Restricted(_) => true,
            ModelActor::Agency(code) => !self.agencies[code] && self.tokens[actor].2,
            ModelActor::Registrant(_) => self.tokens[actor].2,
        };
        if is_authenticated { Ok(()) } else { Err('?') }
    }

    fn may_act_for(&self, actor: &ModelActor, registrant: &str) -> bool {
        let member = &self.registrants[registrant];
        match actor {
            ModelActor::Anonymous => false,
            ModelActor::Operator => true,
            ModelActor::Agency(code) => *code == member.agency,
            ModelActor::Registrant(id) | ModelActor::Restricted(id) => **id == *registrant,
            ModelActor::Key(key) => member.keys.contains(key),
        }
    }

    fn owner(&self, prefix: &str, name: &ModelName) -> Box<str> {
        name.owner.clone().unwrap_or_else(|| self.prefixes[prefix].holder.clone())
    }

    fn step(&mut self, step: u64) {
        let actor = self.random_actor();
        let kind = self.rng.below(100);
        let (command, expected, found) = match kind {
            0..25 => self.register(step, &actor),
            25..40 => self.update(step, &actor),
            40..45 => self.retire(step, &actor),
            45..57 => self.batch(step, &actor),
            57..68 => self.handle_write(step, &actor),
            68..75 => self.key_write(step, actor.clone()),
            75..83 => self.transfer(step, &actor),
            83..93 => self.decide(&actor),
            93..96 => self.update_admins(&actor),
            96..98 => self.revoke_or_replace_token(&actor),
            _ => self.add_parties(step),
        };
        assert_eq!(found, expected, "step {step}: {command} by {actor:?}");
        *self.outcomes.entry(format!("{command} {found}")).or_default() += 1;
    }

    fn random_actor(&mut self) -> ModelActor {
        let members: Vec<_> = self.registrants.keys().cloned().collect();
        match self.rng.below(20) {
            0 => ModelActor::Anonymous,
            1..4 => ModelActor::Operator,
            4..9 => {
                let codes: Vec<_> = self.agencies.keys().cloned().collect();
                // Recent ones, of which most are not closed.
                let recent = &codes[codes.len().saturating_sub(4)..];
                ModelActor::Agency(self.rng.pick(recent).clone())
            }
            9..16 => ModelActor::Registrant(self.rng.pick(&members).clone()),
            _ => ModelActor::Key(format!("300:10.9/key{}", self.rng.below(10))),
        }
    }
}

fn expected_letter(expected: Expected) -> char {
    expected.err().unwrap_or('+')
}

fn expected_status(existing: Option<bool>) -> String {
    match existing {
        None => "created",
        Some(true) => "unchanged",
        Some(false) => "updated",
    }
    .into()
}

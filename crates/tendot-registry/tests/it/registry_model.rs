//! Model test: random commands by random callers have the outcomes of a model that consists of a few maps.

#![allow(clippy::print_stdout, reason = "the seed is needed when a test fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tendot_proto::{Handle, HandleValue, Now};
use tendot_registry::party::{
    AllocatePrefix, CreateAgency, CreateRegistrant, CreateToken, PrefixPolicy, RevokeToken, Role,
    UpdatePrefix, UpdateRegistrant,
};
use tendot_registry::registration::{
    DoiStatus, RegisterDoi, RegistrationRequest, RegistrationState, RetireDoi, UpdateDoi,
};
use tendot_registry::transfer::{DecideTransfer, ProposeTransfer, TransferState, TransferSubject};
use tendot_registry::{
    Caller, Command, Error, HandleWrite, Registry, RegistryError, RegistrySettings, Resolution, ResolveQuery,
};
use tendot_store::AnyStore;
use tendot_testing::{SeededRng, block_on, repetitions};

use crate::fixtures::check_invariants;
use crate::fixtures::registry_fixture::{
    admin_value, batch_line, budget, key_caller, outcome_letter, request, request_from_json,
};
use crate::support::stores::empty_store;
use crate::support::{StoreKind, store_tests};

store_tests!(memory, embedded, postgres => { random_commands });

/// Time of the first command.
const START_MS: u64 = 1_800_000_000_000;

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
}

#[derive(Clone, Debug)]
struct ModelName {
    spelling: String,
    state: DoiStatus,
    /// Owner, if it is not the holder of the prefix.
    owner: Option<Box<str>>,
    url: String,
}

#[derive(Clone, Debug)]
struct ModelTransfer {
    subject: TransferSubject,
    from: BTreeSet<Box<str>>,
    to: Box<str>,
    proposed_by: ModelActor,
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
    registry: Registry,
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
    outcomes: BTreeMap<String, u64>,
    limited_prefix: String,
}

type Expected = Result<(), char>;

impl RegistryModel {
    fn new(store: AnyStore, seed: u64) -> Self {
        let mut model = Self {
            registry: Registry::new(store, RegistrySettings::default()),
            rng: SeededRng::new(seed),
            now: START_MS,
            agencies: BTreeMap::new(),
            registrants: BTreeMap::new(),
            prefixes: BTreeMap::new(),
            names: BTreeMap::new(),
            transfers: BTreeMap::new(),
            tokens: BTreeMap::new(),
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
        let outcome = block_on(self.registry.execute(command, &caller, self.now, &mut budget()));
        outcome.map(|outcome| outcome.output)
    }

    #[track_caller]
    fn execute_as_operator<T: Command>(&self, command: &T) -> T::Output {
        self.execute_as(command, &ModelActor::Operator).unwrap_or_else(|error| panic!("{error:?}"))
    }

    fn new_agency(&mut self, number: usize) {
        let code = format!("agency{number}");
        let new = format!(r#"{{"code": "{code}", "name": "An agency"}}"#);
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
            token => self.tokens[token].0.clone(),
        }
    }

    /// Whether a caller is authenticated.
    fn authenticated(&self, actor: &ModelActor) -> Expected {
        let is_authenticated = match actor {
            ModelActor::Anonymous => false,
            ModelActor::Operator | ModelActor::Key(_) => true,
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
            ModelActor::Registrant(id) => **id == *registrant,
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
            57..75 => self.handle_write(step, &actor),
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

    /// A name of those that are used around this step, in either case.
    fn random_name(&mut self, step: u64) -> (String, String) {
        let prefixes: Vec<_> = self.prefixes.keys().cloned().collect();
        let prefix = match self.rng.below(50) {
            0 => "10.79999".to_owned(),
            _ => self.rng.pick(&prefixes).clone(),
        };
        let number = step / 100 + self.rng.below(20) as u64;
        let letters = if self.rng.below(2) == 0 { "name" } else { "NAME" };
        (prefix.clone(), format!("{prefix}/{letters}{number}"))
    }

    fn random_state(&mut self) -> (Option<RegistrationState>, DoiStatus) {
        if self.rng.below(4) == 0 {
            (request_from_json(r#"{"state": "reserved"}"#).state, DoiStatus::Reserved)
        } else {
            (None, DoiStatus::Registered)
        }
    }

    fn live_under(&self, prefix: &str) -> usize {
        let start = format!("{prefix}/");
        let under = self.names.range(start.clone()..).take_while(|(key, _)| key.starts_with(&start));
        under.filter(|(_, name)| name.state != DoiStatus::Retired).count()
    }

    fn has_quota_left(&self, prefix: &str) -> bool {
        prefix != self.limited_prefix || self.live_under(prefix) < QUOTA
    }

    fn may_register(&self, prefix: &str, name: &str, actor: &ModelActor) -> Expected {
        self.authenticated(actor)?;
        let holder = &self.prefixes.get(prefix).ok_or('0')?.holder;
        self.may_act_for(actor, holder).then_some(()).ok_or('-')?;
        if self.names.contains_key(&name.to_ascii_uppercase()) {
            return Err('c');
        }
        self.has_quota_left(prefix).then_some(()).ok_or('f')
    }

    fn insert(&mut self, name: &str, state: DoiStatus, url: &str) {
        let new = ModelName { spelling: name.into(), state, owner: None, url: url.into() };
        self.names.insert(name.to_ascii_uppercase(), new);
    }

    fn register(&mut self, step: u64, actor: &ModelActor) -> (&'static str, char, char) {
        let (prefix, name) = self.random_name(step);
        let url = format!("https://example.org/{step}");
        let (state, becomes) = self.random_state();
        let body = RegistrationRequest { state, ..request(&name, &url) };
        let found = self.execute_as(&RegisterDoi { request: body, random_bytes: [0; 16] }, actor);
        let expected = self.may_register(&prefix, &name, actor);
        if expected.is_ok() {
            self.insert(&name, becomes, &url);
        }
        ("register", expected_letter(expected), outcome_letter(&found))
    }

    fn may_update(&self, prefix: &str, name: &str, actor: &ModelActor) -> Expected {
        self.authenticated(actor)?;
        self.prefixes.get(prefix).ok_or('0')?;
        let name = self.names.get(&name.to_ascii_uppercase()).ok_or('0')?;
        let is_allowed = self.may_act_for(actor, &self.owner(prefix, name));
        match (name.state, is_allowed) {
            (DoiStatus::Reserved, false) => Err('0'),
            (_, false) => Err('-'),
            (DoiStatus::Retired, _) => Err('g'),
            _ => Ok(()),
        }
    }

    fn update(&mut self, step: u64, actor: &ModelActor) -> (&'static str, char, char) {
        let (prefix, name) = self.random_name(step);
        let url = format!("https://example.org/{step}");
        let state = request_from_json(r#"{"state": "registered"}"#).state;
        let state = if self.rng.below(2) == 0 { state } else { None };
        let body =
            RegistrationRequest { url: Some(url.as_str().into()), state, ..RegistrationRequest::default() };
        let found = self.execute_as(
            &UpdateDoi { name: name.as_str().into(), request: body, expected_revision: None },
            actor,
        );
        let expected = self.may_update(&prefix, &name, actor);
        if expected.is_ok() {
            let name = self.names.get_mut(&name.to_ascii_uppercase()).unwrap();
            name.url = url;
            if state.is_some() {
                name.state = DoiStatus::Registered;
            }
        }
        ("update", expected_letter(expected), outcome_letter(&found))
    }

    fn remove(&mut self, prefix: &str, name: &str) {
        let key = name.to_ascii_uppercase();
        if self.prefixes[prefix].is_test || self.names[&key].state == DoiStatus::Reserved {
            self.names.remove(&key);
        } else {
            self.names.get_mut(&key).unwrap().state = DoiStatus::Retired;
        }
    }

    fn retire(&mut self, step: u64, actor: &ModelActor) -> (&'static str, char, char) {
        let (prefix, name) = self.random_name(step);
        let found =
            self.execute_as(&RetireDoi { name: name.as_str().into(), expected_revision: None }, actor);
        let expected = self.may_update(&prefix, &name, actor);
        if expected.is_ok() {
            self.remove(&prefix, &name);
        }
        ("retire", expected_letter(expected), outcome_letter(&found))
    }

    fn batch(&mut self, step: u64, actor: &ModelActor) -> (&'static str, char, char) {
        let count = 1 + self.rng.below(5);
        let (mut lines, mut expected) = (Vec::new(), Vec::new());
        for number in 0..count {
            let (prefix, name) = self.random_name(step);
            let url = format!("https://example.org/{step}/{}", self.rng.below(3));
            let body = request(&name, &url);
            lines.push(batch_line(number as u64, body));
            expected.push(self.apply_line(&prefix, &name, &url, actor));
        }
        let outcomes =
            block_on(
                self.registry.execute_batch(&lines, &self.caller(actor), self.now, false, |_| Vec::new()),
            );
        for (outcome, expected) in outcomes.unwrap().iter().zip(&expected) {
            let found = match &outcome.result {
                Ok(status) => status.as_str().to_owned(),
                rejected => outcome_letter(rejected).to_string(),
            };
            assert_eq!(found, *expected, "step {step}: {outcome:?} by {actor:?}");
        }
        let all_applied = expected.iter().all(|text| text.len() > 1);
        ("batch", if all_applied { '+' } else { '.' }, if all_applied { '+' } else { '.' })
    }

    fn apply_line(&mut self, prefix: &str, name: &str, url: &str, actor: &ModelActor) -> String {
        let existing = self.names.get(&name.to_ascii_uppercase()).cloned();
        let outcome = |model: &Self| -> Result<&'static str, char> {
            model.authenticated(actor)?;
            let holder = &model.prefixes.get(prefix).ok_or('0')?.holder;
            let Some(existing) = &existing else {
                return model.may_register(prefix, name, actor).map(|()| "created");
            };
            let is_allowed = model.may_act_for(actor, &model.owner(prefix, existing));
            match existing.state {
                DoiStatus::Registered | DoiStatus::Reserved if is_allowed && existing.url == url => {
                    Ok("unchanged")
                }
                DoiStatus::Registered | DoiStatus::Reserved if is_allowed => Ok("updated"),
                DoiStatus::Registered => Err('-'),
                _ if is_allowed || model.may_act_for(actor, holder) => Err('c'),
                _ => Err('-'),
            }
        };
        match outcome(self) {
            Ok("created") => self.insert(name, DoiStatus::Registered, url),
            Ok("updated") => self.names.get_mut(&name.to_ascii_uppercase()).unwrap().url = url.into(),
            Ok(_) => {}
            Err(letter) => return letter.to_string(),
        }
        expected_status(existing.as_ref().map(|existing| existing.url == url))
    }

    /// A write by the Handle protocol.
    fn handle_write(&mut self, step: u64, actor: &ModelActor) -> (&'static str, char, char) {
        let (prefix, name) = self.random_name(step);
        let url = format!("https://example.org/{step}");
        let existing = self.names.get(&name.to_ascii_uppercase()).cloned();
        let value = || HandleValue::new(1, "URL", url.clone());
        let handle = Handle::from(&*name);
        let kind = self.rng.below(3);
        let write = match kind {
            0 => {
                let values = vec![value(), admin_value(100, &format!("200:0.NA/{prefix}"))];
                HandleWrite::Create { name: handle, values, overwrite: false, uuid_bytes: None, force: false }
            }
            1 => HandleWrite::ModifyValues { name: handle, values: vec![value()], force: false },
            _ => HandleWrite::Delete { name: handle, permanent: false },
        };
        let now = Now { elapsed: Duration::ZERO, unix: self.now / 1_000 };
        let found = block_on(self.registry.write(&write, &self.caller(actor), now, &mut budget()));
        let is_public = existing.as_ref().is_some_and(|existing| existing.state == DoiStatus::Registered);
        let expected = (|| {
            let holder = &self.prefixes.get(&prefix).ok_or('0')?.holder;
            if kind == 0 {
                match existing.as_ref().map(|existing| existing.state) {
                    Some(DoiStatus::Registered) => return Err('c'),
                    Some(DoiStatus::Retired) => return Err('g'),
                    _ => {}
                }
                self.authenticated(actor)?;
                if let Some(existing) = &existing {
                    // Only the owner learns that a reserved name is taken; keys have to be in the prefix record, too.
                    let is_key = matches!(actor, ModelActor::Key(_));
                    let may_know = self.may_act_for(actor, &self.owner(&prefix, existing))
                        && (!is_key || self.may_act_for(actor, holder));
                    return Err(if may_know { 'c' } else { '-' });
                }
                self.may_act_for(actor, holder).then_some(()).ok_or('-')?;
                return self.has_quota_left(&prefix).then_some(()).ok_or('f');
            }
            if kind == 1 && !is_public {
                return Err('0');
            }
            self.authenticated(actor)?;
            let existing = existing.as_ref().filter(|_| is_public).ok_or('0')?;
            self.may_act_for(actor, &self.owner(&prefix, existing)).then_some(()).ok_or('-')
        })();
        if expected.is_ok() {
            match kind {
                0 => self.insert(&name, DoiStatus::Registered, &url),
                1 => self.names.get_mut(&name.to_ascii_uppercase()).unwrap().url = url,
                _ => self.remove(&prefix, &name),
            }
        }
        ("handle write", expected_letter(expected), outcome_letter(&found.map_err(RegistryError::from)))
    }

    /// Current owners of the subject of a transfer.
    fn may_transfer(
        &self,
        subject: &TransferSubject,
        to: &str,
        actor: &ModelActor,
    ) -> Result<BTreeSet<Box<str>>, char> {
        let mut from = BTreeSet::new();
        match subject {
            TransferSubject::Names(names) => {
                let mut seen = BTreeSet::new();
                for transferred in names {
                    let (prefix, _) = transferred.split_once('/').unwrap();
                    self.prefixes.get(prefix).ok_or('!')?;
                    let name = self.names.get(&transferred.to_ascii_uppercase()).ok_or('!')?;
                    let owner = self.owner(prefix, name);
                    match (name.state, self.may_act_for(actor, &owner)) {
                        (DoiStatus::Reserved, false) => return Err('!'),
                        (_, false) => return Err('-'),
                        (DoiStatus::Retired, _) => return Err('!'),
                        _ if *owner == *to => return Err('c'),
                        _ => {}
                    }
                    seen.insert(transferred.to_ascii_uppercase()).then_some(()).ok_or('!')?;
                    from.insert(owner);
                }
            }
            TransferSubject::Prefix(prefix) => {
                let holder = &self.prefixes.get(&**prefix).ok_or('!')?.holder;
                self.may_act_for(actor, holder).then_some(()).ok_or('-')?;
                (**holder != *to).then_some(()).ok_or('c')?;
                from.insert(holder.clone());
            }
            TransferSubject::Agency(code) => {
                let is_own = *actor == ModelActor::Operator || *actor == ModelActor::Agency(code.to_string());
                is_own.then_some(()).ok_or('-')?;
                let is_valid = !self.agencies[&**code] && !self.agencies[to] && **code != *to;
                is_valid.then_some(()).ok_or('c')?;
                from.insert(code.clone());
            }
        }
        Ok(from)
    }

    fn apply_transfer(&mut self, subject: &TransferSubject, to: &str) {
        match subject {
            TransferSubject::Names(names) => {
                for transferred in names {
                    let (prefix, _) = transferred.split_once('/').unwrap();
                    let is_holder = *self.prefixes[prefix].holder == *to;
                    let name = self.names.get_mut(&transferred.to_ascii_uppercase()).unwrap();
                    name.owner = (!is_holder).then(|| to.into());
                }
            }
            TransferSubject::Prefix(prefix) => self.prefixes.get_mut(&**prefix).unwrap().holder = to.into(),
            TransferSubject::Agency(code) => {
                *self.agencies.get_mut(&**code).unwrap() = true;
                for member in self.registrants.values_mut().filter(|member| *member.agency == **code) {
                    member.agency = to.into();
                }
                *self.outcomes.entry("agency closed +".into()).or_default() += 1;
            }
        }
    }

    fn transfer(&mut self, step: u64, actor: &ModelActor) -> (&'static str, char, char) {
        let ids: Vec<_> = self.registrants.keys().cloned().collect();
        let codes: Vec<_> = self.agencies.keys().cloned().collect();
        let kind = self.rng.below(40);
        let (subject, to) = match kind {
            0 => {
                let recent = codes[codes.len().saturating_sub(4)..].to_vec();
                let code = self.rng.pick(&recent).as_str().into();
                (TransferSubject::Agency(code), self.rng.pick(&recent).as_str().into())
            }
            1..10 => {
                let prefixes: Vec<_> = self.prefixes.keys().cloned().collect();
                let prefix = self.rng.pick(&prefixes).as_str().into();
                (TransferSubject::Prefix(prefix), self.rng.pick(&ids).clone())
            }
            _ => {
                let count = 1 + self.rng.below(3);
                let names = (0..count).map(|_| self.random_name(step).1.into()).collect();
                (TransferSubject::Names(names), self.rng.pick(&ids).clone())
            }
        };
        let force = self.rng.below(4) == 0;
        let random_bytes = self.rng.bytes();
        let found = self.execute_as(
            &ProposeTransfer { subject: subject.clone(), to: to.clone(), force, random_bytes },
            actor,
        );
        let expected = self.authenticated(actor).and_then(|()| {
            (!force || *actor == ModelActor::Operator).then_some(()).ok_or('-')?;
            self.may_transfer(&subject, &to, actor)
        });
        if let (Ok(from), Ok(created)) = (&expected, &found) {
            let state = if force { TransferState::Completed } else { TransferState::Proposed };
            assert_eq!((created.state, created.from.iter().cloned().collect()), (state, from.clone()));
            if force {
                self.apply_transfer(&subject, &to);
            }
            let transfer =
                ModelTransfer { subject, from: from.clone(), to, proposed_by: actor.clone(), state };
            self.transfers.insert(created.id.clone(), transfer);
        }
        ("transfer", expected_letter(expected.map(drop)), outcome_letter(&found))
    }

    fn decide(&mut self, actor: &ModelActor) -> (&'static str, char, char) {
        let open: Vec<_> = self.transfers.keys().cloned().collect();
        if open.is_empty() {
            return ("decide", '.', '.');
        }
        let id = self.rng.pick(&open).clone();
        let accept = self.rng.below(4) > 0;
        let found = self.execute_as(&DecideTransfer { id: id.clone(), accept }, actor);
        let transfer = self.transfers[&id].clone();
        let expected = self.authenticated(actor).and_then(|()| {
            let is_agency =
                |code: &str| *actor == ModelActor::Operator || *actor == ModelActor::Agency(code.to_owned());
            let (gives, receives) = match &transfer.subject {
                TransferSubject::Agency(code) => (is_agency(code), is_agency(&transfer.to)),
                _ => {
                    let gives = transfer.from.iter().any(|from| self.may_act_for(actor, from));
                    (gives, self.may_act_for(actor, &transfer.to))
                }
            };
            (gives || receives).then_some(()).ok_or('0')?;
            match (transfer.state, accept) {
                (TransferState::Proposed, _) => {}
                (TransferState::Completed, true) | (TransferState::Declined, false) => return Ok(false),
                _ => return Err('c'),
            }
            (receives || !accept).then_some(()).ok_or('-')?;
            if accept {
                let from = self.may_transfer(&transfer.subject, &transfer.to, &transfer.proposed_by);
                let from = from.map_err(|letter| if letter == '-' { 'c' } else { letter })?;
                (from == transfer.from).then_some(()).ok_or('c')?;
            }
            Ok(true)
        });
        if expected == Ok(true) {
            if accept {
                self.apply_transfer(&transfer.subject, &transfer.to);
            }
            self.transfers.get_mut(&id).unwrap().state =
                if accept { TransferState::Completed } else { TransferState::Declined };
        }
        // Keeps the number of transfers small.
        if transfer.state != TransferState::Proposed {
            self.transfers.remove(&id);
        }
        ("decide", expected_letter(expected.map(drop)), outcome_letter(&found))
    }

    fn update_admins(&mut self, actor: &ModelActor) -> (&'static str, char, char) {
        let ids: Vec<_> = self.registrants.keys().cloned().collect();
        let id = self.rng.pick(&ids).clone();
        let count = self.rng.below(3);
        let keys: BTreeSet<_> = (0..count).map(|_| format!("300:10.9/key{}", self.rng.below(10))).collect();
        let admins = Some(keys.iter().map(|key| key.as_str().into()).collect());
        let found =
            self.execute_as(&UpdateRegistrant { id: id.clone(), admins, ..Default::default() }, actor);
        let expected =
            self.authenticated(actor).and_then(|()| self.may_act_for(actor, &id).then_some(()).ok_or('-'));
        if expected.is_ok() {
            self.registrants.get_mut(&id).unwrap().keys = keys;
        }
        ("admins", expected_letter(expected), outcome_letter(&found))
    }

    /// Revokes a token, or replaces a revoked one.
    fn revoke_or_replace_token(&mut self, actor: &ModelActor) -> (&'static str, char, char) {
        let owners: Vec<_> = self.tokens.keys().cloned().collect();
        let owner = self.rng.pick(&owners).clone();
        let (_, id, is_valid) = self.tokens[&owner].clone();
        if !is_valid {
            let is_closed = matches!(&owner, ModelActor::Agency(code) if self.agencies[code]);
            if !is_closed {
                self.new_token(owner);
            }
            return ("token", '+', '+');
        }
        let found = self.execute_as(&RevokeToken { id }, actor);
        let expected = self.authenticated(actor).and_then(|()| {
            let is_allowed = match &owner {
                ModelActor::Registrant(id) => self.may_act_for(actor, id),
                owner => *actor == ModelActor::Operator || actor == owner,
            };
            is_allowed.then_some(()).ok_or('0')
        });
        if expected.is_ok() {
            self.tokens.get_mut(&owner).unwrap().2 = false;
        }
        ("token", expected_letter(expected), outcome_letter(&found))
    }

    /// Creates agencies and prefixes if there are few.
    fn add_parties(&mut self, step: u64) -> (&'static str, char, char) {
        if self.agencies.values().filter(|is_closed| !**is_closed).count() < 3 {
            self.new_agency(self.agencies.len());
        }
        if self.prefixes.len() < 12 && step.is_multiple_of(7) {
            self.new_prefix(false);
        }
        ("parties", '+', '+')
    }

    /// Reads, resolves and lists all names, and compares them with the model.
    fn check_against_model(&self) {
        let operator = &Caller::Operator;
        let mut by_owner: BTreeMap<Box<str>, BTreeSet<String>> = BTreeMap::new();
        for name in self.names.values() {
            let (prefix, _) = name.spelling.split_once('/').unwrap();
            let owner = self.owner(prefix, name);
            let found = block_on(self.registry.get_doi(&name.spelling, operator, self.now, &mut budget()));
            let found = found.unwrap();
            let actual = (&*found.name, found.state, &*found.registrant, found.url().unwrap());
            assert_eq!(actual, (&*name.spelling, name.state, &*owner, &*name.url));
            assert_eq!(*found.agency, *self.registrants[&owner].agency);
            let query = ResolveQuery::new(Handle::from(&*name.spelling));
            let resolved = block_on(self.registry.resolve(&query, &Caller::Anonymous, &mut budget()));
            match (name.state, resolved) {
                (DoiStatus::Registered, Ok(Resolution::Values(values))) => {
                    assert_eq!(*values[0].data, *name.url.as_bytes(), "{name:?}");
                }
                (DoiStatus::Retired, Err(Error::Retired)) | (DoiStatus::Reserved, Err(Error::NotFound)) => {}
                (_, resolved) => panic!("{name:?}: {resolved:?}"),
            }
            by_owner.entry(owner).or_default().insert(name.spelling.clone());
        }
        for id in self.registrants.keys() {
            let found = self.list_names(None, Some(id));
            assert_eq!(found, by_owner.remove(id).unwrap_or_default(), "of {id}");
        }
        for prefix in self.prefixes.keys() {
            let start = format!("{prefix}/");
            let under = self.names.values().filter(|name| name.spelling.starts_with(&start));
            assert_eq!(
                self.list_names(Some(prefix), None),
                under.map(|name| name.spelling.clone()).collect()
            );
        }
        assert_eq!(self.list_names(None, None).len(), self.names.len());
        assert_eq!(check_invariants(&self.registry), self.names.len());
    }

    /// All names of a list, read in small pages.
    fn list_names(&self, prefix: Option<&str>, registrant: Option<&str>) -> BTreeSet<String> {
        let (mut all, mut next) = (BTreeSet::new(), None);
        loop {
            let mut budget = budget();
            let operator = &Caller::Operator;
            let after: Option<String> = next.take();
            let names = self.registry.list_dois(
                prefix,
                registrant,
                after.as_deref(),
                37,
                operator,
                self.now,
                &mut budget,
            );
            let names = block_on(names).unwrap();
            assert!(names.items.len() <= 37);
            for item in names.items {
                assert!(all.insert(item.name.to_string()), "duplicate {}", item.name);
            }
            next = names.next;
            if next.is_none() {
                return all;
            }
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

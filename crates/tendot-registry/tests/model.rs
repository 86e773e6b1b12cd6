//! Anything, by anybody, in any order: what comes of it is what a few maps say.

#![allow(clippy::print_stdout, reason = "the seed is told when a test fails")]

mod parties;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use parties::{admin, check_whole, deposit, key, letter, line, work};
use tendot_proto::{Handle, Now, Value};
use tendot_registry::doi::{Draft, NameChange, NameEnd, NameState, NewName};
use tendot_registry::party::{
    NewPrefix, NewRegistrant, NewToken, Policy, PrefixChange, RegistrantChange, Role, TokenEnd,
};
use tendot_registry::transfer::{NewTransfer, TransferDecision, TransferState, What};
use tendot_registry::{Caller, Error, Query, Refusal, Registry, Resolution, Settings, Task, Write};
use tendot_store::{Embedded, Memory, Store};
use tendot_testing::block_on;

/// When it begins.
const START: u64 = 1_800_000_000_000;

/// Names that there may be under the second prefix.
const QUOTA: usize = 40;

#[test]
fn in_memory() {
    run(Memory::new(), 100_000);
}

#[test]
fn on_disk() {
    let directory = tempfile::tempdir().unwrap();
    run(Embedded::open(directory.path()).unwrap(), 10_000);
}

#[test]
fn in_a_database() {
    run(parties::store::postgres(), 5_000);
}

/// `TENDOT_SEED=… cargo test -p tendot-registry --test model` does the same once more.
fn run(store: impl Store, steps: u64) {
    let given = std::env::var("TENDOT_SEED").ok().and_then(|seed| seed.parse().ok());
    // The same each time, unless told otherwise: nothing fails by chance.
    let seed = given.unwrap_or(7);
    println!("TENDOT_SEED={seed}");
    let mut world = World::new(store, seed);
    for step in 0..steps {
        world.now = START + step * 500;
        world.step(step);
        if step % (steps / 5) == steps / 5 - 1 {
            world.compare();
        }
    }
    for (done, times) in &world.times {
        println!("{done} {times}");
    }
    let all =
        ["put", "change", "end", "batch", "native", "give", "decide", "admins", "token", "agency ended"];
    assert!(all.iter().all(|done| world.times.get(&format!("{done} +")).is_some_and(|times| *times > 0)));
}

/// A number that nobody expects, the same for the same seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut next = self.0;
        next = (next ^ next >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        next = (next ^ next >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((next ^ next >> 31) % end as u64).unwrap()
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| u8::try_from(self.below(256)).unwrap())
    }
}

/// Who does something.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Actor {
    Nobody,
    Operator,
    Agency(String),
    Registrant(Box<str>),
    /// By the handle's key of a registrant, if it has it.
    Key(String),
}

#[derive(Clone, Debug)]
struct Name {
    spelled: String,
    state: NameState,
    /// Who has it, if it is not the one who has the prefix.
    owner: Option<Box<str>>,
    url: String,
}

#[derive(Clone, Debug)]
struct Given {
    what: What,
    from: BTreeSet<Box<str>>,
    to: Box<str>,
    by: Actor,
    state: TransferState,
}

#[derive(Clone, Debug)]
struct Member {
    agency: String,
    keys: BTreeSet<String>,
}

#[derive(Clone, Debug)]
struct Prefix {
    holder: Box<str>,
    test: bool,
}

struct World<S> {
    registry: Registry<S>,
    chance: Chance,
    now: u64,
    /// By code; none has ended.
    agencies: BTreeMap<String, bool>,
    registrants: BTreeMap<Box<str>, Member>,
    prefixes: BTreeMap<String, Prefix>,
    names: BTreeMap<String, Name>,
    transfers: BTreeMap<Box<str>, Given>,
    /// Tokens, and whether they are good.
    tokens: BTreeMap<Actor, (Caller, Box<str>, bool)>,
    times: BTreeMap<String, u64>,
    limited: String,
}

type Said = Result<(), char>;

impl<S: Store> World<S> {
    fn new(store: S, seed: u64) -> Self {
        let mut world = Self {
            registry: Registry::new(store, Settings::default()),
            chance: Chance(seed),
            now: START,
            agencies: BTreeMap::new(),
            registrants: BTreeMap::new(),
            prefixes: BTreeMap::new(),
            names: BTreeMap::new(),
            transfers: BTreeMap::new(),
            tokens: BTreeMap::new(),
            times: BTreeMap::new(),
            limited: String::new(),
        };
        for number in 0..3 {
            world.new_agency(number);
        }
        for number in 0..8 {
            let agency = format!("agency{}", number % 3);
            let keys = BTreeSet::from([format!("300:10.9/key{number}")]);
            let admins = keys.iter().map(|key| key.as_str().into()).collect();
            let random = world.chance.bytes();
            let (name, contact) = (format!("Registrant {number}").into(), None);
            let new = NewRegistrant { agency: Some(agency.as_str().into()), name, contact, admins, random };
            let made = world.done(&new);
            world.registrants.insert(made.id.clone(), Member { agency, keys });
            world.new_token(Actor::Registrant(made.id));
        }
        for number in 0..6 {
            world.new_prefix(number == 2);
        }
        let policy = Some(Policy { quota: Some(QUOTA as u64), ..Policy::default() });
        world.limited = world.prefixes.keys().nth(1).unwrap().clone();
        world.done(&PrefixChange { prefix: world.limited.as_str().into(), policy, expect: None });
        world
    }

    fn by<T: Task>(&self, task: &T, actor: &Actor) -> Result<T::Done, Refusal> {
        let caller = self.caller(actor);
        let carried = block_on(self.registry.carry_out(task, &caller, self.now, &mut work()));
        carried.map(|carried| carried.done)
    }

    #[track_caller]
    fn done<T: Task>(&self, task: &T) -> T::Done {
        self.by(task, &Actor::Operator).unwrap_or_else(|refusal| panic!("{refusal:?}"))
    }

    fn new_agency(&mut self, number: usize) {
        let code = format!("agency{number}");
        let new = format!(r#"{{"code": "{code}", "name": "An agency"}}"#);
        self.done(&serde_json::from_str::<tendot_registry::party::NewAgency>(&new).unwrap());
        self.agencies.insert(code.clone(), false);
        self.new_token(Actor::Agency(code));
    }

    fn new_prefix(&mut self, test: bool) {
        let ids: Vec<_> = self.registrants.keys().cloned().collect();
        let registrant = self.chance.of(&ids).clone();
        let new = NewPrefix { registrant: registrant.clone(), prefix: None, test, policy: Policy::default() };
        let made = self.done(&new);
        self.prefixes.insert(made.prefix.to_string(), Prefix { holder: registrant, test });
    }

    fn new_token(&mut self, actor: Actor) {
        let (role, subject) = match &actor {
            Actor::Agency(code) => (Role::Agency, code.as_str().into()),
            Actor::Registrant(id) => (Role::Registrant, id.clone()),
            _ => return,
        };
        let random = self.chance.bytes();
        let (scopes, prefixes, expires, label) = (None, Vec::new(), None, None);
        let new = NewToken { role, subject: Some(subject), scopes, prefixes, expires, label, random };
        let made = self.done(&new);
        let shown = block_on(self.registry.by_token(&new.text(), self.now, &mut work())).unwrap();
        self.tokens.insert(actor, (Caller::Token(shown.unwrap()), made.id, true));
    }

    fn caller(&self, actor: &Actor) -> Caller {
        match actor {
            Actor::Nobody => Caller::Anonymous,
            Actor::Operator => Caller::Operator,
            Actor::Key(written) => key(written),
            token => self.tokens[token].0.clone(),
        }
    }

    /// Whether somebody is who they say.
    fn known(&self, actor: &Actor) -> Said {
        let is_known = match actor {
            Actor::Nobody => false,
            Actor::Operator | Actor::Key(_) => true,
            Actor::Agency(code) => !self.agencies[code] && self.tokens[actor].2,
            Actor::Registrant(_) => self.tokens[actor].2,
        };
        if is_known { Ok(()) } else { Err('?') }
    }

    fn is_for(&self, actor: &Actor, registrant: &str) -> bool {
        let member = &self.registrants[registrant];
        match actor {
            Actor::Nobody => false,
            Actor::Operator => true,
            Actor::Agency(code) => *code == member.agency,
            Actor::Registrant(id) => **id == *registrant,
            Actor::Key(key) => member.keys.contains(key),
        }
    }

    fn owner(&self, prefix: &str, name: &Name) -> Box<str> {
        name.owner.clone().unwrap_or_else(|| self.prefixes[prefix].holder.clone())
    }

    fn step(&mut self, step: u64) {
        let actor = self.actor();
        let kind = self.chance.below(100);
        let (done, expected, found) = match kind {
            0..25 => self.put(step, &actor),
            25..40 => self.change(step, &actor),
            40..45 => self.end(step, &actor),
            45..57 => self.batch(step, &actor),
            57..75 => self.native(step, &actor),
            75..83 => self.give(step, &actor),
            83..93 => self.decide(&actor),
            93..96 => self.admins(&actor),
            96..98 => self.token(&actor),
            _ => self.parties(step),
        };
        assert_eq!(found, expected, "step {step}: {done} by {actor:?}");
        *self.times.entry(format!("{done} {found}")).or_default() += 1;
    }

    fn actor(&mut self) -> Actor {
        let members: Vec<_> = self.registrants.keys().cloned().collect();
        match self.chance.below(20) {
            0 => Actor::Nobody,
            1..4 => Actor::Operator,
            4..9 => {
                let codes: Vec<_> = self.agencies.keys().cloned().collect();
                // Most often one that has not ended.
                let recent = &codes[codes.len().saturating_sub(4)..];
                Actor::Agency(self.chance.of(recent).clone())
            }
            9..16 => Actor::Registrant(self.chance.of(&members).clone()),
            _ => Actor::Key(format!("300:10.9/key{}", self.chance.below(10))),
        }
    }

    /// A name, most often one of those that come and go at this time, in any case.
    fn name(&mut self, step: u64) -> (String, String) {
        let prefixes: Vec<_> = self.prefixes.keys().cloned().collect();
        let prefix = match self.chance.below(50) {
            0 => "10.79999".to_owned(),
            _ => self.chance.of(&prefixes).clone(),
        };
        let number = step / 100 + self.chance.below(20) as u64;
        let letters = if self.chance.below(2) == 0 { "name" } else { "NAME" };
        (prefix.clone(), format!("{prefix}/{letters}{number}"))
    }

    fn stage(&mut self) -> (Option<tendot_registry::doi::Stage>, NameState) {
        if self.chance.below(4) == 0 {
            (parties::draft(r#"{"state": "reserved"}"#).state, NameState::Reserved)
        } else {
            (None, NameState::Registered)
        }
    }

    fn live_under(&self, prefix: &str) -> usize {
        let start = format!("{prefix}/");
        let under = self.names.range(start.clone()..).take_while(|(key, _)| key.starts_with(&start));
        under.filter(|(_, name)| name.state != NameState::Tombstone).count()
    }

    fn has_room(&self, prefix: &str) -> bool {
        prefix != self.limited || self.live_under(prefix) < QUOTA
    }

    fn may_put(&self, prefix: &str, name: &str, actor: &Actor) -> Said {
        self.known(actor)?;
        let holder = &self.prefixes.get(prefix).ok_or('0')?.holder;
        self.is_for(actor, holder).then_some(()).ok_or('-')?;
        if self.names.contains_key(&name.to_ascii_uppercase()) {
            return Err('c');
        }
        self.has_room(prefix).then_some(()).ok_or('f')
    }

    fn insert(&mut self, name: &str, state: NameState, url: &str) {
        let new = Name { spelled: name.into(), state, owner: None, url: url.into() };
        self.names.insert(name.to_ascii_uppercase(), new);
    }

    fn put(&mut self, step: u64, actor: &Actor) -> (&'static str, char, char) {
        let (prefix, name) = self.name(step);
        let url = format!("https://example.org/{step}");
        let (state, becomes) = self.stage();
        let draft = Draft { state, ..deposit(&name, &url) };
        let found = self.by(&NewName { draft, random: [0; 16] }, actor);
        let expected = self.may_put(&prefix, &name, actor);
        if expected.is_ok() {
            self.insert(&name, becomes, &url);
        }
        ("put", said(expected), letter(&found))
    }

    fn may_change(&self, prefix: &str, name: &str, actor: &Actor) -> Said {
        self.known(actor)?;
        self.prefixes.get(prefix).ok_or('0')?;
        let name = self.names.get(&name.to_ascii_uppercase()).ok_or('0')?;
        let is_for = self.is_for(actor, &self.owner(prefix, name));
        match (name.state, is_for) {
            (NameState::Reserved, false) => Err('0'),
            (_, false) => Err('-'),
            (NameState::Tombstone, _) => Err('g'),
            _ => Ok(()),
        }
    }

    fn change(&mut self, step: u64, actor: &Actor) -> (&'static str, char, char) {
        let (prefix, name) = self.name(step);
        let url = format!("https://example.org/{step}");
        let state = parties::draft(r#"{"state": "registered"}"#).state;
        let state = if self.chance.below(2) == 0 { state } else { None };
        let draft = Draft { url: Some(url.as_str().into()), state, ..Draft::default() };
        let found = self.by(&NameChange { name: name.as_str().into(), draft, expect: None }, actor);
        let expected = self.may_change(&prefix, &name, actor);
        if expected.is_ok() {
            let name = self.names.get_mut(&name.to_ascii_uppercase()).unwrap();
            name.url = url;
            if state.is_some() {
                name.state = NameState::Registered;
            }
        }
        ("change", said(expected), letter(&found))
    }

    fn remove(&mut self, prefix: &str, name: &str) {
        let key = name.to_ascii_uppercase();
        if self.prefixes[prefix].test || self.names[&key].state == NameState::Reserved {
            self.names.remove(&key);
        } else {
            self.names.get_mut(&key).unwrap().state = NameState::Tombstone;
        }
    }

    fn end(&mut self, step: u64, actor: &Actor) -> (&'static str, char, char) {
        let (prefix, name) = self.name(step);
        let found = self.by(&NameEnd { name: name.as_str().into(), expect: None }, actor);
        let expected = self.may_change(&prefix, &name, actor);
        if expected.is_ok() {
            self.remove(&prefix, &name);
        }
        ("end", said(expected), letter(&found))
    }

    fn batch(&mut self, step: u64, actor: &Actor) -> (&'static str, char, char) {
        let count = 1 + self.chance.below(5);
        let (mut lines, mut expected) = (Vec::new(), Vec::new());
        for number in 0..count {
            let (prefix, name) = self.name(step);
            let url = format!("https://example.org/{step}/{}", self.chance.below(3));
            let draft = deposit(&name, &url);
            lines.push(line(number as u64, draft));
            expected.push(self.line(&prefix, &name, &url, actor));
        }
        let outcomes =
            block_on(self.registry.deposit(&lines, &self.caller(actor), self.now, false, |_| Vec::new()));
        for (outcome, expected) in outcomes.unwrap().iter().zip(&expected) {
            let found = match &outcome.result {
                Ok(status) => status.name().to_owned(),
                refused => letter(refused).to_string(),
            };
            assert_eq!(found, *expected, "step {step}: {outcome:?} by {actor:?}");
        }
        let is_all = expected.iter().all(|one| one.len() > 1);
        ("batch", if is_all { '+' } else { '.' }, if is_all { '+' } else { '.' })
    }

    fn line(&mut self, prefix: &str, name: &str, url: &str, actor: &Actor) -> String {
        let there = self.names.get(&name.to_ascii_uppercase()).cloned();
        let judged = |world: &Self| -> Result<&'static str, char> {
            world.known(actor)?;
            let holder = &world.prefixes.get(prefix).ok_or('0')?.holder;
            let Some(there) = &there else { return world.may_put(prefix, name, actor).map(|()| "created") };
            let is_for = world.is_for(actor, &world.owner(prefix, there));
            match there.state {
                NameState::Registered | NameState::Reserved if is_for && there.url == url => Ok("unchanged"),
                NameState::Registered | NameState::Reserved if is_for => Ok("updated"),
                NameState::Registered => Err('-'),
                _ if is_for || world.is_for(actor, holder) => Err('c'),
                _ => Err('-'),
            }
        };
        match judged(self) {
            Ok("created") => self.insert(name, NameState::Registered, url),
            Ok("updated") => self.names.get_mut(&name.to_ascii_uppercase()).unwrap().url = url.into(),
            Ok(_) => {}
            Err(refused) => return refused.to_string(),
        }
        judged_word(there.as_ref().map(|there| there.url == url))
    }

    /// By the Handle System's own means.
    fn native(&mut self, step: u64, actor: &Actor) -> (&'static str, char, char) {
        let (prefix, name) = self.name(step);
        let url = format!("https://example.org/{step}");
        let there = self.names.get(&name.to_ascii_uppercase()).cloned();
        let value = || Value::new(1, "URL", url.clone());
        let handle = Handle::from(&*name);
        let kind = self.chance.below(3);
        let write = match kind {
            0 => {
                let values = vec![value(), admin(100, &format!("200:0.NA/{prefix}"))];
                Write::Create { name: handle, values, overwrite: false, mint: None, force: false }
            }
            1 => Write::Modify { name: handle, values: vec![value()], force: false },
            _ => Write::Delete { name: handle, for_ever: false },
        };
        let now = Now { elapsed: Duration::ZERO, unix: self.now / 1_000 };
        let found = block_on(self.registry.write(&write, &self.caller(actor), now, &mut work()));
        let is_public = there.as_ref().is_some_and(|there| there.state == NameState::Registered);
        let expected = (|| {
            let holder = &self.prefixes.get(&prefix).ok_or('0')?.holder;
            if kind == 0 {
                match there.as_ref().map(|there| there.state) {
                    Some(NameState::Registered) => return Err('c'),
                    Some(NameState::Tombstone) => return Err('g'),
                    _ => {}
                }
                self.known(actor)?;
                if let Some(there) = &there {
                    // Taken, which only those are told who have it; keys have to be in the prefix's record, too.
                    let is_key = matches!(actor, Actor::Key(_));
                    let is_told = self.is_for(actor, &self.owner(&prefix, there))
                        && (!is_key || self.is_for(actor, holder));
                    return Err(if is_told { 'c' } else { '-' });
                }
                self.is_for(actor, holder).then_some(()).ok_or('-')?;
                return self.has_room(&prefix).then_some(()).ok_or('f');
            }
            if kind == 1 && !is_public {
                return Err('0');
            }
            self.known(actor)?;
            let there = there.as_ref().filter(|_| is_public).ok_or('0')?;
            self.is_for(actor, &self.owner(&prefix, there)).then_some(()).ok_or('-')
        })();
        if expected.is_ok() {
            match kind {
                0 => self.insert(&name, NameState::Registered, &url),
                1 => self.names.get_mut(&name.to_ascii_uppercase()).unwrap().url = url,
                _ => self.remove(&prefix, &name),
            }
        }
        ("native", said(expected), letter(&found.map_err(Refusal::from)))
    }

    /// From whom something would be taken.
    fn may_give(&self, what: &What, to: &str, actor: &Actor) -> Result<BTreeSet<Box<str>>, char> {
        let mut from = BTreeSet::new();
        match what {
            What::Names(names) => {
                let mut seen = BTreeSet::new();
                for given in names {
                    let (prefix, _) = given.split_once('/').unwrap();
                    self.prefixes.get(prefix).ok_or('!')?;
                    let name = self.names.get(&given.to_ascii_uppercase()).ok_or('!')?;
                    let owner = self.owner(prefix, name);
                    match (name.state, self.is_for(actor, &owner)) {
                        (NameState::Reserved, false) => return Err('!'),
                        (_, false) => return Err('-'),
                        (NameState::Tombstone, _) => return Err('!'),
                        _ if *owner == *to => return Err('c'),
                        _ => {}
                    }
                    seen.insert(given.to_ascii_uppercase()).then_some(()).ok_or('!')?;
                    from.insert(owner);
                }
            }
            What::Prefix(prefix) => {
                let holder = &self.prefixes.get(&**prefix).ok_or('!')?.holder;
                self.is_for(actor, holder).then_some(()).ok_or('-')?;
                (**holder != *to).then_some(()).ok_or('c')?;
                from.insert(holder.clone());
            }
            What::Agency(code) => {
                let is_own = *actor == Actor::Operator || *actor == Actor::Agency(code.to_string());
                is_own.then_some(()).ok_or('-')?;
                let is_right = !self.agencies[&**code] && !self.agencies[to] && **code != *to;
                is_right.then_some(()).ok_or('c')?;
                from.insert(code.clone());
            }
        }
        Ok(from)
    }

    fn carry_over(&mut self, what: &What, to: &str) {
        match what {
            What::Names(names) => {
                for given in names {
                    let (prefix, _) = given.split_once('/').unwrap();
                    let comes_home = *self.prefixes[prefix].holder == *to;
                    let name = self.names.get_mut(&given.to_ascii_uppercase()).unwrap();
                    name.owner = (!comes_home).then(|| to.into());
                }
            }
            What::Prefix(prefix) => self.prefixes.get_mut(&**prefix).unwrap().holder = to.into(),
            What::Agency(code) => {
                *self.agencies.get_mut(&**code).unwrap() = true;
                for member in self.registrants.values_mut().filter(|member| *member.agency == **code) {
                    member.agency = to.into();
                }
                *self.times.entry("agency ended +".into()).or_default() += 1;
            }
        }
    }

    fn give(&mut self, step: u64, actor: &Actor) -> (&'static str, char, char) {
        let ids: Vec<_> = self.registrants.keys().cloned().collect();
        let codes: Vec<_> = self.agencies.keys().cloned().collect();
        let kind = self.chance.below(40);
        let (what, to) = match kind {
            0 => {
                let recent = codes[codes.len().saturating_sub(4)..].to_vec();
                let code = self.chance.of(&recent).as_str().into();
                (What::Agency(code), self.chance.of(&recent).as_str().into())
            }
            1..10 => {
                let prefixes: Vec<_> = self.prefixes.keys().cloned().collect();
                let prefix = self.chance.of(&prefixes).as_str().into();
                (What::Prefix(prefix), self.chance.of(&ids).clone())
            }
            _ => {
                let count = 1 + self.chance.below(3);
                let names = (0..count).map(|_| self.name(step).1.into()).collect();
                (What::Names(names), self.chance.of(&ids).clone())
            }
        };
        let force = self.chance.below(4) == 0;
        let random = self.chance.bytes();
        let found = self.by(&NewTransfer { what: what.clone(), to: to.clone(), force, random }, actor);
        let expected = self.known(actor).and_then(|()| {
            (!force || *actor == Actor::Operator).then_some(()).ok_or('-')?;
            self.may_give(&what, &to, actor)
        });
        if let (Ok(from), Ok(made)) = (&expected, &found) {
            let state = if force { TransferState::Done } else { TransferState::Proposed };
            assert_eq!((made.state, made.from.iter().cloned().collect()), (state, from.clone()));
            if force {
                self.carry_over(&what, &to);
            }
            let given = Given { what, from: from.clone(), to, by: actor.clone(), state };
            self.transfers.insert(made.id.clone(), given);
        }
        ("give", said(expected.map(drop)), letter(&found))
    }

    fn decide(&mut self, actor: &Actor) -> (&'static str, char, char) {
        let open: Vec<_> = self.transfers.keys().cloned().collect();
        if open.is_empty() {
            return ("decide", '.', '.');
        }
        let id = self.chance.of(&open).clone();
        let accept = self.chance.below(4) > 0;
        let found = self.by(&TransferDecision { id: id.clone(), accept }, actor);
        let given = self.transfers[&id].clone();
        let expected = self.known(actor).and_then(|()| {
            let is_agency =
                |code: &str| *actor == Actor::Operator || *actor == Actor::Agency(code.to_owned());
            let (gives, receives) = match &given.what {
                What::Agency(code) => (is_agency(code), is_agency(&given.to)),
                _ => {
                    let gives = given.from.iter().any(|from| self.is_for(actor, from));
                    (gives, self.is_for(actor, &given.to))
                }
            };
            (gives || receives).then_some(()).ok_or('0')?;
            match (given.state, accept) {
                (TransferState::Proposed, _) => {}
                (TransferState::Done, true) | (TransferState::Declined, false) => return Ok(false),
                _ => return Err('c'),
            }
            (receives || !accept).then_some(()).ok_or('-')?;
            if accept {
                let from = self.may_give(&given.what, &given.to, &given.by);
                let from = from.map_err(|said| if said == '-' { 'c' } else { said })?;
                (from == given.from).then_some(()).ok_or('c')?;
            }
            Ok(true)
        });
        if expected == Ok(true) {
            if accept {
                self.carry_over(&given.what, &given.to);
            }
            self.transfers.get_mut(&id).unwrap().state =
                if accept { TransferState::Done } else { TransferState::Declined };
        }
        // So that there are not ever more of them.
        if given.state != TransferState::Proposed {
            self.transfers.remove(&id);
        }
        ("decide", said(expected.map(drop)), letter(&found))
    }

    fn admins(&mut self, actor: &Actor) -> (&'static str, char, char) {
        let ids: Vec<_> = self.registrants.keys().cloned().collect();
        let id = self.chance.of(&ids).clone();
        let count = self.chance.below(3);
        let keys: BTreeSet<_> =
            (0..count).map(|_| format!("300:10.9/key{}", self.chance.below(10))).collect();
        let admins = Some(keys.iter().map(|key| key.as_str().into()).collect());
        let found = self.by(&RegistrantChange { id: id.clone(), admins, ..Default::default() }, actor);
        let expected = self.known(actor).and_then(|()| self.is_for(actor, &id).then_some(()).ok_or('-'));
        if expected.is_ok() {
            self.registrants.get_mut(&id).unwrap().keys = keys;
        }
        ("admins", said(expected), letter(&found))
    }

    /// A token is revoked, or there is a new one for who has none.
    fn token(&mut self, actor: &Actor) -> (&'static str, char, char) {
        let owners: Vec<_> = self.tokens.keys().cloned().collect();
        let owner = self.chance.of(&owners).clone();
        let (_, id, is_good) = self.tokens[&owner].clone();
        if !is_good {
            let has_ended = matches!(&owner, Actor::Agency(code) if self.agencies[code]);
            if !has_ended {
                self.new_token(owner);
            }
            return ("token", '+', '+');
        }
        let found = self.by(&TokenEnd { id }, actor);
        let expected = self.known(actor).and_then(|()| {
            let is_for = match &owner {
                Actor::Registrant(id) => self.is_for(actor, id),
                owner => *actor == Actor::Operator || actor == owner,
            };
            is_for.then_some(()).ok_or('0')
        });
        if expected.is_ok() {
            self.tokens.get_mut(&owner).unwrap().2 = false;
        }
        ("token", said(expected), letter(&found))
    }

    /// There are always some agencies and prefixes.
    fn parties(&mut self, step: u64) -> (&'static str, char, char) {
        if self.agencies.values().filter(|has_ended| !**has_ended).count() < 3 {
            self.new_agency(self.agencies.len());
        }
        if self.prefixes.len() < 12 && step.is_multiple_of(7) {
            self.new_prefix(false);
        }
        ("parties", '+', '+')
    }

    /// All names are what they should be, resolve as they should, and are where they are looked for.
    fn compare(&self) {
        let operator = &Caller::Operator;
        let mut of: BTreeMap<Box<str>, BTreeSet<String>> = BTreeMap::new();
        for name in self.names.values() {
            let (prefix, _) = name.spelled.split_once('/').unwrap();
            let owner = self.owner(prefix, name);
            let found = block_on(self.registry.registered(&name.spelled, operator, self.now, &mut work()));
            let found = found.unwrap();
            let seen = (&*found.name, found.state, &*found.registrant, found.url().unwrap());
            assert_eq!(seen, (&*name.spelled, name.state, &*owner, &*name.url));
            assert_eq!(*found.agency, *self.registrants[&owner].agency);
            let query = Query::new(Handle::from(&*name.spelled));
            let resolved = block_on(self.registry.resolve(&query, &Caller::Anonymous, &mut work()));
            match (name.state, resolved) {
                (NameState::Registered, Ok(Resolution::Values(values))) => {
                    assert_eq!(*values[0].data, *name.url.as_bytes(), "{name:?}");
                }
                (NameState::Tombstone, Err(Error::Tombstone))
                | (NameState::Reserved, Err(Error::NotFound)) => {}
                (_, resolved) => panic!("{name:?}: {resolved:?}"),
            }
            of.entry(owner).or_default().insert(name.spelled.clone());
        }
        for id in self.registrants.keys() {
            let found = self.listed(None, Some(id));
            assert_eq!(found, of.remove(id).unwrap_or_default(), "of {id}");
        }
        for prefix in self.prefixes.keys() {
            let start = format!("{prefix}/");
            let under = self.names.values().filter(|name| name.spelled.starts_with(&start));
            assert_eq!(self.listed(Some(prefix), None), under.map(|name| name.spelled.clone()).collect());
        }
        assert_eq!(self.listed(None, None).len(), self.names.len());
        assert_eq!(check_whole(&self.registry), self.names.len());
    }

    /// All that is listed, each once, in small pieces.
    fn listed(&self, prefix: Option<&str>, registrant: Option<&str>) -> BTreeSet<String> {
        let (mut all, mut next) = (BTreeSet::new(), None);
        loop {
            let mut paid = work();
            let operator = &Caller::Operator;
            let after: Option<String> = next.take();
            let names =
                self.registry.names(prefix, registrant, after.as_deref(), 37, operator, self.now, &mut paid);
            let names = block_on(names).unwrap();
            assert!(names.items.len() <= 37);
            for item in names.items {
                assert!(all.insert(item.name.to_string()), "{} is there twice", item.name);
            }
            next = names.next;
            if next.is_none() {
                return all;
            }
        }
    }
}

fn said(expected: Said) -> char {
    expected.err().unwrap_or('+')
}

fn judged_word(there: Option<bool>) -> String {
    match there {
        None => "created",
        Some(true) => "unchanged",
        Some(false) => "updated",
    }
    .into()
}

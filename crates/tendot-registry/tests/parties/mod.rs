//! Two agencies, one that has ended, their registrants and prefixes, and everybody who may ask for something.

#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

#[path = "../store/mod.rs"]
pub mod store;
mod watched;
mod whole;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use store::open;
use tempfile::TempDir;
use tendot_proto::record::{Admin, AdminPermissions};
use tendot_proto::{Permissions, Reference, Value, Work};
use tendot_registry::doi::{Draft, Line, LineOutcome, NameChange, NameEnd, NewName};
use tendot_registry::party::{
    Demand, NewAgency, NewPrefix, NewRegistrant, NewToken, Policy, Range, Role, Scope, TokenEnd,
};
use tendot_registry::transfer::{NewTransfer, What};
use tendot_registry::{Caller, Carried, Identity, Reason, Refusal, Registry, Settings, Task};
use tendot_store::{Embedded, Memory, Postgres, Store};
use tendot_testing::block_on;
use tendot_testing::postgres::shared_server;
pub use watched::Watched;
#[allow(unused_imports, reason = "each test uses a part of it")]
pub use whole::check_whole;

/// When everything is asked for.
pub const NOW: u64 = 1_800_000_000_000;

/// Prefixes of registrants A1 (two), A2 and B1.
pub const ONE: &str = "10.71000";
pub const OTHER: &str = "10.71001";
pub const TWO: &str = "10.71002";
pub const THREE: &str = "10.72000";

/// Who may ask, a letter each, see [`Scene::caller`].
pub const ROLES: &str = "nOoAB123rdtmRDTMpPxvekws";

/// Everybody and everything that tests speak of.
pub struct Scene<S> {
    pub registry: Registry<S>,
    pub ids: BTreeMap<String, Box<str>>,
    pub tokens: BTreeMap<char, String>,
    /// Who showed them while they were good: what was revoked or has expired since is found out later.
    callers: BTreeMap<char, Caller>,
    random: Cell<u64>,
}

/// Where scenes come from: one suite for all stores.
pub trait Stage {
    type Store: Store;

    /// A new one, each the same.
    fn scene(&self) -> Scene<Self::Store>;
}

/// Scenes in memory.
pub struct InMemory;

impl Stage for InMemory {
    type Store = Memory;

    fn scene(&self) -> Scene<Memory> {
        Scene::new(Memory::new())
    }
}

/// Scenes on disk: copies of one that was made once.
pub struct OnDisk {
    first: TempDir,
    ids: BTreeMap<String, Box<str>>,
    tokens: BTreeMap<char, String>,
    callers: BTreeMap<char, Caller>,
    random: u64,
    copy: RefCell<Option<TempDir>>,
}

impl OnDisk {
    pub fn new() -> Self {
        let first = tempfile::tempdir().unwrap();
        let Scene { ids, tokens, callers, random, .. } = Scene::new(Embedded::open(first.path()).unwrap());
        Self { first, ids, tokens, callers, random: random.get(), copy: RefCell::default() }
    }
}

impl Stage for OnDisk {
    type Store = Embedded;

    /// The one before has to be gone.
    fn scene(&self) -> Scene<Embedded> {
        let copy = tempfile::tempdir().unwrap();
        copy_folder(self.first.path(), copy.path());
        let registry = Registry::new(Embedded::open(copy.path()).unwrap(), Settings::default());
        *self.copy.borrow_mut() = Some(copy);
        let (ids, tokens, callers) = (self.ids.clone(), self.tokens.clone(), self.callers.clone());
        Scene { registry, ids, tokens, callers, random: Cell::new(self.random) }
    }
}

/// Scenes in a database: copies of one that was made once.
pub struct InDatabase {
    first: String,
    made: Scene<Memory>,
}

impl InDatabase {
    pub fn new() -> Self {
        let first = shared_server().create_database();
        let Scene { ids, tokens, callers, random, .. } = Scene::new(open(&shared_server().url(&first)));
        let registry = Registry::new(Memory::new(), Settings::default());
        Self { first, made: Scene { registry, ids, tokens, callers, random } }
    }
}

impl Stage for InDatabase {
    type Store = Postgres;

    fn scene(&self) -> Scene<Postgres> {
        let copy = shared_server().clone_database(&self.first);
        let registry = Registry::new(open(&shared_server().url(&copy)), Settings::default());
        let Scene { ids, tokens, callers, random, .. } = &self.made;
        Scene {
            registry,
            ids: ids.clone(),
            tokens: tokens.clone(),
            callers: callers.clone(),
            random: random.clone(),
        }
    }
}

/// Scenes where something happens before a commit, in memory.
pub fn watched_in_memory() -> Scene<Watched<Memory>> {
    Scene::new(Watched::new(Memory::new()))
}

/// The same on disk.
pub fn watched_on_disk() -> impl FnMut() -> Scene<Watched<Embedded>> {
    let directory = tempfile::tempdir().unwrap();
    drop(Scene::new(Embedded::open(&directory.path().join("0")).unwrap()));
    let mut number = 0;
    move || {
        number += 1;
        let copy = directory.path().join(number.to_string());
        fs::create_dir(&copy).unwrap();
        copy_folder(&directory.path().join("0"), &copy);
        InMemory.scene().over(Watched::new(Embedded::open(&copy).unwrap()))
    }
}

pub fn copy_folder(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        } else {
            fs::create_dir(to.join(entry.file_name())).unwrap();
            copy_folder(&entry.path(), &to.join(entry.file_name()));
        }
    }
}

pub fn work() -> Work {
    Work::new(100_000)
}

pub fn key(written: &str) -> Caller {
    let reference = Reference::parse(written);
    Caller::Handle(Identity::proven(reference.index, &reference.handle).unwrap())
}

pub fn draft(json: &str) -> Draft {
    Draft::from_json(json.as_bytes()).unwrap_or_else(|refusal| panic!("{json}: {refusal:?}"))
}

/// The simplest deposit.
pub fn deposit(name: &str, address: &str) -> Draft {
    Draft { name: Some(name.into()), url: Some(address.into()), ..Draft::default() }
}

pub fn line(number: u64, draft: Draft) -> Line {
    let mut random = [0; 16];
    random[..8].copy_from_slice(&number.to_be_bytes());
    Line { number, draft: Ok(draft), name: None, random }
}

/// A hidden value.
pub fn hidden() -> Value<'static> {
    Value { permissions: Permissions(0x0c), ..Value::new(5, "NOTE", "hidden") }
}

pub fn admin(index: u32, who: &str) -> Value<'static> {
    let admin = Admin {
        permissions: AdminPermissions::ALL,
        reference: Reference::parse(who),
        legacy_byte_length: false,
    };
    Value::with_data(index, "HS_ADMIN", admin.to_bytes())
}

/// What somebody is told, in one character.
pub fn letter<T>(outcome: &Result<T, Refusal>) -> char {
    match outcome.as_ref().map_err(|refusal| refusal.reason) {
        Ok(_) => '+',
        Err(Reason::Unknown) => '?',
        Err(Reason::Forbidden) => '-',
        Err(Reason::NotFound) => '0',
        Err(Reason::Conflict) => 'c',
        Err(Reason::Invalid) => '!',
        Err(Reason::Gone) => 'g',
        Err(Reason::Full) => 'f',
        Err(Reason::Precondition) => '=',
        Err(Reason::Malformed) => 'm',
        Err(Reason::Busy) => 'b',
        Err(Reason::Failed) => 'F',
    }
}

impl<S: Store> Scene<S> {
    /// The same of another store, in which it was made before.
    pub fn over<T: Store>(self, store: T) -> Scene<T> {
        let registry = Registry::new(store, Settings::default());
        let Self { ids, tokens, callers, random, .. } = self;
        Scene { registry, ids, tokens, callers, random }
    }

    /// - agency alpha with registrants A1 and A2; A1 has [`ONE`] and [`OTHER`], A2 has [`TWO`]
    /// - agency beta with registrant B1, who has [`THREE`]
    /// - agency gamma, which has ended; its registrant G1 is with beta
    /// - `10.71000/x` with a hidden value, `10.71000/r` which is reserved, `10.71000/given` which A2 has
    pub fn new(store: S) -> Self {
        let registry = Registry::new(store, Settings::default());
        let (ids, tokens, callers) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut scene = Self { registry, ids, tokens, callers, random: Cell::new(1) };
        for (code, range) in [("alpha", Some(("10.71000", "10.71999"))), ("beta", None), ("gamma", None)] {
            scene.agency(code, range);
        }
        scene.registrant("A1", "alpha", &["300:10.9/key", "300:10.9/was"]);
        scene.registrant("A2", "alpha", &["300:10.9/two"]);
        scene.registrant("B1", "beta", &[]);
        scene.registrant("G1", "gamma", &[]);
        for (prefix, id) in [(ONE, "A1"), (OTHER, "A1"), (TWO, "A2"), (THREE, "B1")] {
            scene.prefix(id, Some(prefix), Policy::default());
        }
        scene.make_tokens();
        let end = NewTransfer {
            what: What::Agency("gamma".into()),
            to: "beta".into(),
            force: true,
            random: scene.random(),
        };
        scene.done(&end);
        scene.done(&TokenEnd { id: scene.token_id('v') });
        let change = tendot_registry::party::RegistrantChange {
            id: scene.id("A1"),
            admins: Some(vec!["300:10.9/key".into()]),
            ..Default::default()
        };
        scene.done(&change);
        for (name, state) in [("x", "registered"), ("r", "reserved"), ("given", "registered")] {
            let values = vec![hidden()];
            let mut draft = Draft { values: Some(values), ..deposit(&format!("{ONE}/{name}"), "https://a/") };
            draft.state = draft_state(state);
            scene.done(&NewName { draft, random: [0; 16] });
        }
        scene.done(&NewTransfer {
            what: What::Names(vec![format!("{ONE}/given").into()]),
            to: scene.id("A2"),
            force: true,
            random: scene.random(),
        });
        scene
    }

    fn make_tokens(&mut self) {
        let all: Option<&[Scope]> = None;
        use Scope::{Administer, Deposit, Read, Transfer};
        let (a1, alpha) = ((Role::Registrant, "A1"), (Role::Agency, "alpha"));
        for (letter, (role, subject), scopes, prefix, expires) in [
            ('o', (Role::Operator, ""), all, None, None),
            ('A', alpha, all, None, None),
            ('B', (Role::Agency, "beta"), all, None, None),
            ('1', a1, all, None, None),
            ('2', (Role::Registrant, "A2"), all, None, None),
            ('3', (Role::Registrant, "B1"), all, None, None),
            ('r', a1, Some(&[Read]), None, None),
            ('d', a1, Some(&[Deposit]), None, None),
            ('t', a1, Some(&[Transfer]), None, None),
            ('m', a1, Some(&[Administer]), None, None),
            ('R', alpha, Some(&[Read]), None, None),
            ('D', alpha, Some(&[Deposit]), None, None),
            ('T', alpha, Some(&[Transfer]), None, None),
            ('M', alpha, Some(&[Administer]), None, None),
            ('p', a1, all, Some(OTHER), None),
            ('P', alpha, all, Some(OTHER), None),
            ('x', a1, all, None, Some(NOW)),
            ('v', a1, all, None, None),
            ('e', (Role::Agency, "gamma"), all, None, None),
        ] {
            let subject = match role {
                Role::Operator => None,
                Role::Agency => Some(subject.into()),
                Role::Registrant => Some(self.id(subject)),
            };
            let prefixes = prefix.into_iter().map(Into::into).collect();
            let scopes = scopes.map(<[Scope]>::to_vec);
            let token = self.new_token(role, subject, scopes, prefixes, expires);
            // Made before it ends.
            self.at(&token, &Caller::Operator, NOW - 1_000).unwrap();
            let shown = block_on(self.registry.by_token(&token.text(), NOW - 1, &mut work())).unwrap();
            self.callers.insert(letter, Caller::Token(shown.unwrap()));
            self.tokens.insert(letter, token.text());
        }
    }

    pub fn new_token(
        &self,
        role: Role,
        subject: Option<Box<str>>,
        scopes: Option<Vec<Scope>>,
        prefixes: Vec<Box<str>>,
        expires: Option<u64>,
    ) -> NewToken {
        let mut random = [0; 48];
        for part in random.chunks_mut(16) {
            part.copy_from_slice(&self.random());
        }
        NewToken { role, subject, scopes, prefixes, expires, label: None, random }
    }

    /// Bytes that were not there before, the same in each scene.
    pub fn random(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        for half in bytes.chunks_mut(8) {
            let mut next = self.random.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
            self.random.set(next);
            next = (next ^ next >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            next = (next ^ next >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            half.copy_from_slice(&(next ^ next >> 31).to_be_bytes());
        }
        bytes
    }

    pub fn token_id(&self, role: char) -> Box<str> {
        self.tokens[&role].split('_').nth(1).unwrap().into()
    }

    pub fn id(&self, registrant: &str) -> Box<str> {
        self.ids[registrant].clone()
    }

    pub fn agency(&self, code: &str, range: Option<(&str, &str)>) {
        let range = range.map(|(first, last)| Range { first: first.into(), last: last.into() });
        self.done(&NewAgency {
            code: code.into(),
            name: code.into(),
            metadata: Demand::OnRequest,
            range,
            locations: None,
        });
    }

    pub fn registrant(&mut self, name: &str, agency: &str, admins: &[&str]) {
        let made = self.done(&NewRegistrant {
            agency: Some(agency.into()),
            name: name.into(),
            contact: Some("somebody@example.org".into()),
            admins: admins.iter().map(|admin| (*admin).into()).collect(),
            random: self.random(),
        });
        self.ids.insert(name.into(), made.done.id);
    }

    pub fn prefix(&self, registrant: &str, prefix: Option<&str>, policy: Policy) -> Box<str> {
        let prefix = prefix.map(Into::into);
        self.done(&NewPrefix { registrant: self.id(registrant), prefix, test: false, policy }).done.prefix
    }

    /// - `n` nobody, `O` the operator, `o` by a token; agencies `A`lpha and `B`eta; registrants `1`, `2` of alpha, `3` of beta
    /// - `r`ead, `d`eposit, `t`ransfer, ad`m`inister: tokens of registrant 1 for that alone, in upper case those of alpha
    /// - `p` and `P`: tokens of registrant 1 and of alpha, for another prefix of registrant 1
    /// - e`x`pired, re`v`oked, of an agency that has `e`nded
    /// - `k`ey of registrant 1, one that `w`as, and that of a `s`tranger
    pub fn caller(&self, role: char) -> Caller {
        match role {
            'n' => Caller::Anonymous,
            'O' => Caller::Operator,
            'k' => key("300:10.9/key"),
            'w' => key("300:10.9/was"),
            's' => key("301:10.9/key"),
            _ => self.callers[&role].clone(),
        }
    }

    pub fn at<T: Task>(&self, task: &T, caller: &Caller, at: u64) -> Result<Carried<T::Done>, Refusal> {
        block_on(self.registry.carry_out(task, caller, at, &mut work()))
    }

    pub fn by<T: Task>(&self, task: &T, caller: &Caller) -> Result<Carried<T::Done>, Refusal> {
        self.at(task, caller, NOW)
    }

    /// By the operator, for whom it has to come to something.
    #[track_caller]
    pub fn done<T: Task>(&self, task: &T) -> Carried<T::Done> {
        match self.by(task, &Caller::Operator) {
            Ok(done) => done,
            Err(refusal) => panic!("{refusal:?}"),
        }
    }

    pub fn put(&self, name: &str, address: &str, caller: &Caller) -> Result<(), Refusal> {
        self.by(&NewName { draft: deposit(name, address), random: [0; 16] }, caller).map(drop)
    }

    pub fn change(&self, name: &str, address: &str, caller: &Caller) -> Result<(), Refusal> {
        let draft = Draft { url: Some(address.into()), ..Draft::default() };
        self.by(&NameChange { name: name.into(), draft, expect: None }, caller).map(drop)
    }

    pub fn end(&self, name: &str, caller: &Caller) -> Result<(), Refusal> {
        self.by(&NameEnd { name: name.into(), expect: None }, caller).map(drop)
    }

    pub fn give(&self, what: What, to: &str, force: bool, caller: &Caller) -> Result<Box<str>, Refusal> {
        let to = self.ids.get(to).cloned().unwrap_or_else(|| to.into());
        let transfer = NewTransfer { what, to, force, random: self.random() };
        self.by(&transfer, caller).map(|carried| carried.done.id)
    }

    pub fn batch(&self, lines: &[Line], caller: &Caller) -> Vec<LineOutcome> {
        block_on(self.registry.deposit(lines, caller, NOW, false, |_| Vec::new())).unwrap()
    }

    /// How many lines the log has: whether anything was changed.
    pub fn changes(&self) -> usize {
        block_on(self.registry.store().changes(0, 1_000_000)).unwrap().len()
    }
}

fn draft_state(state: &str) -> Option<tendot_registry::doi::Stage> {
    draft(&format!(r#"{{"state": "{state}"}}"#)).state
}

/// What became of lines, a word each.
pub fn told(outcomes: &[LineOutcome]) -> Vec<String> {
    let word = |outcome: &LineOutcome| match &outcome.result {
        Ok(status) => format!("{} {}", status.name(), outcome.name.as_deref().unwrap_or_default()),
        Err(refusal) => format!("refused {}", refusal.code),
    };
    outcomes.iter().map(word).collect()
}

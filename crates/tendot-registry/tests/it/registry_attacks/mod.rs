//! Attacks on the registry API and its rules, each with its expected outcome. `handle_attacks` has the attacks by handle
//! operations.

mod input;
mod key_history;
mod names;
mod ownership;
mod races;
mod tokens;
mod visibility;

use tendot_proto::{Handle, HandleValue, ValuePermissions};
use tendot_registry::party::{
    AllocatePrefix, CreateAgency, CreateRegistrant, PrefixPolicy, RevokeToken, Role, UpdatePrefix,
    UpdateRegistrant,
};
use tendot_registry::registration::{
    DoiFilter, DoiStatus, RegisterDoi, RegistrationRequest, RetireDoi, UpdateDoi,
};
use tendot_registry::report::ResolutionCount;
use tendot_registry::transfer::{DecideTransfer, ProposeTransfer, TransferSubject};
use tendot_registry::{
    CallContext, Caller, ChangeCursor, ChangeSubject, HandleWrite, RegistryError, ResolveQuery, WriteWarning,
};
use tendot_store::{ChangeSet, Edit, HistoryOrder, NameKey, Precondition, Store};
use tendot_testing::block_on;

use crate::fixtures::registry_fixture::*;
use crate::fixtures::{CommitHook, check_invariants};
use crate::support::{StoreKind, store_tests};

const KEY: &str = "300:10.9/key";

fn write(fixture: &RegistryFixture, write: &HandleWrite<'_>, caller: &Caller) -> char {
    outcome_letter(&fixture.write(write, caller))
}

fn create<'a>(name: &'a str, values: Vec<HandleValue<'a>>) -> HandleWrite<'a> {
    HandleWrite::Create {
        name: Handle::from(name),
        values,
        overwrite: false,
        keep_secrets: false,
        uuid_bytes: None,
        force: false,
    }
}

fn add<'a>(name: &'a str, values: Vec<HandleValue<'a>>) -> HandleWrite<'a> {
    HandleWrite::AddValues { name: Handle::from(name), values, overwrite: false, force: false }
}

fn modify(name: &str) -> HandleWrite<'_> {
    let values = vec![HandleValue::new(1, "URL", "https://changed/")];
    HandleWrite::ModifyValues { name: Handle::from(name), values, force: false }
}

fn read_hidden(fixture: &RegistryFixture, name: &str, caller: &Caller) -> char {
    let query =
        ResolveQuery { public_only: false, indexes: vec![5], ..ResolveQuery::new(Handle::from(name)) };
    outcome_letter(
        &block_on(fixture.registry.resolve(&query, caller, &mut budget())).map_err(RegistryError::from),
    )
}

fn list(fixture: &RegistryFixture, prefix: &str, caller: &Caller) -> char {
    let mut budget = budget();
    let list = fixture.registry.list_handles(Handle::from(prefix), None, 10, caller, &mut budget);
    outcome_letter(&block_on(list).map_err(RegistryError::from))
}

fn forced(subject: TransferSubject, to: &str) -> ProposeTransfer {
    ProposeTransfer { subject, to: to.into(), force: true, random_bytes: [9; 16] }
}

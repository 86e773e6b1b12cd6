//! Attacks on permissions, names and records by handle operations, each with its expected response code. `registry_attacks`
//! has the attacks on the registry.

mod groups;
mod hidden_values;
mod input;
mod last_admin;
mod names;
mod permissions;
mod races;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tendot_proto::record::ValueList;
use tendot_proto::{Budget, Handle, HandleValue, ValuePermissions, ValueReference};
use tendot_registry::{
    Error, HandleOperation, HandleWrite, RecordLimits, Registry, RegistrySettings, ResolveQuery, WriteWarning,
};
use tendot_store::{Edit, EmbeddedStore, MemoryStore, Precondition, Store};
use tendot_testing::{block_on, ram_dir, wait_until};

use crate::fixtures::HookedStore;
use crate::fixtures::handle_fixture::*;

const ADMIN: &str = "300:10.1/a";

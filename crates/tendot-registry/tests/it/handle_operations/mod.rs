//! Handle operations over every store: resolution, writes, lists, templates and reverse lookup.

mod lists;
mod prefixes;
mod sessions;
mod signing;
mod templates;
mod writes;

use tendot_proto::auth::Challenge;
use tendot_proto::record::{HashOption, Site, SiteServer};
use tendot_proto::{Budget, Handle, HandleValue, ValuePermissions, ValueReference};
use tendot_registry::{
    CallContext, Caller, Error, HandleOperation, HandleWrite, HashPartition, PeerFuture, RegistrySettings,
    Resolution, ResolveQuery, ResultPage, ReverseLookup, SitePeers, TemplateSettings,
};
use tendot_store::{Edit, EditKind, Precondition, Store};
use tendot_testing::block_on;

use crate::fixtures::handle_fixture::*;
use crate::support::{StoreKind, TestRegistry, store_tests};

const PREFIX_ADMIN: &str = "300:0.NA/10.1";
const ADMIN: &str = "300:10.1/a";

fn home(prefix: &str) -> HandleWrite<'_> {
    HandleWrite::Home { prefix: Handle::from(prefix) }
}

fn unhome(prefix: &str) -> HandleWrite<'_> {
    HandleWrite::Unhome { prefix: Handle::from(prefix) }
}

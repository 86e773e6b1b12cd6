#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

mod caller;
mod changes;
mod deposit;
pub mod doi;
mod error;
mod group;
mod history;
mod list;
pub mod metadata;
mod neighbours;
mod operation;
mod ownership;
pub mod party;
mod permission;
mod price;
mod read_set;
mod referral;
mod refusal;
mod registry;
pub mod report;
mod resolve;
mod response_code;
mod responsible;
mod search;
mod settings;
mod share;
mod task;
mod template;
pub mod transfer;
mod validate;

pub use caller::{Caller, HandleIdentity};
pub use changes::{ChangeCursor, ChangeEvent, ChangeEvents, ChangeSubject};
pub use deposit::{HandleWrite, WriteOutcome, WriteWarning};
pub use error::Error;
pub use history::{Happening, HistoryEvent, HistoryEvents, PrefixHolder, RecordSnapshot, Then};
pub use list::{HandleCount, HandleList};
pub use neighbours::{PeerFuture, SitePeers};
pub use operation::HandleOperation;
pub use refusal::{OUTCOME_UNKNOWN, RegistryError, RegistryErrorKind};
pub use registry::Registry;
pub use resolve::{Resolution, ResolveQuery};
pub use search::{ReverseLookup, ReverseLookupMatch, ReverseLookupMatches};
pub use settings::{RecordLimits, RegistrySettings, TemplateSettings};
pub use share::HashPartition;
pub use task::{Command, CommandOutcome};
pub use validate::{InvalidValue, UrlFault, ValueFault, check_import, is_invisible};

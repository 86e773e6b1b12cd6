#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

mod call;
mod clock;
mod cost;
mod log_author;
mod registry;
mod rules;
mod settings;

mod authorization;
pub mod batch;
mod command;
mod error;
mod handle_write;
mod history;
mod idempotency;
mod listing;
pub mod metadata;
pub mod party;
mod prefix;
pub mod registration;
pub mod report;
mod resolve;
pub mod transfer;
mod validate;

pub use authorization::{Caller, HandleIdentity, HandleOperation};
pub use call::CallContext;
pub use command::{Command, CommandOutcome, RenewalCursor, RenewalPage, SigningSettings};
pub use error::{
    ERROR_CODES, Error, ErrorCodeSpec, ExistingName, OUTCOME_UNKNOWN, RegistryError, RegistryErrorKind,
    codes, describe_store_error,
};
pub use handle_write::{HandleWrite, WriteOutcome, WriteWarning};
pub use history::{
    ChangeAuthor, ChangeCursor, ChangeEvent, ChangeEvents, ChangeSubject, HistoryEvent, HistoryEventKind,
    LogHeadTracker, PrefixHolder, RecordSnapshot, SnapshotState,
};
pub use idempotency::{IdempotencyKey, IdempotentOutcome, IdempotentRequest, KeyLock};
pub use listing::{HandleCount, ResultPage, ReverseLookup, ReverseLookupMatch};
pub use log_author::LogAuthor;
pub use prefix::ServiceHandleRecord;
pub use registry::Registry;
pub use resolve::{HashPartition, PeerFuture, Resolution, ResolveQuery, ResolvedRecord, SitePeers};
pub use settings::{MAX_NAME_LEN, RecordLimits, RegistrySettings, TemplateSettings};
pub use validate::{
    InvalidValue, UrlFault, ValueFault, is_blocked_scheme, is_invisible, is_same_text, key_warning,
    link_targets, look_alike, looks_percent_encoded, uri_form, url_host,
};

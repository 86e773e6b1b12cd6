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

pub use caller::{Caller, Identity};
pub use changes::{Changed, Changes, Cursor, ChangeSubject};
pub use deposit::{Done, Note, Write};
pub use error::Error;
pub use history::{Event, Events, Happening, PrefixHolder, RecordSnapshot, Then};
pub use list::{Count, Page};
pub use neighbours::{SitePeers, Said};
pub use operation::Operation;
pub use refusal::{OUTCOME_UNKNOWN, Reason, Refusal};
pub use registry::Registry;
pub use resolve::{ResolveQuery, Resolution};
pub use search::{Match, Matches, Search};
pub use settings::{Limits, Settings, TemplateSettings};
pub use share::Share;
pub use task::{CommandOutcome, Task};
pub use validate::{InvalidValue, UrlFault, ValueFault, check_import, is_invisible};

//! Registration of DOIs through the registry API.
//!
//! In the order of a request: `request` is the JSON body; `new_name` checks a requested name and `mint` generates one;
//! `register`, `update`, `retire` and `redact` are the commands; `build_record` turns the request into a record under the policy of the
//! prefix; `record` is the registration as stored and as returned. `planner` has the steps of all of them, also for the lines
//! of a batch, `description_index` finds names with the same description, and `visibility` hides reserved names.

mod build_record;
mod description_index;
mod mint;
mod new_name;
mod planner;
mod record;
mod redact;
mod register;
mod request;
mod retire;
mod update;
mod visibility;

pub(crate) use build_record::{RecordChange, check_admin_index_free, register_edit};
pub use description_index::IndexRepair;
pub use mint::is_minted;
pub(crate) use new_name::already_registered;
pub(crate) use planner::RegistrationPlanner;
pub use record::{DoiRecord, DoiStatus, MetadataIssue, RegistrationState, is_reserved};
pub(crate) use record::{Registration, has_metadata, owned_name_key, url_value};
pub(crate) use redact::REDACTION_TYPE;
pub use redact::{RedactDoi, Redaction, RedactionMark};
pub use register::RegisterDoi;
pub use request::RegistrationRequest;
pub use retire::RetireDoi;
pub use update::UpdateDoi;
pub(crate) use visibility::VisibilityFilter;

pub use crate::listing::{DoiFilter, DoiListItem};

//! Registration of DOIs through the registry API.
//!
//! In the order of a request: `request` is the JSON body; `new_name` checks a requested name and `mint` generates one;
//! `register`, `update` and `retire` are the commands; `build_record` turns the request into a record under the policy of the
//! prefix; `record` is the registration as stored and as returned. `batch` and `batch_plan` do the same for many lines, and
//! `visibility` hides reserved names.

mod batch;
mod batch_plan;
mod build_record;
mod mint;
mod new_name;
mod record;
mod register;
mod request;
mod retire;
mod update;
mod visibility;

pub use batch::{BatchLine, BatchLineOutcome, BatchLineStatus};
pub(crate) use build_record::check_admin_index_free;
pub use mint::is_minted;
pub use record::{DoiRecord, DoiStatus, MetadataIssue, RegistrationState, is_reserved};
pub(crate) use record::{Registration, has_metadata, owned_name_key};
pub use register::RegisterDoi;
pub use request::RegistrationRequest;
pub use retire::RetireDoi;
pub use update::UpdateDoi;
pub(crate) use visibility::VisibilityFilter;

pub use crate::listing::{DoiList, DoiListItem};

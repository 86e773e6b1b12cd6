//! Prefix policy for handle writes.

use tendot_proto::Budget;

use crate::prefix::quota_exceeded;
use crate::rules::Rules;
use crate::validate::check_targets;
use crate::{Error, HandleWrite, RegistryError};

impl Rules {
    /// Checks a handle write against the policy of its prefix, as the registry API does. `existed` says whether the name had a
    /// record.
    pub(crate) async fn check_prefix_policy(
        &self,
        write: &HandleWrite<'_>,
        name: &str,
        existed: bool,
        now_ms: u64,
        budget: &mut Budget,
    ) -> Result<(), Error> {
        let (values, is_new) = match write {
            HandleWrite::Create { values, .. } => (values, true),
            HandleWrite::AddValues { values, .. } | HandleWrite::ModifyValues { values, .. } => {
                (values, false)
            }
            _ => return Ok(()),
        };
        let Some((prefix, _)) = name.split_once('/') else { return Ok(()) };
        let Some(allocation) = self.load_allocation(prefix, budget).await? else {
            return Ok(());
        };
        for value in values {
            check_targets(value)?;
            allocation.check_value_hosts(value, "/values")?;
        }
        if !is_new || existed {
            return Ok(());
        }
        self.check_new_name(name, &allocation, budget).await?;
        if allocation.requires_metadata() {
            let rejection = RegistryError::metadata_required(prefix);
            return Err(rejection.with_hint("register or reserve the name with `POST /api/v1/dois`").into());
        }
        match self.remaining_quota(&allocation, now_ms).await? {
            Some(0) => Err(quota_exceeded(&allocation).into()),
            _ => Ok(()),
        }
    }
}

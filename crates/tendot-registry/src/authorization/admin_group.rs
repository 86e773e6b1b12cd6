//! Membership in admin groups: `HS_VLIST` values of this site, and groups nested in them.

use std::collections::{HashSet, VecDeque};

use tendot_proto::record::ValueList;
use tendot_proto::{Budget, ValueReference};
use tendot_store::NameKey;

use crate::authorization::reference_covers;
use crate::rules::Authorizer;
use crate::{Error, cost};

/// Maximum nesting of groups.
const MAX_GROUP_DEPTH: usize = 8;

/// Maximum number of members visited in all groups together. Later ones are not found.
const MAX_GROUP_MEMBERS: usize = 256;

impl Authorizer {
    /// Whether an identity is listed, or is a member of a listed group. Breadth-first search.
    ///
    /// Groups of other services have no members, because a request never makes this server query foreign servers. References
    /// with index 0 stand for the keys of a record and are not groups.
    pub(crate) async fn is_member(
        &self,
        identity: &ValueReference<'_>,
        listed: &[ValueReference<'_>],
        budget: &mut Budget,
    ) -> Result<bool, Error> {
        budget.charge(cost::bytes(listed.len()))?;
        if listed.iter().any(|reference| reference_covers(reference, identity)) {
            return Ok(true);
        }
        let mut seen = HashSet::new();
        let mut groups: VecDeque<(ValueReference<'_>, usize)> =
            listed.iter().take(MAX_GROUP_MEMBERS).map(|reference| (reference.clone(), 1)).collect();
        let mut left = MAX_GROUP_MEMBERS;
        while let Some((group, depth)) = groups.pop_front() {
            let Some(members) = self.group_members(&group, &mut seen, budget).await? else { continue };
            for member in members {
                budget.charge(cost::STEP)?;
                if left == 0 {
                    return Ok(false);
                }
                left -= 1;
                if reference_covers(&member, identity) {
                    return Ok(true);
                }
                if depth < MAX_GROUP_DEPTH {
                    groups.push_back((member, depth + 1));
                }
            }
        }
        Ok(false)
    }

    /// Members of a group that has not been visited yet.
    async fn group_members(
        &self,
        group: &ValueReference<'_>,
        seen: &mut HashSet<(NameKey, u32)>,
        budget: &mut Budget,
    ) -> Result<Option<Vec<ValueReference<'static>>>, Error> {
        let name = group.handle();
        let Some(key) = name.to_str().ok().and_then(|text| NameKey::new(text).ok()) else { return Ok(None) };
        if group.index == 0 || !seen.insert((key, group.index)) {
            return Ok(None);
        }
        let Some(values) = self.site_values(name, budget).await? else { return Ok(None) };
        let Some(value) =
            values.iter().find(|value| value.index == group.index && *value.value_type == *b"HS_VLIST")
        else {
            return Ok(None);
        };
        budget.charge(cost::bytes(value.data.len()))?;
        let Ok(list) = ValueList::from_bytes(&value.data) else { return Ok(None) };
        Ok(Some(list.members.into_iter().map(ValueReference::into_owned).collect()))
    }
}

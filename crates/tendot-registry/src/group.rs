//! Who is in a group: the members of `HS_VLIST` values that are kept here, and of the groups among them.

use std::collections::{HashSet, VecDeque};

use tendot_proto::record::ValueList;
use tendot_proto::{Budget, ValueReference};
use tendot_store::NameKey;

use crate::caller::reference_covers;
use crate::{Error, Registry, price};

/// Groups in groups in groups: members of the eighth are still members.
const MAX_GROUP_DEPTH: usize = 8;

/// Members that are looked at, of all groups together. Who comes later is not found.
const MAX_GROUP_MEMBERS: usize = 256;

impl Registry {
    /// Whether somebody is one of those listed, or in one of the groups among them, breadth first.
    ///
    /// Groups that are kept elsewhere have no members: a request never makes the server ask strangers. Nor do
    /// references to any value of a record, which stand for its keys.
    pub(crate) async fn is_member(
        &self,
        who: &ValueReference<'_>,
        listed: &[ValueReference<'_>],
        work: &mut Budget,
    ) -> Result<bool, Error> {
        work.charge(price::bytes(listed.len()))?;
        if listed.iter().any(|one| reference_covers(one, who)) {
            return Ok(true);
        }
        let mut seen = HashSet::new();
        let mut groups: VecDeque<(ValueReference<'_>, usize)> =
            listed.iter().take(MAX_GROUP_MEMBERS).map(|one| (one.clone(), 1)).collect();
        let mut left = MAX_GROUP_MEMBERS;
        while let Some((group, depth)) = groups.pop_front() {
            let Some(members) = self.group_members(&group, &mut seen, work).await? else { continue };
            for member in members {
                work.charge(price::STEP)?;
                if left == 0 {
                    return Ok(false);
                }
                left -= 1;
                if reference_covers(&member, who) {
                    return Ok(true);
                }
                if depth < MAX_GROUP_DEPTH {
                    groups.push_back((member, depth + 1));
                }
            }
        }
        Ok(false)
    }

    /// The members of a group that has not been seen yet.
    async fn group_members(
        &self,
        group: &ValueReference<'_>,
        seen: &mut HashSet<(NameKey, u32)>,
        work: &mut Budget,
    ) -> Result<Option<Vec<ValueReference<'static>>>, Error> {
        let name = group.handle();
        let Some(key) = name.to_str().ok().and_then(|text| NameKey::new(text).ok()) else { return Ok(None) };
        if group.index == 0 || !seen.insert((key, group.index)) {
            return Ok(None);
        }
        let Some(values) = self.site_values(name, work).await? else { return Ok(None) };
        let Some(value) =
            values.iter().find(|value| value.index == group.index && *value.value_type == *b"HS_VLIST")
        else {
            return Ok(None);
        };
        work.charge(price::bytes(value.data.len()))?;
        let Ok(list) = ValueList::from_bytes(&value.data) else { return Ok(None) };
        Ok(Some(list.members.into_iter().map(ValueReference::into_owned).collect()))
    }
}

//! Who is in a group: the members of `HS_VLIST` values that are kept here, and of the groups among them.

use std::collections::{HashSet, VecDeque};

use tendot_proto::record::ValueList;
use tendot_proto::{Reference, Work};
use tendot_store::Key;

use crate::caller::is_meant;
use crate::{Error, Registry, price};

/// Groups in groups in groups: members of the eighth are still members.
const DEPTH: usize = 8;

/// Members that are looked at, of all groups together. Who comes later is not found.
const MEMBERS: usize = 256;

impl Registry {
    /// Whether somebody is one of those listed, or in one of the groups among them, breadth first.
    ///
    /// Groups that are kept elsewhere have no members: a request never makes the server ask strangers. Nor do
    /// references to any value of a record, which stand for its keys.
    pub(crate) async fn is_member(
        &self,
        who: &Reference<'_>,
        listed: &[Reference<'_>],
        work: &mut Work,
    ) -> Result<bool, Error> {
        work.spend(price::bytes(listed.len()))?;
        if listed.iter().any(|one| is_meant(one, who)) {
            return Ok(true);
        }
        let mut seen = HashSet::new();
        let mut groups: VecDeque<(Reference<'_>, usize)> =
            listed.iter().take(MEMBERS).map(|one| (one.clone(), 1)).collect();
        let mut left = MEMBERS;
        while let Some((group, depth)) = groups.pop_front() {
            let Some(members) = self.members(&group, &mut seen, work).await? else { continue };
            for member in members {
                work.spend(price::STEP)?;
                if left == 0 {
                    return Ok(false);
                }
                left -= 1;
                if is_meant(&member, who) {
                    return Ok(true);
                }
                if depth < DEPTH {
                    groups.push_back((member, depth + 1));
                }
            }
        }
        Ok(false)
    }

    /// The members of a group that has not been seen yet.
    async fn members(
        &self,
        group: &Reference<'_>,
        seen: &mut HashSet<(Key, u32)>,
        work: &mut Work,
    ) -> Result<Option<Vec<Reference<'static>>>, Error> {
        let name = group.handle();
        let Some(key) = name.to_str().ok().and_then(|text| Key::new(text).ok()) else { return Ok(None) };
        if group.index == 0 || !seen.insert((key, group.index)) {
            return Ok(None);
        }
        let Some(values) = self.ours(name, work).await? else { return Ok(None) };
        let Some(value) =
            values.iter().find(|value| value.index == group.index && *value.value_type == *b"HS_VLIST")
        else {
            return Ok(None);
        };
        work.spend(price::bytes(value.data.len()))?;
        let Ok(list) = ValueList::from_bytes(&value.data) else { return Ok(None) };
        Ok(Some(list.members.into_iter().map(Reference::into_owned).collect()))
    }
}

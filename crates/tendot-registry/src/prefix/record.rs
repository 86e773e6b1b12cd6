//! Record of a prefix, `0.NA/PREFIX`: namespace, admin and admin group values.

use std::collections::BTreeSet;

use tendot_proto::record::{Admin, AdminPermissions, ValueList};
use tendot_proto::{HandleValue, ValueReference};
use tendot_store::{Edit, Precondition, StoredRecord};

use crate::handle_write::set_timestamps;
use crate::party::{Agency, Registrant, RegistryObjectKind, encode, touch_holdings};
use crate::prefix::{Prefix, ServiceHandleRecord};
use crate::rules::RecordReader;
use crate::{RegistryError, codes};

/// Value indexes in the prefix record that the registry manages.
const NAMESPACE_INDEX: u32 = 20;
pub(crate) const ADMIN_INDEX: u32 = 100;
pub(crate) const GROUP_INDEX: u32 = 200;

/// Maximum number of other registrants who own names under a prefix; each has a value in its record.
const MAX_PREFIX_REGISTRANTS: usize = 1_000;

impl Prefix {
    pub(crate) fn record_name(&self) -> Box<str> {
        format!("0.NA/{}", self.prefix).into()
    }

    /// Edit of the prefix record: replaces the registry's values and keeps all others.
    pub(crate) fn record_edit(
        &self,
        holder: &Registrant,
        agency: &Agency,
        service: Option<&ServiceHandleRecord>,
        existing: Option<&StoredRecord>,
        now_ms: u64,
    ) -> Edit {
        let reference = ValueReference::new(GROUP_INDEX, self.record_name().as_bytes().to_vec());
        let permissions = AdminPermissions::ADD_HANDLE | AdminPermissions::LIST_HANDLES;
        let admin = Admin { permissions, reference, legacy_byte_length: false };
        let members = holder.admin_references();
        let mut values = vec![
            HandleValue::with_data(NAMESPACE_INDEX, "HS_NAMESPACE", namespace_xml(agency).into_bytes()),
            HandleValue::with_data(ADMIN_INDEX, "HS_ADMIN", admin.to_bytes()),
            HandleValue::with_data(GROUP_INDEX, "HS_VLIST", ValueList { members }.to_bytes()),
        ];
        let previous = existing.map(|entry| entry.values.as_slice()).unwrap_or_default();
        values.extend(previous.iter().filter(|value| !is_registry_index(value.index)).cloned());
        if let Some(service) = service {
            service.add_reference(&mut values);
        }
        values.sort_by_key(|value| value.index);
        self.put_edit(values, existing, now_ms)
    }

    /// Edit that sets the admin groups of another registrant who owns names under the prefix.
    pub(crate) fn admin_groups_edit(
        &self,
        of: &Registrant,
        indexes: impl IntoIterator<Item = u32>,
        existing: &StoredRecord,
        now_ms: u64,
    ) -> Edit {
        let mut values = existing.values.clone();
        for index in indexes {
            let members = of.admin_references();
            values.retain(|value| value.index != index);
            values.push(HandleValue::with_data(index, "HS_VLIST", ValueList { members }.to_bytes()));
        }
        values.sort_by_key(|value| value.index);
        self.put_edit(values, Some(existing), now_ms)
    }

    fn put_edit(
        &self,
        mut values: Vec<HandleValue<'static>>,
        existing: Option<&StoredRecord>,
        now_ms: u64,
    ) -> Edit {
        let previous = existing.map(|entry| entry.values.as_slice()).unwrap_or_default();
        set_timestamps(&mut values, previous, now_ms);
        let expect = existing.map_or(Precondition::Absent, |entry| Precondition::AtRevision(entry.revision));
        Edit::Register { name: self.record_name(), values, registration: encode(self), precondition: expect }
    }

    /// Edits that mark the holdings of the new holder and agency as changed.
    pub(crate) fn holdings_edits(&self, now_ms: u64) -> [Edit; 2] {
        let marker = format!("{} {now_ms}", self.prefix);
        [
            touch_holdings(RegistryObjectKind::Agency, &self.agency, &marker),
            touch_holdings(RegistryObjectKind::Registrant, &self.registrant, &marker),
        ]
    }

    /// Index of the admin group of another registrant; allocates a free one if there is none.
    pub(crate) fn allocate_group_index(
        &mut self,
        registrant: &str,
        record: &StoredRecord,
    ) -> Result<u32, RegistryError> {
        if let Some(index) = self.group_indexes.get(registrant) {
            return Ok(*index);
        }
        if self.group_indexes.len() >= MAX_PREFIX_REGISTRANTS {
            let detail = format!(
                "prefix {} already has names of {MAX_PREFIX_REGISTRANTS} other registrants (the maximum)",
                self.prefix
            );
            return Err(RegistryError::new(codes::TOO_MANY_REGISTRANTS, detail).with_pointer("/to"));
        }
        let taken = record.values.iter().map(|value| value.index).chain(self.group_indexes.values().copied());
        let index = free_index(GROUP_INDEX + 1, &taken.collect());
        self.group_indexes.insert(registrant.into(), index);
        Ok(index)
    }

    /// Edit that sets the agency and its locations in the prefix record.
    pub(crate) fn namespace_edit(&self, agency: &Agency, existing: &StoredRecord, now_ms: u64) -> Edit {
        let prefix = Self { agency: agency.code.clone(), ..self.clone() };
        let mut values = existing.values.clone();
        values.retain(|value| value.index != NAMESPACE_INDEX);
        values.push(HandleValue::with_data(
            NAMESPACE_INDEX,
            "HS_NAMESPACE",
            namespace_xml(agency).into_bytes(),
        ));
        values.sort_by_key(|value| value.index);
        prefix.put_edit(values, Some(existing), now_ms)
    }
}

/// `HS_ADMIN` value of a name: its admins are a group of the prefix record.
pub(crate) fn admin_group_value(prefix: &Prefix, group: u32) -> HandleValue<'static> {
    let reference = ValueReference::new(group, prefix.record_name().as_bytes().to_vec());
    let admin = Admin { permissions: AdminPermissions::ALL, reference, legacy_byte_length: false };
    HandleValue::with_data(ADMIN_INDEX, "HS_ADMIN", admin.to_bytes())
}

/// First free index from `first` on.
pub(crate) fn free_index(first: u32, taken: &BTreeSet<u32>) -> u32 {
    taken.range(first..).fold(first, |free, taken| if *taken == free { free.saturating_add(1) } else { free })
}

const fn is_registry_index(index: u32) -> bool {
    matches!(index, NAMESPACE_INDEX | ADMIN_INDEX | GROUP_INDEX)
}

/// `HS_NAMESPACE` of a prefix: the agency's DOI and common locations.
fn namespace_xml(agency: &Agency) -> String {
    let code = agency.code.to_ascii_uppercase();
    let locations = agency.locations.as_ref().map_or_else(String::new, |handle| {
        let escaped = handle.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        format!("<locs>{escaped}</locs>")
    });
    format!("<namespace><DOI.RA>10.SERV/{code}</DOI.RA>{locations}</namespace>")
}

impl RecordReader {
    /// Edits that update a registrant's admin groups in all prefix records.
    pub(crate) async fn admin_group_edits(
        &self,
        registrant: &Registrant,
        now_ms: u64,
    ) -> Result<Vec<Edit>, RegistryError> {
        self.guard_holdings(RegistryObjectKind::Registrant, &registrant.id).await?;
        let mut edits = Vec::new();
        self.visit_prefixes(|prefix, entry| {
            let own = (*prefix.registrant == *registrant.id).then_some(GROUP_INDEX);
            let other = prefix.group_indexes.get(&registrant.id).copied();
            if own.or(other).is_some() {
                edits.push(prefix.admin_groups_edit(registrant, own.into_iter().chain(other), entry, now_ms));
            }
        })
        .await?;
        Ok(edits)
    }

    /// Edits that update the namespace in all prefix records of an agency.
    pub(crate) async fn namespace_edits(
        &self,
        agency: &Agency,
        now_ms: u64,
    ) -> Result<Vec<Edit>, RegistryError> {
        self.guard_holdings(RegistryObjectKind::Agency, &agency.code).await?;
        let mut edits = Vec::new();
        self.visit_prefixes(|prefix, entry| {
            if prefix.agency.eq_ignore_ascii_case(&agency.code) {
                edits.push(prefix.namespace_edit(agency, entry, now_ms));
            }
        })
        .await?;
        Ok(edits)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tendot_store::RecordStatus;

    use super::*;
    use crate::RegistryErrorKind;
    use crate::prefix::PrefixPolicy;

    #[test]
    fn groups() {
        let (policy, group_indexes) = (PrefixPolicy::default(), BTreeMap::new());
        let (registrant, agency) = ("r".into(), "a".into());
        let mut prefix = Prefix {
            prefix: "10.1".into(),
            registrant,
            agency,
            allocated_ms: 0,
            is_test: false,
            policy,
            group_indexes,
        };
        let values = vec![HandleValue::new(201, "NOTE", ""), HandleValue::new(300, "HS_PUBKEY", "")];
        let (name, registration) = (prefix.record_name(), Box::default());
        let record = StoredRecord { name, revision: 1, status: RecordStatus::Live, values, registration };
        let mut taken = BTreeSet::from([201, 300]);
        for number in 0..MAX_PREFIX_REGISTRANTS {
            let registrant = format!("r{number}");
            let index = prefix.allocate_group_index(&registrant, &record).unwrap();
            assert!(taken.insert(index), "duplicate index {index}");
            assert_eq!(prefix.allocate_group_index(&registrant, &record).unwrap(), index);
        }
        let rejection = prefix.allocate_group_index("one more", &record).unwrap_err();
        assert_eq!(
            (rejection.kind, rejection.code),
            (RegistryErrorKind::LimitReached, "too-many-registrants")
        );
        assert_eq!(prefix.group_indexes.len(), MAX_PREFIX_REGISTRANTS);
    }
}

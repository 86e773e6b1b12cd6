//! Plans homing and unhoming of prefixes; syntax of homed prefixes.

use tendot_proto::{Budget, Handle};
use tendot_store::Edit;

use super::{PlannedWrite, WritePlan, WritePlanner};
use crate::authorization::Requirement;
use crate::party::is_reserved_prefix;
use crate::{Error, RegistryError, codes, cost};

impl WritePlanner<'_> {
    pub(super) async fn plan_set_homed(
        &self,
        prefix: Handle<'_>,
        is_homed: bool,
        budget: &mut Budget,
    ) -> Result<WritePlan, Error> {
        let name: Box<str> = prefix.to_string().into();
        let prefix = parse_homed_prefix(prefix)?;
        // Registry objects are not handles.
        if prefix.rsplit('/').next().is_some_and(|last| is_reserved_prefix(last.as_bytes())) {
            return Err(Error::ReservedPrefix);
        }
        budget.charge(cost::LOOKUP)?;
        let was_homed = self.rules.store.is_homed(prefix.as_bytes()).await?;
        // Without it, none of the names would resolve that the registry has registered.
        let is_needed = was_homed && !is_homed && self.rules.prefix_record(&prefix, budget).await?.is_some();
        let result = if is_needed {
            let detail = format!("prefix `{prefix}` is allocated to a registrant; it cannot be unhomed");
            Err(RegistryError::new(codes::PREFIX_ALLOCATED, detail).into())
        } else {
            let edit = if is_homed { Edit::Home { prefix } } else { Edit::Unhome { prefix } };
            let edit = (is_homed != was_homed).then_some(edit);
            Ok(PlannedWrite { existed: was_homed, edit, ..PlannedWrite::unchanged(name) })
        };
        Ok(WritePlan { requirement: Requirement::ServerAdmin, changes_access: false, result })
    }
}

/// Maximum length of a homed prefix, in bytes. Stores use prefixes as short keys.
const MAX_HOMED_PREFIX_LEN: usize = 255;

/// Parses a homed prefix into its stored form, without `0.NA/`.
pub(crate) fn parse_homed_prefix(prefix: Handle<'_>) -> Result<Box<str>, Error> {
    prefix.validate()?;
    let full = prefix.qualified();
    let name = Handle::new(&full);
    let not_prefix = || Error::InvalidPrefix { name: prefix.to_string().into() };
    let is_prefix = |suffix: &&[u8]| name.is_prefix_handle() && suffix.len() <= MAX_HOMED_PREFIX_LEN;
    let suffix = name.suffix().filter(is_prefix).ok_or_else(not_prefix)?;
    let text = std::str::from_utf8(suffix).map_err(|_| not_prefix())?;
    // A slash is allowed only for the prefixes derived from another.
    let prefix = text.split_once('/').map_or(Some(text), |(start, of)| {
        (start.eq_ignore_ascii_case("0.NA") && !of.contains('/')).then_some(of)
    });
    let well_formed = |prefix: &str| !prefix.is_empty() && prefix.split('.').all(|part| !part.is_empty());
    if prefix.is_some_and(well_formed) { Ok(text.into()) } else { Err(not_prefix()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes() {
        check("0.NA/10.1000", Some("10.1000"));
        check("10.1000", Some("10.1000"));
        check("0.na/20.abc", Some("20.abc"));
        check("0.NA/0.NA", Some("0.NA"));
        check("0.NA/0.NA/10", Some("0.NA/10"));
        check("0.NA/10/x", None);
        check("0.NA/0.NA/10/x", None);
        check("0.NA/0.NA/", None);
        check("0.NA/", None);
        check("", None);
        check("10.1000/x", None);
        check("10..1", None);
        check(".", None);
        let long = "1".repeat(256);
        check(&long, None);
        check(&long[1..], Some(&long[1..]));
    }

    #[track_caller]
    fn check(written: &str, expected: Option<&str>) {
        assert_eq!(parse_homed_prefix(Handle::from(written)).ok().as_deref(), expected, "{written}");
    }
}

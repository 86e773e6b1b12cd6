//! Checks of a new DOI name: syntax, suffix pattern, confusable names.

use tendot_names::{Doi, Parser};
use tendot_proto::{Budget, Handle};
use tendot_store::{RecordStatus, StoredRecord};

use crate::prefix::PrefixAllocation;
use crate::registration::Registration;
use crate::validate::{check_handle_name, has_mixed_scripts};
use crate::{Registry, RegistryError, WriteWarning, codes};

/// Parses a DOI into prefix and suffix.
pub(super) fn parse_doi(name: &str) -> Result<(&str, &str), RegistryError> {
    let read = Doi::new(name).map_err(|error| {
        let rejection =
            RegistryError::invalid(codes::INVALID_NAME, "/name", format!("`{name}` is no DOI name: {error}"));
        let reading = Parser::lenient().max_len(4_096).parse(name).ok();
        match reading.as_ref().and_then(|reading| reading.doi()) {
            Some(suggestion) => rejection.with_hint(format!("do you mean `{suggestion}`?")),
            None => rejection,
        }
    })?;
    Ok((read.prefix(), read.suffix()))
}

pub(super) fn check_prefix_matches(name: &str, prefix: Option<&str>) -> Result<(), RegistryError> {
    match prefix {
        Some(prefix) if name.split_once('/').is_none_or(|(own, _)| own != prefix) => {
            let detail = format!("`{name}` is not under `{prefix}`");
            Err(RegistryError::invalid(codes::PREFIX_MISMATCH, "/prefix", detail))
        }
        _ => Ok(()),
    }
}

/// Error: the name is registered, or was retired.
pub(super) fn already_registered(entry: &StoredRecord) -> Result<RegistryError, RegistryError> {
    let created = Registration::of_record(entry)?.created;
    let rejection = match entry.state {
        RecordStatus::Live => {
            let detail = format!("the name is registered as `{}`", entry.name);
            RegistryError::new(codes::ALREADY_REGISTERED, detail)
                .with_hint("`PUT /api/v1/dois/{name}` changes it")
        }
        RecordStatus::Tombstone => {
            let detail = format!(
                "the name was registered as `{}`, has been ended, and is not given again",
                entry.name
            );
            RegistryError::new(codes::ALREADY_REGISTERED, detail)
        }
    };
    Ok(rejection.with_pointer("/name").with_existing(entry.name.clone(), Some(created)))
}

impl Registry {
    /// Checks a new name against the limits and the policy of its prefix; returns warnings.
    pub(crate) async fn check_new_name(
        &self,
        name: &str,
        allocation: &PrefixAllocation,
        budget: &mut Budget,
    ) -> Result<Vec<WriteWarning>, RegistryError> {
        check_handle_name(Handle::from(name), &self.settings.limits)?;
        let (_, suffix) = parse_doi(name)?;
        allocation.check_suffix(suffix)?;
        let mut notes = Vec::new();
        if name.is_ascii() {
            return Ok(notes);
        }
        if let Some(with) = self.find_confusable(name, budget).await? {
            if allocation.rejects_confusable() || !self.settings.limits.confusable_names {
                return Err(crate::Error::Confusable { with }.into());
            }
            notes.push(WriteWarning::ConfusableWith { name: with });
        }
        if has_mixed_scripts(name) {
            if allocation.rejects_confusable() {
                let detail = "the name has letters of several scripts, some of which look the same";
                return Err(RegistryError::new(codes::CONFUSABLE, detail).with_pointer("/name"));
            }
            notes.push(WriteWarning::MixedScripts);
        }
        Ok(notes)
    }
}

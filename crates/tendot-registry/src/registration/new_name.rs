//! Checks of a new DOI name: syntax, suffix pattern, confusable names.

use tendot_names::{Doi, Parser, SyntaxRules};
use tendot_proto::{Budget, Handle};
use tendot_store::{RecordStatus, StoredRecord};

use crate::prefix::{PrefixAllocation, is_numeric_prefix};
use crate::registration::Registration;
use crate::rules::SiteReader;
use crate::validate::{check_handle_name, has_mixed_scripts, prefix_of};
use crate::{RegistryError, RegistrySettings, WriteWarning, codes};

/// Maximum length of an invalid name for which a correction is suggested, in bytes.
const MAX_HINT_LEN: usize = 4_096;

/// Parses a bare DOI. Under a directory code other than `10`, the registrant code may be missing.
pub(super) fn parse_doi<'n>(name: &'n str, settings: &RegistrySettings) -> Result<&'n Doi, RegistryError> {
    let prefix = prefix_of(name);
    let has_other_code =
        !prefix.starts_with("10.") && is_numeric_prefix(prefix) && settings.is_doi_prefix(prefix);
    let rules = if has_other_code { SyntaxRules::Minimal2002 } else { SyntaxRules::Current };
    Doi::with_rules(name, rules).map_err(|error| {
        // The parser knows what is wrong with a written form such as a URL.
        let error = Parser::strict().parse(name).err().unwrap_or(error);
        let rejection =
            RegistryError::invalid(codes::INVALID_NAME, "/name", format!("invalid DOI `{name}`: {error}"));
        let parsed = Parser::lenient().max_len(MAX_HINT_LEN).parse(name).ok();
        match parsed.as_ref().and_then(|parsed| parsed.doi()) {
            Some(suggestion) => rejection.with_hint(format!("did you mean `{suggestion}`?")),
            None => rejection,
        }
    })
}

pub(super) fn check_prefix_matches(name: &str, prefix: Option<&str>) -> Result<(), RegistryError> {
    match prefix {
        Some(prefix) if name.split_once('/').is_none_or(|(own, _)| own != prefix) => {
            let detail = format!("`{name}` does not belong to prefix `{prefix}`");
            Err(RegistryError::invalid(codes::PREFIX_MISMATCH, "/prefix", detail))
        }
        _ => Ok(()),
    }
}

/// Error: the name is registered, or was retired.
pub(crate) fn already_registered(entry: &StoredRecord, registration: &Registration) -> RegistryError {
    let rejection = match entry.status {
        RecordStatus::Live => {
            let detail = format!("already registered as `{}`", entry.name);
            RegistryError::new(codes::ALREADY_REGISTERED, detail)
                .with_hint("update it with `PUT /api/v1/dois/{name}`")
        }
        RecordStatus::Tombstone => {
            let detail = format!("`{}` is retired; the name cannot be reused", entry.name);
            RegistryError::new(codes::ALREADY_REGISTERED, detail)
        }
    };
    rejection
        .with_pointer("/name")
        .with_existing(entry.name.clone(), Some(registration.created_ms).filter(|created_ms| *created_ms > 0))
}

impl SiteReader {
    /// Checks a new name against the grammar of DOIs, the limits and the policy of its prefix; returns warnings.
    pub(crate) async fn check_new_name(
        &self,
        name: &str,
        allocation: &PrefixAllocation,
        budget: &mut Budget,
    ) -> Result<Vec<WriteWarning>, RegistryError> {
        check_handle_name(Handle::from(name), &self.settings.limits)?;
        allocation.check_suffix(parse_doi(name, &self.settings)?)?;
        let mut warnings = Vec::new();
        let is_rejected = allocation.rejects_confusable() || !self.settings.limits.allow_confusable_names;
        // ASCII names look only like names with other characters: that is worth the lookups only if they are rejected.
        if name.is_ascii() && !is_rejected {
            return Ok(warnings);
        }
        if let Some(with) = self.find_confusable(name, budget).await? {
            if is_rejected {
                return Err(crate::Error::Confusable { name: name.into(), with }.into());
            }
            warnings.push(WriteWarning::ConfusableWith { name: with });
        }
        if has_mixed_scripts(name) {
            if allocation.rejects_confusable() {
                let detail = "name mixes scripts with confusable letters";
                return Err(RegistryError::new(codes::CONFUSABLE, detail).with_pointer("/name"));
            }
            warnings.push(WriteWarning::MixedScripts);
        }
        Ok(warnings)
    }
}

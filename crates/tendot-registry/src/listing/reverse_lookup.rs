//! Reverse lookup: finds handles by the values of their records.

use memchr::memmem::Finder;
use tendot_proto::{Budget, Handle, HandleValue};
use tendot_store::{NameKey, RecordStatus, Store, StoredRecord};

use crate::authorization::{Claimant, Requirement};
use crate::registration::is_reserved;
use crate::rules::SiteReader;
use crate::{Caller, Error, Registry, ResultPage, cost};

/// Reverse lookup: records with public values that match wildcard patterns.
///
/// A pattern is compared with the data of a value byte for byte; `*` matches any bytes or none. Without patterns nothing is
/// found.
///
/// ```
/// use tendot_registry::ReverseLookup;
///
/// let mut lookup = ReverseLookup::default();
/// lookup.add_pattern("URL", "https://example.org/*");
/// lookup.add_pattern("CHECKSUM", "12345");
/// lookup.prefix = Some("10.1000".into());
/// assert_eq!(lookup.pattern_count(), 2);
/// ```
#[derive(Clone, Debug, Default)]
pub struct ReverseLookup {
    /// Restricts the lookup to a prefix.
    pub prefix: Option<Box<str>>,
    /// Whether the public values of matching records are returned.
    pub with_values: bool,
    terms: Vec<ReverseLookupTerm>,
}

/// Value type, and the patterns that one value of it must match.
#[derive(Clone, Debug)]
struct ReverseLookupTerm {
    value_type: Box<[u8]>,
    patterns: Vec<WildcardPattern>,
}

impl ReverseLookup {
    /// Adds a pattern. Types are compared ASCII case-insensitively; a trailing dot includes subtypes.
    pub fn add_pattern(&mut self, value_type: &str, pattern: &str) {
        let value_type = value_type.as_bytes();
        let pattern = WildcardPattern::new(pattern);
        match self.terms.iter_mut().find(|term| term.value_type.eq_ignore_ascii_case(value_type)) {
            Some(term) => term.patterns.push(pattern),
            None => {
                self.terms.push(ReverseLookupTerm { value_type: value_type.into(), patterns: vec![pattern] });
            }
        }
    }

    /// Number of patterns.
    pub fn pattern_count(&self) -> usize {
        self.terms.iter().map(|term| term.patterns.len()).sum()
    }

    fn matches(&self, entry: &StoredRecord) -> bool {
        let has = |term: &ReverseLookupTerm| {
            let is_match = |value: &&HandleValue<'_>| {
                value.matches_type_filter(&term.value_type)
                    && term.patterns.iter().all(|pattern| pattern.matches(&value.data))
            };
            entry.values.iter().filter(|value| value.is_public()).any(|value| is_match(&value))
        };
        entry.status == RecordStatus::Live && !is_reserved(entry) && self.terms.iter().all(has)
    }
}

/// Byte pattern in which `*` matches any bytes.
#[derive(Clone, Debug)]
struct WildcardPattern {
    start: Box<[u8]>,
    between: Vec<Finder<'static>>,
    /// `None` if the pattern has no `*`.
    end: Option<Box<[u8]>>,
}

impl WildcardPattern {
    fn new(text: &str) -> Self {
        let mut parts = text.split('*').map(str::as_bytes);
        let start = parts.next().unwrap_or_default().into();
        let end = parts.next_back().map(Into::into);
        let between = parts.filter(|part| !part.is_empty()).map(|part| Finder::new(part).into_owned());
        Self { start, between: between.collect(), end }
    }

    /// Every part is matched at its first occurrence, so no byte is visited twice.
    fn matches(&self, data: &[u8]) -> bool {
        let Some(rest) = data.strip_prefix(&*self.start) else { return false };
        let Some(end) = &self.end else { return rest.is_empty() };
        let Some(mut rest) = rest.strip_suffix(&**end) else { return false };
        self.between.iter().all(|part| {
            let after = part.find(rest).and_then(|at| rest.get(at.saturating_add(part.needle().len())..));
            rest = after.unwrap_or_default();
            after.is_some()
        })
    }
}

/// Record that matches.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ReverseLookupMatch {
    /// Name of the record.
    pub name: Box<str>,
    /// Public values, if requested.
    pub values: Vec<HandleValue<'static>>,
}

impl Registry {
    /// Authorizes a caller for reverse lookup.
    pub async fn authorize_reverse_lookup(&self, caller: &Caller, budget: &mut Budget) -> Result<(), Error> {
        self.rules.authorize(&Requirement::ReverseLookup, Claimant::authenticated(caller), budget).await
    }

    /// Scans the records after `after` until the budget is used up, at least one. A complete lookup reads the whole store, so
    /// the caller limits how often it runs and on which thread.
    pub async fn reverse_lookup(
        &self,
        lookup: &ReverseLookup,
        after: Option<&str>,
        caller: &Caller,
        budget: &mut Budget,
    ) -> Result<ResultPage<ReverseLookupMatch>, Error> {
        self.authorize_reverse_lookup(caller, budget).await?;
        let mut matches = ResultPage::default();
        let patterns = lookup.pattern_count();
        if patterns == 0 {
            return Ok(matches);
        }
        let after = after.and_then(|after| NameKey::new(after).ok());
        let prefix = lookup.prefix.as_deref().map(str::as_bytes);
        let visit = |entry: &StoredRecord| {
            if lookup.matches(entry) {
                let is_visible = |value: &&HandleValue<'_>| lookup.with_values && value.is_public();
                let values = entry.values.iter().filter(is_visible).cloned().collect();
                matches.items.push(ReverseLookupMatch { name: entry.name.clone(), values });
            }
            let length = entry.values.iter().map(|value| value.data.len()).sum();
            let has_budget = budget.charge(cost::reverse_lookup(length, patterns)).is_ok();
            if !has_budget {
                matches.next = Some(entry.name.clone());
            }
            has_budget
        };
        self.rules.store.scan_records(prefix, after.as_ref(), visit).await?;
        self.rules.retain_responsible(&mut matches.items).await?;
        Ok(matches)
    }
}

impl SiteReader {
    /// Drops records left over from prefixes that moved and from other partitions; they do not resolve either.
    async fn retain_responsible(&self, records: &mut Vec<ReverseLookupMatch>) -> Result<(), Error> {
        // The cost has been charged for each match.
        let budget = &mut Budget::new(u32::MAX);
        let mut is_own = Vec::with_capacity(records.len());
        for record in &*records {
            let name = Handle::from(&*record.name);
            is_own.push(self.owns(name) && self.is_responsible(name, budget).await?);
        }
        let mut is_own = is_own.into_iter();
        records.retain(|_| is_own.next().unwrap_or_default());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        check("a", "a", true);
        check("a", "ab", false);
        check("", "", true);
        check("", "a", false);
        check("*", "", true);
        check("**", "anything", true);
        check("a*", "a", true);
        check("a*", "ba", false);
        check("*a", "ba", true);
        check("*a", "ab", false);
        check("a*a", "a", false);
        check("a*a", "aa", true);
        check("ab*bc", "abc", false);
        check("*dkrz*", "https://www.dkrz.de/", true);
        check("*DKRZ*", "https://www.dkrz.de/", false);
        check("*b*a*", "ab", false);
        check("*a*b*", "xaxbx", true);
        check("*aa*aa*", "aaa", false);
        check("a%", "ab", false);
        check("a?", "ab", false);
        check("é*", "éa", true);
    }

    #[track_caller]
    fn check(pattern: &str, data: &str, expected: bool) {
        assert_eq!(WildcardPattern::new(pattern).matches(data.as_bytes()), expected, "{pattern} {data}");
    }
}

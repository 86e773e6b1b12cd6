//! Names derived by the template of a prefix (`HS_NAMESPACE`): `10.1000/map@box(1,2)` is derived from `10.1000/map` if `@` is
//! the delimiter of the prefix; its template computes the values from `box(1,2)`.
//!
//! - `interpreter`: evaluates a `<template>` within the budget;
//! - `parameters`: `${…}` substitution;
//! - `validate`: checks a template when it is written.

mod interpreter;
mod parameters;
mod validate;

pub(crate) use validate::check_namespace;

use tendot_proto::record::Namespace;
use tendot_proto::{Budget, Handle, HandleValue, ValueReference};

use crate::Error;
use crate::rules::SiteReader;
use crate::validate::{check_targets, prefix_of};

/// Maximum number of references (`ref`) followed to a template.
const MAX_TEMPLATE_REFERENCES: usize = 10;

/// Handle split at the template delimiter: stored base and extension.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TemplateMatch<'a> {
    /// Complete handle.
    handle: &'a str,
    /// Part before the delimiter: a stored name.
    base: &'a str,
    /// Part after the delimiter.
    extension: &'a str,
}

/// Values of a name derived by a template.
pub(crate) struct DerivedValues {
    pub(crate) values: Vec<HandleValue<'static>>,
    /// Stored name that they are derived from.
    pub(crate) base: Box<str>,
}

impl SiteReader {
    /// Derives the values of a name that is not stored; `None` if no template applies.
    pub(crate) async fn resolve_template(
        &self,
        name: &str,
        budget: &mut Budget,
    ) -> Result<Option<DerivedValues>, Error> {
        let handle = Handle::from(name);
        if handle.is_prefix_handle() {
            return Ok(None);
        }
        let Some((delimiter, template)) = self.find_template(handle, budget).await? else { return Ok(None) };
        let Some(parts) = match_delimiter(name, &delimiter) else { return Ok(None) };
        let Some(base) = self.site_values(Handle::from(parts.base), budget).await? else { return Ok(None) };
        let derived = |values| DerivedValues { values, base: parts.base.into() };
        let Some(template) = template else { return Ok(Some(derived(base))) };
        let source = self.follow_references(template, budget).await?;
        let values = interpreter::evaluate(&source, parts, &base, &self.settings.limits, budget)?;
        let Some(mut values) = values else { return Ok(None) };
        self.retain_allowed_targets(name, &mut values, budget).await?;
        Ok(Some(derived(values)))
    }

    /// Removes derived values of a registered name that lead where a stored value could not: the client chooses the extension,
    /// which must not become user information or the end of a host name.
    async fn retain_allowed_targets(
        &self,
        name: &str,
        values: &mut Vec<HandleValue<'static>>,
        budget: &mut Budget,
    ) -> Result<(), Error> {
        let prefix = prefix_of(name);
        let Some(allocation) = self.load_allocation(prefix, budget).await? else { return Ok(()) };
        values.retain(|value| {
            check_targets(value).is_ok() && allocation.check_value_hosts(value, "/values").is_ok()
        });
        Ok(())
    }

    /// Whether a name would be derived by a template if it is not stored.
    pub(crate) async fn is_template_derived(&self, name: &str, budget: &mut Budget) -> Result<bool, Error> {
        let handle = Handle::from(name);
        if handle.is_prefix_handle() {
            return Ok(false);
        }
        let template = self.find_template(handle, budget).await?;
        Ok(template.is_some_and(|(delimiter, _)| match_delimiter(name, &delimiter).is_some()))
    }

    /// Delimiter for a name, and the namespace with its template, if any.
    async fn find_template(
        &self,
        name: Handle<'_>,
        budget: &mut Budget,
    ) -> Result<Option<(String, Option<String>)>, Error> {
        let settings = &self.settings.templates;
        let of_prefix =
            if settings.use_prefix_namespace { self.prefix_namespace(name, budget).await? } else { None };
        for source in of_prefix.as_deref().into_iter().chain(settings.default_namespace.as_deref()) {
            // An invalid namespace is ignored, as by deployed servers.
            let Ok(namespace) = Namespace::from_bytes(source.as_bytes()) else { continue };
            if let Some(delimiter) = namespace.template_delimiter().filter(|found| !found.is_empty()) {
                return Ok(Some((delimiter.into(), Some(source.into()))));
            }
        }
        let delimiter = settings.default_delimiter.as_deref().filter(|found| !found.is_empty());
        Ok(delimiter.map(|delimiter| (delimiter.into(), None)))
    }

    /// `HS_NAMESPACE` of the prefix of a name.
    async fn prefix_namespace(&self, name: Handle<'_>, budget: &mut Budget) -> Result<Option<String>, Error> {
        let prefix = name.prefix_handle();
        let Some(values) = self.site_values(Handle::new(&prefix), budget).await? else { return Ok(None) };
        let namespace = Namespace::find_value(&values);
        Ok(namespace.and_then(|value| String::from_utf8(value.data.to_vec()).ok()))
    }

    /// Source of a template after following its references.
    async fn follow_references(&self, mut source: String, budget: &mut Budget) -> Result<String, Error> {
        for _ in 0..=MAX_TEMPLATE_REFERENCES {
            let Some(reference) = interpreter::template_reference(&source)? else { return Ok(source) };
            let reference = ValueReference::parse(&reference).into_owned();
            let missing = || Error::Template { reason: format!("template `{reference}` not found") };
            let mut values =
                self.site_values(reference.handle(), budget).await?.ok_or_else(missing)?.into_iter();
            // Only public values: a template must not give its author access to private ones.
            let matches = |value: &HandleValue<'_>| value.index == reference.index && value.is_public();
            let value = values.find(matches).ok_or_else(missing)?;
            source = String::from_utf8(value.data.into_owned()).map_err(|_| missing())?;
        }
        Err(Error::Template { reason: format!("more than {MAX_TEMPLATE_REFERENCES} template references") })
    }
}

/// Splits a name at the first delimiter after its prefix.
fn match_delimiter<'a>(handle: &'a str, delimiter: &str) -> Option<TemplateMatch<'a>> {
    let suffix = handle.find('/')? + 1;
    let position = suffix + handle.get(suffix..)?.find(delimiter)?;
    Some(TemplateMatch {
        handle,
        base: handle.get(..position)?,
        extension: handle.get(position + delimiter.len()..)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts() {
        let check = |handle, delimiter, expected: Option<(&str, &str)>| {
            let found = match_delimiter(handle, delimiter).map(|parts| (parts.base, parts.extension));
            assert_eq!(found, expected, "{handle}");
        };
        check("10.1/a@b", "@", Some(("10.1/a", "b")));
        check("10.1/a@b@c", "@", Some(("10.1/a", "b@c")));
        check("10.1/a", "@", None);
        check("10@1/a@", "@", Some(("10@1/a", "")));
        check("10.1/@b", "@", Some(("10.1/", "b")));
        check("10.1/a/b", "/", Some(("10.1/a", "b")));
        check("10.1/aééb", "éé", Some(("10.1/a", "b")));
        check("10.1", ".", None);
    }
}

//! OpenURL requests (ANSI/NISO Z39.88): `/resolve`, `/openurl`.

use tendot_names::{InputForm, ShortDoi};

use crate::http::request::name_path;
use crate::http::request::percent::{self, RequestSyntaxError};
use crate::http::request::query::QueryParams;

/// Keys whose value is an identifier: version 0.1 of the standard, version 1.0, and the DOI of the referent.
const IDENTIFIER_KEYS: [&str; 3] = ["id", "rft_id", "rft.doi"];

/// Identifiers of a request that are examined.
const MAX_IDENTIFIERS: usize = 32;

/// Name that an OpenURL request is for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum OpenUrlTarget {
    /// Name in a parameter.
    Param(String),
    /// Name as the whole query.
    WholeQuery(String),
    /// Only identifiers of other systems, or only metadata.
    NoName,
    /// No parameters.
    Empty,
}

/// Finds the name in a query: the first identifier that is a name, or a name as the whole query.
pub(super) fn find_name(
    query: Option<&str>,
    parameters: &QueryParams<'_>,
) -> Result<OpenUrlTarget, RequestSyntaxError> {
    let Some(query) = query.filter(|query| !query.is_empty()) else { return Ok(OpenUrlTarget::Empty) };
    let identifiers = || {
        let values = parameters.iter().filter(|(key, _)| IDENTIFIER_KEYS.contains(key));
        values.map(|(_, value)| value).take(MAX_IDENTIFIERS)
    };
    if let Some(name) = identifiers().find_map(parse_identifier) {
        return Ok(OpenUrlTarget::Param(name));
    }
    // A shortDOI without `10/` is recognized only if there is nothing better.
    if let Some(short) = identifiers().find_map(ShortDoi::from_code) {
        return Ok(OpenUrlTarget::Param(short.into_string()));
    }
    if identifiers().next().is_none()
        && let Some(name) = parse_identifier(&percent::decode_text(query, "query")?)
    {
        return Ok(OpenUrlTarget::WholeQuery(name));
    }
    Ok(OpenUrlTarget::NoName)
}

/// Name in an identifier: a URI, which is percent-decoded once more, or a bare name. `None` for an identifier of another
/// system, such as `pmid:` or `info:oclcnum/`.
fn parse_identifier(text: &str) -> Option<String> {
    let parsed = tendot_names::parse_handle(text).ok()?;
    let name = parsed.as_str();
    let (prefix, suffix) = name.split_once('/')?;
    let is_complete = !prefix.is_empty() && !suffix.is_empty();
    let is_name = parsed.input_form() != InputForm::Bare || name_path::is_bare_name(name);
    (is_complete && is_name).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets() {
        let check = |query: &str, expected: OpenUrlTarget| {
            let parameters = QueryParams::parse(Some(query)).unwrap();
            assert_eq!(find_name(Some(query), &parameters), Ok(expected), "{query}");
        };
        let param = |name: &str| OpenUrlTarget::Param(name.into());
        let whole = |name: &str| OpenUrlTarget::WholeQuery(name.into());
        check("id=doi%3Aalpha-beta%2Fmsws", param("alpha-beta/msws"));
        check("id=doi%3A10.1000%2F456%2523789", param("10.1000/456#789"));
        check("id=10.1000%2F456%2523789", param("10.1000/456%23789"));
        check("rft_id=info%3Apmid%2F123&rft_id=info:doi/10.1000/182", param("10.1000/182"));
        check("id=pmid:123&id=https://example.org/x&id=doi:10.1000/1&id=doi:10.1000/2", param("10.1000/1"));
        check("rft.doi=10.1000/182&rft.atitle=x", param("10.1000/182"));
        check("id=gf4gqc", param("10/gf4gqc"));
        check("id=gf4gqc&rft_id=info:doi/10.1000/182", param("10.1000/182"));
        check("doi%3A10.abc%2Fab%2Fcd", whole("10.abc/ab/cd"));
        check("doi:10.1000/a=b&c", whole("10.1000/a=b&c"));
        check("doi%3A10.1000%2F456%2523789", whole("10.1000/456#789"));
        check("genre=article&issn=1234-5678&volume=1", OpenUrlTarget::NoName);
        check("title=a/b&date=2001/02", OpenUrlTarget::NoName);
        check("id=pmid:123", OpenUrlTarget::NoName);
        check("rft_id=info:oclcnum/123", OpenUrlTarget::NoName);
        assert_eq!(find_name(None, &QueryParams::default()), Ok(OpenUrlTarget::Empty));
    }
}

//! Query parameters.

use std::borrow::Cow;

use crate::http::request::percent;
use crate::http::request::percent::RequestSyntaxError;

/// Query parameters in order; separators are `&` and `;`, `+` is literal.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct QueryParams<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> QueryParams<'a> {
    /// Maximum number of parameters.
    const MAX_PARAMS: usize = 256;

    pub(crate) fn parse(query: Option<&'a str>) -> Result<Self, RequestSyntaxError> {
        Self::split(query, "query", &['&', ';'])
    }

    /// Parses the body of a form.
    pub(crate) fn parse_form(body: &'a str) -> Result<Self, RequestSyntaxError> {
        Self::split(Some(body), "body", &['&', ';'])
    }

    /// Parses a query that contains unescaped URLs: `;` is not a separator.
    pub(crate) fn parse_with_urls(query: Option<&'a str>) -> Result<Self, RequestSyntaxError> {
        Self::split(query, "query", &['&'])
    }

    fn split(
        query: Option<&'a str>,
        source: &'static str,
        separators: &[char],
    ) -> Result<Self, RequestSyntaxError> {
        let mut parameters = Vec::new();
        let Some(query) = query else { return Ok(Self(parameters)) };
        for part in query.split(separators).filter(|part| !part.is_empty()) {
            if parameters.len() == Self::MAX_PARAMS {
                return Err(RequestSyntaxError::new(
                    source,
                    part.as_ptr().addr() - query.as_ptr().addr(),
                    "more than 256 query parameters",
                ));
            }
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let decoded = |text: &'a str| {
                percent::decode_text(text, source).map_err(|error| RequestSyntaxError {
                    offset: error.offset + (text.as_ptr().addr() - query.as_ptr().addr()),
                    ..error
                })
            };
            parameters.push((decoded(name)?, decoded(value)?));
        }
        Ok(Self(parameters))
    }

    /// Whether the parameter is present, with any value or none.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// All parameters, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// First value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(found, _)| found == name).map(|(_, value)| &**value)
    }

    /// All values of a parameter, in order.
    pub(crate) fn get_all<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s str> {
        self.0.iter().filter(move |(found, _)| found == name).map(|(_, value)| &**value)
    }

    /// Value of a flag: `pretty` and `pretty=true` are true, `pretty=false` is false.
    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        self.get(name)
            .map(|value| !["false", "0", "no", "off"].iter().any(|off| value.eq_ignore_ascii_case(off)))
    }

    /// Whether a flag is present and true.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.flag(name) == Some(true)
    }
}

/// Number in a query parameter; the error is the reason it is invalid.
pub(crate) fn number(parameters: &QueryParams<'_>, name: &str) -> Result<Option<u64>, String> {
    let parse = |text: &str| text.parse().map_err(|_| format!("`{name}` must be a number"));
    parameters.get(name).map(parse).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses() {
        check("", &[]);
        check("a", &[("a", "")]);
        check("a=b&c=d;e", &[("a", "b"), ("c", "d"), ("e", "")]);
        check("a=1&a=2", &[("a", "1"), ("a", "2")]);
        check("&&a==b&", &[("a", "=b")]);
        check("urlappend=%3Fx%3D1+2", &[("urlappend", "?x=1+2")]);
        let addresses = QueryParams::parse_with_urls(Some("URL=https://a/b;c&d")).unwrap();
        assert_eq!(addresses.iter().collect::<Vec<_>>(), [("URL", "https://a/b;c"), ("d", "")]);
    }

    #[track_caller]
    fn check(query: &str, expected: &[(&str, &str)]) {
        let parameters = QueryParams::parse(Some(query)).unwrap();
        let found: Vec<_> = parameters.0.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(found, expected, "{query}");
    }

    #[test]
    fn rejects() {
        assert_eq!(QueryParams::parse(Some("ab=%4&c")).unwrap_err().offset, 3);
        assert_eq!(QueryParams::parse(Some("a;b=x%00")).unwrap_err().offset, 5);
        assert_eq!(QueryParams::parse(Some("a;b=%C3%A9%E9")).unwrap_err().offset, 10);
        let error = QueryParams::parse_form("hdl=caf%E9").unwrap_err();
        assert_eq!(error.to_string(), "invalid UTF-8 at byte 7 of the body");
        let many = "a&".repeat(257);
        assert_eq!(QueryParams::parse(Some(&many)).unwrap_err().offset, 512);
        assert!(QueryParams::parse(Some(&many[..512])).is_ok());
    }

    #[test]
    fn flags() {
        let parameters = QueryParams::parse(Some("a&b=true&c=False&d=0")).unwrap();
        let found = ["a", "b", "c", "d", "e"].map(|name| parameters.flag(name));
        assert_eq!(found, [Some(true), Some(true), Some(false), Some(false), None]);
    }
}

//! Author of a change as logged: principal, token and client address.

use core::net::IpAddr;
use std::fmt;

use crate::Caller;

/// Author of a change in the change log: the principal, and how it was authenticated.
///
/// Logged as `[token 4mzk8qq2, 192.0.2.1] registrant:abc`; only the principal is logged for changes without a token and a client.
/// No principal starts with a bracket, so the text has one meaning. A key is named by the principal itself, such as
/// `300:0.NA/10.1000`.
///
/// ```
/// use tendot_registry::LogAuthor;
///
/// let author = LogAuthor::parse("[token 4mzk8qq2, 192.0.2.1] registrant:abc");
/// assert_eq!((author.principal, author.token), ("registrant:abc", Some("4mzk8qq2")));
/// assert_eq!(author.client, "192.0.2.1".parse().ok());
/// assert_eq!(author.to_string(), "[token 4mzk8qq2, 192.0.2.1] registrant:abc");
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LogAuthor<'a> {
    /// Principal: `agency:CODE`, `registrant:ID`, a handle identity, or one word such as `operator`.
    pub principal: &'a str,
    /// Id of the token that authenticated the change.
    pub token: Option<&'a str>,
    /// Address of the client that requested the change.
    pub client: Option<IpAddr>,
}

impl<'a> LogAuthor<'a> {
    /// Author with the credential of a caller.
    pub(crate) fn new(principal: &'a str, caller: &'a Caller, client: Option<IpAddr>) -> Self {
        let token = match caller {
            Caller::Token(identity) => Some(&*identity.id),
            Caller::Anonymous | Caller::Handle(_) | Caller::Operator => None,
        };
        Self { principal, token, client: client.map(|client| client.to_canonical()) }
    }

    /// Parses the author of a log entry. Text in another form is the principal.
    pub fn parse(text: &'a str) -> Self {
        Self::parse_origin(text).unwrap_or(Self { principal: text, token: None, client: None })
    }

    fn parse_origin(text: &'a str) -> Option<Self> {
        let (origin, principal) = text.strip_prefix('[')?.split_once("] ")?;
        let (token, client) = match origin.strip_prefix("token ") {
            Some(rest) => match rest.split_once(", ") {
                Some((token, client)) => (Some(token), Some(client)),
                None => (Some(rest), None),
            },
            None => (None, Some(origin)),
        };
        let client = client.map(|client| client.parse().ok());
        match client {
            Some(None) => None,
            client => Some(Self { principal, token, client: client.flatten() }),
        }
    }
}

impl fmt::Display for LogAuthor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.token, self.client) {
            (None, None) => {}
            (Some(token), None) => write!(f, "[token {token}] ")?,
            (None, Some(client)) => write!(f, "[{client}] ")?,
            (Some(token), Some(client)) => write!(f, "[token {token}, {client}] ")?,
        }
        f.write_str(self.principal)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn other_text_is_the_principal() {
        for text in ["operator", "", "[", "[] x", "[192.0.2.1]x", "[token a, b] x", "300:10.1/x [192.0.2.1]"]
        {
            let author = LogAuthor::parse(text);
            assert_eq!((author.principal, author.token, author.client), (text, None, None));
        }
    }

    proptest! {
        #[test]
        fn audit_f12_round_trip(
            principal in "[a-z0-9:][ -~é\\]]{0,20}",
            token in proptest::option::of("[0-9a-z]{12}"),
            client: Option<IpAddr>,
        ) {
            let token = token.as_deref();
            let author = LogAuthor { principal: &principal, token, client };
            let text = author.to_string();
            prop_assert_eq!(LogAuthor::parse(&text), author);
        }

        #[test]
        fn any_text(text in "\\PC{0,40}") {
            let _ = LogAuthor::parse(&text);
        }
    }
}

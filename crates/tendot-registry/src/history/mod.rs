//! Audit trail: changes and their authors.
//!
//! In reading order: this file decides which authors are public; `change_feed` is the feed of all changes, `record_history`
//! the history of one name, `holder_timeline` the holders of a prefix, `log_head` the end of the change log, `exposed_secrets`
//! the secrets that the history shows to have been public.

mod change_feed;
mod exposed_secrets;
mod holder_timeline;
mod log_head;
mod record_history;

pub use change_feed::{ChangeCursor, ChangeEvent, ChangeEvents, ChangeSubject};
pub(crate) use exposed_secrets::ExposedSecrets;
pub use holder_timeline::PrefixHolder;
pub use log_head::LogHeadTracker;
pub use record_history::{HistoryEvent, HistoryEventKind, RecordSnapshot, SnapshotState};

use core::net::IpAddr;

use tendot_proto::ValueReference;

use crate::LogAuthor;

/// Author of a change, as the caller may see it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ChangeAuthor {
    /// Principal; empty if it is not visible.
    pub principal: Box<str>,
    /// Id of its token; for the operator only.
    pub token: Option<Box<str>>,
    /// Address of the client; for the operator only.
    pub client: Option<IpAddr>,
}

impl ChangeAuthor {
    /// What the caller may see of a logged author.
    fn visible(author: &str, is_operator: bool) -> Self {
        let LogAuthor { principal, token, client } = LogAuthor::parse(author);
        if is_operator {
            return Self { principal: principal.into(), token: token.map(Into::into), client };
        }
        let principal = if is_public_author(principal) { principal } else { "" };
        Self { principal: principal.into(), ..Self::default() }
    }
}

/// Whether the author of a change is public: `300:0.NA/10.1000`, `agency:CODE`, `registrant:ID`, or one word such as
/// `operator` and `import`. Other stores and programs may log anything there, including IP addresses.
fn is_public_author(author: &str) -> bool {
    let is_party =
        author.strip_prefix("agency:").or_else(|| author.strip_prefix("registrant:")).is_some_and(|id| {
            !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        });
    let is_word = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase());
    let is_index = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_identity =
        author.split_once(':').is_some_and(|(index, handle)| is_index(index) && handle.contains('/'));
    is_word(author) || is_party || (is_identity && ValueReference::parse(author).index != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_authors() {
        for (author, expected) in [
            ("300:0.NA/10.1000", true),
            ("operator", true),
            ("import", true),
            ("agency:alpha", true),
            ("registrant:R-1", true),
            ("registrant:me@example.org", false),
            ("registrant:", false),
            ("other:alpha", false),
            ("", false),
            ("0:0.NA/10.1000", false),
            ("192.0.2.1", false),
            ("192.0.2.1:4711", false),
            ("2001:db8::1", false),
            ("me@example.org", false),
            ("Bearer abc", false),
            ("300:", false),
            (":0.NA/10.1000", false),
        ] {
            assert_eq!(is_public_author(author), expected, "{author}");
        }
    }

    #[test]
    fn audit_f12_token_and_client_are_for_the_operator() {
        let logged = "[token t1, 192.0.2.1] registrant:r1";
        let principal: Box<str> = "registrant:r1".into();
        let public = ChangeAuthor { principal: principal.clone(), token: None, client: None };
        assert_eq!(ChangeAuthor::visible(logged, false), public);
        let client = "192.0.2.1".parse().ok();
        let complete = ChangeAuthor { principal, token: Some("t1".into()), client };
        assert_eq!(ChangeAuthor::visible(logged, true), complete);
        assert_eq!(ChangeAuthor::visible("[192.0.2.1] me@example.org", false), ChangeAuthor::default());
    }
}

//! Audit trail: changes and their authors.
//!
//! In reading order: this file decides which authors are public; `change_feed` is the feed of all changes, `record_history`
//! the history of one name, `holder_timeline` the holders of a prefix, `log_head` the end of the change log.

mod change_feed;
mod holder_timeline;
mod log_head;
mod record_history;

pub use change_feed::{ChangeCursor, ChangeEvent, ChangeEvents, ChangeSubject};
pub use holder_timeline::PrefixHolder;
pub use log_head::LogHeadTracker;
pub use record_history::{HistoryEvent, HistoryEventKind, RecordSnapshot, SnapshotState};

use tendot_proto::ValueReference;

/// Author of a change if it is visible, otherwise empty.
fn visible_author(author: Box<str>, is_operator: bool) -> Box<str> {
    if is_operator || is_public_author(&author) { author } else { "".into() }
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
}

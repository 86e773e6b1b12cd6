//! Messages on pages: the parts between backticks become `<code>`.

use std::fmt;

use askama::filters::{Html, HtmlSafe, escape};

/// Text whose parts between backticks are code; escapes itself as HTML.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct CodeSpans(String);

impl CodeSpans {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for CodeSpans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.as_str();
        // A single backtick is text.
        while let Some((before, (code, after))) =
            rest.split_once('`').and_then(|(before, opened)| Some((before, opened.split_once('`')?)))
        {
            write!(f, "{}<code>{}</code>", escaped(before), escaped(code))?;
            rest = after;
        }
        write!(f, "{}", escaped(rest))
    }
}

impl HtmlSafe for CodeSpans {}

fn escaped(text: &str) -> impl fmt::Display {
    let Ok(escaped) = escape(text, Html);
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_marked_and_text_escaped() {
        for (text, html) in [
            ("", ""),
            ("a < b", "a &#60; b"),
            ("use `<b>` or `c`.", "use <code>&#60;b&#62;</code> or <code>c</code>."),
            ("10.1/a`b", "10.1/a`b"),
        ] {
            assert_eq!(CodeSpans::new(text).to_string(), html);
        }
    }
}

//! Messages on pages: the parts between backticks become `<code>`.

use std::fmt;

use askama::filters::{Html, HtmlSafe, escape};

/// Text whose parts between backticks are code; escapes itself as HTML.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct CodeSpans {
    text: String,
    /// Name in the text that has backticks itself, or empty.
    name: String,
}

impl CodeSpans {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), name: String::new() }
    }

    /// Text about a name, which may have backticks itself.
    pub(super) fn about(name: &str, text: impl Into<String>) -> Self {
        let name = if name.contains('`') { name } else { "" };
        Self { text: text.into(), name: name.to_owned() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Splits text after an opening backtick at the closing one; the name is code as a whole, in any ASCII case.
    fn split_code<'t>(&self, opened: &'t str) -> Option<(&'t str, &'t str)> {
        let named = opened.split_at_checked(self.name.len());
        let named = named.filter(|(code, _)| !code.is_empty() && code.eq_ignore_ascii_case(&self.name));
        named
            .and_then(|(code, after)| Some((code, after.strip_prefix('`')?)))
            .or_else(|| opened.split_once('`'))
    }
}

impl fmt::Display for CodeSpans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.text.as_str();
        // A single backtick is text.
        while let Some((before, (code, after))) =
            rest.split_once('`').and_then(|(before, opened)| Some((before, self.split_code(opened)?)))
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

    #[test]
    fn backticks_in_names_are_part_of_the_code() {
        let name = "10.1/a`b";
        let spans = |text: &str| CodeSpans::about(name, text).to_string();
        assert_eq!(
            spans("`10.1/a`b`, canonical form `10.1/A`B` of `x`"),
            "<code>10.1/a`b</code>, canonical form <code>10.1/A`B</code> of <code>x</code>"
        );
        assert_eq!(spans("`10.1/a` and `b`"), "<code>10.1/a</code> and <code>b</code>");
        assert_eq!(CodeSpans::about("10.1/b", "`10.1/a`").to_string(), "<code>10.1/a</code>");
    }
}

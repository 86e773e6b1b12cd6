//! Client-supplied text on pages: bounded, with invisible characters escaped.

use tendot_registry::is_invisible;

/// Bytes of a page that may come from records. With the server's own text, a page stays below 60 kB.
const MAX_RECORD_BYTES: usize = 36_000;

/// Bytes charged per item for its HTML elements.
const ELEMENT_OVERHEAD_BYTES: usize = 120;

/// Escapes invisible characters and those that change the text direction.
pub(crate) fn escape_invisible(text: &str) -> String {
    escape_matching(text, is_invisible)
}

/// Escapes invisible characters, except line breaks.
fn escape_invisible_lines(text: &str) -> String {
    escape_matching(text, |c| is_invisible(c) && !matches!(c, '\n' | '\t'))
}

fn escape_matching(text: &str, matches: impl Fn(char) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if matches(c) {
            escaped.push_str(&format!("⟨U+{:04X}⟩", u32::from(c)));
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Truncates a text to a number of characters.
pub(super) fn truncate_chars(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Byte budget for client-supplied text on one page.
#[derive(Debug)]
pub(super) struct PageBudget {
    remaining: usize,
    is_truncated: bool,
}

impl PageBudget {
    pub(super) const fn new() -> Self {
        Self { remaining: MAX_RECORD_BYTES, is_truncated: false }
    }

    /// Whether something was left out.
    pub(super) const fn is_exhausted(&self) -> bool {
        self.is_truncated
    }

    /// Whether there is budget for another item; if not, it counts as left out.
    pub(super) const fn has_room(&mut self) -> bool {
        self.is_truncated |= self.remaining < ELEMENT_OVERHEAD_BYTES;
        self.remaining >= ELEMENT_OVERHEAD_BYTES
    }

    /// One line of text, truncated to the budget.
    pub(super) fn line(&mut self, text: &str) -> String {
        self.truncate(escape_invisible(text))
    }

    /// Several lines of text, truncated to the budget.
    pub(super) fn lines(&mut self, text: &str) -> String {
        self.truncate(escape_invisible_lines(text))
    }

    /// A URL, whole or not at all.
    pub(super) fn url(&mut self, url: &str) -> Option<String> {
        let cost = escaped_length(url);
        let fits = cost <= self.remaining;
        self.is_truncated |= !fits;
        self.remaining -= if fits { cost } else { 0 };
        fits.then(|| url.to_owned())
    }

    fn truncate(&mut self, text: String) -> String {
        self.remaining = self.remaining.saturating_sub(ELEMENT_OVERHEAD_BYTES);
        let mut cost = 0;
        for (at, c) in text.char_indices() {
            let more = escaped_length(c.encode_utf8(&mut [0; 4]));
            if cost + more > self.remaining {
                self.is_truncated = true;
                self.remaining = 0;
                return format!("{}…", text.get(..at).unwrap_or_default());
            }
            cost += more;
        }
        self.remaining -= cost;
        text
    }
}

/// Length of a text after HTML escaping.
fn escaped_length(text: &str) -> usize {
    text.len() + 4 * text.bytes().filter(|byte| matches!(byte, b'<' | b'>' | b'&' | b'"' | b'\'')).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_and_truncates() {
        assert_eq!(escape_invisible("10.1/é 例"), "10.1/é 例");
        assert_eq!(escape_invisible("a\u{202e}b\u{200b}\n"), "a⟨U+202E⟩b⟨U+200B⟩⟨U+000A⟩");
        assert_eq!(escape_invisible_lines("a\n\tb\u{2028}\u{e0041}"), "a\n\tb⟨U+2028⟩⟨U+E0041⟩");
        assert_eq!((truncate_chars("äbc", 3), truncate_chars("äbc", 2)), ("äbc".into(), "äb…".into()));
    }

    #[test]
    fn bounded() {
        let mut page_budget = PageBudget::new();
        assert_eq!((page_budget.line("abc"), page_budget.is_exhausted()), ("abc".into(), false));
        let line = page_budget.line(&"<".repeat(MAX_RECORD_BYTES));
        assert_eq!(
            (line.chars().count(), page_budget.is_exhausted()),
            ((MAX_RECORD_BYTES - 2 * ELEMENT_OVERHEAD_BYTES - 3) / 5 + 1, true)
        );
        assert_eq!((page_budget.line("abc"), page_budget.url("https://example.org/")), ("…".into(), None));
        assert!(!page_budget.has_room());
    }
}

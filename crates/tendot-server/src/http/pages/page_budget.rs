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

fn escape_matching(text: &str, is_hidden: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) {
            shown.push_str(&format!("⟨U+{:04X}⟩", u32::from(c)));
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Truncates a text to so many characters.
pub(super) fn truncate_chars(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Byte budget for client-supplied text on one page.
#[derive(Debug)]
pub(super) struct PageBudget {
    left: usize,
    is_short: bool,
}

impl PageBudget {
    pub(super) const fn new() -> Self {
        Self { left: MAX_RECORD_BYTES, is_short: false }
    }

    /// Whether something was left out.
    pub(super) const fn is_exhausted(&self) -> bool {
        self.is_short
    }

    /// Whether there is budget for another item; if not, it counts as left out.
    pub(super) const fn has_room(&mut self) -> bool {
        self.is_short |= self.left < ELEMENT_OVERHEAD_BYTES;
        self.left >= ELEMENT_OVERHEAD_BYTES
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
    pub(super) fn url(&mut self, address: &str) -> Option<String> {
        let cost = escaped_length(address);
        let fits = cost <= self.left;
        self.is_short |= !fits;
        self.left -= if fits { cost } else { 0 };
        fits.then(|| address.to_owned())
    }

    fn truncate(&mut self, text: String) -> String {
        self.left = self.left.saturating_sub(ELEMENT_OVERHEAD_BYTES);
        let mut cost = 0;
        for (at, c) in text.char_indices() {
            let more = escaped_length(c.encode_utf8(&mut [0; 4]));
            if cost + more > self.left {
                self.is_short = true;
                self.left = 0;
                return format!("{}…", text.get(..at).unwrap_or_default());
            }
            cost += more;
        }
        self.left -= cost;
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
    fn written_out() {
        assert_eq!(escape_invisible("10.1/é 例"), "10.1/é 例");
        assert_eq!(escape_invisible("a\u{202e}b\u{200b}\n"), "a⟨U+202E⟩b⟨U+200B⟩⟨U+000A⟩");
        assert_eq!(escape_invisible_lines("a\n\tb\u{2028}\u{e0041}"), "a\n\tb⟨U+2028⟩⟨U+E0041⟩");
        assert_eq!((truncate_chars("äbc", 3), truncate_chars("äbc", 2)), ("äbc".into(), "äb…".into()));
    }

    #[test]
    fn page_budget() {
        let mut page_budget = PageBudget::new();
        assert_eq!((page_budget.line("abc"), page_budget.is_exhausted()), ("abc".into(), false));
        let shown = page_budget.line(&"<".repeat(MAX_RECORD_BYTES));
        assert_eq!(
            (shown.chars().count(), page_budget.is_exhausted()),
            ((MAX_RECORD_BYTES - 2 * ELEMENT_OVERHEAD_BYTES - 3) / 5 + 1, true)
        );
        assert_eq!((page_budget.line("abc"), page_budget.url("https://example.org/")), ("…".into(), None));
        assert!(!page_budget.has_room());
    }
}

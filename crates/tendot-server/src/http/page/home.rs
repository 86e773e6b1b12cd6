//! The first page.

use askama::Template;
use http::StatusCode;
use tendot_store::Store;

use super::show;
use crate::http::Http;
use crate::http::answer::Answer;

/// Prefixes that are counted; more are more than that.
const PREFIXES: usize = 1_000;

#[derive(Template)]
#[template(path = "home.html")]
struct HomePage {
    figures: Vec<(String, &'static str)>,
}

impl<S: Store> Http<S> {
    /// The page with one box that takes anything.
    pub(crate) async fn home(&self) -> Answer {
        let store = self.registry.store();
        let mut figures = Vec::new();
        if let Ok(Some(names)) = store.size().await {
            figures.push((grouped(names), if names == 1 { "name" } else { "names" }));
        }
        if let Ok(homed) = store.homed(None, PREFIXES + 1).await {
            let number = grouped(homed.len().min(PREFIXES) as u64);
            let number = if homed.len() > PREFIXES { format!("more than {number}") } else { number };
            figures.push((number, if homed.len() == 1 { "prefix" } else { "prefixes" }));
        }
        show(StatusCode::OK, &HomePage { figures })
    }
}

/// `1,234,567`
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn grouped() {
        let grouped = [0, 999, 1_000, 1_234_567].map(super::grouped);
        assert_eq!(grouped, ["0", "999", "1,000", "1,234,567"]);
    }
}

//! Metadata as RIS, for reference managers.

use super::citation::{Citation, ISBN, ISSN};

pub(super) fn write(citation: &Citation<'_>) -> String {
    let container = citation.container.as_ref();
    let mut text = String::new();
    let mut line = |tag: &str, value: Option<&str>| {
        if let Some(value) = value {
            // One line per field: a value must not inject another line.
            let value: String = value.chars().map(|c| if is_line_end(c) { ' ' } else { c }).collect();
            text.push_str(&format!("{tag}  - {value}\r\n"));
        }
    };
    line("TY", Some(citation.work_type.ris));
    line("TI", Some(&citation.full_title()));
    citation.authors().for_each(|agent| line("AU", Some(agent.name)));
    citation.agents_with_role(&["Editor"]).for_each(|agent| line("A2", Some(agent.name)));
    citation.agents_with_role(&["Director"]).for_each(|agent| line("A3", Some(agent.name)));
    line("T2", container.and_then(|container| container.title));
    line("VL", container.and_then(|container| container.volume));
    line("IS", container.and_then(|container| container.issue));
    line("SP", container.and_then(|container| container.page));
    line("ET", citation.identifiers_of(&["EditionNumber"]).next());
    if let Some((_, date)) = citation.date {
        line("PY", Some(&date.year.to_string()));
        if let Some(month) = date.month.filter(|_| date.year > 0) {
            let day = date.day.map_or(String::new(), |day| format!("{day:02}"));
            line("DA", Some(&format!("{:04}/{month:02}/{day}", date.year)));
        }
    }
    line("PB", citation.publisher());
    line("CY", citation.publication_place);
    line("LA", citation.language);
    citation
        .identifiers_of(ISSN)
        .chain(citation.identifiers_of(ISBN))
        .for_each(|number| line("SN", Some(number)));
    line("DO", Some(citation.fields.name));
    line("UR", Some(citation.url.unwrap_or(&citation.link)));
    line("ER", Some(""));
    text
}

fn is_line_end(found: char) -> bool {
    found.is_control() || matches!(found, '\u{2028}' | '\u{2029}')
}

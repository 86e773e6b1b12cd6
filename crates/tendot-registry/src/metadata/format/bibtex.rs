//! Metadata as BibTeX.

use super::citation::{Citation, CitationAgent, ISBN, ISSN};

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

pub(super) fn write(citation: &Citation<'_>) -> String {
    let container = citation.container.as_ref();
    let kind = citation.work_type.bibtex;
    let mut text = format!("@{kind}{{{}", cite_key(citation.fields.name));
    let mut field = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            text.push_str(&format!(",\n  {name} = {{{value}}}"));
        }
    };
    let escaped = |text: Option<&str>| text.map(escape);
    let names = |agents: Vec<String>| (!agents.is_empty()).then(|| agents.join(" and "));
    field("title", Some(escape(&citation.full_title())));
    field("author", names(citation.authors().map(author_name).collect()));
    field("editor", names(citation.agents_with_role(&["Editor"]).map(author_name).collect()));
    let container_field = match kind {
        "article" => "journal",
        "inbook" => "booktitle",
        _ => "howpublished",
    };
    field(container_field, escaped(container.and_then(|container| container.title)));
    field("volume", escaped(container.and_then(|container| container.volume)));
    field("number", escaped(container.and_then(|container| container.issue)));
    field("pages", escaped(container.and_then(|container| container.page)));
    field("chapter", escaped(container.and_then(|container| container.chapter)));
    field("edition", escaped(citation.identifiers_of(&["EditionNumber"]).next()));
    let publisher_field = match kind {
        "techreport" => "institution",
        "phdthesis" => "school",
        _ => "publisher",
    };
    field(publisher_field, escaped(citation.publisher()));
    field("address", escaped(citation.publication_place));
    let date = citation.date.map(|(_, parts)| parts);
    field("year", date.map(|date| date.year.to_string()));
    field("issn", escaped(citation.identifiers_of(ISSN).next()));
    field("isbn", escaped(citation.identifiers_of(ISBN).next()));
    field("language", escaped(citation.language));
    field("doi", Some(verbatim(citation.fields.name)));
    field("url", Some(verbatim(citation.url.unwrap_or(&citation.link))));
    let month = date.and_then(|date| date.month).and_then(|month| MONTHS.get(month as usize - 1));
    if let Some(month) = month {
        text.push_str(&format!(",\n  month = {month}"));
    }
    text.push_str("\n}\n");
    text
}

/// BibTeX key from a DOI: unsafe characters become `_`.
fn cite_key(name: &str) -> String {
    let is_safe = |character: char| character.is_ascii_alphanumeric() || "-._:/".contains(character);
    name.chars().map(|character| if is_safe(character) { character } else { '_' }).collect()
}

/// Agent name. Names without parts are put in braces, so that BibTeX does not split them.
fn author_name(agent: &CitationAgent<'_>) -> String {
    let part = |part: &str| {
        let escaped = escape(part);
        let is_plain =
            !part.contains([',']) && !part.split_whitespace().any(|word| word.eq_ignore_ascii_case("and"));
        if is_plain { escaped } else { format!("{{{escaped}}}") }
    };
    match agent.parts {
        Some((family, given)) => format!("{}, {}", part(family), part(given)),
        None => format!("{{{}}}", escape(agent.name)),
    }
}

/// Escapes text. Braces are spelled out, because BibTeX counts them even after a backslash.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' => escaped.push_str("\\textbackslash{}"),
            '{' => escaped.push_str("\\textbraceleft{}"),
            '}' => escaped.push_str("\\textbraceright{}"),
            '~' => escaped.push_str("\\textasciitilde{}"),
            '^' => escaped.push_str("\\textasciicircum{}"),
            '&' | '%' | '$' | '#' | '_' => escaped.extend(['\\', character]),
            character if character.is_control() => escaped.push(' '),
            character => escaped.push(character),
        }
    }
    escaped
}

/// Percent-encodes braces and backslashes in a DOI or URL, which BibTeX takes verbatim.
fn verbatim(text: &str) -> String {
    let mut verbatim = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '{' => verbatim.push_str("%7B"),
            '}' => verbatim.push_str("%7D"),
            '\\' => verbatim.push_str("%5C"),
            character if character.is_control() => verbatim.push_str("%20"),
            character => verbatim.push(character),
        }
    }
    verbatim
}

//! Metadata as CSL JSON, for citation processors.

use super::citation::{AUTHOR_ROLES, Citation, CitationAgent, ISBN, ISSN};
use crate::metadata::codec::node::MetadataNode;

pub(super) fn write(citation: &Citation<'_>) -> String {
    let container = citation.container.as_ref();
    let text = |text: Option<&'_ str>| text.map(|text| MetadataNode::text(text.to_owned()));
    let names = |roles| MetadataNode::list(citation.agents_with_role(roles).map(author_name));
    let short = citation.other_names.iter().find(|name| name.kind == "AbbreviatedTitle");
    MetadataNode::object([
        ("type", Some(MetadataNode::text(citation.work_type.csl))),
        ("id", Some(MetadataNode::text(citation.fields.name))),
        ("DOI", Some(MetadataNode::text(citation.fields.name))),
        ("URL", text(citation.url).or_else(|| Some(MetadataNode::text(&*citation.link)))),
        ("title", Some(MetadataNode::text(citation.full_title()))),
        ("title-short", text(short.map(|name| name.value))),
        ("author", names(AUTHOR_ROLES)),
        ("director", names(&["Director"])),
        ("editor", names(&["Editor"])),
        ("translator", names(&["Translator"])),
        ("performer", names(&["Actor"])),
        ("issued", issued(citation)),
        ("publisher", text(citation.publisher())),
        ("publisher-place", text(citation.publication_place)),
        ("container-title", text(container.and_then(|container| container.title))),
        ("volume", text(container.and_then(|container| container.volume))),
        ("issue", text(container.and_then(|container| container.issue))),
        ("page", text(container.and_then(|container| container.page))),
        ("chapter-number", text(container.and_then(|container| container.chapter))),
        ("edition", text(citation.identifiers_of(&["EditionNumber"]).next())),
        ("ISSN", text(citation.identifiers_of(ISSN).next())),
        ("ISBN", text(citation.identifiers_of(ISBN).next())),
        ("language", text(citation.language)),
    ])
    .to_json()
}

fn author_name<'a>(agent: &CitationAgent<'a>) -> MetadataNode<'a> {
    match agent.parts {
        Some((family, given)) => MetadataNode::object([
            ("family", Some(MetadataNode::text(family))),
            ("given", Some(MetadataNode::text(given))),
        ]),
        None => MetadataNode::object([("literal", Some(MetadataNode::text(agent.name)))]),
    }
}

fn issued<'a>(citation: &Citation<'a>) -> Option<MetadataNode<'a>> {
    let (text, parts) = citation.date?;
    // CSL has no years before 1.
    let Ok(year) = u64::try_from(parts.year) else {
        return Some(MetadataNode::object([("literal", Some(MetadataNode::text(text)))]));
    };
    let parts = std::iter::once(year).chain(parts.month.map(u64::from)).chain(parts.day.map(u64::from));
    let parts = MetadataNode::Array(parts.map(MetadataNode::Integer).collect());
    Some(MetadataNode::object([("date-parts", Some(MetadataNode::Array(vec![parts])))]))
}

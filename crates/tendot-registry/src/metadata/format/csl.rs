//! CSL-JSON, what citation processors read.

use super::citation::{AUTHOR_ROLES, CitationAgent, Citation, ISBN, ISSN};
use crate::metadata::node::Node;

pub(super) fn write(citation: &Citation<'_>) -> String {
    let container = citation.container.as_ref();
    let text = |text: Option<&'_ str>| text.map(|text| Node::text(text.to_owned()));
    let names = |roles| Node::list(citation.agents_with_role(roles).map(name));
    let short = citation.other_names.iter().find(|name| name.kind == "AbbreviatedTitle");
    Node::object([
        ("type", Some(Node::text(citation.kind.csl))),
        ("id", Some(Node::text(citation.facts.name))),
        ("DOI", Some(Node::text(citation.facts.name))),
        ("URL", text(citation.url).or_else(|| Some(Node::text(&*citation.link)))),
        ("title", Some(Node::text(citation.full_title()))),
        ("title-short", text(short.map(|name| name.value))),
        ("author", names(AUTHOR_ROLES)),
        ("director", names(&["Director"])),
        ("editor", names(&["Editor"])),
        ("translator", names(&["Translator"])),
        ("performer", names(&["Actor"])),
        ("issued", issued(citation)),
        ("publisher", text(citation.publisher())),
        ("publisher-place", text(citation.place)),
        ("container-title", text(container.and_then(|container| container.title))),
        ("volume", text(container.and_then(|container| container.volume))),
        ("issue", text(container.and_then(|container| container.issue))),
        ("page", text(container.and_then(|container| container.page))),
        ("chapter-number", text(container.and_then(|container| container.chapter))),
        ("edition", text(citation.numbers(&["EditionNumber"]).next())),
        ("ISSN", text(citation.numbers(ISSN).next())),
        ("ISBN", text(citation.numbers(ISBN).next())),
        ("language", text(citation.language)),
    ])
    .to_json()
}

fn name<'a>(agent: &CitationAgent<'a>) -> Node<'a> {
    match agent.parts {
        Some((family, given)) => {
            Node::object([("family", Some(Node::text(family))), ("given", Some(Node::text(given)))])
        }
        None => Node::object([("literal", Some(Node::text(agent.name)))]),
    }
}

fn issued<'a>(citation: &Citation<'a>) -> Option<Node<'a>> {
    let (text, parts) = citation.date?;
    // Years before the first one have no number here.
    let Ok(year) = u64::try_from(parts.year) else {
        return Some(Node::object([("literal", Some(Node::text(text)))]));
    };
    let parts = std::iter::once(year).chain(parts.month.map(u64::from)).chain(parts.day.map(u64::from));
    let parts = Node::List(parts.map(Node::Number).collect());
    Some(Node::object([("date-parts", Some(Node::List(vec![parts])))]))
}

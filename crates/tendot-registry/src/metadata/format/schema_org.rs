//! Linked data in the vocabulary of schema.org.

use super::citation::{AUTHOR_ROLES, CitationAgent, Citation, CitationContainer, ISBN, ISSN};
use crate::metadata::node::Node;

pub(super) fn write(citation: &Citation<'_>) -> String {
    let text = |text: Option<&'_ str>| text.map(|text| Node::text(text.to_owned()));
    let agents = |roles| Node::list(citation.agents_with_role(roles).map(|agent| party(agent)));
    let others = citation.other_names.iter().map(|name| Node::text(name.value));
    Node::object([
        ("@context", Some(Node::text("https://schema.org"))),
        ("@id", Some(Node::text(&*citation.link))),
        ("@type", Some(Node::text(citation.schema_org))),
        ("identifier", Some(identifier(citation))),
        ("url", text(citation.url)),
        ("name", Some(Node::text(citation.full_title()))),
        ("alternateName", Node::list(others)),
        ("additionalType", text(Some(citation.kind_text))),
        ("author", agents(AUTHOR_ROLES)),
        ("editor", agents(&["Editor"])),
        ("director", agents(&["Director"])),
        ("actor", agents(&["Actor"])),
        ("translator", agents(&["Translator"])),
        ("publisher", agents(&["Publisher"])),
        ("funder", agents(&["FundingBody"])),
        ("datePublished", text(citation.date.map(|(date, _)| date))),
        ("inLanguage", text(citation.language)),
        ("issn", text(own(citation, ISSN))),
        ("isbn", text(own(citation, ISBN))),
        ("pageStart", text(citation.container.as_ref().and_then(|container| container.page))),
        ("isPartOf", citation.container.as_ref().map(container)),
    ])
    .to_json()
}

fn identifier<'a>(citation: &Citation<'a>) -> Node<'a> {
    Node::object([
        ("@type", Some(Node::text("PropertyValue"))),
        ("propertyID", Some(Node::text("doi"))),
        ("value", Some(Node::text(citation.facts.name))),
    ])
}

/// Of the work itself: what it is a part of is told apart.
fn own<'a>(citation: &Citation<'a>, kinds: &[&str]) -> Option<&'a str> {
    let found = citation.identifiers.iter().find(|found| kinds.contains(&found.kind.as_str()));
    found.map(|found| found.text())
}

fn party<'a>(agent: &CitationAgent<'a>) -> Node<'a> {
    let is_body = matches!(agent.role, "CorporateCreator" | "Publisher" | "FundingBody");
    let kind = match (is_body, agent.parts.is_some() || agent.orcid().is_some()) {
        (true, _) => Some("Organization"),
        (false, true) => Some("Person"),
        // Nobody said which: schema.org can do without.
        (false, false) => None,
    };
    Node::object([
        ("@type", kind.map(Node::text)),
        ("@id", agent.orcid().map(Node::text)),
        ("name", Some(Node::text(agent.name))),
        ("familyName", agent.parts.map(|(family, _)| Node::text(family))),
        ("givenName", agent.parts.map(|(_, given)| Node::text(given))),
    ])
}

/// The issue, which is part of the volume, which is part of the journal; or the book.
fn container<'a>(container: &CitationContainer<'a>) -> Node<'a> {
    let number = |kinds: &[&str]| {
        let found = container.identifiers.iter().find(|found| kinds.contains(&found.kind.as_str()));
        found.map(|found| Node::text(found.text()))
    };
    let (issn, isbn) = (number(ISSN), number(ISBN));
    let kind = match (&issn, &isbn) {
        (Some(_), _) => "Periodical",
        (None, Some(_)) => "Book",
        (None, None) => "CreativeWork",
    };
    let mut node = Node::object([
        ("@type", Some(Node::text(kind))),
        ("name", container.title.map(Node::text)),
        ("issn", issn),
        ("isbn", isbn),
    ]);
    let parts = [
        ("PublicationVolume", "volumeNumber", container.volume),
        ("PublicationIssue", "issueNumber", container.issue),
    ];
    for (kind, member, number) in parts {
        if let Some(number) = number {
            let kind = Some(Node::text(kind));
            node =
                Node::object([("@type", kind), (member, Some(Node::text(number))), ("isPartOf", Some(node))]);
        }
    }
    node
}

//! Metadata as JSON-LD in the schema.org vocabulary.

use super::citation::{AUTHOR_ROLES, Citation, CitationAgent, CitationContainer, ISBN, ISSN};
use crate::metadata::codec::node::MetadataNode;

pub(super) fn write(citation: &Citation<'_>) -> String {
    let text = |text: Option<&'_ str>| text.map(|text| MetadataNode::text(text.to_owned()));
    let agents = |roles| MetadataNode::list(citation.agents_with_role(roles).map(|agent| party(agent)));
    let others = citation.other_names.iter().map(|name| MetadataNode::text(name.value));
    MetadataNode::object([
        ("@context", Some(MetadataNode::text("https://schema.org"))),
        ("@id", Some(MetadataNode::text(&*citation.link))),
        ("@type", Some(MetadataNode::text(citation.schema_org))),
        ("identifier", Some(identifier(citation))),
        ("url", text(citation.url)),
        ("name", Some(MetadataNode::text(citation.full_title()))),
        ("alternateName", MetadataNode::list(others)),
        ("additionalType", text(Some(citation.kernel_type))),
        ("author", agents(AUTHOR_ROLES)),
        ("editor", agents(&["Editor"])),
        ("director", agents(&["Director"])),
        ("actor", agents(&["Actor"])),
        ("translator", agents(&["Translator"])),
        ("publisher", agents(&["Publisher"])),
        ("funder", agents(&["FundingBody"])),
        ("datePublished", text(citation.date.map(|(date, _)| date))),
        ("inLanguage", text(citation.language)),
        ("issn", text(own_identifier(citation, ISSN))),
        ("isbn", text(own_identifier(citation, ISBN))),
        ("pageStart", text(citation.container.as_ref().and_then(|container| container.page))),
        ("isPartOf", citation.container.as_ref().map(container)),
    ])
    .to_json()
}

fn identifier<'a>(citation: &Citation<'a>) -> MetadataNode<'a> {
    MetadataNode::object([
        ("@type", Some(MetadataNode::text("PropertyValue"))),
        ("propertyID", Some(MetadataNode::text("doi"))),
        ("value", Some(MetadataNode::text(citation.fields.name))),
    ])
}

/// Identifiers of the work itself, without those of its container.
fn own_identifier<'a>(citation: &Citation<'a>, kinds: &[&str]) -> Option<&'a str> {
    let found = citation.identifiers.iter().find(|found| kinds.contains(&found.kind.as_str()));
    found.map(|found| found.text())
}

fn party<'a>(agent: &CitationAgent<'a>) -> MetadataNode<'a> {
    let is_body = matches!(agent.role, "CorporateCreator" | "Publisher" | "FundingBody");
    let kind = match (is_body, agent.parts.is_some() || agent.orcid().is_some()) {
        (true, _) => Some("Organization"),
        (false, true) => Some("Person"),
        // Unknown agent type; schema.org does not require one.
        (false, false) => None,
    };
    MetadataNode::object([
        ("@type", kind.map(MetadataNode::text)),
        ("@id", agent.orcid().map(MetadataNode::text)),
        ("name", Some(MetadataNode::text(agent.name))),
        ("familyName", agent.parts.map(|(family, _)| MetadataNode::text(family))),
        ("givenName", agent.parts.map(|(_, given)| MetadataNode::text(given))),
    ])
}

/// Container: the issue as part of the volume as part of the journal; or the book.
fn container<'a>(container: &CitationContainer<'a>) -> MetadataNode<'a> {
    let number = |kinds: &[&str]| {
        let found = container.identifiers.iter().find(|found| kinds.contains(&found.kind.as_str()));
        found.map(|found| MetadataNode::text(found.text()))
    };
    let (issn, isbn) = (number(ISSN), number(ISBN));
    let kind = match (&issn, &isbn) {
        (Some(_), _) => "Periodical",
        (None, Some(_)) => "Book",
        (None, None) => "CreativeWork",
    };
    let mut node = MetadataNode::object([
        ("@type", Some(MetadataNode::text(kind))),
        ("name", container.title.map(MetadataNode::text)),
        ("issn", issn),
        ("isbn", isbn),
    ]);
    let parts = [
        ("PublicationVolume", "volumeNumber", container.volume),
        ("PublicationIssue", "issueNumber", container.issue),
    ];
    for (kind, member, number) in parts {
        if let Some(number) = number {
            let kind = Some(MetadataNode::text(kind));
            node = MetadataNode::object([
                ("@type", kind),
                (member, Some(MetadataNode::text(number))),
                ("isPartOf", Some(node)),
            ]);
        }
    }
    node
}

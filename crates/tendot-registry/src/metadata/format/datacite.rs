//! DataCite's JSON, of schema 4.

use super::citation::{AUTHOR_ROLES, CitationAgent, Citation, ISBN, ISSN};
use crate::metadata::creation::LinkedCreation;
use crate::metadata::identifier::CreationIdentifier;
use crate::metadata::node::Node;

/// What is written where DataCite wants something and nobody said it.
const UNKNOWN: &str = ":unav";

pub(super) fn write(citation: &Citation<'_>) -> String {
    let text = |text: Option<&'_ str>| text.map(|text| Node::text(text.to_owned()));
    let unknown = || Node::List(vec![Node::object([("name", Some(Node::text(UNKNOWN)))])]);
    let creators = Node::list(citation.authors().map(|agent| party(agent, None)));
    let contributors = citation.agents.iter().filter(|agent| !has_own_field(agent.role));
    let year = citation.date.and_then(|(_, parts)| u64::try_from(parts.year).ok());
    Node::object([
        ("id", Some(Node::text(&*citation.link))),
        ("doi", Some(Node::text(citation.facts.name))),
        ("url", text(citation.url)),
        ("types", Some(types(citation))),
        ("creators", creators.or_else(|| Some(unknown()))),
        ("titles", Node::list(titles(citation))),
        ("publisher", Some(Node::object([("name", text(citation.publisher().or(Some(UNKNOWN))))]))),
        ("publicationYear", year.map(Node::Number)),
        ("dates", citation.date.map(|(date, _)| dates(date))),
        ("contributors", Node::list(contributors.map(|agent| party(agent, Some(contributor(agent.role)))))),
        ("fundingReferences", Node::list(citation.agents_with_role(&["FundingBody"]).map(funder))),
        ("container", container(citation)),
        ("language", text(citation.language)),
        ("identifiers", Node::list(citation.identifiers.iter().map(identifier))),
        ("relatedIdentifiers", Node::list(citation.links.iter().flat_map(related))),
        ("agency", text(Some(citation.facts.agency))),
        ("schemaVersion", Some(Node::text("http://datacite.org/schema/kernel-4"))),
    ])
    .to_json()
}

fn types<'a>(citation: &Citation<'a>) -> Node<'a> {
    let kind = citation.kind;
    Node::object([
        ("resourceTypeGeneral", Some(Node::text(kind.datacite))),
        ("resourceType", Some(Node::text(citation.kind_text))),
        ("citeproc", Some(Node::text(kind.csl))),
        ("bibtex", Some(Node::text(kind.bibtex))),
        ("ris", Some(Node::text(kind.ris))),
        ("schemaOrg", Some(Node::text(citation.schema_org))),
    ])
}

fn titles<'a>(citation: &Citation<'a>) -> Vec<Node<'a>> {
    let title = |text: &'a str, kind: Option<&'static str>, language: Option<&'a str>| {
        Node::object([
            ("title", Some(Node::text(text))),
            ("titleType", kind.map(Node::text)),
            ("lang", language.map(Node::text)),
        ])
    };
    let language = citation.title_language;
    let mut titles = vec![title(citation.title, None, language)];
    titles.extend(citation.subtitle.map(|subtitle| title(subtitle, Some("Subtitle"), language)));
    titles.extend(citation.other_names.iter().map(|name| {
        let kind = if name.kind == "TranslatedTitle" { "TranslatedTitle" } else { "AlternativeTitle" };
        title(name.value, Some(kind), name.language)
    }));
    titles
}

fn dates(date: &str) -> Node<'_> {
    let issued = [("date", Some(Node::text(date))), ("dateType", Some(Node::text("Issued")))];
    Node::List(vec![Node::object(issued)])
}

fn party<'a>(agent: &CitationAgent<'a>, contributor: Option<&'static str>) -> Node<'a> {
    let kind = match (agent.role, agent.parts) {
        ("CorporateCreator", _) => Some("Organizational"),
        (_, Some(_)) => Some("Personal"),
        _ => None,
    };
    let identifier = agent.identifier.map(|identifier| {
        let text = agent.orcid().map_or_else(|| Node::text(identifier.text()), Node::text);
        Node::List(vec![Node::object([
            ("nameIdentifier", Some(text)),
            ("nameIdentifierScheme", Some(Node::text(identifier.kind.as_str()))),
        ])])
    });
    Node::object([
        ("name", Some(Node::text(agent.name))),
        ("nameType", kind.map(Node::text)),
        ("familyName", agent.parts.map(|(family, _)| Node::text(family))),
        ("givenName", agent.parts.map(|(_, given)| Node::text(given))),
        ("nameIdentifiers", identifier),
        ("contributorType", contributor.map(Node::text)),
    ])
}

fn has_own_field(role: &str) -> bool {
    AUTHOR_ROLES.contains(&role) || matches!(role, "Publisher" | "FundingBody")
}

fn contributor(role: &str) -> &'static str {
    match role {
        "Editor" => "Editor",
        "Translator" => "Translator",
        "Director" => "Producer",
        _ => "Other",
    }
}

fn funder<'a>(agent: &CitationAgent<'a>) -> Node<'a> {
    Node::object([("funderName", Some(Node::text(agent.name)))])
}

fn container<'a>(citation: &Citation<'a>) -> Option<Node<'a>> {
    let container = citation.container.as_ref()?;
    let number = container
        .identifiers
        .iter()
        .find(|found| ISSN.contains(&found.kind.as_str()) || ISBN.contains(&found.kind.as_str()));
    Some(Node::object([
        ("title", container.title.map(Node::text)),
        ("identifier", number.map(|found| Node::text(found.text()))),
        ("identifierType", number.map(|found| Node::text(identifier_type(found).unwrap_or_default()))),
        ("volume", container.volume.map(Node::text)),
        ("issue", container.issue.map(Node::text)),
        ("firstPage", container.page.map(Node::text)),
    ]))
}

fn identifier(identifier: &CreationIdentifier) -> Node<'_> {
    Node::object([
        ("identifier", Some(Node::text(identifier.text()))),
        ("identifierType", Some(Node::text(identifier.kind.as_str()))),
    ])
}

/// Links of which DataCite knows neither the type of the identifier nor the relation are left out.
fn related(linked: &LinkedCreation) -> impl Iterator<Item = Node<'_>> {
    let relation = relation(linked);
    linked.identifier.iter().filter_map(move |identifier| {
        Some(Node::object([
            ("relatedIdentifier", Some(Node::text(identifier.text()))),
            ("relatedIdentifierType", Some(Node::text(identifier_type(identifier)?))),
            ("relationType", Some(Node::text(relation?))),
        ]))
    })
}

fn identifier_type(identifier: &CreationIdentifier) -> Option<&'static str> {
    Some(match identifier.kind.as_str() {
        "DOI" => "DOI",
        "EAN13" => "EAN13",
        "ISBN10" | "ISBN13" => "ISBN",
        "ISSN" => "ISSN",
        "ISTC" => "ISTC",
        "UPC" => "UPC",
        "URI" => "URL",
        "URN" => "URN",
        _ => return None,
    })
}

/// What this creation is to the other.
fn relation(linked: &LinkedCreation) -> Option<&'static str> {
    let this = linked.referent_role.as_ref().map(|role| role.as_str());
    let other = linked.linked_role.as_ref().map(|role| role.as_str());
    let of_this = this.and_then(|role| {
        Some(match role {
            "Part" | "Chapter" | "Clip" | "Episode" | "Season" => "IsPartOf",
            "Derivation" | "Edit" | "Fixation" | "Performance" | "TakesContent" => "IsDerivedFrom",
            "Translation" => "IsTranslationOf",
            "Edition" | "Version" => "IsVersionOf",
            "IsSameAs" => "IsIdenticalTo",
            "SupplementalResource" | "AlternateContent" | "PromotionalResource" | "CueSheet" => {
                "IsSupplementTo"
            }
            _ => return None,
        })
    });
    of_this.or_else(|| {
        Some(match other? {
            "Part" | "Chapter" | "Clip" | "Episode" | "Season" => "HasPart",
            "Derivation" | "Edit" | "Fixation" | "Performance" | "TakesContent" => "IsSourceOf",
            "Translation" => "HasTranslation",
            "Edition" | "Version" => "HasVersion",
            "IsSameAs" => "IsIdenticalTo",
            "SupplementalResource" | "AlternateContent" | "PromotionalResource" | "CueSheet" => {
                "IsSupplementedBy"
            }
            _ => return None,
        })
    })
}

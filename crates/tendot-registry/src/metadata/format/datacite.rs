//! Metadata as DataCite JSON, schema 4.5.
//!
//! Responses of DataCite have members that its schema for deposits does not: `id`, `agency`, and the types of other formats in
//! `types`, from which Zotero takes the item type. They have all lists, also empty ones; Zotero relies on it.

use super::citation::{AUTHOR_ROLES, Citation, CitationAgent, CitationContainer, ISBN, ISSN};
use crate::metadata::codec::node::MetadataNode;
use crate::metadata::model::creation::LinkedCreation;
use crate::metadata::model::identifier::CreationIdentifier;

/// Value for required fields without data.
const UNAVAILABLE: &str = ":unav";

pub(super) fn write(citation: &Citation<'_>) -> String {
    let text = |text: Option<&'_ str>| text.map(|text| MetadataNode::text(text.to_owned()));
    let unavailable =
        || MetadataNode::Array(vec![MetadataNode::object([("name", Some(MetadataNode::text(UNAVAILABLE)))])]);
    let creators = MetadataNode::list(citation.authors().map(|agent| party(agent, None)));
    let contributors = citation.agents.iter().filter(|agent| !has_own_field(agent.role));
    let year = citation.date.and_then(|(_, parts)| u16::try_from(parts.year).ok());
    // The schema requires a year: without a date, that of the registration.
    let year = year.map_or_else(
        || citation.fields.issue_date.split('-').next().unwrap_or_default().to_owned(),
        |year| format!("{year:04}"),
    );
    MetadataNode::object([
        ("id", Some(MetadataNode::text(&*citation.link))),
        ("doi", Some(MetadataNode::text(citation.fields.name))),
        ("url", text(citation.url)),
        ("types", Some(types(citation))),
        ("creators", creators.or_else(|| Some(unavailable()))),
        ("titles", MetadataNode::list(titles(citation))),
        (
            "publisher",
            Some(MetadataNode::object([("name", text(citation.publisher().or(Some(UNAVAILABLE))))])),
        ),
        ("publicationYear", Some(MetadataNode::text(year))),
        ("dates", or_empty(citation.date.map(|(date, _)| dates(date)))),
        (
            "contributors",
            or_empty(MetadataNode::list(
                contributors.map(|agent| party(agent, Some(contributor(agent.role)))),
            )),
        ),
        ("fundingReferences", MetadataNode::list(citation.agents_with_role(&["FundingBody"]).map(funder))),
        ("container", container(citation)),
        ("language", text(citation.language)),
        ("alternateIdentifiers", MetadataNode::list(citation.identifiers.iter().map(identifier))),
        ("relatedIdentifiers", or_empty(MetadataNode::list(citation.links.iter().flat_map(related)))),
        ("relatedItems", container_item(citation).map(|item| MetadataNode::Array(vec![item]))),
        ("subjects", or_empty(None)),
        ("descriptions", or_empty(None)),
        ("rightsList", or_empty(None)),
        ("formats", or_empty(None)),
        ("sizes", or_empty(None)),
        ("agency", text(Some(citation.fields.agency))),
        ("schemaVersion", Some(MetadataNode::text("http://datacite.org/schema/kernel-4"))),
    ])
    .to_json()
}

/// List, if necessary an empty one.
fn or_empty(list: Option<MetadataNode<'_>>) -> Option<MetadataNode<'_>> {
    list.or_else(|| Some(MetadataNode::Array(Vec::new())))
}

fn types<'a>(citation: &Citation<'a>) -> MetadataNode<'a> {
    let kind = citation.work_type;
    MetadataNode::object([
        ("resourceTypeGeneral", Some(MetadataNode::text(kind.datacite))),
        ("resourceType", Some(MetadataNode::text(citation.kernel_type))),
        ("citeproc", Some(MetadataNode::text(kind.csl))),
        ("bibtex", Some(MetadataNode::text(kind.bibtex))),
        ("ris", Some(MetadataNode::text(kind.ris))),
        ("schemaOrg", Some(MetadataNode::text(citation.schema_org))),
    ])
}

fn titles<'a>(citation: &Citation<'a>) -> Vec<MetadataNode<'a>> {
    let title = |text: &'a str, kind: Option<&'static str>, language: Option<&'a str>| {
        MetadataNode::object([
            ("title", Some(MetadataNode::text(text))),
            ("titleType", kind.map(MetadataNode::text)),
            ("lang", language.map(MetadataNode::text)),
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

fn dates(date: &str) -> MetadataNode<'_> {
    let issued = [("date", Some(MetadataNode::text(date))), ("dateType", Some(MetadataNode::text("Issued")))];
    MetadataNode::Array(vec![MetadataNode::object(issued)])
}

fn party<'a>(agent: &CitationAgent<'a>, contributor: Option<&'static str>) -> MetadataNode<'a> {
    let kind = match (agent.role, agent.parts) {
        ("CorporateCreator", _) => Some("Organizational"),
        (_, Some(_)) => Some("Personal"),
        _ => None,
    };
    let identifier = agent.identifier.map(|identifier| {
        let text = agent.orcid().map_or_else(|| MetadataNode::text(identifier.text()), MetadataNode::text);
        MetadataNode::Array(vec![MetadataNode::object([
            ("nameIdentifier", Some(text)),
            ("nameIdentifierScheme", Some(MetadataNode::text(identifier.kind.as_str()))),
        ])])
    });
    MetadataNode::object([
        ("name", Some(MetadataNode::text(agent.name))),
        ("nameType", kind.map(MetadataNode::text)),
        ("familyName", agent.parts.map(|(family, _)| MetadataNode::text(family))),
        ("givenName", agent.parts.map(|(_, given)| MetadataNode::text(given))),
        ("nameIdentifiers", identifier),
        ("contributorType", contributor.map(MetadataNode::text)),
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

fn funder<'a>(agent: &CitationAgent<'a>) -> MetadataNode<'a> {
    MetadataNode::object([("funderName", Some(MetadataNode::text(agent.name)))])
}

/// Container as in DataCite's responses.
fn container<'a>(citation: &Citation<'a>) -> Option<MetadataNode<'a>> {
    let container = citation.container.as_ref()?;
    let (number, number_type) = standard_number(container).unzip();
    Some(MetadataNode::object([
        ("type", Some(MetadataNode::text("Series"))),
        ("title", container.title.map(MetadataNode::text)),
        ("identifier", number.map(MetadataNode::text)),
        ("identifierType", number_type.map(MetadataNode::text)),
        ("volume", container.volume.map(MetadataNode::text)),
        ("issue", container.issue.map(MetadataNode::text)),
        ("firstPage", container.page.map(MetadataNode::text)),
    ]))
}

/// Container as a related item, which the schema requires to have a title.
fn container_item<'a>(citation: &Citation<'a>) -> Option<MetadataNode<'a>> {
    let container = citation.container.as_ref()?;
    let title = MetadataNode::object([("title", Some(MetadataNode::text(container.title?)))]);
    let kind = match citation.work_type.datacite {
        _ if container.is_periodical() => "Journal",
        "BookChapter" => "Book",
        _ => "Other",
    };
    let number = standard_number(container).map(|(number, number_type)| {
        MetadataNode::object([
            ("relatedItemIdentifier", Some(MetadataNode::text(number))),
            ("relatedItemIdentifierType", Some(MetadataNode::text(number_type))),
        ])
    });
    Some(MetadataNode::object([
        ("relatedItemType", Some(MetadataNode::text(kind))),
        ("relationType", Some(MetadataNode::text("IsPublishedIn"))),
        ("titles", Some(MetadataNode::Array(vec![title]))),
        ("relatedItemIdentifier", number),
        ("volume", container.volume.map(MetadataNode::text)),
        ("issue", container.issue.map(MetadataNode::text)),
        ("firstPage", container.page.map(MetadataNode::text)),
    ]))
}

/// ISSN or ISBN of the container, and its type.
fn standard_number<'a>(container: &CitationContainer<'a>) -> Option<(&'a str, &'static str)> {
    let is_number = |kind: &str| ISSN.contains(&kind) || ISBN.contains(&kind);
    let found = container.identifiers.iter().find(|found| is_number(found.kind.as_str()))?;
    Some((found.text(), identifier_type(found)?))
}

fn identifier(identifier: &CreationIdentifier) -> MetadataNode<'_> {
    MetadataNode::object([
        ("alternateIdentifier", Some(MetadataNode::text(identifier.text()))),
        ("alternateIdentifierType", Some(MetadataNode::text(identifier.kind.as_str()))),
    ])
}

/// Related identifiers. Links whose identifier type or relation DataCite does not have are left out.
fn related(linked: &LinkedCreation) -> impl Iterator<Item = MetadataNode<'_>> {
    let relation = relation(linked);
    linked.identifier.iter().filter_map(move |identifier| {
        Some(MetadataNode::object([
            ("relatedIdentifier", Some(MetadataNode::text(identifier.text()))),
            ("relatedIdentifierType", Some(MetadataNode::text(identifier_type(identifier)?))),
            ("relationType", Some(MetadataNode::text(relation?))),
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

/// Relation of this creation to the linked one.
fn relation(linked: &LinkedCreation) -> Option<&'static str> {
    let this = linked.referent_role.as_ref().map(|role| role.as_str());
    let other = linked.linked_role.as_ref().map(|role| role.as_str());
    let of_this = this.and_then(|role| {
        Some(match role {
            "Part" | "Chapter" | "Clip" | "Episode" | "Season" => "IsPartOf",
            // Schema 4.5 has no relation for translations.
            "Derivation" | "Edit" | "Fixation" | "Performance" | "TakesContent" | "Translation" => {
                "IsDerivedFrom"
            }
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
            "Derivation" | "Edit" | "Fixation" | "Performance" | "TakesContent" | "Translation" => {
                "IsSourceOf"
            }
            "Edition" | "Version" => "HasVersion",
            "IsSameAs" => "IsIdenticalTo",
            "SupplementalResource" | "AlternateContent" | "PromotionalResource" | "CueSheet" => {
                "IsSupplementedBy"
            }
            _ => return None,
        })
    })
}

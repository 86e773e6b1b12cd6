//! Kernel metadata as a citation.

use super::work_type::WorkType;
use crate::metadata::kernel::{KernelMetadata, Referent, RegistryFields};
use crate::metadata::model::creation::{Creation, CreationName, LinkedCreation, PrincipalAgent};
use crate::metadata::model::date::DateParts;
use crate::metadata::model::identifier::{CreationIdentifier, PartyIdentifier, SequenceIdentifier};
use crate::metadata::model::text::{LanguageTag, NonEmptyText};
use crate::metadata::model::vocabulary::PartyStructuralType;

/// Kernel metadata in citation terms. Parties and places have only a title.
pub(super) struct Citation<'a> {
    pub(super) fields: &'a RegistryFields<'a>,
    /// DOI as a URL.
    pub(super) link: String,
    /// Target URL.
    pub(super) url: Option<&'a str>,
    pub(super) work_type: &'static WorkType,
    /// Type in the kernel's vocabulary.
    pub(super) kernel_type: &'a str,
    /// Type in schema.org.
    pub(super) schema_org: &'static str,
    pub(super) title: &'a str,
    pub(super) subtitle: Option<&'a str>,
    /// Language of the title.
    pub(super) title_language: Option<&'a str>,
    pub(super) other_names: Vec<AlternativeTitle<'a>>,
    pub(super) agents: Vec<CitationAgent<'a>>,
    pub(super) date: Option<(&'a str, DateParts)>,
    pub(super) language: Option<&'a str>,
    pub(super) identifiers: &'a [CreationIdentifier],
    pub(super) links: &'a [LinkedCreation],
    /// Work that contains this one.
    pub(super) container: Option<CitationContainer<'a>>,
    pub(super) publication_place: Option<&'a str>,
}

/// Alternative title or name.
pub(super) struct AlternativeTitle<'a> {
    pub(super) value: &'a str,
    pub(super) kind: &'a str,
    pub(super) language: Option<&'a str>,
}

/// Author, editor, publisher or other agent.
pub(super) struct CitationAgent<'a> {
    pub(super) name: &'a str,
    /// Family and given name, if the name has a comma: `Bak, Per`.
    pub(super) parts: Option<(&'a str, &'a str)>,
    pub(super) identifier: Option<&'a PartyIdentifier>,
    pub(super) role: &'a str,
}

/// Work that contains this one, and the position in it.
pub(super) struct CitationContainer<'a> {
    pub(super) title: Option<&'a str>,
    pub(super) identifiers: &'a [CreationIdentifier],
    pub(super) volume: Option<&'a str>,
    pub(super) issue: Option<&'a str>,
    pub(super) page: Option<&'a str>,
    pub(super) chapter: Option<&'a str>,
}

impl<'a> Citation<'a> {
    pub(super) fn new(
        kernel: &'a KernelMetadata,
        fields: &'a RegistryFields<'a>,
        url: Option<&'a str>,
    ) -> Self {
        let mut citation = Self {
            fields,
            link: doi_url(fields.name),
            url,
            work_type: WorkType::from_types(std::iter::empty()),
            kernel_type: "",
            schema_org: "",
            title: kernel.title(),
            subtitle: None,
            title_language: None,
            other_names: Vec::new(),
            agents: Vec::new(),
            date: None,
            language: None,
            identifiers: &[],
            links: &[],
            container: None,
            publication_place: None,
        };
        let (kernel_type, schema_org, names) = match &kernel.referent {
            Referent::Creation(creation) => {
                citation.add_creation(creation);
                return citation;
            }
            Referent::Party(party) => match party.structural_type {
                PartyStructuralType::Individual => ("Individual", "Person", &party.name),
                PartyStructuralType::Organization => ("Organization", "Organization", &party.name),
                PartyStructuralType::Animal => ("Animal", "Thing", &party.name),
            },
            Referent::Place(place) => ("Place", "Place", &place.name),
        };
        (citation.kernel_type, citation.schema_org) = (kernel_type, schema_org);
        let others =
            names.iter().filter(|name| name.value.as_str() != citation.title).map(|name| AlternativeTitle {
                value: name.value.as_str(),
                kind: name.kind.as_str(),
                language: name.language.as_ref().map(LanguageTag::as_str),
            });
        citation.other_names = others.collect();
        citation
    }

    fn add_creation(&mut self, creation: &'a Creation) {
        self.work_type = WorkType::from_types(creation.kind.iter().map(|kind| kind.as_str()));
        self.kernel_type = creation.kind.first().map_or("", |kind| kind.as_str());
        self.schema_org = self.work_type.schema_org;
        let title = creation.title();
        self.subtitle = title.and_then(|title| title.subname_value.as_ref()).map(NonEmptyText::as_str);
        self.title_language = title.and_then(language);
        let is_title = |name: &CreationName| title.is_some_and(|title| std::ptr::eq(title, name));
        let others = creation.name.iter().filter(|name| !is_title(name)).map(|name| AlternativeTitle {
            value: name.value.as_str(),
            kind: name.kind.as_str(),
            language: language(name),
        });
        self.other_names = others.collect();
        self.agents = creation.principal_agent.iter().map(to_agent).collect();
        let date = creation.creation_date.as_ref().map(|date| &date.date);
        self.date = date.and_then(|date| Some((date.as_str(), date.parts()?)));
        let content = creation.content_language.as_ref().map(|content| &content.language);
        self.language = content.map(LanguageTag::as_str);
        self.identifiers = &creation.identifier;
        self.links = &creation.linked_creation;
        self.container =
            creation.linked_creation.iter().find(|linked| is_container(linked)).map(to_container);
        // An article alone is a preprint in CSL, RIS and Zotero.
        if self.kernel_type == "Article"
            && self.container.as_ref().is_some_and(CitationContainer::is_periodical)
        {
            self.work_type = WorkType::journal_article();
            self.schema_org = self.work_type.schema_org;
        }
        let published = |kind: &str| kind == "PlaceOfPublication";
        let place = creation
            .creation_place
            .iter()
            .find(|place| place.place_type.as_ref().is_some_and(|kind| published(kind.as_str())));
        self.publication_place = place.map(|place| place.name.as_str());
    }

    /// Title with subtitle.
    pub(super) fn full_title(&self) -> String {
        match self.subtitle {
            Some(subtitle) => format!("{}: {subtitle}", self.title),
            None => self.title.to_owned(),
        }
    }

    /// Agents with a role.
    pub(super) fn agents_with_role(
        &self,
        roles: &'static [&'static str],
    ) -> impl Iterator<Item = &CitationAgent<'a>> {
        self.agents.iter().filter(|agent| roles.contains(&agent.role))
    }

    /// Agents to be cited as authors.
    pub(super) fn authors(&self) -> impl Iterator<Item = &CitationAgent<'a>> {
        self.agents_with_role(AUTHOR_ROLES)
    }

    pub(super) fn publisher(&self) -> Option<&'a str> {
        self.agents_with_role(&["Publisher"]).next().map(|agent| agent.name)
    }

    /// Identifiers of the given types: of the work, then of its container.
    pub(super) fn identifiers_of(&self, kinds: &'static [&'static str]) -> impl Iterator<Item = &'a str> {
        let container = self.container.as_ref().map_or(&[][..], |container| container.identifiers);
        let all = self.identifiers.iter().chain(container);
        all.filter(|found| kinds.contains(&found.kind.as_str())).map(CreationIdentifier::text)
    }
}

impl CitationContainer<'_> {
    /// Whether the container is a journal or another periodical: it has an ISSN, or the work has a volume or an issue of it.
    pub(super) fn is_periodical(&self) -> bool {
        let has_issn = self.identifiers.iter().any(|found| ISSN.contains(&found.kind.as_str()));
        has_issn || self.volume.is_some() || self.issue.is_some()
    }
}

impl CitationAgent<'_> {
    /// ORCID iD as a URL.
    pub(super) fn orcid(&self) -> Option<String> {
        let identifier = self.identifier.filter(|found| found.kind.as_str() == "ORCID")?;
        let digits = identifier.text().rsplit('/').next().unwrap_or_default();
        Some(format!("https://orcid.org/{digits}"))
    }
}

/// Roles cited as authors. An agent without a role counts as one.
pub(super) const AUTHOR_ROLES: &[&str] = &["", "Author", "Creator", "CorporateCreator", "Composer"];
pub(super) const ISSN: &[&str] = &["ISSN"];
pub(super) const ISBN: &[&str] = &["ISBN13", "ISBN10"];

/// URL of a DOI, percent-encoded except for characters allowed in a path.
pub(super) fn doi_url(name: &str) -> String {
    let mut link = String::from("https://doi.org/");
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(&byte) {
            link.push(byte.into());
        } else {
            link.push_str(&format!("%{byte:02X}"));
        }
    }
    link
}

fn language(name: &CreationName) -> Option<&str> {
    name.primary_language.as_ref().map(LanguageTag::as_str)
}

fn to_agent(agent: &PrincipalAgent) -> CitationAgent<'_> {
    let role = agent.role.as_ref().map_or("", |role| role.as_str());
    let identifier = agent.identifier.as_ref();
    let name = agent.name.as_ref().map(|name| name.value.as_str());
    let is_body = matches!(role, "CorporateCreator" | "Publisher" | "FundingBody");
    let parts = name.filter(|_| !is_body).and_then(|name| name.split_once(", "));
    let parts =
        parts.filter(|(family, given)| !family.is_empty() && !given.is_empty() && !given.contains(','));
    CitationAgent {
        name: name.or_else(|| identifier.map(PartyIdentifier::text)).unwrap_or_default(),
        parts,
        identifier,
        role,
    }
}

fn is_container(linked: &LinkedCreation) -> bool {
    let role = linked.referent_role.as_ref().map_or("", |role| role.as_str());
    matches!(role, "Part" | "Chapter" | "Episode" | "Season")
}

fn to_container(linked: &LinkedCreation) -> CitationContainer<'_> {
    let sequence_number = |kind: &str| {
        let found: Option<&SequenceIdentifier> =
            linked.referent_sequence.iter().find(|found| found.kind.as_str() == kind);
        found.map(|found| found.value.as_str())
    };
    CitationContainer {
        title: linked.name.first().map(|name| name.value.as_str()),
        identifiers: &linked.identifier,
        volume: sequence_number("VolumeNumber"),
        issue: sequence_number("IssueNumber"),
        page: sequence_number("PageNumber"),
        chapter: sequence_number("ChapterNumber"),
    }
}

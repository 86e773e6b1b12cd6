//! Metadata as others want it.
//!
//! - `citation`: what a kernel says, in the terms of those who cite; `kind`: their types of works;
//! - `csl`, `bibtex`, `ris`, `schema_org`, `datacite`: a file per format.

mod bibtex;
mod citation;
mod csl;
mod datacite;
mod kind;
mod ris;
mod schema_org;

use self::citation::Citation;
use super::kernel::{KernelMetadata, RegistryFields};
use super::system::SystemMetadata;

/// Short citation for people: title, creators, publisher, type, date.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CitationSummary {
    /// The title, with its subtitle.
    pub title: String,
    /// Those who made it, or at least took part: not who published it.
    pub creators: Vec<String>,
    /// Who published it.
    pub publisher: Option<String>,
    /// The type, in the words of the kernel.
    pub kind: String,
    /// When it was made, as it is written there.
    pub date: Option<String>,
}

impl CitationSummary {
    pub(crate) fn from_kernel(kernel: &KernelMetadata, facts: &RegistryFields<'_>) -> Self {
        let citation = Citation::new(kernel, facts, None);
        let mut creators: Vec<String> = citation.authors().map(|agent| agent.name.to_owned()).collect();
        if creators.is_empty() {
            let others = citation.agents.iter().filter(|agent| agent.role != "Publisher");
            creators = others.map(|agent| agent.name.to_owned()).collect();
        }
        Self {
            title: citation.full_title(),
            creators,
            publisher: citation.publisher().map(str::to_owned),
            kind: citation.kind_text.to_owned(),
            date: citation.date.map(|(date, _)| date.to_owned()),
        }
    }
}

/// Output format of metadata.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum MetadataFormat {
    /// The kernel in JSON.
    KernelJson,
    /// The kernel in XML, by its schema 2.3.
    KernelXml,
    /// The System Metadata of 2025.
    SystemJson,
    /// What citation processors read.
    CslJson,
    /// What BibTeX reads.
    BibTeX,
    /// What reference managers read.
    Ris,
    /// Linked data in the vocabulary of schema.org.
    SchemaOrg,
    /// DataCite's JSON.
    DataCiteJson,
}

impl MetadataFormat {
    /// All of them, the kernel's own first.
    pub const ALL: [Self; 8] = [
        Self::KernelJson,
        Self::KernelXml,
        Self::SystemJson,
        Self::CslJson,
        Self::BibTeX,
        Self::Ris,
        Self::SchemaOrg,
        Self::DataCiteJson,
    ];

    /// The media types under which it is asked for; the first is what it is sent as, unless another was asked for.
    pub fn media_types(self) -> &'static [&'static str] {
        match self {
            Self::KernelJson => &["application/vnd.doi.kernel+json", "application/json"],
            Self::KernelXml => &["application/vnd.doi.kernel+xml", "application/xml", "text/xml"],
            Self::SystemJson => &["application/vnd.doi.system+json"],
            Self::CslJson => &["application/vnd.citationstyles.csl+json", "application/citeproc+json"],
            Self::BibTeX => &["application/x-bibtex"],
            Self::Ris => &["application/x-research-info-systems"],
            Self::SchemaOrg => &["application/vnd.schemaorg.ld+json", "application/ld+json"],
            Self::DataCiteJson => &["application/vnd.datacite.datacite+json"],
        }
    }

    /// The format of a media type, whatever its case and parameters.
    ///
    /// ```
    /// use tendot_registry::metadata::MetadataFormat;
    ///
    /// assert_eq!(MetadataFormat::from_media_type("Application/X-BibTeX; charset=utf-8"), Some(MetadataFormat::BibTeX));
    /// assert_eq!(MetadataFormat::from_media_type("text/html"), None);
    /// ```
    pub fn from_media_type(media_type: &str) -> Option<Self> {
        let essence = media_type.split(';').next().unwrap_or_default().trim();
        let has =
            |format: &Self| format.media_types().iter().any(|found| found.eq_ignore_ascii_case(essence));
        Self::ALL.into_iter().find(has)
    }

    /// Metadata in this form; `url` is where the name leads.
    pub fn render(self, kernel: &KernelMetadata, facts: &RegistryFields<'_>, url: Option<&str>) -> String {
        let citation = || Citation::new(kernel, facts, url);
        match self {
            Self::KernelJson => kernel.to_node_with(facts).to_json(),
            Self::KernelXml => kernel.to_xml(facts),
            Self::SystemJson => SystemMetadata::from(kernel).to_json(facts),
            Self::CslJson => csl::write(&citation()),
            Self::BibTeX => bibtex::write(&citation()),
            Self::Ris => ris::write(&citation()),
            Self::SchemaOrg => schema_org::write(&citation()),
            Self::DataCiteJson => datacite::write(&citation()),
        }
    }
}

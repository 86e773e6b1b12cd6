//! Output formats of metadata.
//!
//! - `citation`: kernel metadata in citation terms; `work_type`: work types in each format;
//! - `csl`, `bibtex`, `ris`, `schema_org`, `datacite`: one format each.

mod bibtex;
mod citation;
mod csl;
mod datacite;
mod ris;
mod schema_org;
mod work_type;

use self::citation::Citation;

use crate::metadata::kernel::{KernelMetadata, RegistryFields};
use crate::metadata::model::extension::ExtensionSummary;
use crate::metadata::system_metadata::SystemMetadata;

/// Short citation for people: title, creators, publisher, type, date.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CitationSummary {
    /// Title with subtitle.
    pub title: String,
    /// Creators, or other agents except publishers.
    pub creators: Vec<String>,
    /// Publisher.
    pub publisher: Option<String>,
    /// Type in the kernel's vocabulary.
    pub kind: String,
    /// Date of creation as in the metadata.
    pub date: Option<String>,
    /// Elements of other namespaces.
    pub extensions: Vec<ExtensionSummary>,
}

impl CitationSummary {
    pub(crate) fn from_kernel(kernel: &KernelMetadata, fields: &RegistryFields<'_>) -> Self {
        let citation = Citation::new(kernel, fields, None);
        let mut creators: Vec<String> = citation.authors().map(|agent| agent.name.to_owned()).collect();
        if creators.is_empty() {
            let others = citation.agents.iter().filter(|agent| agent.role != "Publisher");
            creators = others.map(|agent| agent.name.to_owned()).collect();
        }
        Self {
            title: citation.full_title(),
            creators,
            publisher: citation.publisher().map(str::to_owned),
            kind: citation.kernel_type.to_owned(),
            date: citation.date.map(|(date, _)| date.to_owned()),
            extensions: kernel.extensions(),
        }
    }
}

/// Output format of metadata.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum MetadataFormat {
    /// Kernel JSON.
    KernelJson,
    /// Kernel XML, schema 2.3.
    KernelXml,
    /// System Metadata (ISO 26324:2025).
    SystemJson,
    /// CSL JSON, for citation processors.
    CslJson,
    /// BibTeX.
    BibTeX,
    /// RIS, for reference managers.
    Ris,
    /// JSON-LD in the schema.org vocabulary.
    SchemaOrg,
    /// DataCite JSON.
    DataCiteJson,
}

impl MetadataFormat {
    /// All formats, kernel formats first.
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

    /// Media types that select the format; the first one is the default `Content-Type`.
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

    /// Format of a media type, ignoring case and parameters.
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

    /// Renders metadata in this format; `url` is the target of the DOI.
    pub fn render(self, kernel: &KernelMetadata, fields: &RegistryFields<'_>, url: Option<&str>) -> String {
        let citation = || Citation::new(kernel, fields, url);
        match self {
            Self::KernelJson => kernel.to_node_with(fields).to_json(),
            Self::KernelXml => kernel.to_xml(fields),
            Self::SystemJson => SystemMetadata::from(kernel).to_json(fields),
            Self::CslJson => csl::write(&citation()),
            Self::BibTeX => bibtex::write(&citation()),
            Self::Ris => ris::write(&citation()),
            Self::SchemaOrg => schema_org::write(&citation()),
            Self::DataCiteJson => datacite::write(&citation()),
        }
    }
}

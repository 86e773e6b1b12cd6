//! Kernel metadata: the document.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};
use serde_json::Value;

use crate::metadata::codec::element;
use crate::metadata::codec::node::{MetadataNode, NodeMember, XmlPosition};
use crate::metadata::codec::reader::{DocumentSyntax, MetadataElement, MetadataReader, excerpt};
use crate::metadata::codec::xml;
use crate::metadata::fault::{MetadataFault, MetadataFaultCode};
use crate::metadata::model::creation::Creation;
use crate::metadata::model::date::XsdDate;
use crate::metadata::model::extension::{
    EXTENSIONS_MEMBER, ExtensionElement, ExtensionSummary, MAX_EXTENSIONS, check_extensions,
};
use crate::metadata::model::party::{Party, ReferentPlace};
use crate::metadata::model::text::NonEmptyText;
use crate::metadata::model::vocabulary::PrimaryReferentType;
use crate::metadata::schema::{self, SchemaMember, SchemaSet};
use crate::metadata::system_metadata::SystemMetadata;

/// Maximum length of a JSON document, in bytes.
const MAX_JSON_BYTES: usize = 1 << 20;
/// Maximum length of an XML or System Metadata document, in bytes. The kernel JSON made from it has less than twice the
/// length and must not exceed [`MAX_JSON_BYTES`].
const MAX_CONVERTED_BYTES: usize = 1 << 19;

/// Kernel metadata of a DOI. A value of this type is valid.
///
/// ```
/// use tendot_registry::metadata::KernelMetadata;
///
/// let text = r#"{"primaryReferentType":"Creation","referentCreation":{
///     "name":[{"value":"Self-organized criticality","type":"Title","primaryLanguage":"en"}],
///     "structuralType":"Digital","mode":["Visual"],"character":["Language"],"type":["Article"],
///     "principalAgent":[{"name":{"value":"Bak, Per","type":"Name"},"role":"Author"}]}}"#;
/// let kernel = KernelMetadata::from_json(text.as_bytes()).unwrap();
/// assert_eq!(kernel.title(), "Self-organized criticality");
/// assert_eq!(KernelMetadata::from_json(kernel.to_json().as_bytes()), Ok(kernel));
///
/// let faults = KernelMetadata::from_json(text.replace("Visual", "Visible").as_bytes()).unwrap_err();
/// assert_eq!(faults[0].to_string(), "/referentCreation/mode/0: value `Visible` is not allowed");
/// assert_eq!(faults[0].code.as_str(), "value-not-allowed");
/// assert_eq!(faults[0].allowed, ["Audio", "Olfactory", "Restricted", "Tangible", "Tasteable", "Visual"]);
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KernelMetadata {
    pub(super) referent: Referent,
    /// Extensions of the document; the referent may have further ones.
    pub(super) extensions: Vec<ExtensionElement>,
}

/// Referent: what the DOI is assigned to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Referent {
    Creation(Box<Creation>),
    Party(Box<Party>),
    Place(ReferentPlace),
}

/// Fields of a metadata document that the registry supplies.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RegistryFields<'a> {
    /// DOI in its original spelling.
    pub name: &'a str,
    /// Code of the agency.
    pub agency: &'a str,
    /// Date of the issue, such as `2026-11-16`.
    pub issue_date: &'a str,
    /// Number of the issue, starting with 1.
    pub issue_number: u32,
}

/// DOI that a metadata document may name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ExpectedDoi<'a> {
    /// Any DOI: the name is not known here.
    Any,
    /// None: the name is minted later.
    Minted,
    /// This DOI.
    Name(&'a str),
}

impl RegistryFields<'_> {
    /// DOI of the agency, as the kernel requires.
    pub(super) fn agency_doi(&self) -> String {
        if self.agency.contains('/') { self.agency.to_owned() } else { format!("10.SERV/{}", self.agency) }
    }
}

impl KernelMetadata {
    /// Parses JSON of either view. Fields that the registry supplies are validated and otherwise ignored.
    pub fn from_json(text: &[u8]) -> Result<Self, Vec<MetadataFault>> {
        Self::parse_json(text, ExpectedDoi::Any)
    }

    /// Parses JSON for a DOI; fails if the document names another one.
    pub fn from_json_for(text: &[u8], name: &str) -> Result<Self, Vec<MetadataFault>> {
        Self::parse_json(text, ExpectedDoi::Name(name))
    }

    /// Parses kernel XML, with the elements in any order.
    pub fn from_xml(text: &str) -> Result<Self, Vec<MetadataFault>> {
        Self::parse_xml(text, ExpectedDoi::Any)
    }

    /// Parses XML for a DOI; fails if the document names another one.
    pub fn from_xml_for(text: &str, name: &str) -> Result<Self, Vec<MetadataFault>> {
        Self::parse_xml(text, ExpectedDoi::Name(name))
    }

    pub(crate) fn parse_json(text: &[u8], expected: ExpectedDoi<'_>) -> Result<Self, Vec<MetadataFault>> {
        let node = parse_json(text)?;
        if SystemMetadata::is_system_metadata(&node) && text.len() > MAX_CONVERTED_BYTES {
            return Err(vec![document_too_large(text.len(), MAX_CONVERTED_BYTES)]);
        }
        Self::from_node(node, DocumentSyntax::Json, expected)
    }

    pub(crate) fn parse_xml(text: &str, expected: ExpectedDoi<'_>) -> Result<Self, Vec<MetadataFault>> {
        if text.len() > MAX_CONVERTED_BYTES {
            return Err(vec![document_too_large(text.len(), MAX_CONVERTED_BYTES)]);
        }
        let document = xml::parse(text).map_err(|fault| vec![fault])?;
        let node = xml::to_node(&document, ROOT_ELEMENT).map_err(|fault| vec![fault])?;
        Self::from_node(node, DocumentSyntax::Xml(ROOT_ELEMENT), expected)
    }

    /// Compact JSON without the fields that the registry supplies: the stored form.
    pub fn to_json(&self) -> String {
        self.to_node().to_json()
    }

    /// Preferred title or name.
    pub fn title(&self) -> &str {
        let names = match &self.referent {
            Referent::Creation(creation) => return creation.title().map_or("", |name| name.value.as_str()),
            Referent::Party(party) => &party.name,
            Referent::Place(place) => &place.name,
        };
        let preferred = names.iter().find(|name| name.kind.as_str() == "PrincipalName").or(names.first());
        preferred.map_or("", |name| name.value.as_str())
    }

    /// Extensions in a few words: those of the document, then those of the referent.
    pub fn extensions(&self) -> Vec<ExtensionSummary> {
        self.all_extensions().map(ExtensionElement::summary).collect()
    }

    /// Extensions of the document and of the referent.
    pub(super) fn all_extensions(&self) -> impl Iterator<Item = &ExtensionElement> {
        let of_referent = match &self.referent {
            Referent::Creation(creation) => &creation.extensions,
            Referent::Party(party) => &party.extensions,
            Referent::Place(place) => &place.extensions,
        };
        self.extensions.iter().chain(of_referent)
    }

    /// Document tree with the fields that the registry supplies, in the sequence of the schema.
    pub(super) fn to_node_with<'a>(&'a self, fields: &RegistryFields<'a>) -> MetadataNode<'a> {
        let (name, referent) = self.referent.node();
        self.with_extensions([
            ("referentDoiName", Some(MetadataNode::text(fields.name))),
            ("primaryReferentType", Some(MetadataNode::text(self.referent.referent_type().as_str()))),
            ("registrationAgencyDoiName", Some(MetadataNode::text(fields.agency_doi()))),
            ("issueDate", Some(MetadataNode::text(fields.issue_date))),
            ("issueNumber", Some(MetadataNode::Integer(fields.issue_number.into()))),
            (name, Some(referent)),
        ])
    }

    /// Object of these members and the extensions of the document.
    fn with_extensions<'a, const N: usize>(
        &'a self,
        members: [(&'a str, Option<MetadataNode<'a>>); N],
    ) -> MetadataNode<'a> {
        let members = members.into_iter().filter_map(|(name, node)| Some(NodeMember::new(name, node?)));
        let mut members: Vec<_> = members.collect();
        element::list(&self.extensions, EXTENSIONS_MEMBER, XmlPosition::Foreign, &mut members);
        MetadataNode::Object(members)
    }

    /// XML with the fields that the registry supplies.
    pub(super) fn to_xml(&self, fields: &RegistryFields<'_>) -> String {
        xml::write_document(ROOT_ELEMENT, &self.to_node_with(fields))
    }

    fn to_node(&self) -> MetadataNode<'_> {
        let (name, referent) = self.referent.node();
        let kind = MetadataNode::text(self.referent.referent_type().as_str());
        self.with_extensions([("primaryReferentType", Some(kind)), (name, Some(referent))])
    }

    pub(super) fn from_node(
        node: MetadataNode<'_>,
        syntax: DocumentSyntax,
        expected: ExpectedDoi<'_>,
    ) -> Result<Self, Vec<MetadataFault>> {
        if syntax == DocumentSyntax::Json && SystemMetadata::is_system_metadata(&node) {
            return SystemMetadata::from_node(node, expected).map(Self::from);
        }
        let mut reader = MetadataReader::new(syntax);
        let read = Self::read_object(node, &mut reader, expected);
        reader.finish(read)
    }

    /// Reads a document of the kernel view.
    fn read_object(
        node: MetadataNode<'_>,
        reader: &mut MetadataReader,
        expected: ExpectedDoi<'_>,
    ) -> Option<Self> {
        use XmlPosition::Element;
        let mut members = reader.expect_object(node)?;
        let stated: Option<Option<NonEmptyText>> = members.optional(reader, "referentDoiName", Element);
        check_doi_name(stated.flatten().as_ref(), "referentDoiName", expected, reader);
        let kind = members.required(reader, "primaryReferentType", Element);
        let _: Option<Option<NonEmptyText>> = members.optional(reader, "registrationAgencyDoiName", Element);
        let _: Option<Option<XsdDate>> = members.optional(reader, "issueDate", Element);
        let _: Option<Option<u32>> = members.optional(reader, "issueNumber", Element);
        let creation = members.optional(reader, "referentCreation", Element);
        let party = members.optional(reader, "referentParty", Element);
        let place = members.optional(reader, "referentPlace", Element);
        let extensions = members.list(reader, EXTENSIONS_MEMBER, XmlPosition::Foreign, MAX_EXTENSIONS);
        members.reject_unknown(reader, KERNEL_MEMBERS);
        let kind: PrimaryReferentType = kind?;
        let referents = [
            creation?.map(Box::new).map(Referent::Creation),
            party?.map(Box::new).map(Referent::Party),
            place?.map(Referent::Place),
        ];
        let (matching, others): (Vec<_>, Vec<_>) =
            referents.into_iter().flatten().partition(|referent| referent.referent_type() == kind);
        for other in others {
            let message = format!("does not match primaryReferentType `{}`", kind.as_str());
            reader.report_member(other.element_name(), Element, MetadataFaultCode::ValueNotAllowed, message);
        }
        let referent = matching.into_iter().next();
        if referent.is_none() {
            let name = Referent::element_name_of(kind);
            reader.report_missing(name, &format!("missing `{name}`"));
        }
        let kernel = Self { referent: referent?, extensions: extensions? };
        check_extensions(kernel.all_extensions(), reader);
        Some(kernel)
    }
}

/// Schemas of documents of the kernel view, by type of referent.
pub(super) fn document_schemas(schemas: &mut SchemaSet) -> Vec<Value> {
    let creation =
        schema::required::<Creation>(schemas, Referent::element_name_of(PrimaryReferentType::Creation));
    let party = schema::required::<Party>(schemas, Referent::element_name_of(PrimaryReferentType::Party));
    let place =
        schema::required::<ReferentPlace>(schemas, Referent::element_name_of(PrimaryReferentType::Place));
    let mut document = |name: &str, kind: PrimaryReferentType, referent: SchemaMember| {
        let members = vec![
            schema::optional::<NonEmptyText>(schemas, "referentDoiName"),
            schema::constant("primaryReferentType", kind.as_str()),
            schema::optional::<NonEmptyText>(schemas, "registrationAgencyDoiName"),
            schema::optional::<XsdDate>(schemas, "issueDate"),
            schema::optional::<u32>(schemas, "issueNumber"),
            referent,
            schema::list::<ExtensionElement>(schemas, EXTENSIONS_MEMBER, MAX_EXTENSIONS),
        ];
        schemas.document(
            name,
            "Kernel metadata; the registry supplies DOI, agency, date and number of issue",
            members,
        )
    };
    vec![
        document("OfCreation", PrimaryReferentType::Creation, creation),
        document("OfParty", PrimaryReferentType::Party, party),
        document("OfPlace", PrimaryReferentType::Place, place),
    ]
}

impl Referent {
    fn referent_type(&self) -> PrimaryReferentType {
        match self {
            Self::Creation(_) => PrimaryReferentType::Creation,
            Self::Party(_) => PrimaryReferentType::Party,
            Self::Place(_) => PrimaryReferentType::Place,
        }
    }

    fn element_name(&self) -> &'static str {
        Self::element_name_of(self.referent_type())
    }

    fn element_name_of(kind: PrimaryReferentType) -> &'static str {
        match kind {
            PrimaryReferentType::Creation => "referentCreation",
            PrimaryReferentType::Party => "referentParty",
            PrimaryReferentType::Place => "referentPlace",
        }
    }

    fn node(&self) -> (&'static str, MetadataNode<'_>) {
        let node = match self {
            Self::Creation(creation) => creation.to_node(),
            Self::Party(party) => party.to_node(),
            Self::Place(place) => place.to_node(),
        };
        (self.element_name(), node)
    }
}

impl Serialize for KernelMetadata {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_node().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for KernelMetadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let node = MetadataNode::deserialize(deserializer)?;
        Self::from_node(node, DocumentSyntax::Json, ExpectedDoi::Any).map_err(|faults| {
            let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
            D::Error::custom(faults.join("; "))
        })
    }
}

const ROOT_ELEMENT: &str = "kernelMetadata";

const KERNEL_MEMBERS: &[&str] = &[
    "referentDoiName",
    "primaryReferentType",
    "registrationAgencyDoiName",
    "issueDate",
    "issueNumber",
    "referentCreation",
    "referentParty",
    "referentPlace",
    EXTENSIONS_MEMBER,
];

/// Parses JSON into a tree.
pub(super) fn parse_json(text: &[u8]) -> Result<MetadataNode<'_>, Vec<MetadataFault>> {
    if text.len() > MAX_JSON_BYTES {
        return Err(vec![document_too_large(text.len(), MAX_JSON_BYTES)]);
    }
    let fault = |error: &dyn fmt::Display| {
        let message = format!("invalid JSON: {error}");
        vec![MetadataFault {
            pointer: String::new(),
            code: MetadataFaultCode::InvalidJson,
            message,
            allowed: &[],
        }]
    };
    // UTF-8 is checked once for the document, not for every string.
    let text = std::str::from_utf8(text).map_err(|error| fault(&error))?;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let read =
        MetadataNode::deserialize(&mut deserializer).and_then(|node| deserializer.end().map(|()| node));
    read.map_err(|error| fault(&error))
}

/// Reports a document that names another DOI than expected.
pub(super) fn check_doi_name(
    stated: Option<&NonEmptyText>,
    member: &'static str,
    expected: ExpectedDoi<'_>,
    reader: &mut MetadataReader,
) {
    let Some(stated) = stated.map(NonEmptyText::as_str) else { return };
    let problem = match expected {
        ExpectedDoi::Any => return,
        ExpectedDoi::Name(name) if stated.eq_ignore_ascii_case(name) => return,
        ExpectedDoi::Name(name) => format!("expected `{}`", excerpt(name)),
        ExpectedDoi::Minted => format!("but the name is minted; omit `{member}`, or set `name`"),
    };
    let message = format!("metadata is for `{}`, {problem}", excerpt(stated));
    reader.report_member(member, XmlPosition::Element, MetadataFaultCode::NameMismatch, message);
}

fn document_too_large(bytes: usize, limit: usize) -> MetadataFault {
    let message = format!("document of {bytes} bytes (maximum {limit})");
    MetadataFault { pointer: String::new(), code: MetadataFaultCode::TooLong, message, allowed: &[] }
}

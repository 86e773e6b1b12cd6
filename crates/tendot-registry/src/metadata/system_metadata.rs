//! System Metadata (ISO 26324:2025), the reduced view of kernel metadata.

use serde_json::Value;

use crate::metadata::codec::element::{self, element};
use crate::metadata::codec::node::{MetadataNode, NodeMember, XmlPosition};
use crate::metadata::codec::reader::{DocumentSyntax, MetadataElement, MetadataReader};
use crate::metadata::fault::MetadataFault;
use crate::metadata::kernel::{
    ExpectedDoi, KernelMetadata, Referent, RegistryFields, check_doi_name, parse_json,
};
use crate::metadata::model::creation::{
    ContentLanguage, Creation, CreationDate, CreationName, CreationPlace, LinkedCreation, PrincipalAgent,
};
use crate::metadata::model::date::XsdDate;
use crate::metadata::model::extension::{
    EXTENSIONS_MEMBER, ExtensionElement, MAX_EXTENSIONS, check_extensions,
};
use crate::metadata::model::identifier::{CreationIdentifier, PartyIdentifier, PlaceIdentifier};
use crate::metadata::model::party::{ApproximateDate, LinkedParty, Party, PartyName, ReferentPlace};
use crate::metadata::model::text::{LanguageTag, NonEmptyText};
use crate::metadata::model::vocabulary::{
    CreationCharacter, CreationLinkRole, CreationMode, CreationStructuralType, CreationType, PartyLinkRole,
    PartyRole, PartyStructuralType, PlaceSubType, ReferentType, TerritoryCode,
};
use crate::metadata::schema::{self, SchemaMember, SchemaSet};

/// System Metadata (ISO 26324:2025), a reduced view of kernel metadata.
///
/// A value of this type is valid.
///
/// It is stored as [`KernelMetadata`], with `Restricted` where this view has no fields: structural type, modes and characters
/// of a creation. The other way, those three are dropped, with the issue number and everything in linked creations and
/// parties but identifiers and roles.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SystemMetadata {
    referent: SystemReferent,
    /// Extensions of the document and of the referent.
    extensions: Vec<ExtensionElement>,
}

/// Referent in System Metadata.
#[derive(Clone, Debug, Eq, PartialEq)]
enum SystemReferent {
    Creation(Box<SystemCreation>),
    Party(Box<SystemParty>),
    Place(SystemPlace),
}

impl SystemMetadata {
    /// Parses JSON. Fields that the registry supplies are validated and otherwise ignored.
    pub fn from_json(text: &[u8]) -> Result<Self, Vec<MetadataFault>> {
        Self::from_node(parse_json(text)?, ExpectedDoi::Any)
    }

    /// JSON with the fields that the registry supplies.
    pub fn to_json(&self, fields: &RegistryFields<'_>) -> String {
        let (kind, node) = match &self.referent {
            SystemReferent::Creation(creation) => (ReferentType::CreativeWork, creation.to_node()),
            SystemReferent::Party(party) => (ReferentType::Party, party.to_node()),
            SystemReferent::Place(place) => (ReferentType::Place, place.to_node()),
        };
        let mut members = vec![
            NodeMember::new("doiName", MetadataNode::text(fields.name)),
            NodeMember::new("registrationAuthorityCode", MetadataNode::text(fields.agency)),
            NodeMember::new("issueDate", MetadataNode::text(fields.issue_date)),
            NodeMember::new("referentType", MetadataNode::text(kind.as_str())),
        ];
        if let MetadataNode::Object(referent_members) = node {
            members.extend(referent_members);
        }
        element::list(&self.extensions, EXTENSIONS_MEMBER, XmlPosition::Foreign, &mut members);
        MetadataNode::Object(members).to_json()
    }

    /// Whether a document is System Metadata: only this view has `referentType`.
    pub(super) fn is_system_metadata(node: &MetadataNode<'_>) -> bool {
        matches!(node, MetadataNode::Object(members) if members.iter().any(|member| member.name == "referentType"))
    }

    pub(super) fn from_node(
        node: MetadataNode<'_>,
        expected: ExpectedDoi<'_>,
    ) -> Result<Self, Vec<MetadataFault>> {
        let mut reader = MetadataReader::new(DocumentSyntax::Json);
        let read = Self::read_object(node, &mut reader, expected);
        reader.finish(read)
    }

    fn read_object(
        node: MetadataNode<'_>,
        reader: &mut MetadataReader,
        expected: ExpectedDoi<'_>,
    ) -> Option<Self> {
        use XmlPosition::Element;
        let mut members = reader.expect_object(node)?;
        let stated: Option<Option<NonEmptyText>> = members.optional(reader, "doiName", Element);
        check_doi_name(stated.flatten().as_ref(), "doiName", expected, reader);
        let _: Option<Option<NonEmptyText>> = members.optional(reader, "registrationAuthorityCode", Element);
        let _: Option<Option<XsdDate>> = members.optional(reader, "issueDate", Element);
        let kind = members.required(reader, "referentType", Element)?;
        let extensions = members.list(reader, EXTENSIONS_MEMBER, XmlPosition::Foreign, MAX_EXTENSIONS);
        let rest = members.into_rest();
        let referent = match kind {
            ReferentType::CreativeWork => {
                SystemReferent::Creation(Box::new(MetadataElement::read(rest, reader)?))
            }
            ReferentType::Party => SystemReferent::Party(Box::new(MetadataElement::read(rest, reader)?)),
            ReferentType::Place => SystemReferent::Place(MetadataElement::read(rest, reader)?),
        };
        let system = Self { referent, extensions: extensions? };
        check_extensions(system.extensions.iter(), reader);
        Some(system)
    }
}

/// Schemas of documents of this view, by type of referent.
pub(super) fn document_schemas(schemas: &mut SchemaSet) -> Vec<Value> {
    let mut document = |name: &str, kind: ReferentType, members: fn(&mut SchemaSet) -> Vec<SchemaMember>| {
        let mut all = vec![
            schema::optional::<NonEmptyText>(schemas, "doiName"),
            schema::optional::<NonEmptyText>(schemas, "registrationAuthorityCode"),
            schema::optional::<XsdDate>(schemas, "issueDate"),
            schema::constant("referentType", kind.as_str()),
        ];
        all.extend(members(schemas));
        all.push(schema::list::<ExtensionElement>(schemas, EXTENSIONS_MEMBER, MAX_EXTENSIONS));
        schemas.document(name, "System Metadata; the registry supplies DOI, authority and date of issue", all)
    };
    vec![
        document("OfSystemCreation", ReferentType::CreativeWork, SystemCreation::schema_members),
        document("OfSystemParty", ReferentType::Party, SystemParty::schema_members),
        document("OfSystemPlace", ReferentType::Place, SystemPlace::schema_members),
    ]
}

impl From<&KernelMetadata> for SystemMetadata {
    fn from(kernel: &KernelMetadata) -> Self {
        let referent = match &kernel.referent {
            Referent::Creation(creation) => SystemReferent::Creation(Box::new(creation.as_ref().into())),
            Referent::Party(party) => SystemReferent::Party(Box::new(party.as_ref().into())),
            Referent::Place(place) => {
                let ReferentPlace { name, identifier, .. } = place.clone();
                SystemReferent::Place(SystemPlace {
                    identifier,
                    name,
                    sub_type: PlaceSubType::Place,
                    basic: PlaceBasicMetadata,
                })
            }
        };
        Self { referent, extensions: kernel.all_extensions().cloned().collect() }
    }
}

impl From<SystemMetadata> for KernelMetadata {
    fn from(system: SystemMetadata) -> Self {
        let referent = match system.referent {
            SystemReferent::Creation(creation) => Referent::Creation(Box::new((*creation).into())),
            SystemReferent::Party(party) => Referent::Party(Box::new((*party).into())),
            SystemReferent::Place(SystemPlace { identifier, name, .. }) => {
                Referent::Place(ReferentPlace { name, identifier, extensions: Vec::new() })
            }
        };
        Self { referent, extensions: system.extensions }
    }
}

element! {
    /// Creation in System Metadata.
    SystemCreation {
        identifier: list(100) CreationIdentifier = "alternateIdentifier",
        name: non_empty(100) CreationName = "referentName",
        sub_type: required CreationType = "referentSubType",
        related: list(10_000) RelatedCreation = "relatedIdentifiers",
        basic: required CreationBasicMetadata = "basicMetadata",
    }
}

element! {
    /// `basicMetadata` of a creation.
    CreationBasicMetadata {
        further_type: list(20) CreationType = "type",
        principal_agent: non_empty(10_000) PrincipalAgent = "principalAgent",
        language: optional LanguageTag = "language",
        content_language: optional ContentLanguage = "languageOfReferentContent",
        creation_date: optional CreationDate = "creationDate",
        creation_place: list(20) CreationPlace = "creationPlace",
    }
}

element! {
    /// Related creation with the roles of both sides.
    RelatedCreation => check_related_creation {
        identifier: required CreationIdentifier = "identifier",
        referent_role: optional CreationLinkRole = "referentRole",
        related_role: optional CreationLinkRole = "relatedRole",
    }
}

element! {
    /// Party in System Metadata.
    SystemParty {
        identifier: list(100) PartyIdentifier = "alternateIdentifier",
        name: non_empty(100) PartyName = "referentName",
        sub_type: required PartyStructuralType = "referentSubType",
        related: list(1_000) RelatedParty = "relatedIdentifiers",
        basic: required PartyBasicMetadata = "basicMetadata",
    }
}

element! {
    /// `basicMetadata` of a party.
    PartyBasicMetadata {
        associated_role: non_empty(20) PartyRole = "associatedRole",
        birth: optional ApproximateDate = "dateOfBirthOrFormation",
        death: optional ApproximateDate = "dateOfDeathOrDissolution",
        territory: list(300) TerritoryCode = "associatedTerritory",
    }
}

element! {
    /// Related party with the roles of both sides.
    RelatedParty => check_related_party {
        identifier: required PartyIdentifier = "identifier",
        referent_role: optional PartyLinkRole = "referentRole",
        related_role: optional PartyLinkRole = "relatedRole",
    }
}

element! {
    /// Place in System Metadata.
    SystemPlace {
        identifier: list(100) PlaceIdentifier = "alternateIdentifier",
        name: non_empty(100) PartyName = "referentName",
        sub_type: required PlaceSubType = "referentSubType",
        basic: required PlaceBasicMetadata = "basicMetadata",
    }
}

/// `basicMetadata` of a place (empty).
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct PlaceBasicMetadata;

impl MetadataElement for PlaceBasicMetadata {
    fn read(node: MetadataNode<'_>, reader: &mut MetadataReader) -> Option<Self> {
        reader.expect_object(node)?.reject_unknown(reader, &[]);
        Some(Self)
    }

    fn to_node(&self) -> MetadataNode<'_> {
        MetadataNode::Object(Vec::new())
    }

    fn schema(_: &mut SchemaSet) -> Value {
        schema::object("Empty", Vec::new())
    }

    #[cfg(test)]
    fn arbitrary(_: &mut super::tests::ArbitraryInput) -> Self {
        Self
    }
}

impl From<&Creation> for SystemCreation {
    fn from(creation: &Creation) -> Self {
        let mut types = creation.kind.iter().cloned();
        let related = creation.linked_creation.iter().flat_map(|linked| {
            linked.identifier.iter().map(|identifier| RelatedCreation {
                identifier: identifier.clone(),
                referent_role: linked.referent_role.clone(),
                related_role: linked.linked_role.clone(),
            })
        });
        Self {
            identifier: creation.identifier.clone(),
            name: creation.name.clone(),
            sub_type: types.next().unwrap_or(CreationType::RESTRICTED),
            // Every one of 10,000 links may have 100 identifiers.
            related: related.take(10_000).collect(),
            basic: CreationBasicMetadata {
                further_type: types.collect(),
                principal_agent: creation.principal_agent.clone(),
                language: creation.language.clone(),
                content_language: creation.content_language.clone(),
                creation_date: creation.creation_date.clone(),
                creation_place: creation.creation_place.clone(),
            },
        }
    }
}

impl From<SystemCreation> for Creation {
    fn from(system: SystemCreation) -> Self {
        let SystemCreation { identifier, name, sub_type, related, basic } = system;
        let linked = related.into_iter().map(|related| LinkedCreation {
            name: Vec::new(),
            identifier: vec![related.identifier],
            referent_role: related.referent_role,
            linked_role: related.related_role,
            referent_sequence: Vec::new(),
            linked_sequence: Vec::new(),
        });
        Self {
            name,
            identifier,
            structural_type: CreationStructuralType::Restricted,
            mode: vec![CreationMode::Restricted],
            character: vec![CreationCharacter::Restricted],
            kind: std::iter::once(sub_type).chain(basic.further_type).collect(),
            principal_agent: basic.principal_agent,
            linked_creation: linked.collect(),
            language: basic.language,
            content_language: basic.content_language,
            creation_date: basic.creation_date,
            creation_place: basic.creation_place,
            extensions: Vec::new(),
        }
    }
}

impl From<&Party> for SystemParty {
    fn from(party: &Party) -> Self {
        let related = party.linked_party.iter().filter_map(|linked| {
            let (referent_role, related_role) = (linked.referent_role, linked.linked_role);
            Some(RelatedParty { identifier: linked.identifier.clone()?, referent_role, related_role })
        });
        Self {
            identifier: party.identifier.clone(),
            name: party.name.clone(),
            sub_type: party.structural_type,
            related: related.collect(),
            basic: PartyBasicMetadata {
                associated_role: party.associated_role.clone(),
                birth: party.birth.clone(),
                death: party.death.clone(),
                territory: party.territory.clone(),
            },
        }
    }
}

impl From<SystemParty> for Party {
    fn from(system: SystemParty) -> Self {
        let SystemParty { identifier, name, sub_type, related, basic } = system;
        let linked = related.into_iter().map(|related| LinkedParty {
            name: None,
            identifier: Some(related.identifier),
            referent_role: related.referent_role,
            linked_role: related.related_role,
        });
        Self {
            name,
            identifier,
            structural_type: sub_type,
            associated_role: basic.associated_role,
            birth: basic.birth,
            death: basic.death,
            territory: basic.territory,
            linked_party: linked.collect(),
            extensions: Vec::new(),
        }
    }
}

fn check_related_creation(read: &RelatedCreation, reader: &mut MetadataReader) {
    check_roles(read.referent_role.is_some() || read.related_role.is_some(), reader);
}

fn check_related_party(read: &RelatedParty, reader: &mut MetadataReader) {
    check_roles(read.referent_role.is_some() || read.related_role.is_some(), reader);
}

fn check_roles(has_role: bool, reader: &mut MetadataReader) {
    if !has_role {
        reader.report_missing("referentRole", "missing `referentRole` or `relatedRole`");
    }
}

//! Creation elements (kernel XML 2.3).

use crate::metadata::codec::element::element;
use crate::metadata::codec::reader::MetadataReader;
use crate::metadata::model::date::XsdPartialDate;
use crate::metadata::model::identifier::{
    CreationIdentifier, PartyIdentifier, PlaceIdentifier, SequenceIdentifier,
};
use crate::metadata::model::party::PartyName;
use crate::metadata::model::text::{LanguageTag, NonEmptyText};
use crate::metadata::model::vocabulary::{
    AgentRole, ContentLanguageType, CreationCharacter, CreationDateType, CreationLinkRole, CreationMode,
    CreationNameType, CreationStructuralType, CreationType, PlaceType, TerritoryCode,
};

element! {
    /// Creation: an article, film, song or other work.
    Creation {
        name: some(100) CreationName = "name",
        identifier: many(100) CreationIdentifier = "identifier",
        structural_type: one CreationStructuralType = "structuralType",
        mode: some(10) CreationMode = "mode",
        character: some(10) CreationCharacter = "character",
        kind: some(20) CreationType = "type",
        principal_agent: some(10_000) PrincipalAgent = "principalAgent",
        linked_creation: many(10_000) LinkedCreation = "linkedCreation",
        language: optional LanguageTag = "language",
        content_language: optional ContentLanguage = "languageOfReferentContent",
        creation_date: optional CreationDate = "creationDate",
        creation_place: many(20) CreationPlace = "creationPlace",
    }
}

element! {
    /// Name or title of a creation.
    CreationName {
        value: one NonEmptyText = "value",
        subname_value: optional NonEmptyText = "subnameValue",
        kind: one CreationNameType = "type",
        primary_language: optional LanguageTag = "primaryLanguage" in Attribute,
    }
}

element! {
    /// Agent who created or published a creation.
    PrincipalAgent => check_principal_agent {
        name: optional PartyName = "name",
        identifier: optional PartyIdentifier = "identifier",
        role: optional AgentRole = "role",
    }
}

element! {
    /// Linked creation, such as the journal of an article.
    LinkedCreation => check_linked_creation {
        name: many(100) CreationName = "name",
        identifier: many(100) CreationIdentifier = "identifier",
        referent_role: optional CreationLinkRole = "referentCreationRole",
        linked_role: optional CreationLinkRole = "linkedCreationRole",
        referent_sequence: many(20) SequenceIdentifier = "referentCreationSequenceIdentifier",
        linked_sequence: many(20) SequenceIdentifier = "linkedCreationSequenceIdentifier",
    }
}

element! {
    /// Language of the content.
    ContentLanguage {
        language: one LanguageTag = "language",
        kind: optional ContentLanguageType = "languageOfReferentContentType",
    }
}

element! {
    /// Date of creation.
    CreationDate {
        date: one XsdPartialDate = "date",
        kind: optional CreationDateType = "creationDateType",
    }
}

element! {
    /// Place of creation.
    CreationPlace {
        name: one NonEmptyText = "name",
        identifier: some(20) PlaceIdentifier = "placeIdentifier",
        country_code: optional TerritoryCode = "countryCode",
        place_type: optional PlaceType = "placeType" in Attribute,
    }
}

fn check_principal_agent(read: &PrincipalAgent, reader: &mut MetadataReader) {
    if read.name.is_none() && read.identifier.is_none() {
        reader.report_missing("name", "`name` or `identifier` has to be there");
    }
}

fn check_linked_creation(read: &LinkedCreation, reader: &mut MetadataReader) {
    if read.name.is_empty() && read.identifier.is_empty() {
        reader.report_missing("name", "`name` or `identifier` has to be there");
    }
    if read.referent_role.is_none() && read.linked_role.is_none() {
        let message = "`referentCreationRole` or `linkedCreationRole` has to be there";
        reader.report_missing("referentCreationRole", message);
    }
}

impl Creation {
    /// Preferred title.
    pub(in crate::metadata) fn title(&self) -> Option<&CreationName> {
        let of = |kind: &str| self.name.iter().find(|name| name.kind.as_str() == kind);
        ["PrincipalTitle", "Title", "DistinctiveTitle", "Name"].into_iter().find_map(of).or(self.name.first())
    }
}

//! Creation elements (kernel XML 2.3).

use crate::metadata::codec::element::element;
use crate::metadata::codec::reader::MetadataReader;
use crate::metadata::model::date::XsdPartialDate;
use crate::metadata::model::extension::ExtensionElement;
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
        name: non_empty(100) CreationName = "name",
        identifier: list(100) CreationIdentifier = "identifier",
        structural_type: required CreationStructuralType = "structuralType",
        mode: non_empty(10) CreationMode = "mode",
        character: non_empty(10) CreationCharacter = "character",
        kind: non_empty(20) CreationType = "type",
        principal_agent: non_empty(10_000) PrincipalAgent = "principalAgent",
        linked_creation: list(10_000) LinkedCreation = "linkedCreation",
        language: optional LanguageTag = "language",
        content_language: optional ContentLanguage = "languageOfReferentContent",
        creation_date: optional CreationDate = "creationDate",
        creation_place: list(20) CreationPlace = "creationPlace",
        extensions: list(100) ExtensionElement = "extensions" in Foreign,
    }
}

element! {
    /// Name or title of a creation.
    CreationName {
        value: required NonEmptyText = "value",
        subname_value: optional NonEmptyText = "subnameValue",
        kind: required CreationNameType = "type",
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
        name: list(100) CreationName = "name",
        identifier: list(100) CreationIdentifier = "identifier",
        referent_role: optional CreationLinkRole = "referentCreationRole",
        linked_role: optional CreationLinkRole = "linkedCreationRole",
        referent_sequence: list(20) SequenceIdentifier = "referentCreationSequenceIdentifier",
        linked_sequence: list(20) SequenceIdentifier = "linkedCreationSequenceIdentifier",
    }
}

element! {
    /// Language of the content.
    ContentLanguage {
        language: required LanguageTag = "language",
        kind: optional ContentLanguageType = "languageOfReferentContentType",
    }
}

element! {
    /// Date of creation.
    CreationDate {
        date: required XsdPartialDate = "date",
        kind: optional CreationDateType = "creationDateType",
    }
}

element! {
    /// Place of creation.
    CreationPlace {
        name: required NonEmptyText = "name",
        identifier: non_empty(20) PlaceIdentifier = "placeIdentifier",
        country_code: optional TerritoryCode = "countryCode",
        place_type: optional PlaceType = "placeType" in Attribute,
    }
}

fn check_principal_agent(read: &PrincipalAgent, reader: &mut MetadataReader) {
    if read.name.is_none() && read.identifier.is_none() {
        reader.report_missing("name", "missing `name` or `identifier`");
    }
}

fn check_linked_creation(read: &LinkedCreation, reader: &mut MetadataReader) {
    if read.name.is_empty() && read.identifier.is_empty() {
        reader.report_missing("name", "missing `name` or `identifier`");
    }
    if read.referent_role.is_none() && read.linked_role.is_none() {
        let message = "missing `referentCreationRole` or `linkedCreationRole`";
        reader.report_missing("referentCreationRole", message);
    }
}

impl Creation {
    /// Preferred title.
    pub(in crate::metadata) fn title(&self) -> Option<&CreationName> {
        let find_kind = |kind: &str| self.name.iter().find(|name| name.kind.as_str() == kind);
        ["PrincipalTitle", "Title", "DistinctiveTitle", "Name"]
            .into_iter()
            .find_map(find_kind)
            .or(self.name.first())
    }
}

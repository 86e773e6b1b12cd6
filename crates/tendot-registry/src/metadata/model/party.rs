//! Party and place elements.

use crate::metadata::codec::element::element;
use crate::metadata::codec::reader::MetadataReader;
use crate::metadata::model::date::XsdDate;
use crate::metadata::model::extension::ExtensionElement;
use crate::metadata::model::identifier::{PartyIdentifier, PlaceIdentifier};
use crate::metadata::model::text::{LanguageTag, NonEmptyText};
use crate::metadata::model::vocabulary::{
    NameType, PartyLinkRole, PartyRole, PartyStructuralType, Proximity, TerritoryCode,
};

element! {
    /// Party: a person or an organization.
    Party {
        name: non_empty(100) PartyName = "name",
        identifier: list(100) PartyIdentifier = "identifier",
        structural_type: required PartyStructuralType = "structuralType",
        associated_role: non_empty(20) PartyRole = "associatedRole",
        birth: optional ApproximateDate = "dateOfBirthOrFormation",
        death: optional ApproximateDate = "dateOfDeathOrDissolution",
        territory: list(300) TerritoryCode = "associatedTerritory",
        linked_party: list(1_000) LinkedParty = "linkedParty",
        extensions: list(100) ExtensionElement = "extensions" in Foreign,
    }
}

element! {
    /// Place as a referent.
    ReferentPlace {
        name: non_empty(100) PartyName = "name",
        identifier: list(100) PlaceIdentifier = "identifier",
        extensions: list(100) ExtensionElement = "extensions" in Foreign,
    }
}

element! {
    /// Name of a party or a place.
    PartyName {
        value: required NonEmptyText = "value",
        language: optional LanguageTag = "language",
        kind: required NameType = "type",
    }
}

element! {
    /// Date with its proximity.
    ApproximateDate {
        value: required XsdDate = "value",
        proximity: optional Proximity = "proximity" in Attribute,
    }
}

element! {
    /// Linked party, such as the parent organization.
    LinkedParty => check_linked_party {
        name: optional PartyName = "name",
        identifier: optional PartyIdentifier = "identifier",
        referent_role: optional PartyLinkRole = "referentPartyRole",
        linked_role: optional PartyLinkRole = "linkedPartyRole",
    }
}

fn check_linked_party(read: &LinkedParty, reader: &mut MetadataReader) {
    if read.name.is_none() && read.identifier.is_none() {
        reader.report_missing("name", "missing `name` or `identifier`");
    }
    if read.referent_role.is_none() && read.linked_role.is_none() {
        reader.report_missing("referentPartyRole", "missing `referentPartyRole` or `linkedPartyRole`");
    }
}

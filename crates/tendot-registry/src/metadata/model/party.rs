//! Party and place elements.

use crate::metadata::codec::element::element;
use crate::metadata::codec::reader::MetadataReader;
use crate::metadata::model::date::XsdDate;
use crate::metadata::model::identifier::{PartyIdentifier, PlaceIdentifier};
use crate::metadata::model::text::{LanguageTag, NonEmptyText};
use crate::metadata::model::vocabulary::{
    NameType, PartyLinkRole, PartyRole, PartyStructuralType, Proximity, TerritoryCode,
};

element! {
    /// Party: a person or an organization.
    Party {
        name: some(100) PartyName = "name",
        identifier: many(100) PartyIdentifier = "identifier",
        structural_type: one PartyStructuralType = "structuralType",
        associated_role: some(20) PartyRole = "associatedRole",
        birth: optional ApproximateDate = "dateOfBirthOrFormation",
        death: optional ApproximateDate = "dateOfDeathOrDissolution",
        territory: many(300) TerritoryCode = "associatedTerritory",
        linked_party: many(1_000) LinkedParty = "linkedParty",
    }
}

element! {
    /// Place as a referent.
    ReferentPlace {
        name: some(100) PartyName = "name",
        identifier: many(100) PlaceIdentifier = "identifier",
    }
}

element! {
    /// Name of a party or a place.
    PartyName {
        value: one NonEmptyText = "value",
        language: optional LanguageTag = "language",
        kind: one NameType = "type",
    }
}

element! {
    /// Date with its proximity.
    ApproximateDate {
        value: one XsdDate = "value",
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
        reader.report_missing("name", "`name` or `identifier` has to be there");
    }
    if read.referent_role.is_none() && read.linked_role.is_none() {
        reader
            .report_missing("referentPartyRole", "`referentPartyRole` or `linkedPartyRole` has to be there");
    }
}

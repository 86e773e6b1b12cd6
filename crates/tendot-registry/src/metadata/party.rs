//! Parties, and places, which are named like them.

use super::element::element;
use super::identifier::{PartyIdentifier, PlaceIdentifier};
use super::lists::{NameType, PartyLinkRole, PartyRole, PartyStructuralType, Proximity, TerritoryCode};
use super::read::MetadataReader;
use super::value::{Day, Language, NonEmptyText};

element! {
    /// A party that a name is given to: somebody, or an organization.
    Party {
        name: some(100) PartyName = "name",
        identifier: many(100) PartyIdentifier = "identifier",
        structural_type: one PartyStructuralType = "structuralType",
        associated_role: some(20) PartyRole = "associatedRole",
        birth: optional Date = "dateOfBirthOrFormation",
        death: optional Date = "dateOfDeathOrDissolution",
        territory: many(300) TerritoryCode = "associatedTerritory",
        linked_party: many(1_000) LinkedParty = "linkedParty",
    }
}

element! {
    /// A place that a name is given to.
    NamedPlace {
        name: some(100) PartyName = "name",
        identifier: many(100) PlaceIdentifier = "identifier",
    }
}

element! {
    /// A name of a party or a place.
    PartyName {
        value: one NonEmptyText = "value",
        language: optional Language = "language",
        kind: one NameType = "type",
    }
}

element! {
    /// A date, and how near it is.
    Date {
        value: one Day = "value",
        proximity: optional Proximity = "proximity" in Attribute,
    }
}

element! {
    /// Another party that this one belongs to, or the like.
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

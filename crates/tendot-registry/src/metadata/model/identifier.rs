//! Identifier elements of creations, parties, places and sequences.

use crate::metadata::codec::element::element;
use crate::metadata::codec::node::XmlPosition;
use crate::metadata::codec::reader::MetadataReader;
use crate::metadata::fault::MetadataFaultCode;
use crate::metadata::model::text::{NonEmptyText, Uri};
use crate::metadata::model::vocabulary::{
    CreationIdentifierType, PartyIdentifierType, ReturnType, SequenceIdentifierType,
};

element! {
    /// Identifier of a creation: as text, as URIs, or both.
    CreationIdentifier => check_creation_identifier {
        value: optional NonEmptyText = "value",
        non_uri_value: optional NonEmptyText = "nonUriValue",
        uri: list(20) UriIdentifier = "uri",
        kind: required CreationIdentifierType = "type",
        user_defined_type: optional NonEmptyText = "userDefinedType" in TypeAttribute,
        valid_namespace: optional NonEmptyText = "validNamespace" in TypeAttribute,
        governing_party: optional NonEmptyText = "governingParty" in TypeAttribute,
    }
}

element! {
    /// Identifier of a party.
    PartyIdentifier => check_party_identifier {
        non_uri_value: optional NonEmptyText = "nonUriValue",
        uri: list(20) UriIdentifier = "uri",
        kind: required PartyIdentifierType = "type",
    }
}

element! {
    /// Identifier of a place; its types are not standardized yet.
    PlaceIdentifier => check_place_identifier {
        non_uri_value: optional NonEmptyText = "nonUriValue",
        uri: list(20) UriIdentifier = "uri",
        kind: required NonEmptyText = "type",
    }
}

element! {
    /// Identifier as a URI, with its return type.
    UriIdentifier {
        value: required Uri = "value" in Content,
        return_type: optional ReturnType = "returnType" in Attribute,
        does_content_negotiation: optional bool = "doesContentNegotiation" in Attribute,
    }
}

element! {
    /// Position in a sequence: volume, page, track.
    SequenceIdentifier => check_sequence_identifier {
        value: required NonEmptyText = "value",
        kind: required SequenceIdentifierType = "type",
        user_defined_type: optional NonEmptyText = "userDefinedType" in TypeAttribute,
        valid_namespace: optional NonEmptyText = "validNamespace" in TypeAttribute,
        governing_party: optional NonEmptyText = "governingParty" in TypeAttribute,
    }
}

impl CreationIdentifier {
    /// Identifier as text, or else as a URI.
    pub(in crate::metadata) fn text(&self) -> &str {
        let text = self.non_uri_value.as_ref().or(self.value.as_ref()).map(NonEmptyText::as_str);
        text.or_else(|| first_uri(&self.uri)).unwrap_or_default()
    }
}

impl PartyIdentifier {
    /// Identifier as text, or else as a URI.
    pub(in crate::metadata) fn text(&self) -> &str {
        self.non_uri_value
            .as_ref()
            .map(NonEmptyText::as_str)
            .or_else(|| first_uri(&self.uri))
            .unwrap_or_default()
    }
}

fn first_uri(uri: &[UriIdentifier]) -> Option<&str> {
    uri.first().map(|uri| uri.value.as_str())
}

fn check_creation_identifier(read: &CreationIdentifier, reader: &mut MetadataReader) {
    if read.value.is_none() {
        check_has_value(read.non_uri_value.as_ref(), &read.uri, reader);
    } else if read.non_uri_value.is_some() || !read.uri.is_empty() {
        let message = "deprecated `value` cannot be combined with `nonUriValue` or `uri`".to_owned();
        reader.report_member("value", XmlPosition::Element, MetadataFaultCode::ValueNotAllowed, message);
    }
    let proprietary_fields = [&read.user_defined_type, &read.valid_namespace, &read.governing_party];
    check_proprietary_fields(read.kind.as_str(), proprietary_fields, reader);
}

fn check_party_identifier(read: &PartyIdentifier, reader: &mut MetadataReader) {
    check_has_value(read.non_uri_value.as_ref(), &read.uri, reader);
}

fn check_place_identifier(read: &PlaceIdentifier, reader: &mut MetadataReader) {
    check_has_value(read.non_uri_value.as_ref(), &read.uri, reader);
}

fn check_sequence_identifier(read: &SequenceIdentifier, reader: &mut MetadataReader) {
    let proprietary_fields = [&read.user_defined_type, &read.valid_namespace, &read.governing_party];
    check_proprietary_fields(read.kind.as_str(), proprietary_fields, reader);
}

fn check_has_value(text: Option<&NonEmptyText>, uri: &[UriIdentifier], reader: &mut MetadataReader) {
    if text.is_none() && uri.is_empty() {
        reader.report_missing("nonUriValue", "missing `nonUriValue` or `uri`");
    }
}

/// Checks that only proprietary identifiers have the fields for them.
fn check_proprietary_fields(kind: &str, fields: [&Option<NonEmptyText>; 3], reader: &mut MetadataReader) {
    let names = ["userDefinedType", "validNamespace", "governingParty"];
    for (name, text) in names.into_iter().zip(fields) {
        if text.is_some() && kind != "ProprietaryIdentifier" {
            let message = format!("`{name}` requires type `ProprietaryIdentifier`, not `{kind}`");
            reader.report_member(
                name,
                XmlPosition::TypeAttribute,
                MetadataFaultCode::ValueNotAllowed,
                message,
            );
        }
    }
}

//! Value data decoded by value type.

use alloc::borrow::Cow;
use alloc::boxed::Box;

use super::value::type_matches;
use super::{
    Admin, Alias, DescriptionText, Email, ExtraHeaders, HandleCertificate, HandleValue, Links, Locations,
    Namespace, PrimarySites, PublicKey, RecordSignature, SecretKey, ServiceHandle, Site, Url, ValueList,
};
use crate::error::DecodeError;
use crate::handle::Handle;

/// Value data decoded by value type.
///
/// ```
/// use tendot_proto::record::{ValueData, Url};
///
/// let ValueData::Url(url) = ValueData::decode(b"url.mobile", b"https://example.org/")? else { panic!() };
/// assert_eq!(url.as_str(), "https://example.org/");
/// assert_eq!(ValueData::decode(b"X", b"\0\x01")?, ValueData::Other(b"\0\x01"));
/// assert!(ValueData::decode(b"HS_ADMIN", b"\0\x01").is_err());
/// # Ok::<(), tendot_proto::DecodeError>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each variant holds a documented type")]
pub enum ValueData<'a> {
    Url(Url<'a>),
    Email(Email<'a>),
    Description(DescriptionText<'a>),
    Admin(Admin<'a>),
    /// `HS_SITE` and `HS_NA_DELEGATE`.
    Site(Box<Site<'a>>),
    Service(ServiceHandle<'a>),
    Alias(Alias<'a>),
    Namespace(Namespace<'a>),
    Primary(PrimarySites<'a>),
    ValueList(ValueList<'a>),
    PublicKey(Box<PublicKey<'a>>),
    SecretKey(SecretKey),
    Certificate(Box<HandleCertificate<'a>>),
    Signature(Box<RecordSignature<'a>>),
    Locations(Box<Locations<'a>>),
    Links(Links<'a>),
    Headers(ExtraHeaders<'a>),
    /// Data of an unknown type, undecoded.
    Other(&'a [u8]),
}

impl<'a> ValueData<'a> {
    /// Decodes data by value type or its parent type: `URL.mobile` is a `URL`.
    pub fn decode(value_type: &[u8], data: &'a [u8]) -> Result<Self, DecodeError> {
        let known = DECODERS.iter().find(|(name, _)| type_matches(value_type, name));
        known.map_or(Ok(Self::Other(data)), |(_, decode)| decode(data))
    }

    /// Encodes to the bytes it was decoded from.
    pub fn encode(&self) -> Cow<'a, [u8]> {
        match self {
            Self::Url(url) => url.as_str().as_bytes().into(),
            Self::Email(email) => email.as_str().as_bytes().into(),
            Self::Description(text) => text.as_str().as_bytes().into(),
            Self::Admin(admin) => admin.to_bytes().into(),
            Self::Site(site) => site.to_bytes().into(),
            Self::Service(ServiceHandle(handle)) | Self::Alias(Alias(handle)) => handle.as_bytes().into(),
            Self::Namespace(namespace) => namespace.as_str().as_bytes().into(),
            Self::Primary(primary) => primary.to_bytes().into(),
            Self::ValueList(list) => list.to_bytes().into(),
            Self::PublicKey(key) => key.to_bytes().into(),
            Self::SecretKey(secret) => secret.as_bytes().to_vec().into(),
            Self::Certificate(certificate) => certificate.jws.as_bytes().into(),
            Self::Signature(signature) => signature.jws.as_bytes().into(),
            Self::Locations(locations) => locations.as_str().as_bytes().into(),
            Self::Links(links) => links.as_str().as_bytes().into(),
            Self::Headers(headers) => headers.as_str().as_bytes().into(),
            Self::Other(data) => (*data).into(),
        }
    }
}

impl HandleValue<'_> {
    /// Decodes the data by the value's type.
    pub fn decode_data(&self) -> Result<ValueData<'_>, DecodeError> {
        ValueData::decode(&self.value_type, &self.data)
    }
}

/// Decoder of one value type.
type DataDecoder = for<'a> fn(&'a [u8]) -> Result<ValueData<'a>, DecodeError>;

const DECODERS: &[(&str, DataDecoder)] = &[
    ("URL", |data| Url::from_bytes(data).map(ValueData::Url)),
    ("EMAIL", |data| Email::from_bytes(data).map(ValueData::Email)),
    ("DESC", |data| DescriptionText::from_bytes(data).map(ValueData::Description)),
    ("HS_ADMIN", |data| Admin::from_bytes(data).map(ValueData::Admin)),
    ("HS_SITE", |data| Site::from_bytes(data).map(Box::new).map(ValueData::Site)),
    ("HS_NA_DELEGATE", |data| Site::from_bytes(data).map(Box::new).map(ValueData::Site)),
    ("HS_SERV", |data| Ok(ValueData::Service(ServiceHandle(Handle::new(data))))),
    ("HS_ALIAS", |data| Ok(ValueData::Alias(Alias(Handle::new(data))))),
    ("HS_NAMESPACE", |data| Namespace::from_bytes(data).map(ValueData::Namespace)),
    ("HS_PRIMARY", |data| PrimarySites::from_bytes(data).map(ValueData::Primary)),
    ("HS_VLIST", |data| ValueList::from_bytes(data).map(ValueData::ValueList)),
    ("HS_PUBKEY", |data| PublicKey::from_bytes(data).map(Box::new).map(ValueData::PublicKey)),
    ("HS_SECKEY", |data| Ok(ValueData::SecretKey(SecretKey::new(data)))),
    ("HS_CERT", |data| HandleCertificate::from_bytes(data).map(Box::new).map(ValueData::Certificate)),
    ("HS_SIGNATURE", |data| RecordSignature::from_bytes(data).map(Box::new).map(ValueData::Signature)),
    ("10320/loc", |data| Locations::from_bytes(data).map(Box::new).map(ValueData::Locations)),
    ("10320/links", |data| Links::from_bytes(data).map(ValueData::Links)),
    ("10320/headers", |data| ExtraHeaders::from_bytes(data).map(ValueData::Headers)),
];

use alloc::borrow::Cow;
use alloc::boxed::Box;

use super::value::is_type;
use super::{
    Admin, Alias, Certificate, Description, Email, Headers, Links, Locations, Namespace, Primary, PublicKey,
    SecretKey, Service, Signature, Site, Url, Value, ValueList,
};
use crate::error::DecodeError;
use crate::handle::Handle;

/// The data of a value, read by its type.
///
/// ```
/// use tendot_proto::record::{Data, Url};
///
/// let Data::Url(url) = Data::decode(b"url.mobile", b"https://example.org/")? else { panic!() };
/// assert_eq!(url.as_str(), "https://example.org/");
/// assert_eq!(Data::decode(b"X", b"\0\x01")?, Data::Other(b"\0\x01"));
/// assert!(Data::decode(b"HS_ADMIN", b"\0\x01").is_err());
/// # Ok::<(), tendot_proto::DecodeError>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the types tell")]
pub enum Data<'a> {
    Url(Url<'a>),
    Email(Email<'a>),
    Description(Description<'a>),
    Admin(Admin<'a>),
    /// `HS_SITE` and `HS_NA_DELEGATE`.
    Site(Box<Site<'a>>),
    Service(Service<'a>),
    Alias(Alias<'a>),
    Namespace(Namespace<'a>),
    Primary(Primary<'a>),
    ValueList(ValueList<'a>),
    PublicKey(Box<PublicKey<'a>>),
    SecretKey(SecretKey),
    Certificate(Box<Certificate<'a>>),
    Signature(Box<Signature<'a>>),
    Locations(Box<Locations<'a>>),
    Links(Links<'a>),
    Headers(Headers<'a>),
    /// Data of a type that is not known, as it is.
    Other(&'a [u8]),
}

impl<'a> Data<'a> {
    /// Reads data that belongs to `value_type`, or to the type that is above it: `URL.mobile` is a `URL`.
    pub fn decode(value_type: &[u8], data: &'a [u8]) -> Result<Self, DecodeError> {
        let known = READERS.iter().find(|(name, _)| is_type(value_type, name));
        known.map_or(Ok(Self::Other(data)), |(_, read)| read(data))
    }

    /// The bytes: those that it was decoded from.
    pub fn encode(&self) -> Cow<'a, [u8]> {
        match self {
            Self::Url(url) => url.as_str().as_bytes().into(),
            Self::Email(email) => email.as_str().as_bytes().into(),
            Self::Description(text) => text.as_str().as_bytes().into(),
            Self::Admin(admin) => admin.to_bytes().into(),
            Self::Site(site) => site.to_bytes().into(),
            Self::Service(Service(handle)) | Self::Alias(Alias(handle)) => handle.as_bytes().into(),
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

impl Value<'_> {
    /// The data, read by the value's type.
    pub fn decode_data(&self) -> Result<Data<'_>, DecodeError> {
        Data::decode(&self.value_type, &self.data)
    }
}

type Read = for<'a> fn(&'a [u8]) -> Result<Data<'a>, DecodeError>;

const READERS: &[(&str, Read)] = &[
    ("URL", |data| Url::from_bytes(data).map(Data::Url)),
    ("EMAIL", |data| Email::from_bytes(data).map(Data::Email)),
    ("DESC", |data| Description::from_bytes(data).map(Data::Description)),
    ("HS_ADMIN", |data| Admin::from_bytes(data).map(Data::Admin)),
    ("HS_SITE", |data| Site::from_bytes(data).map(Box::new).map(Data::Site)),
    ("HS_NA_DELEGATE", |data| Site::from_bytes(data).map(Box::new).map(Data::Site)),
    ("HS_SERV", |data| Ok(Data::Service(Service(Handle::new(data))))),
    ("HS_ALIAS", |data| Ok(Data::Alias(Alias(Handle::new(data))))),
    ("HS_NAMESPACE", |data| Namespace::from_bytes(data).map(Data::Namespace)),
    ("HS_PRIMARY", |data| Primary::from_bytes(data).map(Data::Primary)),
    ("HS_VLIST", |data| ValueList::from_bytes(data).map(Data::ValueList)),
    ("HS_PUBKEY", |data| PublicKey::from_bytes(data).map(Box::new).map(Data::PublicKey)),
    ("HS_SECKEY", |data| Ok(Data::SecretKey(SecretKey::new(data)))),
    ("HS_CERT", |data| Certificate::from_bytes(data).map(Box::new).map(Data::Certificate)),
    ("HS_SIGNATURE", |data| Signature::from_bytes(data).map(Box::new).map(Data::Signature)),
    ("10320/loc", |data| Locations::from_bytes(data).map(Box::new).map(Data::Locations)),
    ("10320/links", |data| Links::from_bytes(data).map(Data::Links)),
    ("10320/headers", |data| Headers::from_bytes(data).map(Data::Headers)),
];

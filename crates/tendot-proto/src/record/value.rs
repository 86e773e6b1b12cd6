//! Handle values and their permissions.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::fmt;

use bitflags::bitflags;

use super::{Ttl, ValueReference};
use crate::error::DecodeError;
use crate::wire::{ListItem, WireReader, WireWriter};

/// Handle value: index, timestamp, TTL, permissions, type, data and references.
///
/// Fields are encoded in the order of Handle.Net. RFC 3652 has another order and a timestamp of eight bytes, which no
/// implementation uses.
///
/// ```
/// use tendot_proto::HandleValue;
///
/// let url = HandleValue::new(1, "URL", "https://example.org/");
/// let bytes = url.to_bytes();
/// assert_eq!(HandleValue::from_bytes(&bytes)?, url);
/// assert!(HandleValue::from_bytes(&bytes[..20]).is_err());
/// # Ok::<(), tendot_proto::DecodeError>(())
/// ```
#[derive(Clone, Eq, PartialEq)]
pub struct HandleValue<'a> {
    /// Index of the value within its record; 0 is never stored.
    pub index: u32,
    /// Time of the last change as Unix time in seconds; 0 is unknown.
    pub timestamp: u32,
    /// Cache lifetime.
    pub ttl: Ttl,
    /// Read and write permissions.
    pub permissions: ValuePermissions,
    /// Value type, for example `URL` or `HS_ADMIN`. Usually UTF-8; not validated.
    pub value_type: Cow<'a, [u8]>,
    /// Data, in the encoding of the type.
    pub data: Cow<'a, [u8]>,
    /// References to other values.
    pub references: Vec<ValueReference<'a>>,
}

impl<'a> HandleValue<'a> {
    /// Value with Handle.Net's defaults: TTL of a day, publicly readable, writable by administrators, no timestamp.
    pub fn new(index: u32, value_type: impl Into<Cow<'a, str>>, data: impl Into<Cow<'a, str>>) -> Self {
        Self::with_data(index, value_type, into_bytes_cow(data.into()))
    }

    /// Value with binary data and the same defaults.
    pub fn with_data(
        index: u32,
        value_type: impl Into<Cow<'a, str>>,
        data: impl Into<Cow<'a, [u8]>>,
    ) -> Self {
        Self {
            index,
            timestamp: 0,
            ttl: Ttl::DEFAULT,
            permissions: ValuePermissions::DEFAULT,
            value_type: into_bytes_cow(value_type.into()),
            data: data.into(),
            references: Vec::new(),
        }
    }

    /// Decodes a value without trailing bytes.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = WireReader::new(bytes);
        let value = Self::decode(&mut reader)?;
        reader.expect_end("value")?;
        Ok(value)
    }

    /// Encodes the value as in messages and storage.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut WireWriter::new(&mut out));
        out
    }

    /// Type as text; invalid UTF-8 is replaced.
    pub fn type_name(&self) -> Cow<'_, str> {
        alloc::string::String::from_utf8_lossy(&self.value_type)
    }

    /// Whether the value has this type or a subtype of it: `URL.mobile` is a `URL` (RFC 3651, 3.1). ASCII case is
    /// ignored.
    pub fn has_type(&self, value_type: &str) -> bool {
        type_matches(&self.value_type, value_type)
    }

    /// Whether the data is a secret: the type is `HS_SECKEY` or a subtype.
    pub fn is_secret(&self) -> bool {
        self.has_type("HS_SECKEY")
    }

    /// Whether the value is publicly readable. A secret never is, whatever its permissions.
    pub fn is_public(&self) -> bool {
        self.permissions.contains(ValuePermissions::PUBLIC_READ) && !self.is_secret()
    }

    /// Whether this is a secret with the permission to read it publicly: other software may have disclosed it.
    pub fn is_exposed_secret(&self) -> bool {
        self.permissions.contains(ValuePermissions::PUBLIC_READ) && self.is_secret()
    }

    /// Permissions that the value is stored with: those of a secret are not public.
    ///
    /// ```
    /// use tendot_proto::{HandleValue, ValuePermissions};
    ///
    /// let secret = HandleValue::new(300, "HS_SECKEY", "example-secret");
    /// assert_eq!(secret.stored_permissions(), ValuePermissions::ADMIN_READ | ValuePermissions::ADMIN_WRITE);
    /// ```
    pub fn stored_permissions(&self) -> ValuePermissions {
        let public = ValuePermissions::PUBLIC_READ | ValuePermissions::PUBLIC_WRITE;
        if self.is_secret() { self.permissions - public } else { self.permissions }
    }

    /// Whether a requested type selects this value: the exact type, or with a trailing dot the type and its subtypes.
    pub fn matches_type_filter(&self, filter: &[u8]) -> bool {
        let value_type = &*self.value_type;
        match filter.strip_suffix(b".") {
            None => value_type.eq_ignore_ascii_case(filter),
            Some(parent) => value_type.split_at_checked(parent.len()).is_some_and(|(start, after)| {
                start.eq_ignore_ascii_case(parent) && matches!(after.first(), None | Some(b'.'))
            }),
        }
    }

    /// Copies all borrowed data.
    pub fn into_owned(self) -> HandleValue<'static> {
        HandleValue {
            value_type: Cow::Owned(self.value_type.into_owned()),
            data: Cow::Owned(self.data.into_owned()),
            references: self.references.into_iter().map(ValueReference::into_owned).collect(),
            ..self
        }
    }
}

impl<'a> ListItem<'a> for HandleValue<'a> {
    const MIN_LEN: usize = 26;

    fn decode(reader: &mut WireReader<'a>) -> Result<Self, DecodeError> {
        let index = reader.u32("value index")?;
        let timestamp = reader.u32("value timestamp")?;
        let ttl = Ttl::from_wire(reader.u8("value TTL type")?, reader.u32("value TTL")?);
        let permissions = ValuePermissions(reader.u8("value permissions")?);
        let value_type = Cow::Borrowed(reader.bytes("value type")?);
        let data = Cow::Borrowed(reader.bytes("value data")?);
        let count = reader.count("value references", ValueReference::MIN_LEN)?;
        // Grows with the decoded references, not by the announced count.
        let mut references = Vec::new();
        for _ in 0..count {
            references.push(ValueReference::decode(reader)?);
        }
        Ok(Self { index, timestamp, ttl, permissions, value_type, data, references })
    }

    fn skip(reader: &mut WireReader<'a>) -> Result<(), DecodeError> {
        reader.take("value", 14)?;
        reader.bytes("value type")?;
        reader.bytes("value data")?;
        for _ in 0..reader.count("value references", ValueReference::MIN_LEN)? {
            ValueReference::skip(reader)?;
        }
        Ok(())
    }

    #[inline]
    fn encode(&self, writer: &mut WireWriter<'_>) {
        writer.u32(self.index);
        writer.u32(self.timestamp);
        let (kind, seconds) = self.ttl.to_wire();
        writer.u8(kind);
        writer.u32(seconds);
        writer.u8(self.permissions.0);
        writer.bytes(&self.value_type);
        writer.bytes(&self.data);
        writer.count(self.references.len());
        for reference in &self.references {
            reference.encode(writer);
        }
    }

    fn reborrow(item: &'a Self) -> Self {
        Self {
            value_type: Cow::Borrowed(&item.value_type),
            data: Cow::Borrowed(&item.data),
            references: item.references.iter().map(ValueReference::reborrow).collect(),
            ..*item
        }
    }
}

/// Whether `value_type` is `wanted` or a subtype of it.
pub(super) fn type_matches(value_type: &[u8], wanted: &str) -> bool {
    value_type.split_at_checked(wanted.len()).is_some_and(|(start, after)| {
        start.eq_ignore_ascii_case(wanted.as_bytes()) && matches!(after.first(), None | Some(b'.'))
    })
}

/// Redacts the data of secret keys.
impl fmt::Debug for HandleValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("HandleValue");
        fields.field("index", &self.index).field("type", &self.type_name());
        if self.is_secret() {
            fields.field("data", &format_args!("<{} bytes redacted>", self.data.len()));
        } else {
            fields.field("data", &format_args!("\"{}\"", self.data.escape_ascii()));
        }
        fields
            .field("timestamp", &self.timestamp)
            .field("ttl", &self.ttl)
            .field("permissions", &self.permissions);
        fields.field("references", &self.references).finish()
    }
}

fn into_bytes_cow(text: Cow<'_, str>) -> Cow<'_, [u8]> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }
}

/// Read and write permissions of a value. Unknown bits are preserved.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct ValuePermissions(pub u8);

bitflags! {
    impl ValuePermissions: u8 {
        /// Administrators may read the value.
        const ADMIN_READ = 0x08;
        /// Administrators may change the value.
        const ADMIN_WRITE = 0x04;
        /// Publicly readable.
        const PUBLIC_READ = 0x02;
        /// Publicly writable.
        const PUBLIC_WRITE = 0x01;
    }
}

impl ValuePermissions {
    /// Default: all but publicly writable.
    pub const DEFAULT: Self = Self(0x0e);
}

/// Four binary digits, as in JSON: `1110`.
impl fmt::Display for ValuePermissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04b}", self.0 & 0x0f)
    }
}

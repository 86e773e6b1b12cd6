//! `HS_SITE`: service sites, their servers and interfaces.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::PublicKey;
use crate::error::DecodeError;
use crate::message::ProtocolVersion;
use crate::record::HandleValue;
use crate::wire::{WireReader, WireWriter};

/// Data of an `HS_SITE`, `HS_SITE.6`, `HS_SITE.PREFIX` or `HS_NA_DELEGATE` value: servers of one service site.
///
/// Codes are those of Handle.Net; RFC 3651 has others for flags, interface types and protocols.
///
/// ```
/// use tendot_proto::record::{HashOption, ServerInterface, InterfaceKind, SiteServer, Site, InterfaceProtocol};
///
/// let site = Site {
///     flags: Site::FLAG_PRIMARY,
///     servers: vec![SiteServer {
///         id: 1,
///         address: SiteServer::encode_address([192, 0, 2, 1].into()),
///         interfaces: vec![ServerInterface { kind: InterfaceKind::BOTH, protocol: InterfaceProtocol::TCP, port: 2641 }],
///         ..SiteServer::default()
///     }],
///     ..Site::default()
/// };
/// let mut bytes = site.to_bytes();
/// assert_eq!(Site::from_bytes(&bytes)?, site);
/// assert!(site.is_primary());
///
/// bytes.push(0);
/// let error = Site::from_bytes(&bytes).unwrap_err();
/// assert_eq!(error.to_string(), "HS_SITE at byte 54: 1 trailing bytes");
/// # Ok::<(), tendot_proto::DecodeError>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Site<'a> {
    /// Version of this layout: 1 in Handle.Net, 0 in RFC 3651. Not checked.
    pub format_version: u16,
    /// Protocol version of the servers.
    pub protocol_version: ProtocolVersion,
    /// Serial number, incremented when the site changes. Handle.Net reads it as signed.
    pub serial: u16,
    /// [`Site::FLAG_PRIMARY`] and [`Site::FLAG_MULTI_PRIMARY`]; other bits are preserved.
    pub flags: u8,
    /// Part of a handle that selects the server.
    pub hash_option: HashOption,
    /// Unused; always empty in practice.
    pub hash_filter: Cow<'a, [u8]>,
    /// Attributes; for known ones see [`Site::description`] and the following methods.
    pub attributes: Vec<SiteAttribute<'a>>,
    /// Servers, in hash order.
    pub servers: Vec<SiteServer<'a>>,
}

impl<'a> Site<'a> {
    /// Bit of `flags`: primary site, which accepts writes.
    pub const FLAG_PRIMARY: u8 = 0x80;
    /// Bit of `flags`: other sites of the service are primary, too.
    pub const FLAG_MULTI_PRIMARY: u8 = 0x40;

    /// Decodes a value of type `HS_SITE` or `HS_SITE.6`; `None` for other types.
    ///
    /// ```
    /// use tendot_proto::HandleValue;
    /// use tendot_proto::record::Site;
    ///
    /// let site = HandleValue::with_data(3, "HS_SITE.6", Site::default().to_bytes());
    /// assert_eq!(Site::from_value(&site), Some(Ok(Site::default())));
    /// assert_eq!(Site::from_value(&HandleValue::new(1, "URL", "https://example.org/")), None);
    /// ```
    pub fn from_value(value: &'a HandleValue<'_>) -> Option<Result<Self, DecodeError>> {
        matches!(&*value.value_type, b"HS_SITE" | b"HS_SITE.6").then(|| Self::from_bytes(&value.data))
    }

    /// Decodes the data of a value.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = WireReader::new(bytes);
        let site = Self::decode(&mut reader)?;
        reader.expect_end("HS_SITE")?;
        Ok(site)
    }

    /// Encodes the data of a value.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut WireWriter::new(&mut out));
        out
    }

    /// Decodes a site; more bytes may follow.
    pub fn decode(reader: &mut WireReader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            format_version: reader.u16("site format")?,
            protocol_version: ProtocolVersion::new(
                reader.u8("site protocol version")?,
                reader.u8("site protocol version")?,
            ),
            serial: reader.u16("site serial number")?,
            flags: reader.u8("site flags")?,
            hash_option: HashOption(reader.u8("site hash option")?),
            hash_filter: Cow::Borrowed(reader.bytes("site hash filter")?),
            attributes: decode_list(reader, "site attributes", 8, |reader| {
                let name = Cow::Borrowed(reader.bytes("site attribute name")?);
                Ok(SiteAttribute { name, value: Cow::Borrowed(reader.bytes("site attribute value")?) })
            })?,
            servers: decode_list(reader, "site servers", 28, SiteServer::decode)?,
        })
    }

    /// Appends the encoded site.
    pub fn encode(&self, writer: &mut WireWriter<'_>) {
        writer.u16(self.format_version);
        writer.u8(self.protocol_version.major);
        writer.u8(self.protocol_version.minor);
        writer.u16(self.serial);
        writer.u8(self.flags);
        writer.u8(self.hash_option.0);
        writer.bytes(&self.hash_filter);
        writer.count(self.attributes.len());
        for attribute in &self.attributes {
            writer.bytes(&attribute.name);
            writer.bytes(&attribute.value);
        }
        writer.count(self.servers.len());
        for server in &self.servers {
            server.encode(writer);
        }
    }

    /// Whether this is a primary site.
    pub const fn is_primary(&self) -> bool {
        self.flags & Self::FLAG_PRIMARY != 0
    }

    /// Whether other sites of the service are primary, too.
    pub const fn is_multi_primary(&self) -> bool {
        self.flags & Self::FLAG_MULTI_PRIMARY != 0
    }

    /// Value of the first attribute with this name.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|attribute| *attribute.name == *name.as_bytes())?;
        core::str::from_utf8(&found.value).ok()
    }

    /// Description of the site: the attribute `desc`.
    pub fn description(&self) -> Option<&str> {
        self.attribute("desc")
    }

    /// Alternative address of a server by its [`SiteServer::id`]: `alt_addr.<id>`, or `alt_addr` if there is one
    /// server.
    pub fn alternative_address(&self, id: u32) -> Option<IpAddr> {
        let has_one_server = self.servers.len() == 1;
        self.indexed_attribute("alt_addr", id)
            .or_else(|| has_one_server.then(|| self.attribute("alt_addr")).flatten())?
            .parse()
            .ok()
    }

    /// Domain name of a server by its index: `domain.<index>` or `domain`. Used if the address is all zeros, and as the
    /// host of HTTP requests.
    pub fn domain(&self, server_index: usize) -> Option<&str> {
        self.server_attribute("domain", server_index)
    }

    /// HTTP path prefix of a server by its index: `path.<index>` or `path`.
    pub fn http_path(&self, server_index: usize) -> Option<&str> {
        self.server_attribute("path", server_index)
    }

    fn server_attribute(&self, name: &str, server_index: usize) -> Option<&str> {
        self.indexed_attribute(name, u32::try_from(server_index).ok()?).or_else(|| self.attribute(name))
    }

    /// Value of the attribute `name.number`.
    fn indexed_attribute(&self, name: &str, number: u32) -> Option<&str> {
        let found = self.attributes.iter().find(|attribute| {
            attribute.name.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b".")).is_some_and(
                |digits| core::str::from_utf8(digits).is_ok_and(|digits| digits.parse::<u32>() == Ok(number)),
            )
        })?;
        core::str::from_utf8(&found.value).ok()
    }

    /// Copies all borrowed data.
    pub fn into_owned(self) -> Site<'static> {
        let to_owned = |bytes: Cow<'_, [u8]>| Cow::Owned(bytes.into_owned());
        Site {
            hash_filter: to_owned(self.hash_filter),
            attributes: (self.attributes.into_iter())
                .map(|attribute| SiteAttribute {
                    name: to_owned(attribute.name),
                    value: to_owned(attribute.value),
                })
                .collect(),
            servers: (self.servers.into_iter())
                .map(|server| SiteServer { public_key: to_owned(server.public_key), ..server })
                .collect(),
            ..self
        }
    }
}

/// Site without servers, in the version of Handle.Net.
impl Default for Site<'_> {
    fn default() -> Self {
        Self {
            format_version: 1,
            protocol_version: ProtocolVersion::LATEST,
            serial: 0,
            flags: 0,
            hash_option: HashOption::WHOLE,
            hash_filter: Cow::default(),
            attributes: Vec::new(),
            servers: Vec::new(),
        }
    }
}

/// Name-value attribute of a site.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SiteAttribute<'a> {
    /// Name of the attribute.
    pub name: Cow<'a, [u8]>,
    /// Value of the attribute.
    pub value: Cow<'a, [u8]>,
}

/// Site server: address, public key and interfaces.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SiteServer<'a> {
    /// Id of the server within the site.
    pub id: u32,
    /// Encoded address; see [`SiteServer::ip`].
    pub address: [u8; 16],
    /// Encoded public key, or empty; see [`SiteServer::decode_public_key`].
    pub public_key: Cow<'a, [u8]>,
    /// Interfaces of the server.
    pub interfaces: Vec<ServerInterface>,
}

impl<'a> SiteServer<'a> {
    fn decode(reader: &mut WireReader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            id: reader.u32("server id")?,
            address: reader.array("server address")?,
            public_key: Cow::Borrowed(reader.bytes("server public key")?),
            interfaces: decode_list(reader, "server interfaces", 6, |reader| {
                Ok(ServerInterface {
                    kind: InterfaceKind(reader.u8("interface type")?),
                    protocol: InterfaceProtocol(reader.u8("interface protocol")?),
                    port: reader.u32("interface port")?,
                })
            })?,
        })
    }

    fn encode(&self, writer: &mut WireWriter<'_>) {
        writer.u32(self.id);
        writer.raw(&self.address);
        writer.bytes(&self.public_key);
        writer.count(self.interfaces.len());
        for interface in &self.interfaces {
            writer.u8(interface.kind.0);
            writer.u8(interface.protocol.0);
            writer.u32(interface.port);
        }
    }

    /// Decodes the address. Twelve zeros and the prefix `::ffff` both mean IPv4.
    ///
    /// ```
    /// use tendot_proto::record::SiteServer;
    ///
    /// let ip = |text: &str| SiteServer { address: SiteServer::encode_address(text.parse().unwrap()), ..SiteServer::default() }.ip();
    /// assert_eq!(ip("192.0.2.1").to_string(), "192.0.2.1");
    /// assert_eq!(ip("::ffff:192.0.2.1").to_string(), "192.0.2.1");
    /// assert_eq!(ip("2001:db8::1").to_string(), "2001:db8::1");
    /// ```
    pub fn ip(&self) -> IpAddr {
        match self.address {
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d]
            | [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d] => Ipv4Addr::new(a, b, c, d).into(),
            other => Ipv6Addr::from(other).into(),
        }
    }

    /// Encodes an address as Handle.Net does: IPv4 after twelve zeros.
    pub fn encode_address(ip: IpAddr) -> [u8; 16] {
        match ip {
            IpAddr::V4(ipv4) => {
                let [a, b, c, d] = ipv4.octets();
                [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d]
            }
            IpAddr::V6(ipv6) => ipv6.octets(),
        }
    }

    /// Decodes the public key.
    pub fn decode_public_key(&self) -> Result<PublicKey<'_>, DecodeError> {
        PublicKey::from_bytes(&self.public_key)
    }
}

/// Interface of a site server: purpose, protocol and port.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct ServerInterface {
    /// Purpose.
    pub kind: InterfaceKind,
    /// Transport protocol.
    pub protocol: InterfaceProtocol,
    /// Port.
    pub port: u32,
}

/// Purpose of a [`ServerInterface`]: admin, query, both or out of service. Unknown codes are preserved.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct InterfaceKind(pub u8);

impl InterfaceKind {
    /// Out of service.
    pub const OUT_OF_SERVICE: Self = Self(0);
    /// Admin operations.
    pub const ADMIN: Self = Self(1);
    /// Resolution.
    pub const QUERY: Self = Self(2);
    /// Admin operations and resolution.
    pub const BOTH: Self = Self(3);

    /// Whether admin operations are accepted.
    pub const fn is_admin(self) -> bool {
        self.0 & Self::ADMIN.0 != 0
    }

    /// Whether resolution requests are accepted.
    pub const fn is_query(self) -> bool {
        self.0 & Self::QUERY.0 != 0
    }
}

/// Transport protocol of a [`ServerInterface`]. Unknown codes are preserved.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct InterfaceProtocol(pub u8);

#[expect(missing_docs, reason = "names of standard protocols")]
impl InterfaceProtocol {
    pub const UDP: Self = Self(0);
    pub const TCP: Self = Self(1);
    pub const HTTP: Self = Self(2);
    pub const HTTPS: Self = Self(3);
}

impl fmt::Display for InterfaceProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::UDP => f.write_str("UDP"),
            Self::TCP => f.write_str("TCP"),
            Self::HTTP => f.write_str("HTTP"),
            Self::HTTPS => f.write_str("HTTPS"),
            Self(other) => write!(f, "unknown protocol {other}"),
        }
    }
}

/// Part of a handle that is hashed to select the server of a site.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct HashOption(pub u8);

impl HashOption {
    /// Prefix: all handles of a prefix are on one server.
    pub const PREFIX: Self = Self(0);
    /// Suffix.
    pub const SUFFIX: Self = Self(1);
    /// Whole handle.
    pub const WHOLE: Self = Self(2);

    /// Whether this is one of the three options.
    pub const fn is_known(self) -> bool {
        self.0 <= Self::WHOLE.0
    }
}

/// Decodes a counted list whose items have at least `min_item_len` bytes.
fn decode_list<'a, T>(
    reader: &mut WireReader<'a>,
    field: &'static str,
    min_item_len: usize,
    mut decode: impl FnMut(&mut WireReader<'a>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    // Collecting a `Result` starts with an empty `Vec`, so nothing is allocated by the announced count.
    (0..reader.count(field, min_item_len)?).map(|_| decode(reader)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes() {
        let attribute = |name: &'static str, value: &'static str| SiteAttribute {
            name: name.as_bytes().into(),
            value: value.as_bytes().into(),
        };
        let mut site = Site {
            attributes: alloc::vec![
                attribute("desc", "Test"),
                attribute("alt_addr", "2001:db8::1"),
                attribute("domain", "example.org"),
                attribute("domain.1", "one.example.org"),
            ],
            servers: alloc::vec![SiteServer { id: 7, ..SiteServer::default() }],
            ..Site::default()
        };
        assert_eq!(site.description(), Some("Test"));
        assert_eq!((site.domain(0), site.domain(1)), (Some("example.org"), Some("one.example.org")));
        assert_eq!(site.http_path(0), None);
        assert_eq!(site.alternative_address(7), Some("2001:db8::1".parse().unwrap()));
        site.servers.push(SiteServer { id: 8, ..SiteServer::default() });
        assert_eq!(site.alternative_address(7), None, "ambiguous with two servers");
        site.attributes.push(attribute("alt_addr.8", "192.0.2.8"));
        assert_eq!(site.alternative_address(8), Some("192.0.2.8".parse().unwrap()));
    }
}

//! JSON form of `HS_SITE`.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::net::IpAddr;

use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};
use serde_json::Value as Json;

use super::serialize::{DisplayText, JsonServerKey, LossyText};
use super::{JsonError, JsonNode, deserialize};
use crate::message::ProtocolVersion;
use crate::record::{
    HashOption, InterfaceKind, InterfaceProtocol, ServerInterface, Site, SiteAttribute, SiteServer,
};

/// JSON form of `HS_SITE`.
pub(super) struct JsonSite<'a>(Site<'a>);

impl<'a> JsonSite<'a> {
    /// JSON form, or none if it would lose data.
    pub(super) fn from_data(data: &'a [u8]) -> Option<Self> {
        let site = Site::from_bytes(data).ok()?;
        let is_text = |bytes: &[u8]| core::str::from_utf8(bytes).is_ok();
        let is_lossless = site.flags & !(Site::FLAG_PRIMARY | Site::FLAG_MULTI_PRIMARY) == 0
            && is_text(&site.hash_filter)
            && site.attributes.iter().all(|attribute| is_text(&attribute.name) && is_text(&attribute.value))
            && site.servers.iter().flat_map(|server| &server.interfaces).all(|interface| {
                interface.kind.0 <= InterfaceKind::BOTH.0 && protocol_name(interface.protocol).is_some()
            });
        is_lossless.then_some(Self(site))
    }

    pub(super) fn parse<'j>(node: &JsonNode<'_, 'j>) -> Result<Site<'j>, JsonError> {
        let protocol = required_any_case(node, "protocolVersion")?;
        let (major, minor) = (protocol.string()?.split_once('.'))
            .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)))
            .ok_or_else(|| protocol.expected("a version such as 2.11"))?;
        let serial = required_any_case(node, "serialNumber")?;
        let flag = |key, bit| {
            get_any_case(node, key).map_or(Ok(0), |flag| Ok(if flag.boolean()? { bit } else { 0 }))
        };
        Ok(Site {
            format_version: get_any_case(node, "version").map_or(Ok(1), |version| version.integer())?,
            protocol_version: ProtocolVersion::new(major, minor),
            serial: serial.integer().or_else(|_| serial.integer().map(i16::cast_unsigned))?,
            flags: flag("primarySite", Site::FLAG_PRIMARY)? | flag("multiPrimary", Site::FLAG_MULTI_PRIMARY)?,
            hash_option: get_any_case(node, "hashOption")
                .map_or(Ok(HashOption::WHOLE), |option| option.integer().map(HashOption))?,
            hash_filter: get_any_case(node, "hashFilter")
                .map_or(Ok(""), |filter| filter.string())?
                .as_bytes()
                .into(),
            attributes: get_any_case(node, "attributes")
                .map_or(Ok(Vec::new()), |list| parse_attributes(&list))?,
            servers: required_or_old(node, "servers", "serverList")?.map_list(parse_server)?,
        })
    }
}

/// Member by name, or by its capitalized name as in old versions.
fn get_any_case<'c, 'j>(node: &'c JsonNode<'_, 'j>, key: &'c str) -> Option<JsonNode<'c, 'j>> {
    node.get(key).or_else(|| {
        let (first, rest) = key.split_at_checked(1)?;
        let Json::Object(members) = node.json() else { return None };
        let old = members.keys().find(|old| {
            old.split_at_checked(1)
                .is_some_and(|(capital, after)| capital == first.to_ascii_uppercase() && after == rest)
        })?;
        node.get(old)
    })
}

fn required_any_case<'c, 'j>(
    node: &'c JsonNode<'_, 'j>,
    key: &'c str,
) -> Result<JsonNode<'c, 'j>, JsonError> {
    get_any_case(node, key).map_or_else(|| node.required(key), Ok)
}

fn required_or_old<'c, 'j>(
    node: &'c JsonNode<'_, 'j>,
    key: &'c str,
    old: &'c str,
) -> Result<JsonNode<'c, 'j>, JsonError> {
    get_any_case(node, key).or_else(|| get_any_case(node, old)).map_or_else(|| node.required(key), Ok)
}

/// Parses attributes: a list of names and values, or an object whose members have one or several values.
fn parse_attributes<'j>(node: &JsonNode<'_, 'j>) -> Result<Vec<SiteAttribute<'j>>, JsonError> {
    let attribute = |name: &'j str, value: &'j str| SiteAttribute {
        name: Cow::Borrowed(name.as_bytes()),
        value: Cow::Borrowed(value.as_bytes()),
    };
    let Json::Object(members) = node.json() else {
        return node.map_list(|item| {
            Ok(attribute(
                required_any_case(item, "name")?.string()?,
                required_any_case(item, "value")?.string()?,
            ))
        });
    };
    let mut attributes = Vec::new();
    for (name, json) in members {
        let member = node.required(name)?;
        match json {
            Json::Array(_) => attributes.extend(member.map_list(|item| Ok(attribute(name, item.string()?)))?),
            _ => attributes.push(attribute(name, member.string()?)),
        }
    }
    Ok(attributes)
}

fn parse_server<'j>(node: &JsonNode<'_, 'j>) -> Result<SiteServer<'j>, JsonError> {
    let address = required_any_case(node, "address")?;
    let ip = address.string()?.parse().map_err(|_| address.expected("an IP address"))?;
    Ok(SiteServer {
        id: required_any_case(node, "serverId")?.wire_u32()?,
        address: SiteServer::encode_address(ip),
        public_key: parse_public_key(node)?,
        interfaces: required_or_old(node, "interfaces", "interfaceList")?.map_list(parse_interface)?,
    })
}

/// Parses a public key: value data, or hexadecimal under the capitalized name of old versions.
fn parse_public_key<'j>(node: &JsonNode<'_, 'j>) -> Result<Cow<'j, [u8]>, JsonError> {
    if let Some(key) = node.get("publicKey") {
        return deserialize::parse_data(&key);
    }
    match node.get("PublicKey") {
        Some(key) if key.json().is_string() => key.hex().map(Cow::Owned),
        Some(key) => deserialize::parse_data(&key),
        None => Ok(Cow::default()),
    }
}

fn parse_interface(node: &JsonNode<'_, '_>) -> Result<ServerInterface, JsonError> {
    let flag = |key, kind: InterfaceKind| {
        get_any_case(node, key).map_or(Ok(0), |flag| Ok(if flag.boolean()? { kind.0 } else { 0 }))
    };
    let protocol = required_any_case(node, "protocol")?;
    let text = protocol.string()?;
    let (interface_protocol, _) = (PROTOCOL_NAMES.iter())
        .find(|(_, name)| name.eq_ignore_ascii_case(text))
        .ok_or_else(|| protocol.expected("UDP, TCP, HTTP or HTTPS"))?;
    Ok(ServerInterface {
        kind: InterfaceKind(flag("query", InterfaceKind::QUERY)? | flag("admin", InterfaceKind::ADMIN)?),
        protocol: *interface_protocol,
        port: required_any_case(node, "port")?.wire_u32()?,
    })
}

const PROTOCOL_NAMES: [(InterfaceProtocol, &str); 4] = [
    (InterfaceProtocol::UDP, "UDP"),
    (InterfaceProtocol::TCP, "TCP"),
    (InterfaceProtocol::HTTP, "HTTP"),
    (InterfaceProtocol::HTTPS, "HTTPS"),
];

fn protocol_name(protocol: InterfaceProtocol) -> Option<&'static str> {
    PROTOCOL_NAMES.iter().find(|(known, _)| *known == protocol).map(|(_, name)| *name)
}

/// JSON form of value data; data without a JSON form is lost.
impl Serialize for Site<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        JsonSite(self.clone()).serialize(serializer)
    }
}

impl Site<'_> {
    /// Parses a site as in `siteinfo.json` and in value data.
    ///
    /// ```
    /// use tendot_proto::record::Site;
    ///
    /// let site = Site::from_json(br#"{"protocolVersion":"2.11","serialNumber":7,"servers":[]}"#)?;
    /// assert_eq!(site.serial, 7);
    /// assert_eq!(Site::from_json(b"{}").unwrap_err().to_string(), "protocolVersion: missing field");
    /// # Ok::<(), tendot_proto::record::JsonError>(())
    /// ```
    pub fn from_json(json: &[u8]) -> Result<Site<'static>, JsonError> {
        let json = deserialize::parse_json(json)?;
        JsonSite::parse(&JsonNode::new(&json)).map(Site::into_owned)
    }
}

impl Serialize for JsonSite<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let site = &self.0;
        let has_hash_option = site.hash_option != HashOption::WHOLE;
        let has_hash_filter = !site.hash_filter.is_empty();
        let fields = 7 + usize::from(has_hash_option) + usize::from(has_hash_filter);
        let mut out = serializer.serialize_struct("Site", fields)?;
        out.serialize_field("version", &site.format_version)?;
        out.serialize_field("protocolVersion", &DisplayText(site.protocol_version))?;
        out.serialize_field("serialNumber", &site.serial.cast_signed())?;
        out.serialize_field("primarySite", &site.is_primary())?;
        out.serialize_field("multiPrimary", &site.is_multi_primary())?;
        if has_hash_option {
            out.serialize_field("hashOption", &site.hash_option.0)?;
        }
        if has_hash_filter {
            out.serialize_field("hashFilter", &LossyText(&site.hash_filter))?;
        }
        out.serialize_field("attributes", &JsonList(&site.attributes, JsonAttribute))?;
        out.serialize_field("servers", &JsonList(&site.servers, JsonServer))?;
        out.end()
    }
}

/// List serialized item by item.
struct JsonList<'s, T, F>(&'s [T], fn(&'s T) -> F);

impl<T, F: Serialize> Serialize for JsonList<'_, T, F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(self.1))
    }
}

/// JSON form of a site attribute.
struct JsonAttribute<'s>(&'s SiteAttribute<'s>);

impl Serialize for JsonAttribute<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Attribute", 2)?;
        out.serialize_field("name", &LossyText(&self.0.name))?;
        out.serialize_field("value", &LossyText(&self.0.value))?;
        out.end()
    }
}

/// JSON form of a site server.
struct JsonServer<'s>(&'s SiteServer<'s>);

impl Serialize for JsonServer<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let server = self.0;
        let mut out = serializer.serialize_struct("Server", 4)?;
        out.serialize_field("serverId", &server.id.cast_signed())?;
        // `::ffff:192.0.2.1` must not become `192.0.2.1`, which is encoded with twelve leading zeros.
        match server.ip() {
            IpAddr::V4(ipv4) if server.address == SiteServer::encode_address(ipv4.into()) => {
                out.serialize_field("address", &DisplayText(ipv4))?;
            }
            // Java writes no dots after colons.
            IpAddr::V4(ipv4) => {
                let [a, b, c, d] = ipv4.octets().map(u16::from);
                let text = DisplayText(format_args!("::ffff:{:x}:{:x}", a << 8 | b, c << 8 | d));
                out.serialize_field("address", &text)?;
            }
            IpAddr::V6(ipv6) => out.serialize_field("address", &DisplayText(ipv6))?,
        }
        out.serialize_field("publicKey", &JsonServerKey(&server.public_key))?;
        out.serialize_field("interfaces", &JsonList(&server.interfaces, JsonInterface))?;
        out.end()
    }
}

/// JSON form of a server interface.
struct JsonInterface<'s>(&'s ServerInterface);

impl Serialize for JsonInterface<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Interface", 4)?;
        out.serialize_field("query", &self.0.kind.is_query())?;
        out.serialize_field("admin", &self.0.kind.is_admin())?;
        out.serialize_field("protocol", protocol_name(self.0.protocol).unwrap_or_default())?;
        out.serialize_field("port", &self.0.port.cast_signed())?;
        out.end()
    }
}

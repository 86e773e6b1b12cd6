//! Property tests of values and records: decoding and encoding are inverse, and no input panics.

use proptest::collection::vec;
use proptest::prelude::*;
use tendot_proto::record::{
    Admin, AdminPermissions, HandleRecord, HashOption, InterfaceKind, InterfaceProtocol, PrimarySites,
    PublicKey, ServerInterface, Site, SiteAttribute, SiteServer, ValueData, ValueList,
};
use tendot_proto::{HandleValue, ProtocolVersion, Ttl, ValuePermissions, ValueReference};

const TYPES: &[&str] = &[
    "URL",
    "EMAIL",
    "DESC",
    "HS_ADMIN",
    "HS_SITE",
    "HS_SITE.6",
    "HS_SITE.PREFIX",
    "HS_NA_DELEGATE",
    "HS_SERV",
    "HS_ALIAS",
    "HS_NAMESPACE",
    "HS_PRIMARY",
    "HS_VLIST",
    "HS_PUBKEY",
    "HS_SECKEY",
    "HS_CERT",
    "HS_SIGNATURE",
    "10320/loc",
    "10320/links",
    "10320/headers",
    "X",
];

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![vec(any::<u8>(), 0..20), any::<String>().prop_map(String::into_bytes)]
}

fn references() -> impl Strategy<Value = Vec<ValueReference<'static>>> {
    vec((any::<u32>(), bytes()).prop_map(|(index, handle)| ValueReference::new(index, handle)), 0..4)
}

fn admin() -> impl Strategy<Value = Admin<'static>> {
    (any::<u16>(), any::<u32>(), bytes(), any::<bool>()).prop_map(
        |(bits, index, handle, legacy_byte_length)| Admin {
            permissions: AdminPermissions(bits),
            reference: ValueReference::new(index, handle),
            legacy_byte_length,
        },
    )
}

fn key() -> impl Strategy<Value = PublicKey<'static>> {
    (0..3, vec(vec(any::<u8>(), 0..40), 4)).prop_map(|(kind, n)| match kind {
        0 => PublicKey::rsa(&n[0], &n[1]),
        1 => PublicKey::dsa(&n[0], &n[1], &n[2], &n[3]),
        _ => PublicKey::diffie_hellman(&n[0], &n[1], &n[2]),
    })
}

fn address() -> impl Strategy<Value = [u8; 16]> {
    let ipv4 = |start: u8| {
        any::<[u8; 4]>()
            .prop_map(move |[a, b, c, d]| [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, start, start, a, b, c, d])
    };
    prop_oneof![any::<[u8; 16]>(), ipv4(0), ipv4(0xff)]
}

fn server() -> impl Strategy<Value = SiteServer<'static>> {
    let interface = (0_u8..5, 0_u8..5, any::<u32>()).prop_map(|(kind, protocol, port)| ServerInterface {
        kind: InterfaceKind(kind),
        protocol: InterfaceProtocol(protocol),
        port,
    });
    let key = prop_oneof![bytes(), key().prop_map(|key| key.to_bytes())];
    (any::<u32>(), address(), key, vec(interface, 0..3)).prop_map(|(id, address, key, interfaces)| {
        SiteServer { id, address, public_key: key.into(), interfaces }
    })
}

fn site() -> impl Strategy<Value = Site<'static>> {
    let attribute =
        (bytes(), bytes()).prop_map(|(name, value)| SiteAttribute { name: name.into(), value: value.into() });
    let flags = prop_oneof![Just(0x80), Just(0xc0), any::<u8>()];
    let fixed = (any::<u16>(), any::<[u8; 2]>(), any::<u16>(), flags, 0_u8..4, bytes());
    (fixed, vec(attribute, 0..3), vec(server(), 0..3)).prop_map(
        |((format_version, [major, minor], serial, flags, option, filter), attributes, servers)| Site {
            format_version,
            protocol_version: ProtocolVersion::new(major, minor),
            serial,
            flags,
            hash_option: HashOption(option),
            hash_filter: filter.into(),
            attributes,
            servers,
        },
    )
}

/// Type and data, in most cases valid for the type.
fn typed() -> impl Strategy<Value = (&'static str, Vec<u8>)> {
    prop_oneof![
        (prop::sample::select(TYPES), bytes()),
        admin().prop_map(|admin| ("HS_ADMIN", admin.to_bytes())),
        references().prop_map(|members| ("HS_VLIST", ValueList { members }.to_bytes())),
        references().prop_map(|sites| ("HS_PRIMARY", PrimarySites { sites }.to_bytes())),
        key().prop_map(|key| ("HS_PUBKEY", key.to_bytes())),
        site().prop_map(|site| ("HS_SITE", site.to_bytes())),
    ]
}

fn value() -> impl Strategy<Value = HandleValue<'static>> {
    let ttl = prop_oneof![any::<u32>().prop_map(Ttl::Relative), any::<u32>().prop_map(Ttl::Absolute)];
    let references = vec((any::<u32>(), any::<String>()), 0..3);
    (any::<u32>(), any::<u32>(), ttl, 0_u8..16, typed(), references).prop_map(
        |(index, timestamp, ttl, permissions, (value_type, data), references)| HandleValue {
            timestamp,
            ttl,
            permissions: ValuePermissions(permissions),
            references: (references.into_iter())
                .map(|(index, handle)| ValueReference::new(index, handle.into_bytes()))
                .collect(),
            ..HandleValue::with_data(index, value_type, data)
        },
    )
}

proptest! {
    #[test]
    fn data_round_trip((value_type, data) in typed()) {
        if let Ok(decoded) = ValueData::decode(value_type.as_bytes(), &data) {
            prop_assert_eq!(decoded.encode(), &*data);
        }
    }

    #[test]
    fn admin_round_trip(admin in admin()) {
        let bytes = admin.to_bytes();
        prop_assert_eq!(&Admin::from_bytes(&bytes).unwrap(), &admin);
    }

    #[test]
    fn site_round_trip(site in site()) {
        let bytes = site.to_bytes();
        prop_assert_eq!(&Site::from_bytes(&bytes).unwrap(), &site);
    }

    #[test]
    fn key_round_trip(key in key()) {
        let bytes = key.to_bytes();
        prop_assert_eq!(&PublicKey::from_bytes(&bytes).unwrap(), &key);
        if let Some(jwk) = key.jwk() {
            prop_assert_eq!(PublicKey::from_jwk(&serde_json::to_value(jwk).unwrap()), Ok(key.clone()));
        }
    }

    #[test]
    fn reference_list_round_trip(references in references()) {
        let list = ValueList { members: references.clone() };
        let bytes = list.to_bytes();
        prop_assert_eq!(&ValueList::from_bytes(&bytes).unwrap(), &list);
        let primary = PrimarySites { sites: references };
        let bytes = primary.to_bytes();
        prop_assert_eq!(&PrimarySites::from_bytes(&bytes).unwrap(), &primary);
    }

    #[test]
    fn value_round_trip(value in value()) {
        let bytes = value.to_bytes();
        prop_assert_eq!(&HandleValue::from_bytes(&bytes).unwrap(), &value);
        let json = serde_json::to_string(&value).unwrap();
        prop_assert_eq!(HandleValue::from_json(json.as_bytes()), Ok(value), "{}", json);
    }

    #[test]
    fn record_round_trip(handle in any::<String>(), values in vec(value(), 0..4)) {
        let record = HandleRecord { handle: handle.into_bytes().into(), values };
        let json = serde_json::to_string(&record).unwrap();
        prop_assert_eq!(HandleRecord::from_json(json.as_bytes()), Ok(record));
    }

    /// Arbitrary bytes, and valid ones with a byte changed or cut.
    #[test]
    fn no_data_panics((value_type, mut data) in typed(), cut in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let offset = cut.index(data.len() + 1);
        if let Some(changed) = data.get_mut(offset) {
            *changed = byte;
        }
        for part in [&data[..], &data[..offset], &data[offset..]] {
            if let Ok(decoded) = ValueData::decode(value_type.as_bytes(), part) {
                prop_assert_eq!(decoded.encode(), part);
            }
            let _ = HandleValue::from_bytes(part);
            let value = HandleValue::with_data(1, value_type, part);
            let json = serde_json::to_string(&value).unwrap();
            prop_assert_eq!(HandleValue::from_json(json.as_bytes()), Ok(value), "{}", json);
        }
    }

    #[test]
    fn no_text_panics(text in r#"[<>/a"'=&;!\-\[\]? \n.{}:,]{0,60}"#) {
        for value_type in TYPES {
            if let Ok(decoded) = ValueData::decode(value_type.as_bytes(), text.as_bytes()) {
                prop_assert_eq!(decoded.encode(), text.as_bytes());
            }
        }
        let _ = HandleRecord::from_json(text.as_bytes());
    }
}

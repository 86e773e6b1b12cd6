//! A value as it is shown, by its type.

use serde_json::Value as Json;
use tendot_proto::record::{Admin, AdminPermissions, Data, KeyComponents, Locations, PublicKey, Site, Transport};
use tendot_proto::{Ttl, Value};

use super::text::{Room, beginning};
use crate::http::address;

/// Characters of a text that are shown at once; longer ones are folded.
const AT_ONCE: usize = 280;

/// A row of the table of values.
pub(super) struct Row {
    pub(super) index: u32,
    pub(super) value_type: String,
    pub(super) lines: Vec<Line>,
    pub(super) folded: Option<CollapsedText>,
    pub(super) ttl: String,
    /// When it was changed, for people and for programs.
    pub(super) changed: Option<(String, String)>,
}

/// A line of what a value says.
#[derive(Default)]
pub(super) struct Line {
    pub(super) label: &'static str,
    pub(super) text: String,
    /// Where it leads, if that is an address that can be followed.
    pub(super) link: Option<String>,
    pub(super) note: String,
}

impl Line {
    fn new(label: &'static str, text: String) -> Self {
        Self { label, text, ..Self::default() }
    }
}

/// What is there to be opened.
pub(super) struct CollapsedText {
    pub(super) title: String,
    pub(super) text: String,
}

impl Row {
    pub(super) fn of(value: &Value<'_>, room: &mut Room) -> Self {
        let json = serde_json::to_value(value).unwrap_or_default();
        let changed = json.get("timestamp").and_then(Json::as_str);
        let mut row = Self {
            index: value.index,
            value_type: room.line(&value.type_name()),
            lines: Vec::new(),
            folded: None,
            ttl: ttl(value.ttl, json.get("ttl")),
            changed: changed.map(|date| (for_people(date), date.to_owned())),
        };
        match value.decode_data() {
            Ok(Data::Url(url)) => row.lines.push(link("", url.as_str(), room)),
            Ok(Data::Admin(admin)) => row.lines.extend(admin_lines(&admin, room)),
            Ok(Data::Site(site)) => {
                row.lines.extend(site_lines(&site, room));
                row.fold("All of it as JSON", &pretty(&json), room);
            }
            Ok(Data::PublicKey(key)) => {
                row.lines.push(Line::new("", describe_key(&key)));
                row.fold("The key as JSON", &pretty(&json), room);
            }
            Ok(Data::ValueList(list)) => {
                row.lines.extend(list.members.iter().map_while(|member| {
                    room.has_more().then(|| Line::new("", room.line(&member.to_string())))
                }));
            }
            Ok(Data::Locations(locations)) => {
                row.lines.extend(location_lines(&locations, room));
                row.fold("All of it as XML", locations.as_str(), room);
            }
            _ => row.plain(&json, value.data.len(), room),
        }
        row
    }

    /// Text, or bytes that are none.
    fn plain(&mut self, json: &Json, length: usize, room: &mut Room) {
        let data = json.pointer("/data/value").and_then(Json::as_str).unwrap_or_default();
        if json.pointer("/data/format").and_then(Json::as_str) == Some("base64") {
            let title = format!("{length} bytes, as base64");
            self.fold(&title, data, room);
        } else if data.chars().nth(AT_ONCE).is_some() || data.contains('\n') {
            let first = room.line(&beginning(data.lines().next().unwrap_or_default(), AT_ONCE / 2));
            self.lines.push(Line::new("", first));
            self.fold(&format!("All of it, {length} bytes"), data, room);
        } else {
            self.lines.push(Line::new("", room.line(data)));
        }
    }

    fn fold(&mut self, title: &str, text: &str, room: &mut Room) {
        if room.has_more() {
            self.folded = Some(CollapsedText { title: title.to_owned(), text: room.lines(text) });
        }
    }
}

/// An address, as a link only if redirects lead there.
fn link(label: &'static str, stored: &str, room: &mut Room) -> Line {
    let text = room.line(stored);
    match address::location(stored) {
        Ok(address) => Line { label, text, link: room.address(&address), note: String::new() },
        Err(error) => Line { label, text, link: None, note: format!("not followed: {error}") },
    }
}

fn admin_lines(admin: &Admin<'_>, room: &mut Room) -> [Line; 2] {
    let rights: Vec<&str> =
        PERMISSION_NAMES.iter().filter(|(right, _)| admin.permissions.has(*right)).map(|(_, name)| *name).collect();
    let rights = match admin.permissions {
        all if all.has(AdminPermissions::ALL) => "everything".to_owned(),
        _ if rights.is_empty() => "nothing".to_owned(),
        _ => rights.join(", "),
    };
    [
        Line::new("Administrator", room.line(&admin.reference.to_string())),
        Line::new("May", room.line(&rights)),
    ]
}

const PERMISSION_NAMES: [(AdminPermissions, &str); 13] = [
    (AdminPermissions::ADD_HANDLE, "create names"),
    (AdminPermissions::DELETE_HANDLE, "delete names"),
    (AdminPermissions::ADD_DERIVED_PREFIX, "create derived prefixes"),
    (AdminPermissions::DELETE_DERIVED_PREFIX, "delete derived prefixes"),
    (AdminPermissions::MODIFY_VALUE, "modify values"),
    (AdminPermissions::REMOVE_VALUE, "remove values"),
    (AdminPermissions::ADD_VALUE, "add values"),
    (AdminPermissions::MODIFY_ADMIN, "modify administrators"),
    (AdminPermissions::REMOVE_ADMIN, "remove administrators"),
    (AdminPermissions::ADD_ADMIN, "add administrators"),
    (AdminPermissions::READ_VALUE, "read values"),
    (AdminPermissions::LIST_HANDLES, "list names"),
    (AdminPermissions::LIST_DERIVED_PREFIXES, "list derived prefixes"),
];

fn site_lines(site: &Site<'_>, room: &mut Room) -> Vec<Line> {
    let mut lines = Vec::new();
    if let Some(description) = site.description() {
        lines.push(Line::new("Site", room.line(description)));
    }
    let kind = if site.is_primary() { "primary" } else { "mirror" };
    let Site { protocol_major: major, protocol_minor: minor, serial, .. } = site;
    lines.push(Line::new("Kind", room.line(&format!("{kind}, protocol {major}.{minor}, serial {serial}"))));
    for server in &site.servers {
        if !room.has_more() {
            break;
        }
        let mut text = format!("{}: {}", server.id, server.ip());
        for (number, interface) in server.interfaces.iter().enumerate().take(16) {
            let transport = match interface.transport {
                Transport::UDP => "UDP",
                Transport::TCP => "TCP",
                Transport::HTTP => "HTTP",
                Transport::HTTPS => "HTTPS",
                _ => "other",
            };
            text += &format!("{} {transport} {}", if number == 0 { " by" } else { "," }, interface.port);
        }
        lines.push(Line::new("Server", room.line(&text)));
    }
    lines
}

fn describe_key(key: &PublicKey<'_>) -> String {
    let bits = |number: &[u8]| {
        let significant = number.iter().skip_while(|byte| **byte == 0);
        let leading = significant.clone().next().map_or(0, |byte| byte.leading_zeros() as usize);
        significant.count() * 8 - leading
    };
    match key.kind() {
        KeyComponents::Rsa { modulus, .. } => format!("RSA public key, {} bits", bits(modulus)),
        KeyComponents::Dsa { p, .. } => format!("DSA public key, {} bits", bits(p)),
        KeyComponents::DiffieHellman { p, .. } => format!("Diffie–Hellman public key, {} bits", bits(p)),
    }
}

fn location_lines(locations: &Locations<'_>, room: &mut Room) -> Vec<Line> {
    let methods: Vec<&str> = locations.selection_methods().collect();
    let mut lines = vec![Line::new("Chosen by", room.line(&methods.join(", ")))];
    for location in &locations.locations {
        if !room.has_more() {
            break;
        }
        let attributes: Vec<String> = location
            .attributes()
            .filter(|(name, _)| !matches!(*name, "href" | "id"))
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        let mut line = location.href().map_or_else(Line::default, |href| link("", href, room));
        line.label = "Place";
        let more = room.line(&attributes.join(", "));
        let both = [line.note.as_str(), &more];
        line.note = both.into_iter().filter(|note| !note.is_empty()).collect::<Vec<_>>().join("; ");
        lines.push(line);
    }
    lines
}

fn pretty(json: &Json) -> String {
    let value = json.pointer("/data/value").cloned().unwrap_or_default();
    serde_json::to_string_pretty(&value).unwrap_or_default()
}

/// How long a value may be kept, in words.
fn ttl(ttl: Ttl, json: Option<&Json>) -> String {
    match ttl {
        Ttl::Relative(seconds) => duration(seconds.into()),
        Ttl::Absolute(_) => format!("until {}", for_people(json.and_then(Json::as_str).unwrap_or_default())),
        Ttl::Other { .. } => "not known".into(),
    }
}

/// A time in the largest unit that fits.
pub(super) fn duration(seconds: u64) -> String {
    let (number, unit) = match seconds {
        0 => return "not at all".into(),
        _ if seconds.is_multiple_of(86_400) => (seconds / 86_400, "day"),
        _ if seconds.is_multiple_of(3_600) => (seconds / 3_600, "hour"),
        _ if seconds.is_multiple_of(60) => (seconds / 60, "minute"),
        _ => (seconds, "second"),
    };
    format!("{number} {unit}{}", if number == 1 { "" } else { "s" })
}

/// `2004-01-21T14:14:17Z` as people read it.
pub(super) fn for_people(date: &str) -> String {
    date.replace('T', " ").replace('Z', " UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let expected = [
            (0, "not at all"),
            (1, "1 second"),
            (90, "90 seconds"),
            (120, "2 minutes"),
            (3_600, "1 hour"),
            (86_400, "1 day"),
            (172_800, "2 days"),
        ];
        for (seconds, text) in expected {
            assert_eq!(duration(seconds), text);
        }
    }
}

//! Handle values as table rows, by type.

use serde_json::Value as Json;
use tendot_proto::record::{InterfaceProtocol, KeyComponents, Locations, PublicKey, Site, ValueData};
use tendot_proto::{HandleValue, Ttl};

use crate::http::pages::page_budget::{PageBudget, truncate_chars};
use crate::http::resolve::locations::redirect_target;

/// Characters of a text that are shown inline; longer texts are collapsed.
const MAX_INLINE_CHARS: usize = 280;

/// Row of the value table.
pub(super) struct ValueRow {
    pub(super) index: u32,
    pub(super) value_type: String,
    pub(super) lines: Vec<ValueLine>,
    pub(super) collapsed: Option<CollapsedText>,
    pub(super) ttl: String,
    /// Time of the last change: formatted, and as RFC 3339.
    pub(super) modified: Option<(String, String)>,
}

/// Line within a value cell.
#[derive(Default)]
pub(super) struct ValueLine {
    pub(super) label: &'static str,
    pub(super) text: String,
    /// Link target, if the URL is a valid redirect target.
    pub(super) link: Option<String>,
    pub(super) note: String,
}

impl ValueLine {
    fn new(label: &'static str, text: String) -> Self {
        Self { label, text, ..Self::default() }
    }
}

/// Text inside a `<details>` element.
pub(super) struct CollapsedText {
    pub(super) title: String,
    pub(super) text: String,
}

/// Values that are shown to visitors: all but the administrators. The JSON has all values.
pub(crate) fn shown_values<'v, 'a>(values: &'v [HandleValue<'a>]) -> Vec<&'v HandleValue<'a>> {
    values.iter().filter(|value| !value.value_type.eq_ignore_ascii_case(b"HS_ADMIN")).collect()
}

impl ValueRow {
    pub(super) fn of(value: &HandleValue<'_>, page_budget: &mut PageBudget) -> Self {
        let json = serde_json::to_value(value).unwrap_or_default();
        let timestamp = json.get("timestamp").and_then(Json::as_str);
        let mut row = Self {
            index: value.index,
            value_type: page_budget.line(&value.type_name()),
            lines: Vec::new(),
            collapsed: None,
            ttl: format_ttl(value.ttl, json.get("ttl")),
            modified: timestamp.map(|timestamp| (format_timestamp(timestamp), timestamp.to_owned())),
        };
        match value.decode_data() {
            Ok(ValueData::Url(url)) => row.lines.push(url_line("", url.as_str(), page_budget)),
            Ok(ValueData::Site(site)) => {
                row.lines.extend(site_lines(&site, page_budget));
                row.add_collapsed("Site as JSON", &pretty_json(&json), page_budget);
            }
            Ok(ValueData::PublicKey(key)) => {
                row.lines.push(ValueLine::new("", describe_key(&key)));
                row.add_collapsed("Key as JSON", &pretty_json(&json), page_budget);
            }
            Ok(ValueData::ValueList(list)) => {
                row.lines.extend(list.members.iter().map_while(|member| {
                    page_budget.has_room().then(|| ValueLine::new("", page_budget.line(&member.to_string())))
                }));
            }
            Ok(ValueData::Locations(locations)) => {
                row.lines.extend(location_lines(&locations, page_budget));
                row.add_collapsed("Locations as XML", locations.as_str(), page_budget);
            }
            _ => row.add_text(&json, value.data.len(), page_budget),
        }
        row
    }

    /// Adds data as text, or as bytes if it is not text.
    fn add_text(&mut self, json: &Json, length: usize, page_budget: &mut PageBudget) {
        let data = json.pointer("/data/value").and_then(Json::as_str).unwrap_or_default();
        if json.pointer("/data/format").and_then(Json::as_str) == Some("base64") {
            let title = format!("{length} bytes (Base64)");
            self.add_collapsed(&title, data, page_budget);
        } else if data.chars().nth(MAX_INLINE_CHARS).is_some() || data.contains('\n') {
            let first = page_budget
                .line(&truncate_chars(data.lines().next().unwrap_or_default(), MAX_INLINE_CHARS / 2));
            self.lines.push(ValueLine::new("", first));
            self.add_collapsed(&format!("Full text, {length} bytes"), data, page_budget);
        } else {
            self.lines.push(ValueLine::new("", page_budget.line(data)));
        }
    }

    fn add_collapsed(&mut self, title: &str, text: &str, page_budget: &mut PageBudget) {
        if page_budget.has_room() {
            self.collapsed = Some(CollapsedText { title: title.to_owned(), text: page_budget.lines(text) });
        }
    }
}

/// Line with a URL; it is a link only if it is a valid redirect target.
fn url_line(label: &'static str, stored: &str, page_budget: &mut PageBudget) -> ValueLine {
    let text = page_budget.line(stored);
    match redirect_target::sanitize(stored) {
        Ok(url) => ValueLine { label, text, link: page_budget.url(&url), note: String::new() },
        Err(error) => {
            ValueLine { label, text, link: None, note: format!("invalid redirect target: {error}") }
        }
    }
}

fn site_lines(site: &Site<'_>, page_budget: &mut PageBudget) -> Vec<ValueLine> {
    let mut lines = Vec::new();
    if let Some(description) = site.description() {
        lines.push(ValueLine::new("Site", page_budget.line(description)));
    }
    let kind = if site.is_primary() { "primary" } else { "mirror" };
    let Site { protocol_version, serial, .. } = site;
    lines.push(ValueLine::new(
        "Type",
        page_budget.line(&format!("{kind}, protocol {protocol_version}, serial {serial}")),
    ));
    for server in &site.servers {
        if !page_budget.has_room() {
            break;
        }
        let mut text = format!("{}: {}", server.id, server.ip());
        for interface in server.interfaces.iter().take(16) {
            let transport = match interface.protocol {
                InterfaceProtocol::UDP => "UDP",
                InterfaceProtocol::TCP => "TCP",
                InterfaceProtocol::HTTP => "HTTP",
                InterfaceProtocol::HTTPS => "HTTPS",
                _ => "other",
            };
            text += &format!(", {transport} {}", interface.port);
        }
        lines.push(ValueLine::new("Server", page_budget.line(&text)));
    }
    lines
}

fn describe_key(key: &PublicKey<'_>) -> String {
    let bits = |integer: &[u8]| {
        let significant = integer.iter().skip_while(|byte| **byte == 0);
        let leading = significant.clone().next().map_or(0, |byte| byte.leading_zeros() as usize);
        significant.count() * 8 - leading
    };
    match key.components() {
        KeyComponents::Rsa { modulus, .. } => format!("RSA public key, {} bits", bits(modulus)),
        KeyComponents::Dsa { p, .. } => format!("DSA public key, {} bits", bits(p)),
        KeyComponents::DiffieHellman { p, .. } => format!("Diffie–Hellman public key, {} bits", bits(p)),
    }
}

fn location_lines(locations: &Locations<'_>, page_budget: &mut PageBudget) -> Vec<ValueLine> {
    let methods: Vec<&str> = locations.selection_methods().collect();
    let mut lines = vec![ValueLine::new("Selection methods", page_budget.line(&methods.join(", ")))];
    for location in &locations.locations {
        if !page_budget.has_room() {
            break;
        }
        let attributes: Vec<String> = location
            .attributes()
            .filter(|(name, _)| !matches!(*name, "href" | "id"))
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        let mut line =
            location.href().map_or_else(ValueLine::default, |href| url_line("", href, page_budget));
        line.label = "Location";
        let attributes = page_budget.line(&attributes.join(", "));
        let notes = [line.note.as_str(), &attributes];
        line.note = notes.into_iter().filter(|note| !note.is_empty()).collect::<Vec<_>>().join("; ");
        lines.push(line);
    }
    lines
}

fn pretty_json(json: &Json) -> String {
    let value = json.pointer("/data/value").cloned().unwrap_or_default();
    serde_json::to_string_pretty(&value).unwrap_or_default()
}

/// TTL as a duration, or as an expiry time.
fn format_ttl(ttl: Ttl, json: Option<&Json>) -> String {
    match ttl {
        Ttl::Relative(seconds) => format_ttl_seconds(seconds.into()),
        Ttl::Absolute(_) => {
            format!("until {}", format_timestamp(json.and_then(Json::as_str).unwrap_or_default()))
        }
        Ttl::Unknown { .. } => "unknown".into(),
    }
}

/// TTL in the largest unit that divides it.
fn format_ttl_seconds(seconds: u64) -> String {
    let (number, unit) = match seconds {
        0 => return "not cached".into(),
        _ if seconds.is_multiple_of(86_400) => (seconds / 86_400, "day"),
        _ if seconds.is_multiple_of(3_600) => (seconds / 3_600, "hour"),
        _ if seconds.is_multiple_of(60) => (seconds / 60, "minute"),
        _ => (seconds, "second"),
    };
    format!("{number} {unit}{}", if number == 1 { "" } else { "s" })
}

/// `2004-01-21T14:14:17.123Z` as `2004-01-21 14:14:17 UTC`.
pub(super) fn format_timestamp(timestamp: &str) -> String {
    let seconds = timestamp.split_once('.').map_or(timestamp, |(seconds, _)| seconds);
    format!("{} UTC", seconds.trim_end_matches('Z').replace('T', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ttls() {
        let expected = [
            (0, "not cached"),
            (1, "1 second"),
            (90, "90 seconds"),
            (120, "2 minutes"),
            (3_600, "1 hour"),
            (86_400, "1 day"),
            (172_800, "2 days"),
        ];
        for (seconds, text) in expected {
            assert_eq!(format_ttl_seconds(seconds), text);
        }
    }
}

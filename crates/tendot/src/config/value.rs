//! Types of settings: parsing from text, and error messages.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use tendot_client::native::{NativeClient, RootSites};
use tendot_client::{HeaderName, HttpUpstream, HttpUpstreamError};
use tendot_proto::ValueReference;
use tendot_registry::MAX_NAME_LEN;
use tendot_server::http::{ForwardedBy, UpstreamClient};
use tracing::Level;

/// How a setting is written in TOML.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum TomlKind {
    String,
    /// Number or boolean, without quotes.
    Literal,
    Array,
}

/// Type that a setting can be parsed into.
pub(crate) trait SettingValue: Sized {
    const KIND: TomlKind = TomlKind::String;

    fn parse(text: &str) -> Result<Self, String>;
}

impl SettingValue for PathBuf {
    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() { Err("must not be empty".into()) } else { Ok(text.into()) }
    }
}

impl SettingValue for Option<PathBuf> {
    fn parse(text: &str) -> Result<Self, String> {
        Ok((!text.is_empty()).then(|| text.into()))
    }
}

impl SettingValue for Option<SocketAddr> {
    fn parse(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(None);
        }
        let local = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
        local
            .as_deref()
            .unwrap_or(text)
            .parse()
            .map(Some)
            .map_err(|_| "expected an address such as `127.0.0.1:8080` or `[::]:8080`, or `off`".to_owned())
    }
}

impl SettingValue for Option<IpAddr> {
    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(None);
        }
        text.parse()
            .map(Some)
            .map_err(|_| "expected an IP address such as `192.0.2.1` or `2001:db8::1`".to_owned())
    }
}

impl SettingValue for String {
    fn parse(text: &str) -> Result<Self, String> {
        if text.chars().any(char::is_control) {
            Err("must be a single line".into())
        } else {
            Ok(text.to_owned())
        }
    }
}

impl SettingValue for Option<HeaderName> {
    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(None);
        }
        text.parse().map(Some).map_err(|_| "expected the name of a header, such as `CF-IPCountry`".to_owned())
    }
}

/// URL of a service, without a slash at the end; `None` if it is not set.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ServiceUrl(pub(crate) Option<Box<str>>);

impl SettingValue for ServiceUrl {
    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self(None));
        }
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~:/[]%".contains(c);
        match rest.map(|rest| rest.trim_end_matches('/')) {
            Some(rest) if !rest.is_empty() && !rest.starts_with('/') && rest.chars().all(is_plain) => {
                Ok(Self(Some(text.trim_end_matches('/').into())))
            }
            _ => Err("expected a URL such as `https://id.example.org`".to_owned()),
        }
    }
}

impl SettingValue for Vec<String> {
    const KIND: TomlKind = TomlKind::Array;

    fn parse(text: &str) -> Result<Self, String> {
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        names.map(<String as SettingValue>::parse).collect()
    }
}

impl SettingValue for Vec<ValueReference<'static>> {
    const KIND: TomlKind = TomlKind::Array;

    fn parse(text: &str) -> Result<Self, String> {
        let identities = text.split(',').map(str::trim).filter(|identity| !identity.is_empty());
        let parse = |identity: &str| {
            let reference = ValueReference::parse(identity);
            // Without an index any key of the record matches; a malformed index would become part of the handle.
            let handle = reference.handle();
            let is_handle = handle.validate_for_create().is_ok()
                && !handle.prefix().iter().any(|byte| b":\"'[]".contains(byte));
            let why =
                || format!("invalid identity `{identity}`; expected an identity such as `300:0.NA/10.1000`");
            is_handle.then(|| reference.into_owned()).ok_or_else(why)
        };
        identities.map(parse).collect()
    }
}

/// Kind and location of the store.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum StoreSetting {
    /// Embedded store in this directory, or in the data directory.
    Embedded(Option<PathBuf>),
    Memory,
    /// PostgreSQL store at this address.
    Postgres(String),
}

impl SettingValue for StoreSetting {
    fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("embedded", "")) => Ok(Self::Embedded(None)),
            Some(("embedded", directory)) => Ok(Self::Embedded(Some(directory.into()))),
            Some(("memory", "")) => Ok(Self::Memory),
            Some(("postgres" | "postgresql", _)) => Ok(Self::Postgres(text.into())),
            _ => Err("expected `embedded:DIR`, `postgres://user@host/database` or `memory:`".into()),
        }
    }
}

/// Upstream resolver for prefixes that are not homed here.
#[derive(Clone, Debug)]
pub(crate) struct UpstreamSetting(pub(crate) Option<UpstreamClient>);

impl SettingValue for UpstreamSetting {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self(None)),
            "handle-system" => Ok(Self(Some(UpstreamClient::Native(NativeClient::new(
                RootSites::global_registry().into_config(),
            ))))),
            _ if text.starts_with("handle-system:") => {
                let file = text.trim_start_matches("handle-system:");
                let bytes = std::fs::read(file).map_err(|error| format!("cannot read `{file}`: {error}"))?;
                let root = RootSites::from_bytes(&bytes)
                    .map_err(|error| format!("invalid root file `{file}`: {error}"))?;
                Ok(Self(Some(UpstreamClient::Native(NativeClient::new(root.into_config())))))
            }
            _ => HttpUpstream::new(text)
                .map(|upstream| Self(Some(UpstreamClient::Http(Box::new(upstream)))))
                .map_err(|error| match error {
                    HttpUpstreamError::InvalidBaseUrl { reason, .. } => {
                        format!("{reason}; expected a URL such as `https://doi.org`")
                    }
                    error => error.to_string(),
                }),
        }
    }
}

impl SettingValue for bool {
    const KIND: TomlKind = TomlKind::Literal;

    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| "expected `true` or `false`".into())
    }
}

/// Whether clients on loopback are trusted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum LoopbackTrust {
    /// Unless a proxy on this machine is likely.
    Auto,
    Fixed(bool),
}

impl LoopbackTrust {
    /// `auto` depends on whether other clients come through a proxy or over TLS.
    pub(crate) const fn is_trusted(self, serves_other_clients: bool) -> bool {
        match self {
            Self::Auto => !serves_other_clients,
            Self::Fixed(is_trusted) => is_trusted,
        }
    }
}

impl SettingValue for LoopbackTrust {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            _ => text.parse().map(Self::Fixed).map_err(|_| "expected `true`, `false` or `auto`".into()),
        }
    }
}

impl SettingValue for u32 {
    const KIND: TomlKind = TomlKind::Literal;

    fn parse(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(0) => Err("must be at least 1".into()),
            Ok(number) => Ok(number),
            Err(_) => Err(format!("must be a number up to {}", Self::MAX)),
        }
    }
}

/// Maximum length of names in bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct NameLength(pub(crate) usize);

impl SettingValue for NameLength {
    const KIND: TomlKind = TomlKind::Literal;

    fn parse(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(bytes @ MIN_NAME_LENGTH..=MAX_NAME_LEN) => Ok(Self(bytes)),
            _ => Err(format!("must be {MIN_NAME_LENGTH} to {MAX_NAME_LEN} bytes")),
        }
    }
}

/// Names of this length must be possible: those of prefixes and of identities.
const MIN_NAME_LENGTH: usize = 256;

/// Directory codes of DOIs, such as `10` or `20.500`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct DirectoryCodes(pub(crate) Vec<Box<str>>);

impl SettingValue for DirectoryCodes {
    const KIND: TomlKind = TomlKind::Array;

    fn parse(text: &str) -> Result<Self, String> {
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let parse = |code: &str| {
            let is_code = code.len() <= 32 && code.split('.').all(is_number);
            let why =
                || format!("invalid directory code `{code}`; expected a number such as `10` or `20.500`");
            is_code.then(|| code.into()).ok_or_else(why)
        };
        let codes = text.split(',').map(str::trim).filter(|code| !code.is_empty());
        let codes: Vec<Box<str>> = codes.map(parse).collect::<Result<_, _>>()?;
        if codes.is_empty() { Err("must not be empty".into()) } else { Ok(Self(codes)) }
    }
}

/// Number of days; 0 disables.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct RetentionDays(pub(crate) u32);

impl SettingValue for RetentionDays {
    const KIND: TomlKind = TomlKind::Literal;

    fn parse(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(days @ 0..=3_650) => Ok(Self(days)),
            _ => Err("must be 0 to 3650 days; 0 disables it".into()),
        }
    }
}

/// Interval of the scrub; `None` if it is disabled.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ScrubInterval(pub(crate) Option<Duration>);

impl SettingValue for ScrubInterval {
    fn parse(text: &str) -> Result<Self, String> {
        if text == "0" { Ok(Self(None)) } else { Duration::parse(text).map(|interval| Self(Some(interval))) }
    }
}

/// Validity period of 1 day to 100 years.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ValidityDays(pub(crate) u32);

impl SettingValue for ValidityDays {
    const KIND: TomlKind = TomlKind::Literal;

    fn parse(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(days @ 1..=36_500) => Ok(Self(days)),
            _ => Err("must be 1 to 36500 days".into()),
        }
    }
}

/// Prefixes such as `10.1000`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct PrefixList(pub(crate) Vec<Box<str>>);

impl SettingValue for PrefixList {
    const KIND: TomlKind = TomlKind::Array;

    fn parse(text: &str) -> Result<Self, String> {
        let prefixes = text.split(',').map(str::trim).filter(|prefix| !prefix.is_empty());
        let parse = |prefix: &str| {
            let is_valid =
                !prefix.contains('/') && !prefix.chars().any(|c| c.is_whitespace() || c.is_control());
            let why = || format!("invalid prefix `{prefix}`; expected a prefix such as `10.1000`");
            is_valid.then(|| prefix.into()).ok_or_else(why)
        };
        prefixes.map(parse).collect::<Result<_, _>>().map(Self)
    }
}

/// Index and handle of a key, such as `300:0.NA/10.1000`; empty for none.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct KeyReference(pub(crate) Option<ValueReference<'static>>);

impl SettingValue for KeyReference {
    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self(None));
        }
        let reference = ValueReference::parse(text);
        if reference.index == 0 || reference.handle().validate_for_create().is_err() {
            return Err("expected index and handle of a key, such as `300:0.NA/10.1000`".into());
        }
        Ok(Self(Some(reference.into_owned())))
    }
}

/// Splits `10s` into number and unit.
fn split_unit(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, text[end..].trim_start()))
}

impl SettingValue for Duration {
    fn parse(text: &str) -> Result<Self, String> {
        const MAX_DURATION: Duration = Duration::from_secs(86_400);
        let duration = match split_unit(text) {
            Some((number, "ms")) => Self::from_millis(number),
            Some((number, "s")) => Self::from_secs(number),
            Some((number, "min")) => Self::from_secs(number.saturating_mul(60)),
            Some((number, "h")) => Self::from_secs(number.saturating_mul(3_600)),
            Some((_, "")) => return Err(format!("missing unit; write `{text}s`")),
            _ => return Err("expected a duration such as `500ms`, `10s`, `5min` or `1h`".into()),
        };
        if duration.is_zero() || duration > MAX_DURATION {
            return Err("must be greater than 0 and at most 24h".into());
        }
        Ok(duration)
    }
}

/// Size of 4 KiB to 16 MiB.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct BufferSize(pub(crate) usize);

impl SettingValue for BufferSize {
    fn parse(text: &str) -> Result<Self, String> {
        let (min, max) = (4 << 10, 16 << 20);
        let bytes = parse_bytes(text)?;
        if !(min..=max).contains(&bytes) {
            return Err("must be between 4KiB and 16MiB".into());
        }
        usize::try_from(bytes).map(Self).map_err(|_| "too large".into())
    }
}

/// Size of 1 MiB to 1 TiB.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct MemorySize(pub(crate) u64);

impl SettingValue for MemorySize {
    fn parse(text: &str) -> Result<Self, String> {
        let bytes = parse_bytes(text)?;
        if !(1 << 20..=1 << 40).contains(&bytes) {
            return Err("must be between 1MiB and 1TiB".into());
        }
        Ok(Self(bytes))
    }
}

/// Size of a response cache.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum CacheSize {
    /// Depends on the store.
    Auto,
    Fixed(MemorySize),
}

impl CacheSize {
    /// Size in bytes; `auto` is larger for PostgreSQL, where a miss costs a query, than for the embedded store.
    pub(crate) fn bytes(self, store: &StoreSetting) -> usize {
        let bytes = match (self, store) {
            (Self::Fixed(MemorySize(bytes)), _) => bytes,
            (Self::Auto, StoreSetting::Postgres(_)) => 256 << 20,
            (Self::Auto, StoreSetting::Embedded(_) | StoreSetting::Memory) => 16 << 20,
        };
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }
}

impl SettingValue for CacheSize {
    fn parse(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        split_unit(text).ok_or("expected a size such as `64KiB` or `1MiB`, or `auto`")?;
        MemorySize::parse(text).map(Self::Fixed)
    }
}

fn parse_bytes(text: &str) -> Result<u64, String> {
    match split_unit(text) {
        Some((number, "B")) => Ok(number),
        Some((number, "KiB")) => Ok(number.saturating_mul(1 << 10)),
        Some((number, "MiB")) => Ok(number.saturating_mul(1 << 20)),
        Some((number, "GiB")) => Ok(number.saturating_mul(1 << 30)),
        Some((_, "")) => Err(format!("missing unit; write `{text}B`")),
        _ => Err("expected a size such as `64KiB` or `1MiB`".into()),
    }
}

impl SettingValue for Vec<IpNet> {
    const KIND: TomlKind = TomlKind::Array;

    fn parse(text: &str) -> Result<Self, String> {
        let networks = text.split(',').map(str::trim).filter(|network| !network.is_empty());
        let parse = |network: &str| {
            let address = || network.parse::<IpAddr>().map(IpNet::from).ok();
            network.parse().ok().or_else(address).ok_or_else(|| {
                format!("invalid network `{network}`; expected a network such as `10.0.0.0/8`")
            })
        };
        networks.map(parse).collect()
    }
}

impl SettingValue for ForwardedBy {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "x-forwarded" => Ok(Self::XForwarded),
            "forwarded" => Ok(Self::Forwarded),
            _ => Err("expected `x-forwarded` or `forwarded`".into()),
        }
    }
}

/// Log output format.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum LogFormat {
    /// Text on a terminal, else JSON.
    Auto,
    Text,
    Json,
}

impl SettingValue for LogFormat {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err("expected `auto`, `text` or `json`".into()),
        }
    }
}

impl SettingValue for Level {
    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| "expected `error`, `warn`, `info`, `debug` or `trace`".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_cache_size() {
        let stores =
            ["embedded:", "memory:", "postgres://a/b"].map(|text| StoreSetting::parse(text).unwrap());
        let bytes =
            |text: &str| stores.each_ref().map(|store| CacheSize::parse(text).unwrap().bytes(store) >> 20);
        assert_eq!(bytes("auto"), [16, 16, 256]);
        assert_eq!(bytes("2MiB"), [2, 2, 2]);
        assert_eq!(CacheSize::parse("0B"), Err("must be between 1MiB and 1TiB".into()));
        assert_eq!(
            CacheSize::parse("much"),
            Err("expected a size such as `64KiB` or `1MiB`, or `auto`".into())
        );
    }
}

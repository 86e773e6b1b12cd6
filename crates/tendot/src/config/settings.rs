//! All settings with their names, defaults, descriptions and types.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::value::{
    BufferSize, CacheSize, LogFormat, MemorySize, RetentionDays, SettingValue, StoreSetting, TomlKind,
    UpstreamSetting,
};
use super::{ConfigError, RawSetting, SettingOrigin, redact};
use ipnet::IpNet;
use tendot_client::CacheSettings;
use tendot_proto::ValueReference;
use tendot_registry::RegistrySettings;
use tendot_server::http::{ForwardedBy, HttpLimits, HttpRateLimits, ProxyTrust, Rate};
use tendot_server::{Maintenance, ResolutionCounter, native};
use tendot_store::PostgresSettings;
use tracing::Level;

/// Name, default, description and TOML kind of one setting.
#[derive(Debug)]
pub(crate) struct SettingSpec {
    pub(crate) name: &'static str,
    pub(crate) default: &'static str,
    pub(crate) description: &'static str,
    pub(crate) kind: TomlKind,
}

impl SettingSpec {
    /// Name of the environment variable: `TENDOT_` and the key in upper case.
    pub(crate) fn env_name(&self) -> String {
        format!("TENDOT_{}", self.name.replace('.', "_").to_ascii_uppercase())
    }
}

macro_rules! settings {
    ($($field:ident: $type:ty = $name:literal, $default:literal, $about:literal;)*) => {
        /// Parsed settings of `tendot serve`.
        #[derive(Clone, Debug)]
        pub(crate) struct ServerSettings {
            $(#[doc = $about] pub(crate) $field: $type,)*
            /// World-readable configuration file that contains a password.
            world_readable_secret_file: Option<PathBuf>,
        }

        /// All settings, in display order.
        pub(crate) const SETTINGS: &[SettingSpec] = &[
            $(SettingSpec { name: $name, default: $default, description: $about, kind: <$type as SettingValue>::KIND },)*
        ];

        impl ServerSettings {
            /// Parses all settings and appends errors to `problems`.
            pub(super) fn parse(settings: &[RawSetting], errors: &mut Vec<ConfigError>) -> Option<Self> {
                $(let $field = parse_setting::<$type>($name, settings, errors);)*
                Some(Self { $($field: $field?,)* world_readable_secret_file: world_readable_secret_file(settings) })
            }
        }
    };
}

settings! {
    data: PathBuf = "data", "tendot-data",
        "The directory of all that is kept: the embedded store, the operator's token, our key and the record of our site.";
    store: StoreSetting = "store", "embedded:",
        "Where records are kept: `embedded:DIR` (without DIR, in the directory of all data), `postgres://user:password@host/database` (several hosts with commas), or `memory:` for trying out.";
    upstream: UpstreamSetting = "upstream", "off",
        "Who is asked for names that are not kept here: `handle-system`, from its published root on or from that of a file (`handle-system:FILE`); a resolver such as `https://doi.org`; `off` if nobody.";
    postgres_connections: u32 = "postgres.connections", "16",
        "Connections for reading to each host of a `postgres:` store; one more writes, and one watches each host.";
    postgres_timeout: Duration = "postgres.patience", "10s",
        "How long is waited for a database: for a connection, and for one that comes back.";
    postgres_statement_timeout: Duration = "postgres.statement_time", "60s",
        "How long one statement may take there.";
    cache_size: MemorySize = "cache.size", "32MiB",
        "Memory for answers of the upstream.";
    cache_max_ttl: Duration = "cache.longest", "24h",
        "The longest that they are kept, whatever their values say.";
    cache_negative_ttl: Duration = "cache.nothing", "60s",
        "How long it is kept that there is no such name.";
    cache_stale_if_error: Duration = "cache.stale", "24h",
        "How long after its time an answer is still given when the upstream does not answer.";
    http_address: Option<SocketAddr> = "http.address", "127.0.0.1:8080",
        "Where HTTP is answered; `off` if nowhere.";
    trusted_proxies: Vec<IpNet> = "http.trusted_proxies", "",
        "Networks of proxies that tell the truth of their clients: address, TLS, request id.";
    forwarded_by: ForwardedBy = "http.forwarded_by", "x-forwarded",
        "How they tell it: `x-forwarded` (X-Forwarded-For, X-Forwarded-Proto), or `forwarded` (RFC 7239).";
    trust_loopback: bool = "http.trust_loopback", "true",
        "Whether passwords and tokens are taken from this machine without TLS.";
    metrics_allow: Vec<IpNet> = "http.metrics_for", "",
        "Networks that may see /metrics, beside this machine.";
    http_response_cache: CacheSize = "http.kept", "auto",
        "Memory for answers that are given again as long as their records are the same; `auto` is 16MiB, and 256MiB if they are in a database.";
    certificate: Option<PathBuf> = "http.tls.certificate", "",
        "The certificate, with those between it and the root, as PEM. It is read again when it changes.";
    key: Option<PathBuf> = "http.tls.key", "",
        "Its key, as PEM. Others than its owner and group may not read it.";
    connections: u32 = "http.limits.connections", "10000",
        "Connections at the same time; others wait.";
    connections_per_client: u32 = "http.limits.connections_per_client", "256",
        "Those of one IPv4 address or /64 of IPv6. This machine and trusted proxies have no limit.";
    headers: u32 = "http.limits.headers", "100",
        "Headers of a request.";
    header_bytes: BufferSize = "http.limits.header_bytes", "96KiB",
        "Size of a request's head.";
    header_timeout: Duration = "http.limits.header_time", "10s",
        "Time for a request's head, and for the handshake of TLS.";
    body_timeout: Duration = "http.limits.body_time", "10s",
        "Time for a request's body, beside a second for each KiB.";
    write_timeout: Duration = "http.limits.write_time", "30s",
        "Time for a client to read an answer, beside a second for each KiB.";
    idle_timeout: Duration = "http.limits.idle_time", "60s",
        "Time between two requests of a connection.";
    drain_timeout: Duration = "http.limits.closing_time", "8s",
        "Time for what is under way after SIGTERM.";
    https_address: Option<SocketAddr> = "https.address", "off",
        "Where HTTP is answered over TLS; `off` if nowhere. Needs `http.tls.certificate` and `http.tls.key`.";
    client_certificates: bool = "https.client_certificates", "false",
        "Whether clients are asked for a certificate, by which they may be known. Browsers then ask their user which to show.";
    native_address: Option<SocketAddr> = "native.address", "127.0.0.1:2641",
        "Where the native protocol of the Handle System is answered, over TCP and UDP; `off` if nowhere.";
    admins: Vec<ValueReference<'static>> = "native.admins", "",
        "Who may home and unhome prefixes and list them, such as `300:0.NA/10.1000`. Their keys have to be in records of ours.";
    admins_full_access: bool = "native.admins_full_access", "false",
        "Whether these may do everything else, too, whatever the records say.";
    public_address: Option<IpAddr> = "native.public_address", "",
        "The address that others reach us at, for the record of our site; without a word, that of `native.address`.";
    description: String = "native.description", "",
        "What our site says of itself.";
    site_file: Option<PathBuf> = "native.site", "",
        "The record of a site of several servers, as `tendot site join` makes it; our key says which of them we are. Without a word, we are a site of our own.";
    allow_dh_1024: bool = "native.small_group", "true",
        "Whether sessions are made in the group of 1024 bits, the only one that clients of Handle.Net 9 know.";
    native_response_cache: CacheSize = "native.kept", "auto",
        "Memory for answers that are given again as long as their records are the same; `auto` is 16MiB, and 256MiB if they are in a database.";
    native_connections: u32 = "native.limits.connections", "10000",
        "Connections at the same time; those that ask nothing go when others have no room.";
    native_connections_per_client: u32 = "native.limits.connections_per_client", "100",
        "Those of one IPv4 address or /64 of IPv6. This machine has no limit.";
    message_timeout: Duration = "native.limits.message_time", "10s",
        "Time for a message, beside a second for each KiB.";
    native_idle_timeout: Duration = "native.limits.idle_time", "60s",
        "Time between two messages of a connection.";
    native_write_timeout: Duration = "native.limits.write_time", "30s",
        "Time for a client to read an answer, beside a second for each KiB.";
    native_rate_limit_enabled: bool = "native.rate.enabled", "true",
        "Whether those are held back who ask for more than their share.";
    native_rate_limit_loopback: bool = "native.rate.loopback", "false",
        "Whether this machine is, too.";
    native_rate_limit_exempt: Vec<IpNet> = "native.rate.spared", "",
        "Networks that are not, such as those of large resolvers.";
    datagram_rate: u32 = "native.rate.per_second", "200",
        "Datagrams a second to one address; above that, only answers of up to three times the question. Networks have more.";
    datagram_burst: u32 = "native.rate.burst", "1000",
        "Datagrams to it at once, after a rest.";
    native_cpu_per_second: Duration = "native.rate.work", "250ms",
        "Time of one core, each second, for signatures, proofs and keys of one address.";
    rate_limit_enabled: bool = "rate.enabled", "true",
        "Whether clients that ask too often are answered 429.";
    rate_limit_loopback: bool = "rate.loopback", "false",
        "Whether this machine is, too.";
    client_rate: u32 = "rate.client.per_second", "200",
        "Requests a second of one IPv4 address or /64 of IPv6.";
    client_burst: u32 = "rate.client.burst", "2000",
        "Requests of it at once, after a rest.";
    network_rate: u32 = "rate.network.per_second", "1000",
        "Requests a second of one /24 of IPv4 or /48 of IPv6.";
    network_burst: u32 = "rate.network.burst", "10000",
        "Requests of it at once, after a rest.";
    reverse_lookup_allow: Vec<ValueReference<'static>> = "search.allowed", "",
        "Who may look names up by what their records say (`/hrls/handles`), such as `300:0.NA/10.1000`, beside `native.admins`. Their keys have to be in records of ours.";
    reverse_lookup_timeout: Duration = "search.time", "10s",
        "The longest that a look-up takes, and the longest that it waits for others.";
    reports_interval: Duration = "reports.interval", "60s",
        "How often it is written down which names of registrants were resolved, for their reports.";
    reports_retention: RetentionDays = "reports.retention", "90",
        "Days for which it is kept which of their names were asked for and not found; 0 if that is not counted. Nothing is kept of who asked.";
    log_format: LogFormat = "log.format", "auto",
        "How lines of the log are written to stderr: `text`, `json`, or `auto`, which is text on a terminal and else JSON.";
    log_level: Level = "log.level", "info",
        "What is worth a line: `error`, `warn`, `info`, `debug` or `trace`.";
    log_requests: bool = "log.requests", "false",
        "Whether each request leaves a line, at level `info`. Failures of our own do in any case.";
}

fn parse_setting<T: SettingValue>(
    name: &str,
    settings: &[RawSetting],
    errors: &mut Vec<ConfigError>,
) -> Option<T> {
    let setting = settings.iter().find(|setting| setting.key.name == name)?;
    T::parse(&setting.text)
        .inspect_err(|why| {
            let message = format!("`{name}` is `{}`: {why}", setting.redacted().escape_debug());
            errors.push(ConfigError::new(setting.origin.clone(), message));
        })
        .ok()
}

fn world_readable_secret_file(settings: &[RawSetting]) -> Option<PathBuf> {
    let secrets = settings.iter().filter(|setting| redact::has_password(&setting.text));
    let mut files = secrets.filter_map(|setting| match &setting.origin {
        SettingOrigin::File { path, .. } => Some(path),
        _ => None,
    });
    files.find(|path| redact::is_world_readable(path)).cloned()
}

impl ServerSettings {
    /// Checks for contradictions between settings.
    pub(super) fn validate(&self, settings: &[RawSetting], errors: &mut Vec<ConfigError>) {
        let is_encrypted = self.https_address.is_some();
        if is_encrypted && (self.certificate.is_none() || self.key.is_none()) {
            let message = "`https.address` needs `http.tls.certificate` and `http.tls.key`";
            errors.push(ConfigError::new(SettingOrigin::Default, message));
        }
        for setting in settings
            .iter()
            .filter(|setting| setting.key.name.starts_with("cache.") && setting.text != setting.key.default)
        {
            if self.upstream.0.is_none() {
                let message = format!("`{}` does nothing without `upstream`", setting.key.name);
                errors.push(ConfigError::new(setting.origin.clone(), message));
            }
        }
        for setting in settings.iter().filter(|setting| {
            let is_about_tls =
                setting.key.name.starts_with("http.tls.") || setting.key.name == "https.client_certificates";
            is_about_tls && setting.text != setting.key.default
        }) {
            if !is_encrypted {
                let message = format!("`{}` does nothing without `https.address`", setting.key.name);
                errors.push(ConfigError::new(setting.origin.clone(), message));
            }
        }
    }

    /// Warnings about valid settings that are often mistakes.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.trusted_proxies.iter().any(|network| network.prefix_len() == 0) {
            warnings.push(
                "`http.trusted_proxies` has everybody: any client can say that it is another".to_owned(),
            );
        }
        if self.metrics_allow.iter().any(|network| network.prefix_len() == 0) {
            warnings.push("`http.metrics_for` has everybody".to_owned());
        }
        if self.http_address.is_some_and(|address| !address.ip().is_loopback())
            && self.https_address.is_none()
            && self.trusted_proxies.is_empty()
        {
            let warning = "`http.address` is open to other machines without TLS: passwords and tokens are not taken from \
                           them; set `https.address`, or `http.trusted_proxies` if a proxy is in front";
            warnings.push(warning.to_owned());
        }
        if self.native_address.is_some_and(|address| address.ip().is_unspecified())
            && self.public_address.is_none()
        {
            let warning = "`native.address` is every address of this machine, which nobody else can ask at: set \
                           `native.public_address`";
            warnings.push(warning.to_owned());
        }
        if let Some(path) = &self.world_readable_secret_file {
            let path = path.display();
            warnings
                .push(format!("`{path}` has a password and can be read by everybody: `chmod o-r {path}`"));
        }
        if self.drain_timeout > Duration::from_secs(9) {
            warnings.push(
                "with more than 9s of `http.limits.closing_time` the end may take more than 10s".to_owned(),
            );
        }
        warnings
    }

    /// Data directory: embedded store, operator token, keys and site record; none for a store in memory.
    pub(crate) fn data_dir(&self) -> Option<PathBuf> {
        match &self.store {
            StoreSetting::Embedded(Some(directory)) => Some(directory.clone()),
            StoreSetting::Embedded(None) | StoreSetting::Postgres(_) => Some(self.data.clone()),
            StoreSetting::Memory => None,
        }
    }

    pub(crate) fn postgres(&self) -> PostgresSettings {
        PostgresSettings {
            max_connections: self.postgres_connections as usize,
            wait_timeout: self.postgres_timeout,
            statement_timeout: self.postgres_statement_timeout,
            ..PostgresSettings::default()
        }
    }

    pub(crate) fn cache(&self) -> CacheSettings {
        CacheSettings {
            max_bytes: self.cache_size.0,
            max_ttl: self.cache_max_ttl,
            negative_ttl: self.cache_negative_ttl,
            stale_if_error: self.cache_stale_if_error,
            ..CacheSettings::default()
        }
    }

    pub(crate) fn limits(&self) -> HttpLimits {
        HttpLimits {
            max_connections: self.connections as usize,
            max_connections_per_client: self.connections_per_client as usize,
            header_timeout: self.header_timeout,
            idle_timeout: self.idle_timeout,
            write_timeout: self.write_timeout,
            drain_timeout: self.drain_timeout,
            max_headers: self.headers as usize,
            max_header_bytes: self.header_bytes.0,
        }
    }

    pub(crate) fn proxy_trust(&self) -> ProxyTrust {
        ProxyTrust {
            trusted_proxies: self.trusted_proxies.clone(),
            forwarded_by: self.forwarded_by,
            allow_plain_loopback: self.trust_loopback,
        }
    }

    pub(crate) fn rate_limits(&self) -> Option<HttpRateLimits> {
        self.rate_limit_enabled.then_some(HttpRateLimits {
            per_client: Rate { per_second: self.client_rate, burst: self.client_burst },
            per_network: Rate { per_second: self.network_rate, burst: self.network_burst },
            limit_loopback: self.rate_limit_loopback,
        })
    }

    pub(crate) fn native_limits(&self) -> native::NativeLimits {
        native::NativeLimits {
            max_connections: self.native_connections as usize,
            max_connections_per_client: self.native_connections_per_client as usize,
            message_timeout: self.message_timeout,
            idle_timeout: self.native_idle_timeout,
            write_timeout: self.native_write_timeout,
            drain_timeout: self.drain_timeout,
        }
    }

    pub(crate) fn native_rate_limits(&self) -> Option<native::NativeRateLimits> {
        self.native_rate_limit_enabled.then(|| native::NativeRateLimits {
            datagrams: Rate { per_second: self.datagram_rate, burst: self.datagram_burst },
            cpu_per_second: self.native_cpu_per_second,
            limit_loopback: self.native_rate_limit_loopback,
            exempt: self.native_rate_limit_exempt.clone(),
        })
    }

    /// Resolution counter and maintenance task.
    pub(crate) fn maintenance(&self) -> (ResolutionCounter, Maintenance) {
        let retention = self.reports_retention.0;
        (
            ResolutionCounter::new(retention > 0),
            Maintenance {
                flush_interval: self.reports_interval,
                retention_days: retention,
                ..Maintenance::default()
            },
        )
    }

    pub(crate) fn registry(&self) -> RegistrySettings {
        RegistrySettings {
            server_admins: self.admins.clone(),
            server_admins_full_access: self.admins_full_access,
            reverse_lookup_users: self.reverse_lookup_allow.clone(),
            ..RegistrySettings::default()
        }
    }
}

//! All settings with their names, defaults, descriptions and types.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::value::{
    BufferSize, CacheSize, DirectoryCodes, KeyReference, LogFormat, LoopbackTrust, MemorySize, NameLength,
    PrefixList, RetentionDays, ScrubInterval, ServiceUrl, SettingValue, StoreSetting, TomlKind,
    UpstreamSetting, ValidityDays,
};
use super::{ConfigError, RawSetting, SettingOrigin, redact};
use ipnet::IpNet;
use tendot_client::native::{NativeClient, RootSites};
use tendot_client::{CacheSettings, HeaderName};
use tendot_proto::ValueReference;
use tendot_proto::crypto::AwsLcProvider;
use tendot_proto::lookup::LookupConfig;
use tendot_proto::trust::{RecordSigner, TrustAnchors};
use tendot_registry::{RecordLimits, RegistrySettings, SigningSettings};
use tendot_server::http::{ForwardedBy, HttpLimits, HttpRateLimits, ProxyTrust, Rate, UpstreamClient};
use tendot_server::{Maintenance, ResolutionCounter, native};
use tendot_store::PostgresSettings;
use tracing::Level;

use crate::CliError;
use crate::key::{read_server_private_key_file, read_small_file, read_trust_anchors};

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
    ($($field:ident: $type:ty = $name:literal, $default:literal, $description:literal;)*) => {
        /// Parsed settings of the server, also for commands that use its store.
        #[derive(Clone, Debug)]
        pub(crate) struct ServerSettings {
            $(#[doc = $description] pub(crate) $field: $type,)*
            /// World-readable configuration file that contains a password.
            world_readable_secret_file: Option<PathBuf>,
        }

        /// All settings, in display order.
        pub(crate) const SETTINGS: &[SettingSpec] = &[
            $(SettingSpec { name: $name, default: $default, description: $description, kind: <$type as SettingValue>::KIND },)*
        ];

        impl ServerSettings {
            /// Parses all settings and appends errors to `errors`.
            pub(super) fn parse(settings: &[RawSetting], errors: &mut Vec<ConfigError>) -> Option<Self> {
                $(let $field = parse_setting::<$type>($name, settings, errors);)*
                Some(Self { $($field: $field?,)* world_readable_secret_file: world_readable_secret_file(settings) })
            }
        }
    };
}

settings! {
    data: PathBuf = "data", "tendot-data",
        "Data directory: embedded store, operator token, server key, site record, and `postgres.timeline`, the highest PostgreSQL timeline seen.";
    store: StoreSetting = "store", "embedded:",
        "Store: `embedded:DIR` (without DIR, in the data directory), `postgres://user:password@host/database` (several hosts separated by commas), or `memory:` for tests.";
    upstream: UpstreamSetting = "upstream", "off",
        "Upstream resolver for prefixes that are not homed here: `handle-system` (built-in root), `handle-system:FILE` (root from a file), a resolver URL such as `https://doi.org`, or `off`.";
    upstream_private_addresses: bool = "upstream_private_addresses", "false",
        "Follow referrals of a `handle-system` upstream to private addresses, too. The servers in the root file are always queried.";
    upstream_ca_file: Option<PathBuf> = "upstream_ca_file", "",
        "Certificates (PEM) that an `https://` upstream is verified with, instead of the public CAs.";
    postgres_pool_size: u32 = "postgres.pool_size", "16",
        "Read connections per PostgreSQL host. One more connection writes, and one monitors each host.";
    postgres_timeout: Duration = "postgres.timeout", "10s",
        "How long to wait for a connection, and for an unreachable database.";
    postgres_statement_timeout: Duration = "postgres.statement_timeout", "60s",
        "Maximum duration of one statement.";
    cache_size: MemorySize = "cache.size", "32MiB",
        "Memory for the upstream cache.";
    cache_max_ttl: Duration = "cache.max_ttl", "24h",
        "Maximum time that an upstream response is cached, regardless of its TTL.";
    cache_negative_ttl: Duration = "cache.negative_ttl", "60s",
        "How long \"not found\" is cached.";
    cache_stale_if_error: Duration = "cache.stale_if_error", "24h",
        "How long after expiry a response may be served when the upstream fails (RFC 5861).";
    http_address: Option<SocketAddr> = "http.address", "127.0.0.1:8080",
        "HTTP listen address, or `off`.";
    trusted_proxies: Vec<IpNet> = "http.trusted_proxies", "",
        "Networks of proxies whose forwarded headers (client address, scheme, request id) are trusted.";
    forwarded_headers: ForwardedBy = "http.forwarded_headers", "x-forwarded",
        "Headers that trusted proxies send: `x-forwarded` (X-Forwarded-For, X-Forwarded-Proto) or `forwarded` (RFC 7239).";
    trust_loopback: LoopbackTrust = "http.trust_loopback", "auto",
        "Trust clients on loopback: accept their credentials over plain HTTP, let them read /metrics, and exempt them from rate limits. `auto` is `true`, or `false` if `http.trusted_proxies`, `https.address` or `http.public_url` is set.";
    country_database: Option<PathBuf> = "http.country_database", "",
        "MaxMind DB file with the countries of client addresses, for `country` locations; reloaded when it changes.";
    country_header: Option<HeaderName> = "http.country_header", "",
        "Header in which trusted proxies send the country of the client (ISO 3166-1 alpha-2), such as `CF-IPCountry`.";
    public_url: ServiceUrl = "http.public_url", "",
        "URL of this service, such as `https://id.example.org`, if its names resolve there and not at doi.org: pages show it as the URL of a name.";
    resolver_url: ServiceUrl = "http.resolver_url", "",
        "Resolver of names of other services that pages link. Empty: `https://doi.org` for DOIs, `https://hdl.handle.net` for other handles.";
    operator_name: String = "http.operator_name", "Tendot",
        "Name in the header, title and footer of pages.";
    operator_logo: Option<PathBuf> = "http.operator_logo", "",
        "Logo in the header and icon of pages: an SVG or PNG file.";
    location_parameters: Vec<String> = "http.location_parameters", "",
        "Query parameters that prefer a location attribute of the same name, as `locatt=NAME:VALUE` does.";
    metrics_allow: Vec<IpNet> = "http.metrics_allow", "",
        "Networks that may read /metrics, besides trusted loopback.";
    security_txt: Option<PathBuf> = "http.security_txt", "",
        "File that is served at `/.well-known/security.txt` (RFC 9116): how to report vulnerabilities. Reloaded on SIGHUP.";
    hsts_days: RetentionDays = "http.hsts_days", "0",
        "Days for which browsers use only HTTPS for this host, on all its ports (`Strict-Transport-Security`); 0 disables it. Sent over TLS, also through trusted proxies. Browsers remember it.";
    http_response_cache: CacheSize = "http.response_cache_size", "auto",
        "Memory for the HTTP response cache; `auto` is 16MiB, or 256MiB with PostgreSQL.";
    max_connections: u32 = "http.limits.max_connections", "10000",
        "Maximum number of connections; further ones wait, and idle ones are closed.";
    max_connections_per_client: u32 = "http.limits.max_connections_per_client", "256",
        "Maximum number of connections per IPv4 address or IPv6 /64; loopback and trusted proxies have no limit.";
    max_headers: u32 = "http.limits.max_headers", "100",
        "Maximum number of request headers.";
    max_header_bytes: BufferSize = "http.limits.max_header_bytes", "96KiB",
        "Maximum size of the request head.";
    header_timeout: Duration = "http.limits.header_timeout", "10s",
        "Timeout for the request head, and for the TLS handshake.";
    body_timeout: Duration = "http.limits.body_timeout", "10s",
        "Timeout for the first byte of a request body, and window over which at least 4 KiB per second must arrive.";
    write_timeout: Duration = "http.limits.write_timeout", "30s",
        "Timeout for the client to read a response, plus one second per KiB.";
    idle_timeout: Duration = "http.limits.idle_timeout", "60s",
        "Keep-alive timeout between requests.";
    drain_timeout: Duration = "http.limits.drain_timeout", "8s",
        "Time for in-flight requests after SIGTERM, also for the native protocol.";
    rate_limit_enabled: bool = "http.rate_limit.enabled", "true",
        "Enable rate limits for HTTP (status 429).";
    rate_limit_loopback: bool = "http.rate_limit.loopback", "false",
        "Apply the rate limits to loopback, too.";
    client_rate: u32 = "http.rate_limit.client.requests_per_second", "200",
        "Sustained requests per second of one IPv4 address or IPv6 /64.";
    client_burst: u32 = "http.rate_limit.client.burst", "2000",
        "Burst of requests of one IPv4 address or IPv6 /64.";
    network_rate: u32 = "http.rate_limit.network.requests_per_second", "1000",
        "Sustained requests per second of one IPv4 /24 or IPv6 /48.";
    network_burst: u32 = "http.rate_limit.network.burst", "10000",
        "Burst of requests of one IPv4 /24 or IPv6 /48.";
    https_address: Option<SocketAddr> = "https.address", "off",
        "HTTPS listen address, or `off`; requires `https.certificate` and `https.key`.";
    certificate: Option<PathBuf> = "https.certificate", "",
        "Certificate chain file (PEM); reloaded when it changes.";
    key: Option<PathBuf> = "https.key", "",
        "Private key file (PEM); must not be world-readable.";
    client_certificates: bool = "https.client_certificates", "false",
        "Request client certificates for authentication; browsers prompt their user.";
    native_address: Option<SocketAddr> = "native.address", "127.0.0.1:2641",
        "Listen address of the native protocol (TCP and UDP), or `off`.";
    admins: Vec<ValueReference<'static>> = "native.admins", "",
        "Server administrators, such as `300:0.NA/10.1000`: may home, unhome and list prefixes. Their keys must be in handles of this server.";
    admins_full_access: bool = "native.admins_full_access", "false",
        "Give server administrators all permissions on all handles.";
    public_address: Option<IpAddr> = "native.public_address", "",
        "Public IP address for the site record; without it, that of `native.address`.";
    description: String = "native.description", "",
        "Description in the site record.";
    service_handle: String = "native.service_handle", "0.SERV/TENDOT",
        "Handle with the site record; the records of prefixes that the registry allocates refer to it. Resolvers that begin at another root than this server need a name under a prefix that they can locate. Empty: prefix records name no site.";
    site_file: Option<PathBuf> = "native.site_file", "",
        "Site record of a site with several servers, written by `tendot site combine`; the server key identifies this server in it.";
    allow_dh_1024: bool = "native.allow_dh_1024", "true",
        "Allow the 1024-bit Diffie-Hellman group, the only one that Handle.Net 9 clients support.";
    allow_sha1: bool = "native.allow_sha1", "false",
        "Accept SHA-1 proofs of secret keys in `VERIFY_CHALLENGE` (opcode 201), which Handle.Net's library and administration tool send at login. The log says when a client needs it.";
    native_response_cache: CacheSize = "native.response_cache_size", "auto",
        "Memory for the native response cache; `auto` is 16MiB, or 256MiB with PostgreSQL.";
    session_max_age: Duration = "native.session.max_age", "24h",
        "Maximum duration of a session.";
    session_idle_timeout: Duration = "native.session.idle_timeout", "1h",
        "Time after which a session without requests ends.";
    native_max_connections: u32 = "native.limits.max_connections", "10000",
        "Maximum number of connections; at the limit, idle ones are closed first.";
    native_max_connections_per_client: u32 = "native.limits.max_connections_per_client", "100",
        "Maximum number of connections per IPv4 address or IPv6 /64; loopback has no limit.";
    message_timeout: Duration = "native.limits.message_timeout", "10s",
        "Timeout for receiving a message, plus one second per KiB.";
    native_idle_timeout: Duration = "native.limits.idle_timeout", "60s",
        "Timeout between messages of a connection.";
    native_write_timeout: Duration = "native.limits.write_timeout", "30s",
        "Timeout for the client to read a response, plus one second per KiB.";
    unverified_udp_bytes: u32 = "native.limits.unverified_udp_bytes", "16000",
        "Maximum bytes of UDP responses in 10 seconds to clients of one network (IPv4 /24, IPv6 /56) that have not connected over TCP, or three times the bytes received if that is more. A single response has at most 1600. Beyond the limit, clients get an error and retry over TCP. Applies even if rate limits are disabled, and to exempt networks.";
    native_rate_limit_enabled: bool = "native.rate_limit.enabled", "true",
        "Enable rate limits for the native protocol.";
    native_rate_limit_loopback: bool = "native.rate_limit.loopback", "false",
        "Apply the rate limits and `native.limits.unverified_udp_bytes` to loopback, too.";
    native_rate_limit_exempt: Vec<IpNet> = "native.rate_limit.exempt", "",
        "Networks without a limit, such as those of large resolvers.";
    datagram_rate: u32 = "native.rate_limit.datagrams_per_second", "200",
        "Sustained UDP responses per second to one address; above it, only responses up to three times the size of the request. Networks have higher limits.";
    datagram_burst: u32 = "native.rate_limit.datagram_burst", "1000",
        "Burst of UDP responses to one address.";
    native_cpu_per_second: Duration = "native.rate_limit.cpu_per_second", "250ms",
        "CPU time per second for signatures, authentication and key exchange of one address.";
    directory_codes: DirectoryCodes = "registry.directory_codes", "10",
        "Directory codes of the prefixes that the registry may allocate, such as `10` or `20.500`; only the operator allocates prefixes with others than `10`.";
    max_name_bytes: NameLength = "registry.max_name_bytes", "2048",
        "Maximum length of a name in bytes, up to 4096. Names of more than 2048 bytes do not resolve over the native protocol.";
    transfer_proposal_days: ValidityDays = "registry.transfer_proposal_days", "30",
        "Number of days for which a proposed transfer can be accepted.";
    reverse_lookup_allow: Vec<ValueReference<'static>> = "reverse_lookup.allow", "",
        "Handle identities that may use reverse lookup (`/hrls/handles`), such as `300:0.NA/10.1000`, besides `native.admins`. Their keys must be in handles of this server.";
    reverse_lookup_timeout: Duration = "reverse_lookup.timeout", "10s",
        "Maximum duration of a reverse lookup, and of waiting for another one.";
    signing_prefixes: PrefixList = "signing.prefixes", "",
        "Prefixes whose records are signed on every write (`HS_SIGNATURE`), such as `10.1000`.";
    signing_key: Option<PathBuf> = "signing.key", "",
        "Private key file of the signer (PEM, JWK or Handle.Net's format); must not be readable by other users.";
    signing_signer: KeyReference = "signing.signer", "",
        "Index and handle of the signer's key, such as `300:0.NA/10.1000`; its record has the certificate (`HS_CERT`).";
    signing_validity: ValidityDays = "signing.validity_days", "730",
        "Days for which a signature is valid.";
    trust_anchor: Option<PathBuf> = "trust.anchor", "",
        "Trust anchor of signed records: a public key file, or a record or `bootstrap_handles` as JSON. Without it, the root of the Handle System.";
    trust_upstream_signed: bool = "trust.require_signed_upstream", "false",
        "Accept only signed records from the upstream resolver: values, certificates, dates and scope are verified up to the trust anchor.";
    reports_flush_interval: Duration = "reports.flush_interval", "60s",
        "How often resolution statistics are written to the store.";
    reports_failure_retention: RetentionDays = "reports.failure_retention_days", "90",
        "Days for which statistics of failed resolutions are stored; 0 disables them. No client data is stored.";
    scrub_interval: ScrubInterval = "scrub.interval", "24h",
        "Interval between scrubs: a background thread reads the whole embedded store at a low rate and reports corruption; 0 disables it.";
    log_format: LogFormat = "log.format", "auto",
        "Log format on stderr: `text`, `json`, or `auto` (text on a terminal, otherwise JSON).";
    log_level: Level = "log.level", "info",
        "Log level: `error`, `warn`, `info`, `debug` or `trace`.";
    log_requests: bool = "log.requests", "false",
        "Log every request (access log) at level `info`. Server errors are always logged.";
}

fn parse_setting<T: SettingValue>(
    name: &str,
    settings: &[RawSetting],
    errors: &mut Vec<ConfigError>,
) -> Option<T> {
    let setting = settings.iter().find(|setting| setting.key.name == name)?;
    T::parse(&setting.text)
        .inspect_err(|why| {
            let value = setting.redacted();
            errors.push(ConfigError::invalid_value(name, &value, why, setting.origin.clone()));
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
            let message = "`https.address` requires `https.certificate` and `https.key`";
            errors.push(ConfigError::new(SettingOrigin::Default, message));
        }
        for setting in settings
            .iter()
            .filter(|setting| setting.key.name.starts_with("cache.") && setting.text != setting.key.default)
        {
            if self.upstream.0.is_none() {
                let message = format!("`{}` has no effect unless `upstream` is set", setting.key.name);
                errors.push(ConfigError::new(setting.origin.clone(), message));
            }
        }
        let signing = [
            (self.signing_key.is_some(), "signing.key"),
            (self.signing_signer.0.is_some(), "signing.signer"),
            (!self.signing_prefixes.0.is_empty(), "signing.prefixes"),
        ];
        if signing.iter().any(|(is_set, _)| *is_set) {
            for (_, name) in signing.iter().filter(|(is_set, _)| !is_set) {
                let message = format!(
                    "missing `{name}`: signing on write needs `signing.prefixes`, `signing.key` and `signing.signer`"
                );
                errors.push(ConfigError::new(SettingOrigin::Default, message));
            }
        }
        if self.trust_upstream_signed && self.upstream.0.is_none() {
            let message = "`trust.require_signed_upstream` has no effect unless `upstream` is set";
            errors.push(ConfigError::new(SettingOrigin::Default, message));
        }
        if self.upstream_ca_file.is_some() && !matches!(self.upstream.0, Some(UpstreamClient::Http(_))) {
            let setting = settings.iter().find(|setting| setting.key.name == "upstream_ca_file");
            let message = "`upstream_ca_file` has no effect unless `upstream` is an `https://` URL";
            let origin = setting.map_or(SettingOrigin::Default, |setting| setting.origin.clone());
            errors.push(ConfigError::new(origin, message));
        }
        if self.upstream_private_addresses && !matches!(self.upstream.0, Some(UpstreamClient::Native(_))) {
            let message = "`upstream_private_addresses` has no effect unless `upstream` is `handle-system`";
            errors.push(ConfigError::new(SettingOrigin::Default, message));
        }
        for setting in settings.iter().filter(|setting| {
            let is_about_tls = setting.key.name.starts_with("https.") && setting.key.name != "https.address";
            is_about_tls && setting.text != setting.key.default
        }) {
            if !is_encrypted {
                let message = format!("`{}` has no effect unless `https.address` is set", setting.key.name);
                errors.push(ConfigError::new(setting.origin.clone(), message));
            }
        }
    }

    /// Upstream resolver, which trusts the certificates of `upstream_ca_file`.
    pub(crate) fn upstream_client(&self) -> Result<Option<UpstreamClient>, CliError> {
        match (&self.upstream.0, &self.upstream_ca_file) {
            (Some(UpstreamClient::Http(upstream)), Some(file)) => {
                let certificates = read_small_file(file)?;
                let upstream = upstream.as_ref().clone().with_ca_certificates(&certificates);
                let upstream =
                    upstream.map_err(|error| CliError::new(format!("`{}`: {error}", file.display())))?;
                Ok(Some(UpstreamClient::Http(Box::new(upstream))))
            }
            (Some(UpstreamClient::Native(client)), _) => {
                let allow_private_addresses = self.upstream_private_addresses;
                let config = LookupConfig { allow_private_addresses, ..client.config().clone() };
                Ok(Some(UpstreamClient::Native(NativeClient::new(config))))
            }
            (upstream, _) => Ok(upstream.clone()),
        }
    }

    /// Warnings about valid settings that are often mistakes.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.trusted_proxies.iter().any(|network| network.prefix_len() == 0) {
            warnings.push(
                "`http.trusted_proxies` includes all addresses: any client can forge its address".to_owned(),
            );
        }
        if self.country_header.is_some() && self.trusted_proxies.is_empty() {
            warnings.push(
                "`http.country_header` has no effect: only headers of `http.trusted_proxies` are used"
                    .to_owned(),
            );
        }
        if self.metrics_allow.iter().any(|network| network.prefix_len() == 0) {
            warnings.push("`http.metrics_allow` includes all addresses: /metrics is public".to_owned());
        }
        if self.http_address.is_some_and(|address| !address.ip().is_loopback())
            && self.https_address.is_none()
            && self.trusted_proxies.is_empty()
        {
            let warning = "plain HTTP on a non-loopback address: credentials from other hosts are rejected; set `https.address`, or \
                           `http.trusted_proxies` if a proxy terminates TLS";
            warnings.push(warning.to_owned());
        }
        if self.native_address.is_some_and(|address| address.ip().is_unspecified())
            && self.public_address.is_none()
        {
            let warning = "`native.address` is a wildcard address, which cannot be published in the site record; set \
                           `native.public_address`";
            warnings.push(warning.to_owned());
        }
        if let Some(path) = &self.world_readable_secret_file {
            let path = path.display();
            warnings
                .push(format!("`{path}` contains a password and is world-readable; run `chmod o-r {path}`"));
        }
        if self.drain_timeout > Duration::from_secs(9) {
            warnings.push(
                "with `http.limits.drain_timeout` above 9s, shutdown may take longer than 10s".to_owned(),
            );
        }
        warnings
    }

    /// Data directory: embedded store, operator token, keys and site record; none for the memory store.
    pub(crate) fn data_dir(&self) -> Option<PathBuf> {
        match &self.store {
            StoreSetting::Embedded(Some(directory)) => Some(directory.clone()),
            StoreSetting::Embedded(None) | StoreSetting::Postgres(_) => Some(self.data.clone()),
            StoreSetting::Memory => None,
        }
    }

    pub(crate) fn postgres(&self) -> PostgresSettings {
        PostgresSettings {
            max_connections: self.postgres_pool_size as usize,
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
            max_connections: self.max_connections as usize,
            max_connections_per_client: self.max_connections_per_client as usize,
            header_timeout: self.header_timeout,
            idle_timeout: self.idle_timeout,
            write_timeout: self.write_timeout,
            drain_timeout: self.drain_timeout,
            max_headers: self.max_headers as usize,
            max_header_bytes: self.max_header_bytes.0,
        }
    }

    pub(crate) fn proxy_trust(&self) -> ProxyTrust {
        ProxyTrust {
            trusted_proxies: self.trusted_proxies.clone(),
            forwarded_by: self.forwarded_headers,
            trust_loopback: self.trust_loopback.is_trusted(
                !self.trusted_proxies.is_empty()
                    || self.https_address.is_some()
                    || self.public_url.0.is_some(),
            ),
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
            max_connections: self.native_max_connections as usize,
            max_connections_per_client: self.native_max_connections_per_client as usize,
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

    pub(crate) fn amplification_limits(&self) -> native::AmplificationLimits {
        native::AmplificationLimits {
            unverified_bytes: self.unverified_udp_bytes.into(),
            limit_loopback: self.native_rate_limit_loopback,
        }
    }

    /// Resolution counter and maintenance task.
    pub(crate) fn maintenance(&self) -> (ResolutionCounter, Maintenance) {
        let retention = self.reports_failure_retention.0;
        (
            ResolutionCounter::new(retention > 0),
            Maintenance {
                flush_interval: self.reports_flush_interval,
                retention_days: retention,
                ..Maintenance::default()
            },
        )
    }

    /// Signing of records on write, if it is configured.
    pub(crate) fn signing(&self) -> Result<Option<SigningSettings>, CliError> {
        let (Some(file), Some(signer)) = (&self.signing_key, &self.signing_signer.0) else { return Ok(None) };
        let unusable = |error| CliError::new(format!("cannot sign with `{}`: {error}", file.display()));
        let key = read_server_private_key_file(file)?.signing_key(&AwsLcProvider).map_err(unusable)?;
        let validity = u64::from(self.signing_validity.0) * 86_400;
        Ok(Some(SigningSettings {
            signer: Arc::new(RecordSigner::new(signer.clone(), key.into(), validity)),
            prefixes: self.signing_prefixes.0.clone(),
        }))
    }

    /// Trust anchors of signed records.
    pub(crate) fn trust_anchors(&self) -> Result<TrustAnchors, CliError> {
        match &self.trust_anchor {
            Some(file) => read_trust_anchors(file),
            None => Ok(RootSites::global_trust_anchors()),
        }
    }

    pub(crate) fn registry(&self) -> RegistrySettings {
        RegistrySettings {
            server_admins: self.admins.clone(),
            server_admins_full_access: self.admins_full_access,
            reverse_lookup_users: self.reverse_lookup_allow.clone(),
            directory_codes: self.directory_codes.0.clone(),
            limits: RecordLimits { max_name_bytes: self.max_name_bytes.0, ..RecordLimits::default() },
            transfer_proposal_ttl_ms: u64::from(self.transfer_proposal_days.0) * 24 * 60 * 60 * 1_000,
            ..RegistrySettings::default()
        }
    }
}

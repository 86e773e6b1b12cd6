//! Parses connection strings.

use std::collections::HashSet;
use std::net::Ipv6Addr;
use std::time::Duration;

use tokio_postgres::{Config, config as driver};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::pool::tls_config;
use crate::postgres::error::message;
use crate::postgres::{PostgresOpenError, PostgresSettings};

/// Maximum number of hosts.
const MAX_HOSTS: usize = 16;

/// Parsed connection string: hosts, TLS and read routing.
pub(crate) struct ConnectionString {
    /// Hosts in order.
    pub(crate) hosts: Vec<HostConfig>,
    pub(crate) tls: MakeRustlsConnect,
    /// Display name without password.
    pub(crate) place: String,
    /// Whether standbys serve reads.
    pub(crate) use_standbys: bool,
}

/// Connection settings of one host.
pub(crate) struct HostConfig {
    pub(crate) config: Config,
    /// Display name.
    pub(crate) place: String,
}

impl ConnectionString {
    /// Parses `postgres://user:password@host:port/database?options`, or the key-value form.
    ///
    /// Besides the driver's options: `sslrootcert`, a CA file; and `sslmode=verify-ca` and `verify-full`, which equal `require`:
    /// certificate and host name are always verified.
    ///
    /// Several hosts form one cluster. `target_session_attrs` selects the hosts for reads: `any` (the default) or
    /// `prefer-standby` include standbys, `read-write` or `primary` use the primary only.
    pub(crate) fn parse(address: &str, settings: &PostgresSettings) -> Result<Self, PostgresOpenError> {
        if has_unescaped_at_sign(address) {
            return Err(PostgresOpenError::Address { why: "an `@` in a password is written as %40".into() });
        }
        let (address, certificates) = extract_option(address, "sslrootcert");
        let (address, hosts) = extract_option(&address, "host");
        let (mut address, target) = extract_option(&address, "target_session_attrs");
        let use_standbys = match target.as_deref() {
            None | Some("any" | "prefer-standby") => true,
            Some("read-write" | "primary") => false,
            Some(other) => {
                let why = format!("`target_session_attrs` is `any` or `read-write` here, not `{other}`");
                return Err(PostgresOpenError::Address { why });
            }
        };
        for stricter in ["verify-full", "verify-ca"] {
            address = address.replace(&format!("sslmode={stricter}"), "sslmode=require");
        }
        let invalid = |error: tokio_postgres::Error| PostgresOpenError::Address { why: message(&error) };
        let mut config: Config = address.parse().map_err(invalid)?;
        // The driver treats the option `host` as a single host.
        for host in hosts.iter().flat_map(|hosts| hosts.split(',')) {
            config.host(host);
        }
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(PostgresOpenError::Address { why: "it names no host".into() });
        }
        if config.get_hosts().len().max(config.get_hostaddrs().len()) > MAX_HOSTS {
            return Err(PostgresOpenError::Address { why: format!("it names more than {MAX_HOSTS} hosts") });
        }
        // Timeout per address of a host, so that there is time for the others.
        if config.get_connect_timeout().is_none() {
            config.connect_timeout((settings.patience / 4).max(Duration::from_secs(1)));
        }
        config.application_name("tendot");
        // The driver's default is long.
        if !address.contains("keepalives_idle") {
            config.keepalives_idle(settings.patience.max(Duration::from_secs(1)));
        }
        // Detects vanished servers. The driver reads the number as seconds; libpq defines milliseconds.
        let acknowledged = config.get_tcp_user_timeout().map(|time| Duration::from_millis(time.as_secs()));
        config.tcp_user_timeout(acknowledged.unwrap_or(settings.patience));
        let use_standbys =
            use_standbys && config.get_target_session_attrs() == driver::TargetSessionAttrs::Any;
        let mut hosts = split_hosts(&config);
        // Removes duplicates.
        let mut named = HashSet::new();
        hosts.retain(|host| named.insert(host.place.clone()));
        let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
        let places = hosts.iter().map(|host| &*host.place).collect::<Vec<_>>().join(",");
        let place = format!("{places}/{database}");
        Ok(Self {
            tls: MakeRustlsConnect::new(tls_config(certificates.as_deref())?),
            hosts,
            place,
            use_standbys,
        })
    }
}

/// Whether there is an unescaped `@` in the password: the rest of it would be parsed as host and be shown.
fn has_unescaped_at_sign(address: &str) -> bool {
    let schemes = ["postgres://", "postgresql://"];
    let hosts = schemes.iter().find_map(|scheme| address.strip_prefix(scheme)?.split_once('@'));
    hosts.is_some_and(|(_, hosts)| hosts.split('?').next().is_some_and(|hosts| hosts.contains('@')))
}

/// Removes an option that the driver does not (fully) support, and returns its value.
fn extract_option(address: &str, name: &str) -> (String, Option<String>) {
    let Some((before, options)) = address.split_once('?') else { return (address.into(), None) };
    let (mut taken, mut others) = (None, Vec::new());
    for option in options.split('&') {
        match option.split_once('=').filter(|(key, _)| *key == name) {
            Some((_, value)) => taken = Some(unescape(value)),
            None => others.push(option),
        }
    }
    (format!("{before}?{}", others.join("&")), taken)
}

/// Splits a configuration into one per host.
fn split_hosts(config: &Config) -> Vec<HostConfig> {
    let (hosts, addresses, ports) = (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
    let host = |number: usize| {
        let mut one = Config::new();
        if let Some(user) = config.get_user() {
            one.user(user);
        }
        if let Some(password) = config.get_password() {
            one.password(password);
        }
        if let Some(database) = config.get_dbname() {
            one.dbname(database);
        }
        if let Some(options) = config.get_options() {
            one.options(options);
        }
        if let Some(name) = config.get_application_name() {
            one.application_name(name);
        }
        if let Some(time) = config.get_connect_timeout() {
            one.connect_timeout(*time);
        }
        if let Some(time) = config.get_tcp_user_timeout() {
            one.tcp_user_timeout(*time);
        }
        if let Some(interval) = config.get_keepalives_interval() {
            one.keepalives_interval(interval);
        }
        if let Some(retries) = config.get_keepalives_retries() {
            one.keepalives_retries(retries);
        }
        one.ssl_mode(config.get_ssl_mode())
            .ssl_negotiation(config.get_ssl_negotiation())
            .channel_binding(config.get_channel_binding())
            .keepalives(config.get_keepalives())
            .keepalives_idle(config.get_keepalives_idle());
        let port = ports.get(number).or(ports.first()).copied().unwrap_or(5432);
        one.port(port);
        let mut name = String::new();
        if let Some(address) = addresses.get(number) {
            one.hostaddr(*address);
            name = address.to_string();
        }
        match hosts.get(number) {
            Some(driver::Host::Tcp(host)) => {
                one.host(host);
                name.clone_from(host);
            }
            #[cfg(unix)]
            Some(driver::Host::Unix(path)) => {
                one.host_path(path);
                // Unix sockets have no TLS and need none.
                if addresses.is_empty() {
                    one.ssl_mode(driver::SslMode::Disable);
                }
                name = path.display().to_string();
            }
            None => {}
        }
        // As in a connection string.
        let place = if name.parse::<Ipv6Addr>().is_ok() {
            format!("[{name}]:{port}")
        } else {
            format!("{name}:{port}")
        };
        HostConfig { config: one, place }
    };
    (0..hosts.len().max(addresses.len())).map(host).collect()
}

/// Decodes percent escapes.
fn unescape(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = (*first == b'%').then(|| after.get(..2)).flatten();
        let byte = escaped.and_then(|digits| std::str::from_utf8(digits).ok());
        match byte.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                out.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let place = "db.example.org:5432/tendot";
        check("postgres://user:secret@db.example.org/tendot", Ok(place));
        check("postgresql://user@db.example.org:5432/tendot?sslmode=verify-full", Ok(place));
        check("host=db.example.org user=user dbname=tendot", Ok(place));
        check("postgres://u@a,b:5433/d?target_session_attrs=read-write", Ok("a:5432,b:5433/d"));
        check("postgres://u@a,b,c:1/d", Ok("a:5432,b:5432,c:1/d"));
        check("postgres://u@a,b/d?target_session_attrs=standby", Err("target_session_attrs"));
        check("postgres://u@a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a/d", Err("16 hosts"));
        check("postgres://u@%2Frun%2Fpostgresql/d", Ok("/run/postgresql:5432/d"));
        check("postgres:///d?user=u&host=a,b&port=1,2", Ok("a:1,b:2/d"));
        check("postgres:///d?host=%2Frun%2Fa,/run/b,c", Ok("/run/a:5432,/run/b:5432,c:5432/d"));
        check("postgres://u@a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a/d?host=a,a", Err("16 hosts"));
        check("postgres:///d", Err("names no host"));
        check("postgres://u@a,b,a/d", Ok("a:5432,b:5432/d"));
        check("postgres://u@a:1,a:2/d", Ok("a:1,a:2/d"));
        check("postgres://u@[::1]:1,[2001:db8::1]/d", Ok("[::1]:1,[2001:db8::1]:5432/d"));
        check("postgres://u:p@secret@h/d", Err("written as %40"));
        check("postgres://u:p@secret:secret@h/d", Err("written as %40"));
        check("postgres://u:p@secret/secret@h/d", Err("written as %40"));
        check("postgres://u:p?x@secret@h/d", Err("written as %40"));
        check("postgres://u:p%40secret@h/d?application_name=a@b", Ok("h:5432/d"));
        check("host=h user=u password=p@ss://@x@y dbname=d", Ok("h:5432/d"));
        check("", Err("names no host"));
        check("postgres://user@host/d?colour=red", Err("colour"));
        check("mysql://user@host/d", Err("address"));
        check("postgres://u@h/d?sslrootcert=%2Fnot%2Fthere.pem", Err("/not/there.pem"));
        check("postgres://u@h/d?sslrootcert=/dev/null", Err("there is none in it"));
    }

    #[test]
    fn times() {
        let config = |address| {
            let read = ConnectionString::parse(address, &PostgresSettings::default()).unwrap();
            read.hosts[0].config.clone()
        };
        let acknowledged = |address| *config(address).get_tcp_user_timeout().unwrap();
        let connect = |address| *config(address).get_connect_timeout().unwrap();
        assert_eq!(connect("postgres://u@h/d"), Duration::from_millis(2500));
        assert_eq!(connect("postgres://u@h/d?connect_timeout=7"), Duration::from_secs(7));
        assert_eq!(acknowledged("postgres://u@h/d"), Duration::from_secs(10));
        assert_eq!(acknowledged("postgres://u@h/d?tcp_user_timeout=1500"), Duration::from_millis(1500));
        assert_eq!(acknowledged("host=h user=u tcp_user_timeout=1500"), Duration::from_millis(1500));
    }

    #[track_caller]
    fn check(address: &str, expected: Result<&str, &str>) {
        match (ConnectionString::parse(address, &PostgresSettings::default()), expected) {
            (Ok(read), Ok(place)) => assert_eq!(read.place, place, "{address}"),
            (Err(error), Err(part)) => {
                assert!(error.to_string().contains(part), "{address}: {error}");
                assert!(!error.to_string().contains("secret"));
            }
            (Ok(read), Err(part)) => panic!("{address}: {} instead of {part}", read.place),
            (Err(error), Ok(_)) => panic!("{address}: {error}"),
        }
    }
}

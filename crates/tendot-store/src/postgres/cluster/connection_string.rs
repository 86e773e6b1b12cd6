//! From an address to connections.

use std::collections::HashSet;
use std::net::Ipv6Addr;
use std::time::Duration;

use tokio_postgres::{Config, config as driver};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::pool::tls_config;
use crate::postgres::error::message;
use crate::postgres::{PostgresOpenError, PostgresSettings};

/// The most servers that an address may name.
const MAX_HOSTS: usize = 16;

/// Parsed connection string: hosts, TLS and read routing.
pub(crate) struct ConnectionString {
    /// Its servers.
    pub(crate) hosts: Vec<HostConfig>,
    pub(crate) tls: MakeRustlsConnect,
    /// Where it is, for people; without the password.
    pub(crate) place: String,
    /// Whether standbys are asked, too.
    pub(crate) asks_standbys: bool,
}

/// Connection settings of one host.
pub(crate) struct HostConfig {
    pub(crate) config: Config,
    /// Where it is, for people.
    pub(crate) place: String,
}

impl ConnectionString {
    /// Reads an address as `postgres://user:password@host:port/database?options`, or in PostgreSQL's other form.
    ///
    /// Beside the options that the driver knows there are `sslrootcert`, a file with the certificates of those who are
    /// trusted, and for `sslmode` also `verify-ca` and `verify-full`, which are the same as `require`: a certificate is always
    /// verified, and so is its name.
    ///
    /// Several hosts are the servers of one database. `target_session_attrs` says who is asked: `any` or `prefer-standby`
    /// standbys where that is right, which is so without a word; `read-write` or `primary` only the one that takes changes.
    pub(crate) fn parse(address: &str, settings: &PostgresSettings) -> Result<Self, PostgresOpenError> {
        if has_unescaped_at_sign(address) {
            return Err(PostgresOpenError::Address { why: "an `@` in a password is written as %40".into() });
        }
        let (address, certificates) = extract_option(address, "sslrootcert");
        let (address, hosts) = extract_option(&address, "host");
        let (mut address, target) = extract_option(&address, "target_session_attrs");
        let asks_standbys = match target.as_deref() {
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
        let unread = |error: tokio_postgres::Error| PostgresOpenError::Address { why: message(&error) };
        let mut config: Config = address.parse().map_err(unread)?;
        // The driver takes what stands in an option for one host.
        for host in hosts.iter().flat_map(|hosts| hosts.split(',')) {
            config.host(host);
        }
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(PostgresOpenError::Address { why: "it names no host".into() });
        }
        if config.get_hosts().len().max(config.get_hostaddrs().len()) > MAX_HOSTS {
            return Err(PostgresOpenError::Address { why: format!("it names more than {MAX_HOSTS} hosts") });
        }
        // Of each address that a host has: if the first is not reached, there is time for others.
        if config.get_connect_timeout().is_none() {
            config.connect_timeout((settings.patience / 4).max(Duration::from_secs(1)));
        }
        config.application_name("tendot");
        // The driver has a time of its own, which is long.
        if !address.contains("keepalives_idle") {
            config.keepalives_idle(settings.patience.max(Duration::from_secs(1)));
        }
        // What was sent and is not acknowledged in time will not be: a server that vanished is noticed.
        // The driver takes the number for seconds, while everybody else has milliseconds there.
        let acknowledged = config.get_tcp_user_timeout().map(|time| Duration::from_millis(time.as_secs()));
        config.tcp_user_timeout(acknowledged.unwrap_or(settings.patience));
        let asks_standbys =
            asks_standbys && config.get_target_session_attrs() == driver::TargetSessionAttrs::Any;
        let mut hosts = split_hosts(&config);
        // One that is named twice is one.
        let mut named = HashSet::new();
        hosts.retain(|host| named.insert(host.place.clone()));
        let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
        let places = hosts.iter().map(|host| &*host.place).collect::<Vec<_>>().join(",");
        let place = format!("{places}/{database}");
        Ok(Self {
            tls: MakeRustlsConnect::new(tls_config(certificates.as_deref())?),
            hosts,
            place,
            asks_standbys,
        })
    }
}

/// Whether there is another `@` behind the one that ends the password: then the rest of the password would be taken for a host,
/// and be told.
fn has_unescaped_at_sign(address: &str) -> bool {
    let schemes = ["postgres://", "postgresql://"];
    let hosts = schemes.iter().find_map(|scheme| address.strip_prefix(scheme)?.split_once('@'));
    hosts.is_some_and(|(_, hosts)| hosts.split('?').next().is_some_and(|hosts| hosts.contains('@')))
}

/// Takes an option away that the driver does not know, or not all of.
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

/// The same address for each of its hosts alone.
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
                // There is no TLS on this machine's own sockets, and nobody needs it there.
                if addresses.is_empty() {
                    one.ssl_mode(driver::SslMode::Disable);
                }
                name = path.display().to_string();
            }
            None => {}
        }
        // As it is written in an address.
        let place = if name.parse::<Ipv6Addr>().is_ok() {
            format!("[{name}]:{port}")
        } else {
            format!("{name}:{port}")
        };
        HostConfig { config: one, place }
    };
    (0..hosts.len().max(addresses.len())).map(host).collect()
}

/// A path in an address, where `%2F` may stand for a slash.
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

//! Parses connection strings.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use percent_encoding::percent_decode_str;
use tokio_postgres::{Config, config as driver};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::pool::tls_config;
use crate::postgres::error::message;
use crate::postgres::{PostgresOpenError, PostgresSettings};

/// Maximum number of hosts.
pub(crate) const MAX_HOSTS: usize = 16;

/// Parsed connection string: hosts, TLS and read routing.
pub(crate) struct ConnectionString {
    /// Hosts in order.
    pub(crate) hosts: Vec<HostConfig>,
    pub(crate) tls: MakeRustlsConnect,
    /// Display name without password.
    pub(crate) display_name: String,
    /// Whether standbys serve reads.
    pub(crate) use_standbys: bool,
}

/// Connection settings of one host.
pub(crate) struct HostConfig {
    pub(crate) config: Config,
    /// Address for display: `host:port`.
    pub(crate) address: String,
}

impl ConnectionString {
    /// Parses `postgres://user:password@host:port/database?options`, or the key-value form.
    ///
    /// Besides the driver's options: `sslrootcert`, a CA file; and `sslmode=verify-ca` and `verify-full`, which equal `require`:
    /// certificate and host name are always verified. Without `sslmode`, it is `verify-full`, and `prefer` for hosts on loopback.
    ///
    /// Several hosts form one cluster. `target_session_attrs` selects the hosts for reads: `any` (the default) or
    /// `prefer-standby` include standbys, `read-write` or `primary` use the primary only.
    pub(crate) fn parse(address: &str, settings: &PostgresSettings) -> Result<Self, PostgresOpenError> {
        if has_unescaped_at_sign(address) {
            return Err(PostgresOpenError::InvalidConnectionString {
                reason: "unescaped `@` in the password; write `%40`".into(),
            });
        }
        let (address, certificates) = extract_option(address, "sslrootcert");
        let (address, hosts) = extract_option(&address, "host");
        let (mut address, target) = extract_option(&address, "target_session_attrs");
        let use_standbys = match target.as_deref() {
            None | Some("any" | "prefer-standby") => true,
            Some("read-write" | "primary") => false,
            Some(other) => {
                let reason = format!(
                    "unsupported `target_session_attrs={other}`; use `any`, `prefer-standby`, `primary` or `read-write`"
                );
                return Err(PostgresOpenError::InvalidConnectionString { reason });
            }
        };
        let has_ssl_mode = has_option(&address, "sslmode");
        for stricter in ["verify-full", "verify-ca"] {
            address = address.replace(&format!("sslmode={stricter}"), "sslmode=require");
        }
        let invalid = |error: tokio_postgres::Error| PostgresOpenError::InvalidConnectionString {
            reason: message(&error),
        };
        let mut config: Config = address.parse().map_err(invalid)?;
        // The driver treats the option `host` as a single host.
        for host in hosts.iter().flat_map(|hosts| hosts.split(',')) {
            config.host(host);
        }
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(PostgresOpenError::InvalidConnectionString { reason: "no host given".into() });
        }
        if config.get_hosts().len().max(config.get_hostaddrs().len()) > MAX_HOSTS {
            return Err(PostgresOpenError::InvalidConnectionString {
                reason: format!("more than {MAX_HOSTS} hosts given"),
            });
        }
        // Timeout per address of a host, so that there is time for the others.
        if config.get_connect_timeout().is_none() {
            config.connect_timeout((settings.wait_timeout / 4).max(Duration::from_secs(1)));
        }
        config.application_name("tendot");
        // The driver's default is long.
        if !address.contains("keepalives_idle") {
            config.keepalives_idle(settings.wait_timeout.max(Duration::from_secs(1)));
        }
        // Detects vanished servers. The driver reads the number as seconds; libpq defines milliseconds.
        let user_timeout = config.get_tcp_user_timeout().map(|time| Duration::from_millis(time.as_secs()));
        config.tcp_user_timeout(user_timeout.unwrap_or(settings.wait_timeout));
        let use_standbys =
            use_standbys && config.get_target_session_attrs() == driver::TargetSessionAttrs::Any;
        let mut hosts = split_hosts(&config);
        if !has_ssl_mode {
            // A password or record must not cross a network in the clear because nothing was said about it.
            for host in hosts.iter_mut().filter(|host| is_remote(&host.config)) {
                host.config.ssl_mode(driver::SslMode::Require);
            }
        }
        // Removes duplicates.
        let mut addresses = HashSet::new();
        hosts.retain(|host| addresses.insert(host.address.clone()));
        let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
        let addresses = hosts.iter().map(|host| &*host.address).collect::<Vec<_>>().join(",");
        let display_name = format!("{addresses}/{database}");
        Ok(Self {
            tls: MakeRustlsConnect::new(tls_config(certificates.as_deref())?),
            hosts,
            display_name,
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

/// Whether a connection string has this option: `?name=` in a URL, else ` name=`.
fn has_option(address: &str, name: &str) -> bool {
    let is_url = address.starts_with("postgres://") || address.starts_with("postgresql://");
    let (options, separator) = if is_url {
        (address.split_once('?').map_or("", |(_, options)| options), '&')
    } else {
        (address, ' ')
    };
    let mut names = options.split(separator).filter_map(|option| option.split_once('='));
    names.any(|(key, _)| key.trim() == name)
}

/// Whether a host is reached over a network: neither a socket nor loopback.
fn is_remote(config: &Config) -> bool {
    let is_remote_host = |host: &driver::Host| match host {
        driver::Host::Tcp(host) => {
            let address = host.parse::<IpAddr>();
            let is_loopback_name = || {
                host.eq_ignore_ascii_case("localhost") || host.to_ascii_lowercase().ends_with(".localhost")
            };
            address.map_or_else(|_| !is_loopback_name(), |address| !address.to_canonical().is_loopback())
        }
        #[cfg(unix)]
        driver::Host::Unix(_) => false,
    };
    // An address is connected to instead of the name.
    match config.get_hostaddrs() {
        [] => config.get_hosts().iter().any(is_remote_host),
        addresses => addresses.iter().any(|address| !address.to_canonical().is_loopback()),
    }
}

/// Removes an option that the driver does not (fully) support, and returns its value.
fn extract_option(address: &str, name: &str) -> (String, Option<String>) {
    let Some((before, options)) = address.split_once('?') else { return (address.into(), None) };
    let (mut extracted, mut others) = (None, Vec::new());
    for option in options.split('&') {
        match option.split_once('=').filter(|(key, _)| *key == name) {
            Some((_, value)) => {
                extracted = Some(percent_decode_str(value).decode_utf8_lossy().into_owned());
            }
            None => others.push(option),
        }
    }
    (format!("{before}?{}", others.join("&")), extracted)
}

/// Splits a configuration into one per host.
fn split_hosts(config: &Config) -> Vec<HostConfig> {
    let (hosts, addresses, ports) = (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
    let host = |index: usize| {
        let mut host_config = Config::new();
        if let Some(user) = config.get_user() {
            host_config.user(user);
        }
        if let Some(password) = config.get_password() {
            host_config.password(password);
        }
        if let Some(database) = config.get_dbname() {
            host_config.dbname(database);
        }
        if let Some(options) = config.get_options() {
            host_config.options(options);
        }
        if let Some(name) = config.get_application_name() {
            host_config.application_name(name);
        }
        if let Some(time) = config.get_connect_timeout() {
            host_config.connect_timeout(*time);
        }
        if let Some(time) = config.get_tcp_user_timeout() {
            host_config.tcp_user_timeout(*time);
        }
        if let Some(interval) = config.get_keepalives_interval() {
            host_config.keepalives_interval(interval);
        }
        if let Some(retries) = config.get_keepalives_retries() {
            host_config.keepalives_retries(retries);
        }
        host_config
            .ssl_mode(config.get_ssl_mode())
            .ssl_negotiation(config.get_ssl_negotiation())
            .channel_binding(config.get_channel_binding())
            .keepalives(config.get_keepalives())
            .keepalives_idle(config.get_keepalives_idle());
        let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
        host_config.port(port);
        let mut name = String::new();
        if let Some(address) = addresses.get(index) {
            host_config.hostaddr(*address);
            name = address.to_string();
        }
        match hosts.get(index) {
            Some(driver::Host::Tcp(host)) => {
                host_config.host(host);
                name.clone_from(host);
            }
            #[cfg(unix)]
            Some(driver::Host::Unix(path)) => {
                host_config.host_path(path);
                // Unix sockets have no TLS and need none.
                if addresses.is_empty() {
                    host_config.ssl_mode(driver::SslMode::Disable);
                }
                name = path.display().to_string();
            }
            None => {}
        }
        // As in a connection string.
        let address = if name.parse::<Ipv6Addr>().is_ok() {
            format!("[{name}]:{port}")
        } else {
            format!("{name}:{port}")
        };
        HostConfig { config: host_config, address }
    };
    (0..hosts.len().max(addresses.len())).map(host).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_connection_strings() {
        let database = "db.example.org:5432/tendot";
        check("postgres://user:secret@db.example.org/tendot", Ok(database));
        check("postgresql://user@db.example.org:5432/tendot?sslmode=verify-full", Ok(database));
        check("host=db.example.org user=user dbname=tendot", Ok(database));
        check("postgres://u@a,b:5433/d?target_session_attrs=read-write", Ok("a:5432,b:5433/d"));
        check("postgres://u@a,b,c:1/d", Ok("a:5432,b:5432,c:1/d"));
        check("postgres://u@a,b/d?target_session_attrs=standby", Err("target_session_attrs"));
        check("postgres://u@a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a/d", Err("16 hosts"));
        check("postgres://u@%2Frun%2Fpostgresql/d", Ok("/run/postgresql:5432/d"));
        check("postgres:///d?user=u&host=a,b&port=1,2", Ok("a:1,b:2/d"));
        check("postgres:///d?host=%2Frun%2Fa,/run/b,c", Ok("/run/a:5432,/run/b:5432,c:5432/d"));
        check("postgres://u@a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a/d?host=a,a", Err("16 hosts"));
        check("postgres:///d", Err("no host given"));
        check("postgres://u@a,b,a/d", Ok("a:5432,b:5432/d"));
        check("postgres://u@a:1,a:2/d", Ok("a:1,a:2/d"));
        check("postgres://u@[::1]:1,[2001:db8::1]/d", Ok("[::1]:1,[2001:db8::1]:5432/d"));
        check("postgres://u:p@secret@h/d", Err("write `%40`"));
        check("postgres://u:p@secret:secret@h/d", Err("write `%40`"));
        check("postgres://u:p@secret/secret@h/d", Err("write `%40`"));
        check("postgres://u:p?x@secret@h/d", Err("write `%40`"));
        check("postgres://u:p%40secret@h/d?application_name=a@b", Ok("h:5432/d"));
        check("host=h user=u password=p@ss://@x@y dbname=d", Ok("h:5432/d"));
        check("", Err("no host given"));
        check("postgres://user@host/d?colour=red", Err("colour"));
        check("mysql://user@host/d", Err("connection string"));
        check("postgres://u@h/d?sslrootcert=%2Fnot%2Fthere.pem", Err("/not/there.pem"));
        check("postgres://u@h/d?sslrootcert=/dev/null", Err("no certificates found"));
    }

    /// Remote hosts need TLS unless the connection string says otherwise.
    #[test]
    fn audit_f16_ssl_mode() {
        use driver::SslMode::{Disable, Prefer, Require};
        for (address, expected) in [
            ("postgres://u@db.example.org/d", Require),
            ("host=db.example.org user=u dbname=d", Require),
            ("postgres://u@192.0.2.1/d", Require),
            ("postgres://u@[2001:db8::1]/d", Require),
            ("postgres://u:sslmode=@db.example.org/d?application_name=sslmode=disable", Require),
            ("postgres:///d?user=u&host=db.example.org&hostaddr=127.0.0.1", Prefer),
            ("postgres:///d?user=u&host=localhost&hostaddr=192.0.2.1", Require),
            ("postgres://u@localhost/d", Prefer),
            ("postgres://u@127.0.0.2/d", Prefer),
            ("postgres://u@[::1]/d", Prefer),
            ("postgres://u@%2Frun%2Fpostgresql/d", Disable),
            ("postgres://u@db.example.org/d?sslmode=prefer", Prefer),
            ("postgres://u@db.example.org/d?connect_timeout=1&sslmode=disable", Disable),
            ("host=db.example.org user=u dbname=d sslmode=disable", Disable),
            ("postgres://u@db.example.org/d?sslmode=verify-full", Require),
            ("postgres://u@127.0.0.1/d?sslmode=verify-ca", Require),
        ] {
            let parsed = ConnectionString::parse(address, &PostgresSettings::default()).unwrap();
            assert_eq!(parsed.hosts[0].config.get_ssl_mode(), expected, "{address}");
        }
        let cluster = ConnectionString::parse("postgres://u@localhost,db/d", &PostgresSettings::default());
        let modes: Vec<_> = cluster.unwrap().hosts.iter().map(|host| host.config.get_ssl_mode()).collect();
        assert_eq!(modes, [Prefer, Require]);
    }

    #[test]
    fn default_timeouts() {
        let config = |address| {
            let parsed = ConnectionString::parse(address, &PostgresSettings::default()).unwrap();
            parsed.hosts[0].config.clone()
        };
        let user_timeout = |address| *config(address).get_tcp_user_timeout().unwrap();
        let connect = |address| *config(address).get_connect_timeout().unwrap();
        assert_eq!(connect("postgres://u@h/d"), Duration::from_millis(2500));
        assert_eq!(connect("postgres://u@h/d?connect_timeout=7"), Duration::from_secs(7));
        assert_eq!(user_timeout("postgres://u@h/d"), Duration::from_secs(10));
        assert_eq!(user_timeout("postgres://u@h/d?tcp_user_timeout=1500"), Duration::from_millis(1500));
        assert_eq!(user_timeout("host=h user=u tcp_user_timeout=1500"), Duration::from_millis(1500));
    }

    /// Every setting of the driver is copied to the configuration of each host.
    #[test]
    fn hosts_keep_all_settings() {
        let mut config = Config::new();
        config
            .user("user")
            .password("password")
            .dbname("database")
            .options("-c geqo=off")
            .application_name("tendot")
            .ssl_mode(driver::SslMode::Require)
            .ssl_negotiation(driver::SslNegotiation::Direct)
            .host("db.example.org")
            .hostaddr([127, 0, 0, 1].into())
            .port(5433)
            .connect_timeout(Duration::from_secs(3))
            .tcp_user_timeout(Duration::from_secs(4))
            .keepalives(false)
            .keepalives_idle(Duration::from_secs(5))
            .keepalives_interval(Duration::from_secs(6))
            .keepalives_retries(7)
            .channel_binding(driver::ChannelBinding::Require);
        let [host] = &split_hosts(&config)[..] else { panic!("one host") };
        assert_eq!(host.config, config);
        // A setting of a later driver must be added to both.
        assert_eq!(format!("{config:?}").matches(": ").count(), 18, "{config:?}");
    }

    #[track_caller]
    fn check(address: &str, expected: Result<&str, &str>) {
        match (ConnectionString::parse(address, &PostgresSettings::default()), expected) {
            (Ok(parsed), Ok(database)) => assert_eq!(parsed.display_name, database, "{address}"),
            (Err(error), Err(part)) => {
                assert!(error.to_string().contains(part), "{address}: {error}");
                assert!(!error.to_string().contains("secret"));
            }
            (Ok(parsed), Err(part)) => panic!("{address}: {} instead of {part}", parsed.display_name),
            (Err(error), Ok(_)) => panic!("{address}: {error}"),
        }
    }
}

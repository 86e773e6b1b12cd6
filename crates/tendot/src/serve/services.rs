//! The servers of `tendot serve`: built from the settings, run until shutdown.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tendot_registry::{Registry, RegistrySettings, ServiceHandleRecord};
use tendot_server::http::{
    self, CountryDatabase, HttpListener, HttpServer, ServerCertificate, ServiceIdentity,
};
use tendot_server::native::{self, NativeServer, NativeSockets, OwnSite, SitePeerClient};
use tendot_server::{Maintenance, ResolutionCounter};
use tendot_store::AnyStore;
use tokio::sync::{oneshot, watch};

use super::listeners::{http_listeners, native_sockets};
use super::log::LogWriter;
use super::operator_token::OPERATOR_TOKEN_FILE;
use super::reload::Reloader;
use super::systemd::InheritedSockets;
use super::{database_status, security_txt, systemd};
use crate::CliError;
use crate::config::{ServerSettings, StoreSetting};
use crate::key::read_small_file;
use crate::site::{PublishedEndpoints, load_combined_site, load_or_create_site};

/// HTTP server, native server and maintenance task, with their sockets.
pub(super) struct Services<'a> {
    settings: &'a ServerSettings,
    registry: Arc<Registry>,
    counter: Arc<ResolutionCounter>,
    maintenance: Maintenance,
    http: Arc<HttpServer>,
    http_listeners: Vec<HttpListener>,
    native: Option<(NativeSockets, Arc<NativeServer>)>,
    certificate: Option<Arc<ServerCertificate>>,
    /// URLs of all listeners.
    addresses: Vec<String>,
}

impl<'a> Services<'a> {
    /// Binds the sockets and builds the servers.
    pub(super) async fn build(
        settings: &'a ServerSettings,
        log: &LogWriter,
        store: AnyStore,
        operator_token: Option<String>,
    ) -> Result<Self, CliError> {
        let certificate = load_certificate(settings)?;
        let InheritedSockets { http: inherited, native_tcp, native_udp } = systemd::inherited_sockets()
            .map_err(|error| CliError::io("cannot use the socket passed by systemd", &error))?;
        let (http_listeners, mut addresses) =
            http_listeners(settings, certificate.as_ref(), inherited).await?;
        let sockets = native_sockets(settings, native_tcp, native_udp)?;
        if http_listeners.is_empty() && sockets.is_none() {
            let hint = "set `--http ADDR`, `--https ADDR` or `--native ADDR`";
            return Err(CliError::new("all listeners are disabled").with_hint(hint));
        }
        let site = load_site(settings, sockets.as_ref().map(|(address, _)| *address), &addresses)?;
        let (database, embedded) = match &store {
            AnyStore::Postgres(store) => (Some(store.hosts_handle()), None),
            AnyStore::Embedded(store) => {
                (None, Some((store.write_status_handle(), store.scrub_status_handle())))
            }
            _ => (None, None),
        };
        let registry = Arc::new(build_registry(settings, store, site.as_ref())?);
        let (counter, maintenance) = settings.maintenance();
        let counter = Arc::new(counter);
        let mut http = build_http_server(settings, &registry, &counter, log, certificate.as_ref())?;
        if let Some(path) = &settings.country_database {
            let countries = CountryDatabase::load(path).map_err(|error| CliError::new(error.to_string()))?;
            http = http.country_database(countries);
        }
        if let Some(path) = &settings.security_txt {
            http = http.security_txt(security_txt::read(path)?);
        }
        if let Some(hosts) = database {
            http = database_status::register_database_status(http, &hosts, &registry);
        }
        if let Some((status, scrub)) = embedded {
            http = database_status::register_write_status(http, status, scrub, &registry);
        }
        if let Some(token) = operator_token {
            http = http.operator_token(token);
        }
        if registry.settings().signing.is_some() {
            let expiry = Arc::clone(&maintenance.signature_expiry);
            http = http.external_gauge(
                "tendot_signatures_earliest_expiry_timestamp_seconds",
                "Earliest expiry of all record signatures (Unix time).",
                move || expiry.get().map(|expiry| expiry as f64),
            );
        }
        let native = sockets.zip(site).map(|((address, sockets), site)| {
            addresses.push(format!("hdl://{address}/"));
            (sockets, Arc::new(build_native_server(settings, &registry, &counter, site)))
        });
        if let Some((_, native)) = &native {
            http = http.native_server(Arc::clone(native));
        }
        let http = Arc::new(http);
        Ok(Self {
            settings,
            registry,
            counter,
            maintenance,
            http,
            http_listeners,
            native,
            certificate,
            addresses,
        })
    }

    /// Registry of all servers.
    pub(super) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// What SIGHUP reloads.
    pub(super) fn reloader(&self) -> Reloader {
        let has_token = !matches!(self.settings.store, StoreSetting::Memory);
        let directory = self.settings.data_dir().filter(|_| has_token);
        Reloader {
            http: Arc::clone(&self.http),
            certificate: self.certificate.clone(),
            operator_token: directory.map(|directory| directory.join(OPERATOR_TOKEN_FILE)),
            security_txt: self.settings.security_txt.clone(),
        }
    }

    /// Makes `/readyz` succeed; returns the URLs of all listeners.
    pub(super) fn announce_ready(&self) -> &[String] {
        self.http.set_ready(true);
        &self.addresses
    }

    /// Serves until `shutdown` completes, then drains in-flight requests.
    pub(super) async fn run_until(self, shutdown: impl Future<Output = ()>) -> io::Result<()> {
        let Self { settings, registry, counter, maintenance, http, http_listeners, native, .. } = self;
        let (serving, stop) = watch::channel(());
        // Completes when `serving` is dropped.
        let stopped = || {
            let mut stop = stop.clone();
            async move { drop(stop.changed().await) }
        };
        let http = http::serve(http_listeners, http, settings.limits(), stopped());
        let native_stopped = stopped();
        let native = async {
            let Some((sockets, server)) = native else { return Ok(()) };
            native::serve(sockets, server, settings.native_limits(), native_stopped)
                .await
                .inspect_err(|error| tracing::error!(%error, "native listener failed"))
        };
        let drain = async move {
            shutdown.await;
            systemd::notify("STOPPING=1");
            tracing::info!("draining in-flight requests");
            drop(serving);
        };
        let (draining, drained) = oneshot::channel::<()>();
        let servers = async {
            let results = tokio::join!(http, native, drain);
            drop(draining);
            results
        };
        // Runs until the servers have drained, so that the last requests are counted.
        let maintenance = maintenance.run(&registry, &counter, async { drop(drained.await) });
        let ((http, native, ()), ()) = tokio::join!(servers, maintenance);
        http.and(native)
    }
}

/// Certificate of the HTTPS listener, if one is configured.
fn load_certificate(settings: &ServerSettings) -> Result<Option<Arc<ServerCertificate>>, CliError> {
    let (Some(certificate), Some(key)) = (&settings.certificate, &settings.key) else { return Ok(None) };
    let certificate = ServerCertificate::load(certificate, key).and_then(|certificate| {
        if settings.client_certificates { certificate.request_client_certificates() } else { Ok(certificate) }
    });
    certificate
        .map(|certificate| Some(Arc::new(certificate)))
        .map_err(|error| CliError::new(error.to_string()))
}

/// HTTP server from the settings; `build` adds database status, operator token and native server.
fn build_http_server(
    settings: &ServerSettings,
    registry: &Arc<Registry>,
    counter: &Arc<ResolutionCounter>,
    log: &LogWriter,
    certificate: Option<&Arc<ServerCertificate>>,
) -> Result<HttpServer, CliError> {
    let log = log.clone();
    let mut http = HttpServer::new(Arc::clone(registry))
        .resolution_counter(Arc::clone(counter))
        .proxy_trust(settings.proxy_trust())
        .body_timeout(settings.body_timeout)
        .reverse_lookup_timeout(settings.reverse_lookup_timeout)
        .response_cache_size(settings.http_response_cache.bytes(&settings.store))
        .metrics_allow(settings.metrics_allow.clone())
        .location_parameters(settings.location_parameters.clone())
        .log_requests(settings.log_requests)
        .trust_anchors(settings.trust_anchors()?)
        .external_counter(
            "tendot_log_dropped",
            "Log lines dropped because the queue was full or stderr failed.",
            move || Some(log.dropped() as f64),
        );
    if let Some(upstream) = settings.upstream_client()? {
        http =
            http.require_signed_upstream(settings.trust_upstream_signed).upstream(upstream, settings.cache());
    }
    http = http.identity(service_identity(settings)?);
    if let Some(header) = settings.country_header.clone() {
        http = http.country_header(header);
    }
    if let Some(rates) = settings.rate_limits() {
        http = http.rate_limits(rates);
    }
    if settings.hsts_days.0 > 0 {
        http = http.hsts_max_age(Duration::from_secs(u64::from(settings.hsts_days.0) * 86_400));
    }
    if let Some(certificate) = certificate.cloned() {
        let name = "tendot_tls_certificate_expiry_timestamp_seconds";
        http = http.external_gauge(name, "Expiry time of the TLS certificate (Unix time).", move || {
            certificate.not_after().map(|expiry| expiry as f64)
        });
    }
    Ok(http)
}

/// Operator and resolvers on pages.
fn service_identity(settings: &ServerSettings) -> Result<ServiceIdentity, CliError> {
    let media_type = |path: &Path| match path.extension().and_then(|extension| extension.to_str()) {
        Some("svg") => Ok("image/svg+xml"),
        Some("png") => Ok("image/png"),
        _ => Err(CliError::new(format!(
            "`http.operator_logo`: `{}` is not an .svg or .png file",
            path.display()
        ))),
    };
    let logo = settings.operator_logo.as_deref();
    let logo = logo.map(|path| Ok::<_, CliError>((media_type(path)?, read_small_file(path)?.into())));
    Ok(ServiceIdentity {
        name: settings.operator_name.as_str().into(),
        logo: logo.transpose()?,
        public_url: settings.public_url.0.clone(),
        resolver_url: settings.resolver_url.0.clone(),
    })
}

/// Site of this server; without the native protocol only if it is one of several servers of a site.
fn load_site(
    settings: &ServerSettings,
    native: Option<SocketAddr>,
    addresses: &[String],
) -> Result<Option<OwnSite>, CliError> {
    let (directory, site_file) = (settings.data_dir(), settings.site_file.as_deref());
    let Some(native) = native else {
        return directory
            .zip(site_file)
            .map(|(directory, site_file)| load_combined_site(&directory, site_file))
            .transpose();
    };
    let http = addresses.iter().find_map(|address| address.strip_prefix("http://"));
    let endpoints = PublishedEndpoints {
        native,
        public_ip: settings.public_address,
        http: http
            .and_then(|http| http.trim_end_matches('/').parse::<SocketAddr>().ok())
            .map(|http| http.port()),
        description: &settings.description,
    };
    load_or_create_site(directory.as_deref(), &endpoints, site_file).map(Some)
}

/// Registry, with a client for the other servers of the site if there are any.
fn build_registry(
    settings: &ServerSettings,
    store: AnyStore,
    site: Option<&OwnSite>,
) -> Result<Registry, CliError> {
    let partition = site.and_then(OwnSite::partition);
    let signing = settings.signing()?;
    let service_handle = service_handle(settings, site);
    let settings = RegistrySettings { partition, signing, service_handle, ..settings.registry() };
    let registry = Registry::new(store, settings);
    Ok(match site.filter(|_| partition.is_some()) {
        Some(site) => registry.with_site_peers(Arc::new(SitePeerClient::new(site.site().clone()))),
        None => registry,
    })
}

/// Service handle of the site. One of several servers of a site may not store it, nor the prefix records.
fn service_handle(settings: &ServerSettings, site: Option<&OwnSite>) -> Option<ServiceHandleRecord> {
    let site = site.filter(|site| site.partition().is_none() && !settings.service_handle.is_empty())?;
    Some(ServiceHandleRecord { name: settings.service_handle.as_str().into(), site: site.bytes().to_vec() })
}

/// Server of the native protocol.
fn build_native_server(
    settings: &ServerSettings,
    registry: &Arc<Registry>,
    counter: &Arc<ResolutionCounter>,
    site: OwnSite,
) -> NativeServer {
    let mut native = NativeServer::new(Arc::clone(registry), site)
        .allow_dh_1024(settings.allow_dh_1024)
        .allow_sha1(settings.allow_sha1)
        .session_limits(settings.session_max_age, settings.session_idle_timeout)
        .amplification_limits(settings.amplification_limits())
        .resolution_counter(Arc::clone(counter))
        .response_cache_size(settings.native_response_cache.bytes(&settings.store))
        .log_requests(settings.log_requests);
    if let Some(rates) = settings.native_rate_limits() {
        native = native.rate_limits(rates);
    }
    native
}

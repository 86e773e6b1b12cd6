//! `tendot serve`

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener as TcpSocket, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use aws_lc_rs::rand;
use data_encoding::BASE64URL_NOPAD;
use serde::Serialize;
use tendot_proto::Handle;
use tendot_proto::record::HandleRecord;
use tendot_registry::{Registry, RegistrySettings};
use tendot_server::ResolutionCounter;
use tendot_server::http::{self, HttpListener, HttpServer, ServerCertificate};
use tendot_server::native::{self, NativeServer, NativeSockets, OwnSite, SitePeerClient};
use tendot_store::{AnyStore, ChangeSet, CommitError, Edit, EmbeddedStore, MemoryStore, Precondition, Store};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};

use crate::args::{ConfigSourceArguments, ServeArguments};
use crate::config::{Configuration, ServerSettings, StoreSetting, wrong};
use crate::failure::eprint_line;
use crate::log::LogWriter;
use crate::output::StdoutWriter;
use crate::site::{PublishedEndpoints, load_combined_site, load_or_create_site};
use crate::store::{open_error, open_postgres};
use crate::systemd::InheritedSockets;
use crate::{CliError, CommandStatus, database, systemd};

#[derive(Serialize)]
struct ReadyJson<'a> {
    ready: &'a [String],
}

pub(crate) fn run(arguments: &ServeArguments) -> Result<CommandStatus, CliError> {
    let settings = load_settings(arguments)?;
    let log = LogWriter::install(settings.log_format, settings.log_level)?;
    settings.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
    let runtime = Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::io("threads can't be started", &error))?;
    let served = runtime.block_on(async {
        let (store, token) = open_store(&settings).await?;
        serve(arguments, &settings, &log, store, token).await
    });
    log.flush();
    served
}

/// Opens the configured store, and reads the operator's token from the data directory if there is one.
async fn open_store(settings: &ServerSettings) -> Result<(AnyStore, Option<String>), CliError> {
    let token = |directory: &Path| read_or_create(&directory.join("operator.token")).map(Some);
    match (&settings.store, settings.data_dir()) {
        (StoreSetting::Memory, _) | (_, None) => Ok((MemoryStore::new().into(), None)),
        (StoreSetting::Embedded(_), Some(directory)) => {
            let store = EmbeddedStore::open(&directory).map_err(|error| open_error(&error))?;
            Ok((store.into(), token(&directory)?))
        }
        (StoreSetting::Postgres(address), Some(directory)) => {
            let store = open_postgres(address, &settings.postgres()).await?;
            std::fs::create_dir_all(&directory)
                .map_err(|error| CliError::io(format!("`{}` can't be made", directory.display()), &error))?;
            Ok((store.into(), token(&directory)?))
        }
    }
}

fn load_settings(arguments: &ServeArguments) -> Result<ServerSettings, CliError> {
    let flags = [
        ("native.address", "--native", &arguments.native),
        ("data", "--data", &arguments.data),
        ("store", "--store", &arguments.store),
        ("http.address", "--http", &arguments.http),
        ("https.address", "--https", &arguments.https),
    ];
    let said: Vec<_> =
        flags.into_iter().filter_map(|(key, flag, text)| Some((key, flag, text.clone()?))).collect();
    load_settings_with(&arguments.configuration, &said)
}

/// The settings that hold, or all that is wrong with them.
pub(crate) fn load_settings_with(
    arguments: &ConfigSourceArguments,
    flags: &[(&'static str, &str, String)],
) -> Result<ServerSettings, CliError> {
    Configuration::gather(arguments, flags).parse().map_err(|problems| wrong(&problems))
}

async fn serve(
    arguments: &ServeArguments,
    settings: &ServerSettings,
    log: &LogWriter,
    store: AnyStore,
    token: Option<String>,
) -> Result<CommandStatus, CliError> {
    if arguments.demo {
        load_demo(&store).await?;
    }
    let tls = match (&settings.certificate, &settings.key) {
        (Some(certificate), Some(key)) => {
            let read = ServerCertificate::load(certificate, key);
            let asking = |tls: ServerCertificate| {
                if settings.client_certificates { tls.request_client_certificates() } else { Ok(tls) }
            };
            Some(Arc::new(read.and_then(asking).map_err(|error| CliError::new(error.to_string()))?))
        }
        _ => None,
    };
    let lost = log.clone();
    let InheritedSockets { http: handed, native: handed_native } = systemd::inherited_sockets()
        .map_err(|error| CliError::io("a socket of systemd can't be used", &error))?;
    let (listeners, mut addresses) = listeners(settings, tls.as_ref(), handed).await?;
    let sockets = native_sockets(settings, handed_native)?;
    let native_address = sockets.as_ref().map(|(address, _)| *address);
    let site = load_site(settings, native_address, &addresses)?;
    let registry = Arc::new(build_registry(settings, store, site.as_ref()));
    let (tally, upkeep) = settings.maintenance();
    let tally = Arc::new(tally);
    let native = sockets.zip(site).map(|((address, sockets), site)| {
        (address, sockets, Arc::new(build_handle_server(settings, &registry, &tally, site)))
    });
    let mut http = HttpServer::new(Arc::clone(&registry));
    if let AnyStore::Postgres(store) = registry.store() {
        http = database::register_database_status(http, &store.hosts_handle());
    }
    http = http
        .resolution_counter(Arc::clone(&tally))
        .proxy_trust(settings.proxy_trust())
        .body_timeout(settings.body_timeout)
        .reverse_lookup_timeout(settings.reverse_lookup_timeout)
        .response_cache_size(settings.kept.bytes(&settings.store))
        .metrics_allow(settings.metrics_for.clone())
        .log_requests(settings.log_requests)
        .figure("tendot_log_dropped", "Lines of the log that were lost.", true, move || {
            Some(lost.dropped() as f64)
        });
    if let Some(upstream) = settings.upstream.0.clone() {
        http = http.upstream(upstream, settings.cache());
    }
    if let Some(rates) = settings.rate_limits() {
        http = http.rate_limits(rates);
    }
    if let Some(tls) = tls.clone() {
        let name = "tendot_tls_certificate_expiry_timestamp_seconds";
        http = http
            .figure(name, "When the certificate ends.", false, move || tls.not_after().map(|end| end as f64));
    }
    if let Some(token) = token {
        http = http.operator_token(token);
    }
    if let Some((address, _, native)) = &native {
        http = http.native_server(Arc::clone(native));
        addresses.push(format!("hdl://{address}/"));
    }
    if addresses.is_empty() {
        let hint = "`--http ADDR`, `--https ADDR` or `--native ADDR` says where";
        return Err(CliError::new("there is nothing to listen to").with_hint(hint));
    }
    let http = Arc::new(http);
    let end = shutdown_signal(tls).map_err(|error| CliError::io("signals can't be waited for", &error))?;
    http.set_ready(true);
    eprint_line(format_args!("ready: {}", addresses.join(" ")));
    if arguments.json {
        let mut output = StdoutWriter::new();
        output.write_json(&ReadyJson { ready: &addresses })?;
        output.flush()?;
    }
    systemd::notify("READY=1");
    let (ending, ended) = watch::channel(false);
    let is_ended = || {
        let mut ended = ended.clone();
        async move { drop(ended.wait_for(|ended| *ended).await) }
    };
    let (http_end, native_end) = (is_ended(), is_ended());
    let answering = async {
        let Some((_, sockets, native)) = native else { return Ok(()) };
        let listened = native::serve(sockets, native, settings.native_limits(), native_end).await;
        listened.inspect_err(|error| tracing::error!(%error, "the native protocol is not answered"))
    };
    let wait = async {
        end.await;
        systemd::notify("STOPPING=1");
        tracing::info!("what is under way is finished");
        let _ = ending.send(true);
    };
    let http = http::serve(listeners, http, settings.limits(), http_end);
    let (closing, closed) = oneshot::channel::<()>();
    let served = async {
        let served = tokio::join!(http, answering, wait);
        drop(closing);
        served
    };
    // What the last requests are about is counted, too.
    let keeping_up = upkeep.run(&registry, &tally, async { drop(closed.await) });
    let ((http, native, ()), ()) = tokio::join!(served, keeping_up);
    http.and(native).map_err(|error| CliError::io("requests can't be taken", &error))?;
    Ok(CommandStatus::Yes)
}

/// Where the native protocol is answered: at the sockets that systemd hands over, else at those of the settings; nowhere if
/// it is off.
fn native_sockets(
    settings: &ServerSettings,
    handed: (Option<TcpSocket>, Option<UdpSocket>),
) -> Result<Option<(SocketAddr, NativeSockets)>, CliError> {
    let unusable = |error: io::Error| CliError::io("a socket of systemd can't be used", &error);
    let sockets = match handed {
        (Some(tcp), Some(udp)) => NativeSockets::from_inherited(tcp, udp).map_err(unusable)?,
        (None, None) => {
            let Some(address) = settings.native else { return Ok(None) };
            bind_native(address)?
        }
        _ => {
            return Err(CliError::new("systemd has to hand over two sockets `native`, or none").with_hint(
                "one is for connections (`ListenStream=`), one for datagrams (`ListenDatagram=`)",
            ));
        }
    };
    let address = sockets.address().map_err(unusable)?;
    Ok(Some((address, sockets)))
}

fn bind_native(address: SocketAddr) -> Result<NativeSockets, CliError> {
    let failed = |error: io::Error| {
        let failure = CliError::io(format!("{address} can't be listened to"), &error);
        match error.kind() {
            ErrorKind::AddrInUse => failure.with_hint(
                "another handle server may be running; `--native ADDR` says another address, `--native off` none",
            ),
            _ => failure.with_hint("`--native ADDR` says another address, `--native off` none"),
        }
    };
    NativeSockets::bind(address).map_err(failed)
}

/// Who we are; nobody to others without the native protocol, unless we are a server of several.
fn load_site(
    settings: &ServerSettings,
    native: Option<SocketAddr>,
    addresses: &[String],
) -> Result<Option<OwnSite>, CliError> {
    let (directory, joined) = (settings.data_dir(), settings.site.as_deref());
    let Some(native) = native else {
        return directory
            .zip(joined)
            .map(|(directory, joined)| load_combined_site(&directory, joined))
            .transpose();
    };
    let http = addresses.iter().find_map(|address| address.strip_prefix("http://"));
    let reached = PublishedEndpoints {
        native,
        address: settings.public_address,
        http: http
            .and_then(|http| http.trim_end_matches('/').parse::<SocketAddr>().ok())
            .map(|http| http.port()),
        description: &settings.description,
    };
    load_or_create_site(directory.as_deref(), &reached, joined).map(Some)
}

/// The rules; with other servers of our site to ask, if there are some.
fn build_registry(settings: &ServerSettings, store: AnyStore, site: Option<&OwnSite>) -> Registry {
    let share = site.and_then(OwnSite::partition);
    let registry = Registry::new(store, RegistrySettings { share, ..settings.registry() });
    match site.filter(|_| share.is_some()) {
        Some(site) => registry.with_site_peers(Arc::new(SitePeerClient::new(site.site().clone()))),
        None => registry,
    }
}

/// The native protocol.
fn build_handle_server(
    settings: &ServerSettings,
    registry: &Arc<Registry>,
    tally: &Arc<ResolutionCounter>,
    site: OwnSite,
) -> NativeServer {
    let mut native = NativeServer::new(Arc::clone(registry), site)
        .allow_dh_1024(settings.allow_dh_1024)
        .resolution_counter(Arc::clone(tally))
        .response_cache_size(settings.native_kept.bytes(&settings.store))
        .log_requests(settings.log_requests);
    if let Some(rates) = settings.native_rate_limits() {
        native = native.rate_limits(rates);
    }
    native
}

/// The sockets that are listened to, and their addresses: those that systemd hands over, else those of the settings.
async fn listeners(
    settings: &ServerSettings,
    tls: Option<&Arc<ServerCertificate>>,
    handed: Vec<(String, TcpSocket)>,
) -> Result<(Vec<HttpListener>, Vec<String>), CliError> {
    let mut sockets = Vec::new();
    if handed.is_empty() {
        for (address, is_encrypted) in [(settings.http, false), (settings.https, true)] {
            let Some(address) = address else { continue };
            let socket = TcpListener::bind(address)
                .await
                .map_err(|error| CliError::io(format!("{address} can't be listened to"), &error))?;
            sockets.push((socket, is_encrypted));
        }
    }
    for (name, socket) in handed {
        let socket = TcpListener::from_std(socket)
            .map_err(|error| CliError::io("a socket of systemd can't be used", &error))?;
        sockets.push((socket, name == "https"));
    }
    let (mut listeners, mut addresses) = (Vec::new(), Vec::new());
    for (socket, is_encrypted) in sockets {
        let address =
            socket.local_addr().map_err(|error| CliError::io("the address is not known", &error))?;
        if is_encrypted {
            let tls =
                tls.ok_or_else(|| CliError::new("the socket `https` of systemd needs a certificate"))?;
            addresses.push(format!("https://{address}/"));
            listeners.push(HttpListener::tls(socket, Arc::clone(tls)));
        } else {
            addresses.push(format!("http://{address}/"));
            listeners.push(HttpListener::plain(socket));
        }
    }
    Ok((listeners, addresses))
}

/// Ready when the process is asked to end. Asked to read its files again, it does.
fn shutdown_signal(tls: Option<Arc<ServerCertificate>>) -> io::Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => return,
                _ = interrupt.recv() => return,
                _ = hangup.recv() => match tls.as_ref().map(|tls| tls.reload()) {
                    Some(Ok(())) => tracing::info!("the certificate was read again"),
                    Some(Err(error)) => tracing::error!(%error, "the certificate stays what it was"),
                    None => {}
                },
            }
        }
    })
}

/// The operator's token, which is made at the first start and only its owner can read.
fn read_or_create(path: &Path) -> Result<String, CliError> {
    let failed = |error| CliError::io(format!("`{}` can't be used", path.display()), &error);
    let mut token = String::new();
    match OpenOptions::new().read(true).open(path) {
        Ok(file) => file.take(4_096).read_to_string(&mut token).map_err(failed)?,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return if create(path)? { read_or_create(path) } else { Err(failed(error)) };
        }
        Err(error) => return Err(failed(error)),
    };
    let token = token.trim();
    if token.len() < 16 {
        return Err(CliError::new(format!("`{}` has no token", path.display()))
            .with_hint("remove the file, and the next start makes a new one"));
    }
    Ok(token.to_owned())
}

/// Makes a token, unless another server of this directory is faster. It is there whole or not at all. Tells whether there is one
/// now.
fn create(path: &Path) -> Result<bool, CliError> {
    let failed = |error| CliError::io(format!("`{}` can't be made", path.display()), &error);
    let mut random = [0; 32];
    rand::fill(&mut random).map_err(|_| CliError::new("the system has no randomness"))?;
    let draft = path.with_extension(format!("token.{}", std::process::id()));
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&draft).map_err(failed)?;
    let written = writeln!(file, "{}", BASE64URL_NOPAD.encode(&random)).and_then(|()| file.sync_all());
    let linked = written.and_then(|()| match std::fs::hard_link(&draft, path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    });
    let removed = std::fs::remove_file(&draft);
    linked.and(removed).map_err(failed)?;
    Ok(path.exists())
}

/// Puts a few records into the store, unless they are there.
async fn load_demo(store: &AnyStore) -> Result<(), CliError> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    for line in include_str!("../demo.jsonl").lines() {
        let Ok(mut record) = HandleRecord::from_json(line.as_bytes()) else { continue };
        for value in &mut record.values {
            value.timestamp = u32::try_from(now.as_secs()).unwrap_or(u32::MAX);
        }
        let handle = Handle::new(&record.handle);
        let prefix = String::from_utf8_lossy(handle.prefix()).into();
        let name = handle.to_string().into();
        let edits = vec![
            Edit::Put { name, values: record.values, expect: Precondition::Absent },
            Edit::Home { prefix },
        ];
        let at = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        match store.commit(ChangeSet { by: "demo".into(), at, edits }).await {
            Ok(_) | Err(CommitError::Conflict(_)) => {}
            Err(error) => return Err(CliError::new(error.to_string())),
        }
    }
    eprint_line("demo: try /10.5555/DEMO, /10.5555/DEMO-COPIES?locatt=country:gb and /10.5555/DEMO-ALIAS");
    Ok(())
}

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
use tendot_proto::record::Record;
use tendot_registry::{Registry, Settings as RegistrySettings};
use tendot_server::Tally;
use tendot_server::http::{Http, Listener, Tls, listen};
use tendot_server::native::{self, Native, NativeSockets, OwnSite, SitePeerClient};
use tendot_store::{AnyStore, Change, CommitError, Edit, Embedded, Precondition, Memory, Store};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};

use crate::args::{ConfigSourceArguments, ServeArguments};
use crate::config::{Configuration, Settings, StoreSetting, wrong};
use crate::failure::tell;
use crate::log::LogWriter;
use crate::output::Output;
use crate::site::{PublishedEndpoints, joined_site, own_site};
use crate::store::{open_postgres, unopened};
use crate::systemd::InheritedSockets;
use crate::{Answer, Failure, database, systemd};

#[derive(Serialize)]
struct Ready<'a> {
    ready: &'a [String],
}

pub(crate) fn run(arguments: &ServeArguments) -> Result<Answer, Failure> {
    let settings = settings(arguments)?;
    let log = LogWriter::begin(settings.log_format, settings.log_level)?;
    settings.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
    let runtime = Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::io("threads can't be started", &error))?;
    let served = runtime.block_on(async {
        let (store, token) = open_store(&settings).await?;
        serve(arguments, &settings, &log, store, token).await
    });
    log.end();
    served
}

/// Opens the configured store, and reads the operator's token from the data directory if there is one.
async fn open_store(settings: &Settings) -> Result<(AnyStore, Option<String>), Failure> {
    let token = |directory: &Path| operator_token(&directory.join("operator.token")).map(Some);
    match (&settings.store, settings.directory()) {
        (StoreSetting::Memory, _) | (_, None) => Ok((Memory::new().into(), None)),
        (StoreSetting::Embedded(_), Some(directory)) => {
            let store = Embedded::open(&directory).map_err(|error| unopened(&error))?;
            Ok((store.into(), token(&directory)?))
        }
        (StoreSetting::Postgres(address), Some(directory)) => {
            let store = open_postgres(address, &settings.postgres()).await?;
            std::fs::create_dir_all(&directory)
                .map_err(|error| Failure::io(format!("`{}` can't be made", directory.display()), &error))?;
            Ok((store.into(), token(&directory)?))
        }
    }
}

fn settings(arguments: &ServeArguments) -> Result<Settings, Failure> {
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
) -> Result<Settings, Failure> {
    Configuration::gather(arguments, flags).settings().map_err(|problems| wrong(&problems))
}

async fn serve(
    arguments: &ServeArguments,
    settings: &Settings,
    log: &LogWriter,
    store: AnyStore,
    token: Option<String>,
) -> Result<Answer, Failure> {
    if arguments.demo {
        load_demo(&store).await?;
    }
    let tls = match (&settings.certificate, &settings.key) {
        (Some(certificate), Some(key)) => {
            let read = Tls::read(certificate, key);
            let asking = |tls: Tls| if settings.client_certificates { tls.request_client_certificates() } else { Ok(tls) };
            Some(Arc::new(read.and_then(asking).map_err(|error| Failure::new(error.to_string()))?))
        }
        _ => None,
    };
    let lost = log.clone();
    let InheritedSockets { http: handed, native: handed_native } =
        systemd::sockets().map_err(|error| Failure::io("a socket of systemd can't be used", &error))?;
    let (listeners, mut addresses) = listeners(settings, tls.as_ref(), handed).await?;
    let sockets = native_sockets(settings, handed_native)?;
    let native_address = sockets.as_ref().map(|(address, _)| *address);
    let site = site(settings, native_address, &addresses)?;
    let registry = Arc::new(registry(settings, store, site.as_ref()));
    let (tally, upkeep) = settings.upkeep();
    let tally = Arc::new(tally);
    let native = sockets.zip(site).map(|((address, sockets), site)| {
        (address, sockets, Arc::new(native(settings, &registry, &tally, site)))
    });
    let mut http = Http::new(Arc::clone(&registry));
    if let AnyStore::Postgres(store) = registry.store() {
        http = database::show(http, &store.watched());
    }
    http = http
        .tally(Arc::clone(&tally))
        .trust(settings.trust())
        .body_timeout(settings.body_timeout)
        .reverse_lookup_timeout(settings.reverse_lookup_timeout)
        .keeps(settings.kept.bytes(&settings.store))
        .metrics_for(settings.metrics_for.clone())
        .logs_requests(settings.log_requests)
        .figure("tendot_log_dropped", "Lines of the log that were lost.", true, move || {
            Some(lost.lost() as f64)
        });
    if let Some(upstream) = settings.upstream.0.clone() {
        http = http.upstream(upstream, settings.cache());
    }
    if let Some(rates) = settings.rates() {
        http = http.rates(rates);
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
        http = http.native(Arc::clone(native));
        addresses.push(format!("hdl://{address}/"));
    }
    if addresses.is_empty() {
        let hint = "`--http ADDR`, `--https ADDR` or `--native ADDR` says where";
        return Err(Failure::new("there is nothing to listen to").hint(hint));
    }
    let http = Arc::new(http);
    let end = shutdown_signal(tls).map_err(|error| Failure::io("signals can't be waited for", &error))?;
    http.set_ready(true);
    tell(format_args!("ready: {}", addresses.join(" ")));
    if arguments.json {
        let mut output = Output::new();
        output.json(&Ready { ready: &addresses })?;
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
        let listened = native::listen(sockets, native, settings.native_limits(), native_end).await;
        listened.inspect_err(|error| tracing::error!(%error, "the native protocol is not answered"))
    };
    let wait = async {
        end.await;
        systemd::notify("STOPPING=1");
        tracing::info!("what is under way is finished");
        let _ = ending.send(true);
    };
    let http = listen(listeners, http, settings.limits(), http_end);
    let (closing, closed) = oneshot::channel::<()>();
    let served = async {
        let served = tokio::join!(http, answering, wait);
        drop(closing);
        served
    };
    // What the last requests are about is counted, too.
    let keeping_up = upkeep.run(&registry, &tally, async { drop(closed.await) });
    let ((http, native, ()), ()) = tokio::join!(served, keeping_up);
    http.and(native).map_err(|error| Failure::io("requests can't be taken", &error))?;
    Ok(Answer::Yes)
}

/// Where the native protocol is answered: at the sockets that systemd hands over, else at those of the settings; nowhere if
/// it is off.
fn native_sockets(
    settings: &Settings,
    handed: (Option<TcpSocket>, Option<UdpSocket>),
) -> Result<Option<(SocketAddr, NativeSockets)>, Failure> {
    let unusable = |error: io::Error| Failure::io("a socket of systemd can't be used", &error);
    let sockets = match handed {
        (Some(tcp), Some(udp)) => NativeSockets::handed(tcp, udp).map_err(unusable)?,
        (None, None) => {
            let Some(address) = settings.native else { return Ok(None) };
            bind_native(address)?
        }
        _ => {
            return Err(Failure::new("systemd has to hand over two sockets `native`, or none")
                .hint("one is for connections (`ListenStream=`), one for datagrams (`ListenDatagram=`)"));
        }
    };
    let address = sockets.address().map_err(unusable)?;
    Ok(Some((address, sockets)))
}

fn bind_native(address: SocketAddr) -> Result<NativeSockets, Failure> {
    let failed = |error: io::Error| {
        let failure = Failure::io(format!("{address} can't be listened to"), &error);
        match error.kind() {
            ErrorKind::AddrInUse => failure.hint(
                "another handle server may be running; `--native ADDR` says another address, `--native off` none",
            ),
            _ => failure.hint("`--native ADDR` says another address, `--native off` none"),
        }
    };
    NativeSockets::bind(address).map_err(failed)
}

/// Who we are; nobody to others without the native protocol, unless we are a server of several.
fn site(
    settings: &Settings,
    native: Option<SocketAddr>,
    addresses: &[String],
) -> Result<Option<OwnSite>, Failure> {
    let (directory, joined) = (settings.directory(), settings.site.as_deref());
    let Some(native) = native else {
        return directory.zip(joined).map(|(directory, joined)| joined_site(&directory, joined)).transpose();
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
    own_site(directory.as_deref(), &reached, joined).map(Some)
}

/// The rules; with other servers of our site to ask, if there are some.
fn registry(settings: &Settings, store: AnyStore, site: Option<&OwnSite>) -> Registry {
    let share = site.and_then(OwnSite::share);
    let registry = Registry::new(store, RegistrySettings { share, ..settings.registry() });
    match site.filter(|_| share.is_some()) {
        Some(site) => registry.with_site_peers(Arc::new(SitePeerClient::new(site.site().clone()))),
        None => registry,
    }
}

/// The native protocol.
fn native(settings: &Settings, registry: &Arc<Registry>, tally: &Arc<Tally>, site: OwnSite) -> Native {
    let mut native = Native::new(Arc::clone(registry), site)
        .allow_dh_1024(settings.allow_dh_1024)
        .tally(Arc::clone(tally))
        .keeps(settings.native_kept.bytes(&settings.store))
        .logs_requests(settings.log_requests);
    if let Some(rates) = settings.native_rate_limits() {
        native = native.rates(rates);
    }
    native
}

/// The sockets that are listened to, and their addresses: those that systemd hands over, else those of the settings.
async fn listeners(
    settings: &Settings,
    tls: Option<&Arc<Tls>>,
    handed: Vec<(String, TcpSocket)>,
) -> Result<(Vec<Listener>, Vec<String>), Failure> {
    let mut sockets = Vec::new();
    if handed.is_empty() {
        for (address, is_encrypted) in [(settings.http, false), (settings.https, true)] {
            let Some(address) = address else { continue };
            let socket = TcpListener::bind(address)
                .await
                .map_err(|error| Failure::io(format!("{address} can't be listened to"), &error))?;
            sockets.push((socket, is_encrypted));
        }
    }
    for (name, socket) in handed {
        let socket = TcpListener::from_std(socket)
            .map_err(|error| Failure::io("a socket of systemd can't be used", &error))?;
        sockets.push((socket, name == "https"));
    }
    let (mut listeners, mut addresses) = (Vec::new(), Vec::new());
    for (socket, is_encrypted) in sockets {
        let address = socket.local_addr().map_err(|error| Failure::io("the address is not known", &error))?;
        if is_encrypted {
            let tls = tls.ok_or_else(|| Failure::new("the socket `https` of systemd needs a certificate"))?;
            addresses.push(format!("https://{address}/"));
            listeners.push(Listener::encrypted(socket, Arc::clone(tls)));
        } else {
            addresses.push(format!("http://{address}/"));
            listeners.push(Listener::plain(socket));
        }
    }
    Ok((listeners, addresses))
}

/// Ready when the process is asked to end. Asked to read its files again, it does.
fn shutdown_signal(tls: Option<Arc<Tls>>) -> io::Result<impl Future<Output = ()>> {
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
fn operator_token(path: &Path) -> Result<String, Failure> {
    let failed = |error| Failure::io(format!("`{}` can't be used", path.display()), &error);
    let mut token = String::new();
    match OpenOptions::new().read(true).open(path) {
        Ok(file) => file.take(4_096).read_to_string(&mut token).map_err(failed)?,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return if make_token(path)? { operator_token(path) } else { Err(failed(error)) };
        }
        Err(error) => return Err(failed(error)),
    };
    let token = token.trim();
    if token.len() < 16 {
        return Err(Failure::new(format!("`{}` has no token", path.display()))
            .hint("remove the file, and the next start makes a new one"));
    }
    Ok(token.to_owned())
}

/// Makes a token, unless another server of this directory is faster. It is there whole or not at all. Tells whether there is one
/// now.
fn make_token(path: &Path) -> Result<bool, Failure> {
    let failed = |error| Failure::io(format!("`{}` can't be made", path.display()), &error);
    let mut random = [0; 32];
    rand::fill(&mut random).map_err(|_| Failure::new("the system has no randomness"))?;
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
async fn load_demo(store: &AnyStore) -> Result<(), Failure> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    for line in include_str!("../demo.jsonl").lines() {
        let Ok(mut record) = Record::from_json(line.as_bytes()) else { continue };
        for value in &mut record.values {
            value.timestamp = u32::try_from(now.as_secs()).unwrap_or(u32::MAX);
        }
        let handle = Handle::new(&record.handle);
        let prefix = String::from_utf8_lossy(handle.prefix()).into();
        let name = handle.to_string().into();
        let edits =
            vec![Edit::Put { name, values: record.values, expect: Precondition::Absent }, Edit::Home { prefix }];
        let at = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        match store.commit(Change { by: "demo".into(), at, edits }).await {
            Ok(_) | Err(CommitError::Conflict(_)) => {}
            Err(error) => return Err(Failure::new(error.to_string())),
        }
    }
    tell("demo: try /10.5555/DEMO, /10.5555/DEMO-COPIES?locatt=country:gb and /10.5555/DEMO-ALIAS");
    Ok(())
}

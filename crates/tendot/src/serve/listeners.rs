//! Sockets of the server: bound here, or inherited from systemd.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener as TcpSocket, UdpSocket};
use std::sync::Arc;

use tendot_server::http::{HttpListener, ServerCertificate};
use tendot_server::native::NativeSockets;
use tokio::net::TcpListener;

use crate::CliError;
use crate::config::ServerSettings;

/// HTTP listeners and their URLs: sockets inherited from systemd, else bound to the configured addresses.
pub(super) async fn http_listeners(
    settings: &ServerSettings,
    tls: Option<&Arc<ServerCertificate>>,
    inherited: Vec<(String, TcpSocket)>,
) -> Result<(Vec<HttpListener>, Vec<String>), CliError> {
    let mut sockets = Vec::new();
    if inherited.is_empty() {
        for (address, is_encrypted) in [(settings.http_address, false), (settings.https_address, true)] {
            let Some(address) = address else { continue };
            let how = if is_encrypted {
                "`--set https.address=ADDR`"
            } else {
                "`--http ADDR`, or disable HTTP with `--http off`"
            };
            let socket =
                TcpListener::bind(address).await.map_err(|error| listen_error(address, &error, how))?;
            sockets.push((socket, is_encrypted));
        }
    }
    for (name, socket) in inherited {
        let socket = TcpListener::from_std(socket)
            .map_err(|error| CliError::io("cannot use the socket passed by systemd", &error))?;
        sockets.push((socket, name == "https"));
    }
    let (mut listeners, mut addresses) = (Vec::new(), Vec::new());
    for (socket, is_encrypted) in sockets {
        let address =
            socket.local_addr().map_err(|error| CliError::io("cannot read the local address", &error))?;
        if is_encrypted {
            let why = "the systemd socket `https` requires `https.certificate` and `https.key`";
            let tls = tls.ok_or_else(|| CliError::new(why))?;
            addresses.push(format!("https://{address}/"));
            listeners.push(HttpListener::tls(socket, Arc::clone(tls)));
        } else {
            addresses.push(format!("http://{address}/"));
            listeners.push(HttpListener::plain(socket));
        }
    }
    Ok((listeners, addresses))
}

/// Sockets of the native protocol: inherited from systemd, else bound to the configured address; `None` if it is off.
pub(super) fn native_sockets(
    settings: &ServerSettings,
    inherited_tcp: Option<TcpSocket>,
    inherited_udp: Option<UdpSocket>,
) -> Result<Option<(SocketAddr, NativeSockets)>, CliError> {
    let unusable = |error: io::Error| CliError::io("cannot use the socket passed by systemd", &error);
    let sockets = match (inherited_tcp, inherited_udp) {
        (Some(tcp), Some(udp)) => NativeSockets::from_inherited(tcp, udp).map_err(unusable)?,
        (None, None) => {
            let Some(address) = settings.native_address else { return Ok(None) };
            bind_native(address)?
        }
        _ => {
            return Err(CliError::new("expected two systemd sockets named `native`, or none")
                .with_hint("use `ListenStream=` for TCP and `ListenDatagram=` for UDP"));
        }
    };
    let address = sockets.address().map_err(unusable)?;
    Ok(Some((address, sockets)))
}

fn bind_native(address: SocketAddr) -> Result<NativeSockets, CliError> {
    let how = "`--native ADDR`, or disable the native protocol with `--native off`";
    NativeSockets::bind(address).map_err(|error| listen_error(address, &error, how))
}

/// Error with the flag that chooses another address.
fn listen_error(address: SocketAddr, error: &io::Error, how: &str) -> CliError {
    let cause = match error.kind() {
        ErrorKind::AddrInUse => "another server may be running; ",
        ErrorKind::PermissionDenied => "ports below 1024 need a privilege (`CAP_NET_BIND_SERVICE`); ",
        _ => "",
    };
    CliError::io(format!("cannot listen on {address}"), error)
        .with_hint(format!("{cause}choose another address with {how}"))
}

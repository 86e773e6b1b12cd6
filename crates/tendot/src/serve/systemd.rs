//! Integration with systemd: socket activation and `sd_notify`.

use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use listenfd::ListenFd;

/// Sockets passed by systemd socket activation (`LISTEN_FDS`).
#[derive(Default)]
pub(crate) struct InheritedSockets {
    /// HTTP sockets with their names (`FileDescriptorName=`).
    pub(crate) http: Vec<(String, TcpListener)>,
    /// TCP socket of the native protocol, named `native`.
    pub(crate) native_tcp: Option<TcpListener>,
    /// UDP socket of the native protocol, named `native`.
    pub(crate) native_udp: Option<UdpSocket>,
}

/// Takes the inherited sockets.
pub(crate) fn inherited_sockets() -> io::Result<InheritedSockets> {
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    let mut inherited = ListenFd::from_env();
    let mut sockets = InheritedSockets::default();
    for number in 0..inherited.len() {
        let name = names.next().unwrap_or_default().to_owned();
        if name == NATIVE_SOCKET_NAME {
            // A socket of the wrong kind is an error and stays available.
            if let Ok(socket) = inherited.take_udp_socket(number) {
                sockets.native_udp = socket;
            } else {
                sockets.native_tcp = inherited.take_tcp_listener(number)?;
            }
        } else if let Some(socket) = inherited.take_tcp_listener(number)? {
            socket.set_nonblocking(true)?;
            sockets.http.push((name, socket));
        }
    }
    Ok(sockets)
}

const NATIVE_SOCKET_NAME: &str = "native";

/// Sends a state such as `READY=1` to systemd; does nothing without `NOTIFY_SOCKET`.
pub(crate) fn notify(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let address = match path.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&path),
    };
    let sent = address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address));
    if let Err(error) = sent {
        tracing::warn!(%error, "sd_notify failed");
    }
}

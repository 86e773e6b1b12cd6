//! TCP and TLS streams, and the address of a server.

use std::net::SocketAddr;
use std::time::Duration;
use std::{fmt, io};

use tendot_proto::record::InterfaceProtocol;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::tls::connect_tls;

/// Timeout of connecting and of a TLS handshake; shorter than the time that a lookup waits for a response.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Size of the buffer for one read from a stream.
pub(super) const READ_BUFFER_BYTES: usize = 16 << 10;

/// Address and transport of a server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TransportAddress {
    /// IP address and port.
    pub address: SocketAddr,
    /// Transport.
    pub transport: InterfaceProtocol,
}

impl fmt::Display for TransportAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} over {}", self.address, self.transport)
    }
}

/// TCP or TLS stream.
pub(super) trait ByteStream: AsyncRead + AsyncWrite + Send + Sync + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Sync + Unpin> ByteStream for S {}

/// Connects over any transport but UDP. Over TLS, `domain` is the server name and `key` the pinned key.
pub(super) async fn connect_stream(
    transport: InterfaceProtocol,
    to: SocketAddr,
    domain: Option<&str>,
    key: &[u8],
) -> io::Result<Box<dyn ByteStream>> {
    if transport == InterfaceProtocol::HTTPS {
        return Ok(Box::new(connect_tls(to, domain, key).await?));
    }
    Ok(Box::new(connect_tcp(to).await?))
}

/// Connects over TCP within [`CONNECT_TIMEOUT`].
pub(super) async fn connect_tcp(to: SocketAddr) -> io::Result<TcpStream> {
    let connection = timeout(CONNECT_TIMEOUT, TcpStream::connect(to)).await??;
    connection.set_nodelay(true)?;
    Ok(connection)
}

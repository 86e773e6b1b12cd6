use std::hash::{BuildHasher as _, RandomState};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::Mutex;

/// Below the range from which the kernel takes the ports of outgoing connections (32768 to 60999), which could otherwise
/// occupy a port between its reservation and its use.
const RANGE: std::ops::Range<u16> = 15_000..32_000;

/// A port that is free on 127.0.0.1 for TCP and UDP and reserved for this process until it ends.
///
/// The reservation is an abstract Unix socket named after the port: the kernel makes it unique and removes it with the process.
pub fn free_port() -> u16 {
    static RESERVED: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());
    loop {
        let offset = RandomState::new().hash_one(0) % u64::from(RANGE.end - RANGE.start);
        let port = RANGE.start + u16::try_from(offset).expect("the range is smaller than 65536");
        let name = SocketAddr::from_abstract_name(format!("tendot-test-port-{port}")).unwrap();
        let Ok(reservation) = UnixListener::bind_addr(&name) else { continue };
        let address = (Ipv4Addr::LOCALHOST, port);
        if TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok() {
            RESERVED.lock().unwrap().push(reservation);
            return port;
        }
    }
}

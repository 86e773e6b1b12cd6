//! UDP socket with batched receive that replies from the address it received on.
//!
//! A socket bound to a wildcard address would reply from the address of the outgoing route; a client that sent to another
//! address ignores such a reply.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd as _;

use nix::cmsg_space;
use nix::libc::{in_addr, in_pktinfo, in6_addr, in6_pktinfo};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, MultiHeaders, RecvMsg, SockaddrStorage, recvmmsg, sendmsg,
    setsockopt, sockopt,
};

/// Datagrams received at once.
pub(crate) const MAX_RECV_BATCH: usize = 32;

/// Bytes read of a datagram. Valid ones have at most 512 bytes; longer ones are recognized by the excess.
const RECV_SLOT_BYTES: usize = 2 << 10;

/// UDP socket with batched receive that replies from the address it received on.
pub(crate) struct UdpBatchSocket {
    socket: UdpSocket,
    is_wildcard: bool,
}

/// Remote address, and the local address the datagram came to.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct UdpPeer {
    pub(crate) address: SocketAddr,
    pub(crate) local: Option<IpAddr>,
}

/// Buffer for `MAX_RECV_BATCH` datagrams.
pub(crate) struct ReceiveBuffer(Vec<u8>);

impl ReceiveBuffer {
    pub(crate) fn new() -> Self {
        Self(vec![0; MAX_RECV_BATCH * RECV_SLOT_BYTES])
    }
}

impl UdpBatchSocket {
    pub(crate) fn new(socket: UdpSocket) -> io::Result<Self> {
        let ip = socket.local_addr()?.ip();
        let is_wildcard = ip.is_unspecified();
        if is_wildcard && ip.is_ipv4() {
            setsockopt(&socket, sockopt::Ipv4PacketInfo, &true)?;
        } else if is_wildcard {
            // Covers IPv4, too, as mapped addresses.
            setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)?;
        }
        Ok(Self { socket, is_wildcard })
    }

    pub(crate) const fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Waits for a datagram, and passes it and all others that have arrived to `each`.
    pub(crate) fn receive(
        &self,
        buffer: &mut ReceiveBuffer,
        mut each: impl FnMut(&[u8], UdpPeer),
    ) -> io::Result<()> {
        let mut slices: Vec<_> =
            buffer.0.chunks_exact_mut(RECV_SLOT_BYTES).map(|buffer| [IoSliceMut::new(buffer)]).collect();
        // Created for each call, which writes the used length into it.
        let control = self.is_wildcard.then(|| cmsg_space!(in6_pktinfo));
        let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(MAX_RECV_BATCH, control);
        let (number, flags) = (self.socket.as_raw_fd(), MsgFlags::MSG_WAITFORONE);
        for received in recvmmsg(number, &mut headers, &mut slices, flags, None)? {
            let Some(address) = received.address.as_ref().and_then(to_socket_addr) else { continue };
            let local = if self.is_wildcard { local_address(&received) } else { None };
            each(received.iovs().next().unwrap_or_default(), UdpPeer { address, local });
        }
        Ok(())
    }

    pub(crate) fn send(&self, datagram: &[u8], to: UdpPeer) -> io::Result<()> {
        let with = |control: ControlMessage<'_>| {
            let (parts, address) = ([IoSlice::new(datagram)], SockaddrStorage::from(to.address));
            sendmsg(self.socket.as_raw_fd(), &parts, &[control], MsgFlags::empty(), Some(&address))
        };
        match to.local {
            None => self.socket.send_to(datagram, to.address)?,
            Some(IpAddr::V4(local)) => with(ControlMessage::Ipv4PacketInfo(&in_pktinfo {
                ipi_ifindex: 0,
                ipi_spec_dst: in_addr { s_addr: u32::from_ne_bytes(local.octets()) },
                ipi_addr: in_addr { s_addr: 0 },
            }))?,
            Some(IpAddr::V6(local)) => with(ControlMessage::Ipv6PacketInfo(&in6_pktinfo {
                ipi6_addr: in6_addr { s6_addr: local.octets() },
                ipi6_ifindex: 0,
            }))?,
        };
        Ok(())
    }
}

fn local_address(received: &RecvMsg<'_, '_, SockaddrStorage>) -> Option<IpAddr> {
    received.cmsgs().ok()?.find_map(|message| match message {
        ControlMessageOwned::Ipv4PacketInfo(found) => {
            Some(Ipv4Addr::from(found.ipi_spec_dst.s_addr.to_ne_bytes()).into())
        }
        ControlMessageOwned::Ipv6PacketInfo(found) => Some(Ipv6Addr::from(found.ipi6_addr.s6_addr).into()),
        _ => None,
    })
}

fn to_socket_addr(address: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = address.as_sockaddr_in().map(|address| SocketAddr::V4((*address).into()));
    v4.or_else(|| address.as_sockaddr_in6().map(|address| SocketAddr::V6((*address).into())))
}

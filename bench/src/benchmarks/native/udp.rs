//! UDP. The client batches system calls (`sendmmsg`, `recvmmsg`), so that it is not slower than the server.

use std::error::Error;
use std::io::{IoSlice, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg};

use super::{CONCURRENCY, Latencies, REQUEST_ID};

/// Requests without a response after this time are repeated.
const RECEIVE_TIMEOUT: Duration = Duration::from_millis(200);

/// Responds to every datagram with these bytes and its request id.
pub(crate) fn serve_fixed(address: SocketAddr, response: &[u8]) -> Result<(), Box<dyn Error>> {
    let socket = UdpSocket::bind(address)?;
    eprintln!("ready");
    let (mut buffer, mut response) = ([0; 2048], response.to_vec());
    loop {
        let (length, from) = socket.recv_from(&mut buffer)?;
        if let Some(number) = buffer[..length].get(REQUEST_ID) {
            response[REQUEST_ID].copy_from_slice(number);
            socket.send_to(&response, from)?;
        }
    }
}

pub(crate) fn run_load(
    address: SocketAddr,
    requests: &[Vec<u8>],
    end: Instant,
) -> Result<Latencies, Box<dyn Error>> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(RECEIVE_TIMEOUT))?;
    let mut measured = Latencies::begin();
    let mut in_flight: Vec<(u32, Instant)> = vec![(0, Instant::now()); CONCURRENCY];
    let mut next: u32 = 0;
    let mut free: Vec<usize> = (0..CONCURRENCY).collect();
    while Instant::now() < end {
        let mut sending = Vec::with_capacity(free.len());
        for slot in free.drain(..) {
            next += 1;
            let mut request = requests[next as usize % requests.len()].clone();
            // The request id encodes the slot and the request in it.
            let number = ((next << 5) | slot as u32) & 0x7fff_ffff;
            request[REQUEST_ID].copy_from_slice(&number.to_be_bytes());
            in_flight[slot] = (number, Instant::now());
            sending.push(request);
        }
        send(&socket, &sending)?;
        let mut buffers = vec![[0; 2048]; CONCURRENCY];
        let mut slices: Vec<_> = buffers.iter_mut().map(|buffer| [IoSliceMut::new(buffer)]).collect();
        let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(CONCURRENCY, None);
        let number = socket.as_raw_fd();
        let lengths: Vec<usize> =
            match recvmmsg(number, &mut headers, &mut slices, MsgFlags::MSG_WAITFORONE, None) {
                Ok(received) => received.map(|datagram| datagram.bytes).collect(),
                Err(Errno::EAGAIN) => {
                    measured.lost += CONCURRENCY;
                    free.extend(0..CONCURRENCY);
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
        let now = Instant::now();
        for (buffer, length) in buffers.iter().zip(lengths) {
            let number = buffer[..length]
                .get(REQUEST_ID)
                .map_or(0, |number| u32::from_be_bytes([number[0], number[1], number[2], number[3]]));
            let slot = number as usize % CONCURRENCY;
            if in_flight[slot].0 == number && !free.contains(&slot) {
                measured.times.push(now - in_flight[slot].1);
                free.push(slot);
            }
        }
    }
    Ok(measured)
}

fn send(socket: &UdpSocket, requests: &[Vec<u8>]) -> Result<(), Box<dyn Error>> {
    let slices: Vec<_> = requests.iter().map(|request| [IoSlice::new(request)]).collect();
    let mut sent = 0;
    while sent < slices.len() {
        let rest = &slices[sent..];
        let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(rest.len(), None);
        let no_addresses: Vec<Option<SockaddrStorage>> = vec![None; rest.len()];
        sent +=
            sendmmsg(socket.as_raw_fd(), &mut headers, rest, &no_addresses, [], MsgFlags::empty())?.count();
    }
    Ok(())
}

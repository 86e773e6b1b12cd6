//! TCP: one connection per request, or keep-alive.

use std::error::Error;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::LocalSet;

use super::{CONCURRENCY, Latencies, REQUEST_ID};

/// Responds to the request of each connection with these bytes and its request id, and closes it.
pub(crate) fn serve_fixed(address: SocketAddr, response: &[u8]) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(address)?;
    eprintln!("ready");
    let (mut buffer, mut response) = ([0; 2048], response.to_vec());
    loop {
        let (mut stream, _) = listener.accept()?;
        let length = stream.read(&mut buffer)?;
        if let Some(number) = buffer[..length].get(REQUEST_ID) {
            response[REQUEST_ID].copy_from_slice(number);
            stream.write_all(&response)?;
        }
    }
}

/// Fetches the response to one request.
pub(crate) fn fetch_response(address: SocketAddr, request: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = std::net::TcpStream::connect(address)?;
    stream.write_all(request)?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response)?;
    Ok(response)
}

/// Sends requests in sequence on one connection.
pub(crate) fn each(address: SocketAddr, requests: &[Vec<u8>]) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        for request in requests {
            exchange(&mut stream, request).await?;
        }
        Ok(())
    })
}

pub(crate) fn run_load(
    address: SocketAddr,
    requests: &[Vec<u8>],
    is_persistent: bool,
    time: Duration,
) -> Result<Latencies, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let requests: Rc<[Vec<u8>]> = requests.into();
    let mut measured = Latencies::begin();
    let end = measured.start + time;
    let local = LocalSet::new();
    let clients: Vec<_> = (0..CONCURRENCY)
        .map(|client| {
            local.spawn_local(run_client(address, Rc::clone(&requests), client, is_persistent, end))
        })
        .collect();
    runtime.block_on(local.run_until(async {
        for client in clients {
            measured.times.extend(client.await??);
        }
        Ok(measured)
    }))
}

async fn run_client(
    address: SocketAddr,
    requests: Rc<[Vec<u8>]>,
    client: usize,
    is_persistent: bool,
    end: Instant,
) -> io::Result<Vec<Duration>> {
    let mut times = Vec::new();
    let mut connection = None;
    let mut at = client;
    while Instant::now() < end {
        let start = Instant::now();
        let request = &requests[at % requests.len()];
        // The server may have closed the connection.
        let reused = match connection.take() {
            Some(mut stream) => exchange(&mut stream, request).await.is_ok().then_some(stream),
            None => None,
        };
        let stream = match reused {
            Some(stream) => stream,
            None => {
                let mut stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                exchange(&mut stream, request).await?;
                stream
            }
        };
        times.push(start.elapsed());
        connection = is_persistent.then_some(stream);
        at += CONCURRENCY;
    }
    Ok(times)
}

async fn exchange(stream: &mut TcpStream, request: &[u8]) -> io::Result<()> {
    stream.write_all(request).await?;
    let (mut buffer, mut received, mut length) = ([0; 4096], 0, usize::MAX);
    while received < length {
        match stream.read(&mut buffer[received..]).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => received += read,
        }
        // The last four of the envelope's 20 bytes are the message length.
        if let Some(&[a, b, c, d]) = buffer[..received].get(16..20) {
            length = 20 + u32::from_be_bytes([a, b, c, d]) as usize;
        }
    }
    Ok(())
}

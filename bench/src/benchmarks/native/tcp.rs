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
pub(crate) fn serve_fixed(address: SocketAddr, answer: &[u8]) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(address)?;
    eprintln!("ready");
    let (mut room, mut answer) = ([0; 2048], answer.to_vec());
    loop {
        let (mut stream, _) = listener.accept()?;
        let length = stream.read(&mut room)?;
        if let Some(number) = room[..length].get(REQUEST_ID) {
            answer[REQUEST_ID].copy_from_slice(number);
            stream.write_all(&answer)?;
        }
    }
}

/// Fetches the response to one request.
pub(crate) fn fetch_response(address: SocketAddr, request: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = std::net::TcpStream::connect(address)?;
    stream.write_all(request)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
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
    is_kept: bool,
    time: Duration,
) -> Result<Latencies, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let requests: Rc<[Vec<u8>]> = requests.into();
    let mut measured = Latencies::begin();
    let end = measured.begun + time;
    let local = LocalSet::new();
    let asking: Vec<_> = (0..CONCURRENCY)
        .map(|client| local.spawn_local(client_of(address, Rc::clone(&requests), client, is_kept, end)))
        .collect();
    runtime.block_on(local.run_until(async {
        for client in asking {
            measured.times.extend(client.await??);
        }
        Ok(measured)
    }))
}

async fn client_of(
    address: SocketAddr,
    requests: Rc<[Vec<u8>]>,
    client: usize,
    is_kept: bool,
    end: Instant,
) -> io::Result<Vec<Duration>> {
    let mut times = Vec::new();
    let mut kept = None;
    let mut at = client;
    while Instant::now() < end {
        let begun = Instant::now();
        let request = &requests[at % requests.len()];
        // The server may have closed the connection.
        let answered = match kept.take() {
            Some(mut stream) => exchange(&mut stream, request).await.is_ok().then_some(stream),
            None => None,
        };
        let stream = match answered {
            Some(stream) => stream,
            None => {
                let mut stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                exchange(&mut stream, request).await?;
                stream
            }
        };
        times.push(begun.elapsed());
        kept = is_kept.then_some(stream);
        at += CONCURRENCY;
    }
    Ok(times)
}

async fn exchange(stream: &mut TcpStream, request: &[u8]) -> io::Result<()> {
    stream.write_all(request).await?;
    let (mut room, mut came, mut length) = ([0; 4096], 0, usize::MAX);
    while came < length {
        match stream.read(&mut room[came..]).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => came += read,
        }
        // The last four of the envelope's 20 bytes are the message length.
        if let Some(&[a, b, c, d]) = room[..came].get(16..20) {
            length = 20 + u32::from_be_bytes([a, b, c, d]) as usize;
        }
    }
    Ok(())
}

//! Load generator for native servers, and fixed-response servers to compare with.
//!
//! - `native each ADDRESS NAMES` sends one request per name in a file, in sequence on one connection.
//! - `native udp|tcp|persistent ADDRESS NAMES SECONDS` resolves the names in a file with 32 concurrent requests: over UDP, over one TCP
//!   connection per request, or over keep-alive connections.
//! - `native create SITE SECONDS ROUND` creates records in 32 sessions at the server of a site record.
//! - `native response ADDRESS NAME FILE` saves the response to a request; `native echo|accept ADDRESS FILE` responds to every datagram, or to the one request of each connection, with the bytes of
//!   a file.
//!
//! Load runs print the number of requests, requests per second, and the 99th percentile of the latency in microseconds.

mod create;
mod tcp;
mod udp;

use std::error::Error;
use std::fs;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tendot_proto::wire::WireList;
use tendot_proto::{
    CredentialSection, Envelope, Handle, Message, MessageBody, MessageHeader, Now, OpFlags, Opcode,
    ProtocolVersion, Request,
};

/// Concurrent requests.
const CONCURRENCY: usize = 32;

/// Position of the request id in requests and responses.
const REQUEST_ID: std::ops::Range<usize> = 8..12;

pub(crate) fn run(arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    let measured = match *arguments {
        ["echo", address, response] => return udp::serve_fixed(address.parse()?, &fs::read(response)?),
        ["accept", address, response] => return tcp::serve_fixed(address.parse()?, &fs::read(response)?),
        ["response", address, name, file] => {
            return Ok(fs::write(file, tcp::fetch_response(address.parse()?, &request(name, false)?)?)?);
        }
        ["each", address, names] => {
            return Ok(tcp::each(address.parse()?, &requests(names, true)?)?);
        }
        ["udp", address, names, seconds] => {
            let end = Instant::now() + Duration::from_secs_f64(seconds.parse()?);
            udp::run_load(address.parse()?, &requests(names, false)?, end)?
        }
        [transport @ ("tcp" | "persistent"), address, names, seconds] => {
            let (is_persistent, time) =
                (transport == "persistent", Duration::from_secs_f64(seconds.parse()?));
            tcp::run_load(address.parse()?, &requests(names, is_persistent)?, is_persistent, time)?
        }
        ["create", site, seconds, round] => {
            create::create(&fs::read(site)?, Duration::from_secs_f64(seconds.parse()?), round)?
        }
        _ => return Err("usage: native each|udp|tcp|persistent|create|echo|accept|response …".into()),
    };
    println!("measured {measured}");
    Ok(())
}

/// Request latencies of one run.
struct Latencies {
    start: Instant,
    times: Vec<Duration>,
    lost: usize,
}

impl Latencies {
    fn begin() -> Self {
        Self { start: Instant::now(), times: Vec::with_capacity(1 << 20), lost: 0 }
    }
}

impl std::fmt::Display for Latencies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut times = self.times.clone();
        times.sort_unstable();
        let p99 = times.get(times.len() * 99 / 100).map_or(0.0, |time| time.as_secs_f64() * 1e6);
        let rate = times.len() as f64 / self.start.elapsed().as_secs_f64();
        write!(f, "{} {rate:.1} {p99:.1} {}", times.len(), self.lost)
    }
}

/// Encoded requests for the names in a file, one per line.
fn requests(file: &str, is_persistent: bool) -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    fs::read_to_string(file)?.lines().map(|name| request(name, is_persistent)).collect()
}

fn request(name: &str, is_persistent: bool) -> Result<Vec<u8>, Box<dyn Error>> {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let now = Now { elapsed: Duration::ZERO, unix };
    let flags = if is_persistent { OpFlags::DEFAULT | OpFlags::KEEP_CONNECTION } else { OpFlags::DEFAULT };
    let header = MessageHeader { flags, ..MessageHeader::for_request(Opcode::RESOLUTION, now) };
    let no_indexes: &[u32] = &[];
    let no_types: &[&[u8]] = &[];
    let body = Request::Resolve {
        handle: Handle::from(name),
        indexes: WireList::from(no_indexes),
        types: WireList::from(no_types),
    };
    let message = Message {
        envelope: Envelope { request_id: 1, ..Envelope::new(ProtocolVersion::LATEST) },
        header,
        body: MessageBody::Request(body),
        trailing_body: &[],
        credential_section: CredentialSection::Empty,
    };
    Ok(message.to_bytes()?)
}

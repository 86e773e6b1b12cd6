//! Load on the registry API over HTTP.
//!
//! - `registry prepare ADDRESS TOKEN` creates an agency, a registrant and a prefix, and prints the prefix.
//! - `registry deposits ADDRESS TOKEN PREFIX CLIENTS SECONDS` registers names one by one, and prints names per second.
//! - `registry batch ADDRESS TOKEN PREFIX RECORDS` sends a batch with metadata, and prints names per second.
//! - `registry follow ADDRESS TOKEN PREFIX CHANGES` prints the delay until a change is in the change feed.
//! - `registry group DIR WRITERS SECONDS` commits the same records directly to a store, and prints commits per second.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::measure::{median, thread_rate};
use tendot_proto::HandleValue;
use tendot_store::{ChangeSet, Edit, EmbeddedStore, Precondition, Store as _};
use tendot_testing::http::{HttpConnection, HttpRequest, HttpResponse};

type BenchResult<T = ()> = Result<T, Box<dyn Error>>;

pub(crate) fn run(arguments: &[&str]) -> BenchResult {
    match arguments {
        ["prepare", address, token] => prepare(address, token),
        ["deposits", address, token, prefix, clients, time] => {
            registrations(address, token, prefix, clients.parse()?, Duration::from_secs(time.parse()?));
            Ok(())
        }
        ["batch", address, token, prefix, records] => batch(address, token, prefix, records.parse()?),
        ["follow", address, token, prefix, changes] => {
            change_feed_delay(address, token, prefix, changes.parse()?)
        }
        ["group", directory, writers, time] => {
            group_commit(Path::new(directory), writers.parse()?, Duration::from_secs(time.parse()?))
        }
        _ => Err("see the beginning of registry.rs".into()),
    }
}

/// Connection of a client with a token.
struct ApiConnection<'a> {
    connection: HttpConnection,
    token: &'a str,
}

impl<'a> ApiConnection<'a> {
    fn open(address: &str, token: &'a str) -> BenchResult<Self> {
        Ok(Self { connection: HttpConnection::open(address.parse()?)?, token })
    }

    /// Creates an object; any status but 201 is an error.
    fn create(&mut self, path: &str, body: impl Into<Vec<u8>>) -> BenchResult<HttpResponse> {
        let request = HttpRequest::new("POST", &format!("/api/v1{path}")).bearer(self.token);
        let response =
            self.connection.exchange(&request.header("Content-Type: application/json").body(body))?;
        if response.status != 201 {
            return Err(format!("{path}: {}{}", response.head, response.text()).into());
        }
        Ok(response)
    }
}

fn prepare(address: &str, token: &str) -> BenchResult {
    let mut client = ApiConnection::open(address, token)?;
    client.create("/agencies", r#"{"code":"BENCH","name":"Bench"}"#)?;
    let registrant = client.create("/registrants", r#"{"agency":"BENCH","name":"Bench"}"#)?.json();
    let prefix = client.create("/prefixes", format!("{{\"registrant\":{}}}", registrant["id"]))?.json();
    println!("{}", prefix["prefix"].as_str().ok_or("no prefix")?);
    Ok(())
}

/// Registration with metadata, about 600 bytes of JSON.
fn registration_json(prefix: &str, suffix: &str) -> String {
    format!(
        "{{\"name\":\"{prefix}/{suffix}\",\"url\":\"https://journal.example.org/articles/{suffix}\",\"metadata\":\
         {{\"primaryReferentType\":\"Creation\",\"referentCreation\":{{\"name\":[{{\"value\":\"On matters of number {suffix}\",\
         \"type\":\"Title\",\"primaryLanguage\":\"en\"}}],\"identifier\":[{{\"nonUriValue\":\"1476-4687\",\"type\":\"ISSN\"}}],\
         \"structuralType\":\"Digital\",\"mode\":[\"Visual\"],\"character\":[\"Language\"],\"type\":[\"Article\"],\
         \"principalAgent\":[{{\"name\":{{\"value\":\"Example, Author\",\"type\":\"Name\"}},\"role\":\"Author\"}},\
         {{\"name\":{{\"value\":\"Other, Author\",\"type\":\"Name\"}},\"role\":\"Author\"}}]}}}}}}"
    )
}

fn registrations(address: &str, token: &str, prefix: &str, clients: u64, time: Duration) {
    let run = format!("{:x}", std::process::id());
    let rate = thread_rate(clients, time, |number| {
        let mut client = ApiConnection::open(address, token).expect("the server accepts connections");
        let (run, mut next) = (&run, 0);
        move || {
            next += 1;
            let body = registration_json(prefix, &format!("one-{run}-{number}-{next}"));
            client.create("/dois", body).expect("names are unique");
        }
    });
    println!("rate {rate:.0}");
}

fn batch(address: &str, token: &str, prefix: &str, records: u64) -> BenchResult {
    let stream = TcpStream::connect(address)?;
    let mut request_stream = stream.try_clone()?;
    let run = std::process::id();
    let start = Instant::now();
    let head = format!(
        "POST /api/v1/dois/batch HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\nContent-Type: \
         application/x-ndjson\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    );
    request_stream.write_all(head.as_bytes())?;
    let prefix = prefix.to_owned();
    let sender = std::thread::spawn(move || -> std::io::Result<()> {
        let mut chunk = String::with_capacity(70 << 10);
        for number in 0..records {
            chunk += &registration_json(&prefix, &format!("batch.{run:08}.{number:09}"));
            chunk.push('\n');
            if chunk.len() > 60 << 10 || number + 1 == records {
                request_stream.write_all(format!("{:x}\r\n{chunk}\r\n", chunk.len()).as_bytes())?;
                chunk.clear();
            }
        }
        request_stream.write_all(b"0\r\n\r\n")
    });
    let mut reader = BufReader::with_capacity(1 << 18, stream);
    let (mut line, mut response, mut created) = (String::new(), Vec::new(), 0_u64);
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    // A line of the response may span two chunks.
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let size = usize::from_str_radix(line.trim(), 16)?;
        if size == 0 {
            break;
        }
        let start = response.len();
        response.resize(start + size + 2, 0);
        reader.read_exact(&mut response[start..])?;
        response.truncate(start + size);
        let end = response.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines = response[..end].split(|byte| *byte == b'\n');
        created += lines.filter(|line| line.ends_with(b"\"status\":\"created\"}")).count() as u64;
        response.drain(..end);
    }
    sender.join().map_err(|_| "the sender panicked")??;
    if created != records {
        return Err(format!("{created} of {records} were created").into());
    }
    println!("rate {:.0}", records as f64 / start.elapsed().as_secs_f64());
    Ok(())
}

fn change_feed_delay(address: &str, token: &str, prefix: &str, changes: u64) -> BenchResult {
    let mut feed = TcpStream::connect(address)?;
    let request =
        "GET /api/v1/changes HTTP/1.1\r\nHost: bench\r\nAccept: text/event-stream\r\nLast-Event-ID: ";
    // Start at the end of the change log.
    feed.write_all(format!("{request}{}\r\n\r\n", last_sequence(address)?).as_bytes())?;
    let mut lines = BufReader::new(feed).lines();
    let mut client = ApiConnection::open(address, token)?;
    let mut delays = Vec::new();
    let run = std::process::id();
    for number in 0..changes {
        std::thread::sleep(Duration::from_millis(7));
        let suffix = format!("seen-{run}-{number}");
        client.create("/dois", registration_json(prefix, &suffix))?;
        let acknowledged = Instant::now();
        loop {
            let line = lines.next().ok_or("the stream has ended")??;
            if line.contains(&suffix) {
                break;
            }
        }
        delays.push(acknowledged.elapsed().as_secs_f64() * 1e3);
    }
    delays.sort_by(f64::total_cmp);
    println!("p99 {:.1}", delays[delays.len() * 99 / 100]);
    println!("median {:.1}", median(delays));
    Ok(())
}

/// Sequence number of the last change.
fn last_sequence(address: &str) -> BenchResult<u64> {
    let changes = HttpRequest::get("/api/v1/changes").try_send(address.parse()?)?.json_lines();
    Ok(changes.last().and_then(|change| change["seq"].as_u64()).unwrap_or_default())
}

fn group_commit(directory: &Path, writers: u64, time: Duration) -> BenchResult {
    let store = EmbeddedStore::open(directory)?;
    let run = std::process::id();
    let rate = thread_rate(writers, time, |writer| {
        let (store, mut next) = (&store, 0);
        move || {
            next += 1;
            let suffix = format!("one-{run}-{writer}-{next}");
            let url = format!("https://journal.example.org/articles/{suffix}");
            let values =
                vec![HandleValue::new(1, "URL", url), HandleValue::new(100, "HS_ADMIN", "0123456789abcdef")];
            let registration = registration_json("10.70000", &suffix).into_bytes().into();
            let name = format!("10.70000/{suffix}").into();
            let put = Edit::Register { name, values, registration, precondition: Precondition::Absent };
            let change = ChangeSet { author: "bench".into(), timestamp_ms: 0, edits: vec![put] };
            pollster::block_on(store.commit(change)).expect("names are unique");
        }
    });
    println!("rate {rate:.0}");
    Ok(())
}

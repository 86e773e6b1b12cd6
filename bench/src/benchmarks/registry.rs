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
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::measure::median;
use tendot_proto::HandleValue;
use tendot_store::{ChangeSet, Edit, EmbeddedStore, Precondition, Store as _};

type BenchResult<T = ()> = Result<T, Box<dyn Error>>;

pub(crate) fn run(arguments: &[&str]) -> BenchResult {
    match arguments {
        ["prepare", address, token] => prepare(address, token),
        ["deposits", address, token, prefix, clients, time] => {
            registrations(address, token, prefix, clients.parse()?, Duration::from_secs(time.parse()?))
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

/// Keep-alive HTTP/1.1 connection.
struct HttpConnection<'a> {
    stream: BufReader<TcpStream>,
    token: &'a str,
}

impl<'a> HttpConnection<'a> {
    fn open(address: &str, token: &'a str) -> BenchResult<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream), token })
    }

    fn post(&mut self, path: &str, body: &str) -> BenchResult<(u16, String)> {
        let request = format!(
            "POST /api/v1{path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\r\n{body}",
            self.token,
            body.len()
        );
        self.stream.get_mut().write_all(request.as_bytes())?;
        let (mut line, mut status, mut length) = (String::new(), 0, 0);
        loop {
            line.clear();
            self.stream.read_line(&mut line)?;
            if line == "\r\n" || line.is_empty() {
                break;
            }
            if let Some(rest) = line.strip_prefix("HTTP/1.1 ") {
                status = rest.get(..3).unwrap_or_default().parse()?;
            } else if let Some(rest) = line.strip_prefix("content-length: ") {
                length = rest.trim().parse()?;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok((status, String::from_utf8(body)?))
    }
}

fn prepare(address: &str, token: &str) -> BenchResult {
    let mut client = HttpConnection::open(address, token)?;
    client.post("/agencies", r#"{"code":"BENCH","name":"Bench"}"#)?;
    let (_, made) = client.post("/registrants", r#"{"agency":"BENCH","name":"Bench"}"#)?;
    let made: serde_json::Value = serde_json::from_str(&made)?;
    let (_, made) = client.post("/prefixes", &format!("{{\"registrant\":{}}}", made["id"]))?;
    let made: serde_json::Value = serde_json::from_str(&made)?;
    println!("{}", made["prefix"].as_str().ok_or("no prefix")?);
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

fn registrations(address: &str, token: &str, prefix: &str, clients: u64, time: Duration) -> BenchResult {
    let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let start = Instant::now();
    let run = format!("{:x}", std::process::id());
    std::thread::scope(|scope| {
        for number in 0..clients {
            let (done, stop, run) = (&done, &stop, &run);
            scope.spawn(move || {
                let mut client = HttpConnection::open(address, token).expect("it answers");
                let mut next = 0;
                while !stop.load(Ordering::Relaxed) {
                    next += 1;
                    let body = registration_json(prefix, &format!("one-{run}-{number}-{next}"));
                    let (status, said) = client.post("/dois", &body).expect("it answers");
                    assert_eq!(status, 201, "{said}");
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
    });
    println!("rate {:.0}", done.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64());
    Ok(())
}

fn batch(address: &str, token: &str, prefix: &str, records: u64) -> BenchResult {
    let stream = TcpStream::connect(address)?;
    let mut sending = stream.try_clone()?;
    let run = std::process::id();
    let start = Instant::now();
    let head = format!(
        "POST /api/v1/dois/batch HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\nContent-Type: \
         application/x-ndjson\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    );
    sending.write_all(head.as_bytes())?;
    let prefix = prefix.to_owned();
    let sender = std::thread::spawn(move || -> std::io::Result<()> {
        let mut piece = String::with_capacity(70 << 10);
        for number in 0..records {
            piece += &registration_json(&prefix, &format!("batch.{run:08}.{number:09}"));
            piece.push('\n');
            if piece.len() > 60 << 10 || number + 1 == records {
                sending.write_all(format!("{:x}\r\n{piece}\r\n", piece.len()).as_bytes())?;
                piece.clear();
            }
        }
        sending.write_all(b"0\r\n\r\n")
    });
    let mut reader = BufReader::with_capacity(1 << 18, stream);
    let (mut line, mut all, mut created) = (String::new(), Vec::new(), 0_u64);
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
        let start = all.len();
        all.resize(start + size + 2, 0);
        reader.read_exact(&mut all[start..])?;
        all.truncate(start + size);
        let end = all.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines = all[..end].split(|byte| *byte == b'\n');
        created += lines.filter(|line| line.ends_with(b"\"status\":\"created\"}")).count() as u64;
        all.drain(..end);
    }
    sender.join().map_err(|_| "who sends has stopped")??;
    if created != records {
        return Err(format!("{created} of {records} were created").into());
    }
    println!("rate {:.0}", records as f64 / start.elapsed().as_secs_f64());
    Ok(())
}

fn change_feed_delay(address: &str, token: &str, prefix: &str, changes: u64) -> BenchResult {
    let mut following = TcpStream::connect(address)?;
    let request =
        "GET /api/v1/changes HTTP/1.1\r\nHost: bench\r\nAccept: text/event-stream\r\nLast-Event-ID: ";
    // Start at the end of the change log.
    following.write_all(format!("{request}{}\r\n\r\n", last_sequence(address)?).as_bytes())?;
    let mut lines = BufReader::new(following).lines();
    let mut client = HttpConnection::open(address, token)?;
    let mut delays = Vec::new();
    let run = std::process::id();
    for number in 0..changes {
        std::thread::sleep(Duration::from_millis(7));
        let suffix = format!("seen-{run}-{number}");
        client.post("/dois", &registration_json(prefix, &suffix))?;
        let answered = Instant::now();
        loop {
            let line = lines.next().ok_or("the stream has ended")??;
            if line.contains(&suffix) {
                break;
            }
        }
        delays.push(answered.elapsed().as_secs_f64() * 1e3);
    }
    delays.sort_by(f64::total_cmp);
    println!("p99 {:.1}", delays[delays.len() * 99 / 100]);
    println!("median {:.1}", median(delays));
    Ok(())
}

/// Sequence number of the last change.
fn last_sequence(address: &str) -> BenchResult<u64> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(b"GET /api/v1/changes HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")?;
    let mut last = 0;
    for line in BufReader::new(stream).lines() {
        if let Some(rest) = line?.strip_prefix("{\"seq\":") {
            last = rest.split(',').next().unwrap_or_default().parse()?;
        }
    }
    Ok(last)
}

fn group_commit(directory: &Path, writers: u64, time: Duration) -> BenchResult {
    let store = EmbeddedStore::open(directory)?;
    let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let start = Instant::now();
    let run = std::process::id();
    std::thread::scope(|scope| {
        for writer in 0..writers {
            let (done, stop, store) = (&done, &stop, &store);
            scope.spawn(move || {
                let mut next = 0;
                while !stop.load(Ordering::Relaxed) {
                    next += 1;
                    let suffix = format!("one-{run}-{writer}-{next}");
                    let url = format!("https://journal.example.org/articles/{suffix}");
                    let values = vec![
                        HandleValue::new(1, "URL", url),
                        HandleValue::new(100, "HS_ADMIN", "0123456789abcdef"),
                    ];
                    let registration = registration_json("10.70000", &suffix).into_bytes().into();
                    let name = format!("10.70000/{suffix}").into();
                    let put =
                        Edit::Register { name, values, registration, precondition: Precondition::Absent };
                    let change = ChangeSet { author: "bench".into(), timestamp_ms: 0, edits: vec![put] };
                    pollster::block_on(store.commit(change)).expect("no two names are the same");
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
    });
    println!("rate {:.0}", done.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64());
    Ok(())
}

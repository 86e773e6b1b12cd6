//! Minimal client of PostgreSQL's protocol 3.0 for prepared statements with binary values; responses are checked for errors only.
//! `tokio-postgres` would spend part of the client's core on decoding, and so slow down the peer that is measured.

use std::error::Error;
use std::io::{BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

pub struct Connection {
    stream: UnixStream,
    responses: BufReader<UnixStream>,
    /// Messages not sent yet.
    outgoing: Vec<u8>,
}

impl Connection {
    /// Connects as user `postgres` (trusted) to the server with this socket.
    pub fn open(socket: &Path) -> Result<Self, Box<dyn Error>> {
        let stream = UnixStream::connect(socket)?;
        let responses = BufReader::with_capacity(1 << 16, stream.try_clone()?);
        let mut connection = Self { stream, responses, outgoing: Vec::new() };
        let body = b"\0\x03\0\0user\0postgres\0database\0postgres\0\0";
        connection.outgoing.extend((body.len() as u32 + 4).to_be_bytes());
        connection.outgoing.extend(body);
        connection.send()?;
        connection.wait()?;
        Ok(connection)
    }

    /// Executes a statement and waits for its end.
    pub fn query(&mut self, statement: &str) -> Result<(), Box<dyn Error>> {
        self.message(b'Q', &[statement.as_bytes(), b"\0"]);
        self.send()?;
        self.wait()
    }

    /// Prepares a named statement.
    pub fn prepare(&mut self, name: &str, statement: &str) -> Result<(), Box<dyn Error>> {
        self.message(b'P', &[name.as_bytes(), b"\0", statement.as_bytes(), b"\0\0\0"]);
        self.sync()?;
        self.wait()
    }

    /// Queues the execution of a prepared statement.
    pub fn execute(&mut self, name: &str, values: &[&[u8]]) {
        let count = (values.len() as u16).to_be_bytes();
        let lengths: Vec<[u8; 4]> = values.iter().map(|value| (value.len() as u32).to_be_bytes()).collect();
        // All values are binary.
        let mut parts = vec![b"\0", name.as_bytes(), b"\0\0\x01\0\x01", &count];
        for (length, value) in lengths.iter().zip(values) {
            parts.extend([&length[..], value]);
        }
        parts.push(b"\0\0");
        self.message(b'B', &parts);
        self.message(b'E', &[b"\0\0\0\0\0"]);
    }

    /// Sends the queued messages and a `Sync`.
    pub fn sync(&mut self) -> Result<(), Box<dyn Error>> {
        self.message(b'S', &[]);
        self.send()
    }

    /// Reads responses up to `ReadyForQuery`.
    pub fn wait(&mut self) -> Result<(), Box<dyn Error>> {
        let mut error = None;
        loop {
            let mut head = [0; 5];
            self.responses.read_exact(&mut head)?;
            let [kind, length @ ..] = head;
            let mut body = vec![0; (u32::from_be_bytes(length) as usize).saturating_sub(4)];
            self.responses.read_exact(&mut body)?;
            match kind {
                b'E' => error = Some(String::from_utf8_lossy(&body).replace('\0', " ")),
                b'Z' => return error.map_or(Ok(()), |error| Err(error.into())),
                _ => {}
            }
        }
    }

    fn message(&mut self, kind: u8, parts: &[&[u8]]) {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        self.outgoing.push(kind);
        self.outgoing.extend((length as u32 + 4).to_be_bytes());
        parts.iter().for_each(|part| self.outgoing.extend(*part));
    }

    fn send(&mut self) -> Result<(), Box<dyn Error>> {
        self.stream.write_all(&self.outgoing)?;
        self.outgoing.clear();
        Ok(())
    }
}

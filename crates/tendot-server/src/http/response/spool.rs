//! Spooled response bodies.
//!
//! Most clients read nothing before they have sent their whole body. So that neither side blocks the other, response chunks are
//! spooled to disk meanwhile.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::task::spawn_blocking;

/// Bytes queued in memory, and in total; beyond that, the producer waits.
const MAX_MEMORY_BYTES: usize = 256 << 10;
const MAX_SPOOL_BYTES: u64 = 256 << 20;

/// Bytes per read from the file.
const READ_CHUNK_BYTES: usize = 64 << 10;

/// Forwards chunks until the empty one that ends the body. Without it, or if the file fails, `to` is closed without an end
/// mark.
pub(crate) async fn run(mut from: Receiver<Bytes>, to: Sender<Bytes>) {
    if let Err(error) = SpillQueue::default().run(&mut from, &to).await {
        tracing::error!(%error, "spooling failed; response aborted");
    }
}

/// FIFO queue of body chunks that spills to a temporary file.
#[derive(Debug, Default)]
struct SpillQueue {
    /// Oldest chunks; newer ones are in the file, if it is in use.
    in_memory: VecDeque<Bytes>,
    memory: usize,
    file: Option<Arc<File>>,
    /// Positions in the file: read and written.
    read: u64,
    written: u64,
}

impl SpillQueue {
    async fn run(&mut self, from: &mut Receiver<Bytes>, to: &Sender<Bytes>) -> io::Result<()> {
        let (mut is_closed, mut is_whole) = (false, false);
        loop {
            let (has_room, is_empty) = (self.written - self.read < MAX_SPOOL_BYTES, self.is_empty());
            tokio::select! {
                chunk = from.recv(), if !is_closed && has_room => match chunk {
                    Some(chunk) if !chunk.is_empty() => self.push(chunk).await?,
                    end => (is_closed, is_whole) = (true, end.is_some()),
                },
                permit = to.reserve(), if !is_empty => {
                    let Ok(permit) = permit else { return Ok(()) };
                    permit.send(self.pop().await?);
                }
                () = to.closed(), if is_empty && !is_closed => return Ok(()),
                else => break,
            }
        }
        if is_whole {
            let _ = to.send(Bytes::new()).await;
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.in_memory.is_empty() && self.read == self.written
    }

    async fn push(&mut self, chunk: Bytes) -> io::Result<()> {
        if self.read == self.written && self.memory < MAX_MEMORY_BYTES {
            self.memory += chunk.len();
            self.in_memory.push_back(chunk);
            return Ok(());
        }
        let (file, at, length) = (self.file.take(), self.written, chunk.len() as u64);
        let write = move || {
            // Anonymous file: removed with the process.
            let file = file.map_or_else(|| tempfile::tempfile().map(Arc::new), Ok)?;
            file.write_all_at(&chunk, at)?;
            io::Result::Ok(file)
        };
        self.file = Some(spawn_blocking(write).await??);
        self.written += length;
        Ok(())
    }

    async fn pop(&mut self) -> io::Result<Bytes> {
        if let Some(chunk) = self.in_memory.pop_front() {
            self.memory -= chunk.len();
            return Ok(chunk);
        }
        let Some(file) = self.file.clone() else { return Ok(Bytes::new()) };
        let (at, remaining) = (self.read, self.written - self.read);
        let length = usize::try_from(remaining).unwrap_or(READ_CHUNK_BYTES).min(READ_CHUNK_BYTES);
        let is_all = length as u64 == remaining;
        let read = move || {
            let mut chunk = BytesMut::zeroed(length);
            file.read_exact_at(&mut chunk, at)?;
            if is_all {
                file.set_len(0)?;
            }
            io::Result::Ok(chunk.freeze())
        };
        let chunk = spawn_blocking(read).await??;
        (self.read, self.written) = if is_all { (0, 0) } else { (at + length as u64, self.written) };
        Ok(chunk)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::mpsc;
    use tokio::time::timeout;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(20);

    fn start() -> (Sender<Bytes>, Receiver<Bytes>) {
        let (sender, from) = mpsc::channel(4);
        let (to, receiver) = mpsc::channel(4);
        tokio::spawn(run(from, to));
        (sender, receiver)
    }

    fn chunk(number: usize) -> Bytes {
        format!("{number:>0$}", number % 3_000 + 8).into()
    }

    /// Everything is sent before anything is read, twice: more than fits in memory comes out in order.
    #[tokio::test]
    async fn preserves_order() {
        let (sender, mut receiver) = start();
        for round in 0..2 {
            let numbers = (round * 2_000)..(round * 2_000 + 2_000);
            let expected: Vec<u8> = numbers.clone().flat_map(chunk).collect();
            assert!(expected.len() > 4 * MAX_MEMORY_BYTES);
            timeout(TIMEOUT, async {
                for number in numbers {
                    sender.send(chunk(number)).await.unwrap();
                }
            })
            .await
            .expect("sending does not wait for the reader");
            let mut found = Vec::new();
            while found.len() < expected.len() {
                found.extend(timeout(TIMEOUT, receiver.recv()).await.unwrap().unwrap());
            }
            assert!(found == expected, "round {round}");
        }
        sender.send(Bytes::new()).await.unwrap();
        assert_eq!(timeout(TIMEOUT, receiver.recv()).await.unwrap(), Some(Bytes::new()));
        assert_eq!(receiver.recv().await, None);
    }

    #[tokio::test]
    async fn end_of_stream() {
        // Aborted.
        let (sender, mut receiver) = start();
        sender.send(chunk(1)).await.unwrap();
        drop(sender);
        assert_eq!(timeout(TIMEOUT, receiver.recv()).await.unwrap(), Some(chunk(1)));
        assert_eq!(timeout(TIMEOUT, receiver.recv()).await.unwrap(), None);
        // The client has disconnected.
        let (sender, receiver) = start();
        drop(receiver);
        timeout(TIMEOUT, sender.closed()).await.unwrap();
    }
}

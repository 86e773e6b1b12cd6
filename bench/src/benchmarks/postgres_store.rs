//! PostgreSQL store, compared with PostgreSQL's own programs.
//!
//! - `postgres_store rows unsorted|sorted COUNT` writes rows for a plain `COPY` in binary format.
//! - `import ADDRESS COUNT` imports the same records; `beside ADDRESS COUNT` does so with a concurrent writer.
//! - `fill ADDRESS COUNT` imports records with numbered names; `read ADDRESS COUNT CLIENTS` reads them.
//! - `deposit ADDRESS CLIENTS` commits new records.
//!
//! All but `rows` print measurements.

use std::error::Error;
use std::io::{self, BufWriter, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::records::RecordGenerator;
use tendot_proto::HandleValue;
use tendot_proto::wire::{WireList, WireWriter};
use tendot_store::{
    ChangeSet, Edit, ImportBatch, NameKey, PostgresSettings, PostgresStore, Precondition, Store,
};
use tendot_testing::SeededRng;

const RUN_TIME: Duration = Duration::from_secs(10);

/// Warm-up before measuring: connections and caches.
const WARM_UP: Duration = Duration::from_secs(2);

type BenchResult<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
pub(crate) async fn run(arguments: &[&str]) -> BenchResult {
    match arguments {
        ["rows", order @ ("unsorted" | "sorted"), count] => rows(*order == "sorted", count.parse()?),
        ["import", address, count] => import(address, count.parse()?).await,
        ["beside", address, count] => import_with_writer(address, count.parse()?).await,
        ["fill", address, count] => fill(address, count.parse()?).await,
        ["read", address, count, clients] => read(address, count.parse()?, clients.parse()?).await,
        ["deposit", address, clients] => deposit(address, clients.parse()?).await,
        _ => Err("usage: postgres_store rows|import|fill|read|deposit …".into()),
    }
}

/// Writes table rows in import order or in key order.
fn rows(is_sorted: bool, count: u64) -> BenchResult {
    let mut out = BufWriter::with_capacity(1 << 20, io::stdout().lock());
    out.write_all(b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0")?;
    let mut records = RecordGenerator::new(7);
    let mut rows: Vec<_> = (0..count)
        .map(|_| {
            let (name, values) = records.record();
            let mut body = Vec::new();
            WireList::from(&*values).encode(&mut WireWriter::new(&mut body));
            (name.to_ascii_uppercase(), name, body)
        })
        .collect();
    if is_sorted {
        rows.sort_unstable();
    }
    for (key, name, body) in rows {
        out.write_all(&6_i16.to_be_bytes())?;
        let (revision, state) = (1_i64.to_be_bytes(), 0_i16.to_be_bytes());
        for field in [key.as_bytes(), name.as_bytes(), &revision, &state, &body, b""] {
            out.write_all(&u32::try_from(field.len())?.to_be_bytes())?;
            out.write_all(field)?;
        }
    }
    out.write_all(&(-1_i16).to_be_bytes())?;
    Ok(out.flush()?)
}

async fn import(address: &str, count: u64) -> BenchResult {
    let mut records = RecordGenerator::new(7);
    let mut batches = Vec::new();
    for _ in 0..count.div_ceil(1_000) {
        let mut batch = ImportBatch::new();
        for _ in 0..1_000 {
            let (name, values) = records.record();
            batch.add(&name, &values)?;
        }
        batches.push(batch);
    }
    let store = open(address, 2).await?;
    let start = Instant::now();
    let mut importer = store.start_import("bench", 0)?;
    for batch in &batches {
        importer.add_batch(batch)?;
    }
    let sorted = start.elapsed();
    let imported = importer.finish(|_| {}).await?;
    let time = start.elapsed().as_secs_f64();
    assert_eq!(imported.created, count.div_ceil(1_000) * 1_000);
    println!("seconds {time:.3}");
    println!("sorting-seconds {:.3}", sorted.as_secs_f64());
    Ok(())
}

/// Maximum latency of a commit during an import.
async fn import_with_writer(address: &str, count: u64) -> BenchResult {
    let store = open(address, 2).await?;
    let control = Arc::new(LoadControl::default());
    let writer = tokio::spawn({
        let control = Arc::clone(&control);
        async move {
            let mut longest = Duration::ZERO;
            for number in 0.. {
                if !control.is_running() {
                    break;
                }
                let start = Instant::now();
                store.commit(new_record(format!("10.2000/beside-{number}"), number)).await?;
                longest = longest.max(start.elapsed());
                control.count();
            }
            BenchResult::Ok(longest)
        }
    });
    import(address, count).await?;
    control.stop.store(true, Ordering::Relaxed);
    println!("longest-deposit-seconds {:.3}", writer.await??.as_secs_f64());
    println!("deposits {}", control.done.load(Ordering::Relaxed));
    Ok(())
}

fn new_record(name: String, number: u64) -> ChangeSet {
    let values = vec![HandleValue::new(1, "URL", format!("https://example.org/articles/{number}"))];
    let put = Edit::Put { name: name.into(), values, precondition: Precondition::Absent };
    ChangeSet { author: "bench".into(), timestamp_ms: 0, edits: vec![put] }
}

async fn fill(address: &str, count: u64) -> BenchResult {
    let mut importer = open(address, 2).await?.start_import("bench", 0)?;
    let mut records = RecordGenerator::new(7);
    for number in 1..=count {
        importer.add(numbered_name(number).into(), &records.record().1)?;
    }
    assert_eq!(importer.finish(|_| {}).await?.created, count);
    Ok(())
}

fn numbered_name(number: u64) -> String {
    format!("10.1000/{number}")
}

/// Reads records with this number of concurrent clients.
async fn read(address: &str, count: u64, clients: usize) -> BenchResult {
    // Half of the connections are for reads of single records.
    let store = Arc::new(open(address, 2 * clients).await?);
    let rate = rate(clients, |client, control| {
        let store = Arc::clone(&store);
        let mut random = SeededRng::new(client as u64 + 1);
        async move {
            while control.is_running() {
                let key = NameKey::new(&numbered_name(1 + random.below(count as usize) as u64))?;
                assert!(store.get(&key).await?.is_some());
                control.count();
            }
            Ok(())
        }
    });
    println!("rate {:.1}", rate.await?);
    Ok(())
}

/// Commits new records with this number of concurrent clients.
async fn deposit(address: &str, clients: usize) -> BenchResult {
    let store = Arc::new(open(address, 2).await?);
    let start = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_millis();
    let rate = rate(clients, |client, control| {
        let store = Arc::clone(&store);
        async move {
            let mut number = 0_u64;
            while control.is_running() {
                number += 1;
                store.commit(new_record(format!("10.2000/{start}-{client}-{number}"), number)).await?;
                control.count();
            }
            Ok(())
        }
    });
    println!("rate {:.1}", rate.await?);
    Ok(())
}

/// Stop flag and counter shared by the clients.
#[derive(Default)]
struct LoadControl {
    done: AtomicU64,
    stop: AtomicBool,
}

impl LoadControl {
    fn is_running(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    fn count(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }
}

/// Operations per second of this number of concurrent clients.
async fn rate<F>(clients: usize, client: impl Fn(usize, Arc<LoadControl>) -> F) -> BenchResult<f64>
where
    F: Future<Output = BenchResult> + Send + 'static,
{
    let control = Arc::new(LoadControl::default());
    let tasks: Vec<_> =
        (0..clients).map(|number| tokio::spawn(client(number, Arc::clone(&control)))).collect();
    tokio::time::sleep(WARM_UP).await;
    let (before, start) = (control.done.load(Ordering::Relaxed), Instant::now());
    tokio::time::sleep(RUN_TIME).await;
    let rate = (control.done.load(Ordering::Relaxed) - before) as f64 / start.elapsed().as_secs_f64();
    control.stop.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await??;
    }
    Ok(rate)
}

async fn open(address: &str, connections: usize) -> BenchResult<PostgresStore> {
    Ok(PostgresStore::open(
        address,
        &PostgresSettings { max_connections: connections, ..PostgresSettings::default() },
    )
    .await?)
}

//! Embedded store, compared with LMDB alone on the same records.
//!
//! `store import DIR COUNT` imports records and saves a sample of their names; `store engine own|wire DIR` fills an LMDB
//! database with the bytes of the store, or with the wire form; `store read own|wire DIR` reads the names, and names that do not
//! exist, from both in alternating rounds. Each prints its measurements.

use std::error::Error;
use std::fs::{self, File};
use std::future::Future;
use std::hint::black_box;
use std::io::{BufWriter, Read as _, Write as _};
use std::ops::Range;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use crate::measure::{median, seconds};
use crate::records::RecordGenerator;
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, PutFlags};
use tendot_proto::{Budget, Handle, HandleValue};
use tendot_registry::{Caller, Registry, RegistrySettings, Resolution, ResolveQuery};
use tendot_store::{AnyStore, EmbeddedImporter, EmbeddedStore, NameKey, Store};
use tendot_testing::{SeededRng, anonymous_memory};

/// Number of names to read.
const READ_COUNT: u64 = 300_000;

const ROUNDS: usize = 5;

/// Reads per system in one round.
const ROUND_READS: usize = 10_000;

type BenchResult<T = ()> = Result<T, Box<dyn Error>>;

pub(crate) fn run(arguments: &[&str]) -> BenchResult {
    match arguments {
        ["import", directory, count] => import(directory.as_ref(), count.parse()?),
        ["engine", form @ ("own" | "wire"), directory] => fill_lmdb(directory.as_ref(), form),
        ["read", form @ ("own" | "wire"), directory] => read(directory.as_ref(), form),
        _ => Err("usage: store import DIR COUNT, or store engine|read own|wire DIR".into()),
    }
}

fn import(directory: &Path, count: u64) -> BenchResult {
    let every = (count / READ_COUNT).max(1);
    let mut names = BufWriter::new(File::create(directory.join("names"))?);
    let (time, imported) = seconds(|| -> BenchResult<_> {
        let mut importer = EmbeddedImporter::open(&directory.join("tendot"), "bench", 0)?;
        let mut records = RecordGenerator::new(7);
        for number in 0..count {
            let (name, values) = records.record();
            if number.is_multiple_of(every) && number / every < READ_COUNT {
                writeln!(names, "{name}")?;
                importer.home_prefix(name.split('/').next().unwrap_or_default())?;
            }
            importer.add(name.into(), &values)?;
        }
        Ok(importer.finish(|_| {})?)
    });
    assert_eq!(imported?.created, count);
    println!("import-rate {:.0}", count as f64 / time);
    let ours = directory.join("tendot");
    println!("size {:.1}", size(&ours)? as f64 / count as f64);
    println!("hash-size {:.1}", database_size(&ours, "name_hashes")? as f64 / count as f64);
    Ok(names.flush()?)
}

/// Fills the LMDB database in key order with appends, the best case for it.
fn fill_lmdb(directory: &Path, form: &str) -> BenchResult {
    let ours = directory.join("tendot");
    let path = directory.join(form);
    fs::create_dir_all(&path)?;
    let (env, database) = engine(&path, true)?;
    let mut count = 0_u64;
    if form == "own" {
        let (source, records) = engine(&ours, false)?;
        let txn = source.read_txn()?;
        let mut all = records.iter(&txn)?.peekable();
        while all.peek().is_some() {
            let mut target = env.write_txn()?;
            for record in all.by_ref().take(50_000) {
                let (key, value) = record?;
                database.put_with_flags(&mut target, PutFlags::APPEND, key, value)?;
                count += 1;
            }
            target.commit()?;
        }
    } else {
        let store = EmbeddedStore::open_read_only(&ours)?;
        let mut after = None;
        loop {
            let mut entries = Vec::new();
            pollster::block_on(store.scan_records(None, after.as_ref(), |record| {
                entries.push(record.clone());
                entries.len() < 50_000
            }))?;
            let Some(last) = entries.last() else { break };
            after = Some(NameKey::new(&last.name)?);
            let mut target = env.write_txn()?;
            for entry in &entries {
                let value: Vec<u8> = entry.values.iter().flat_map(HandleValue::to_bytes).collect();
                let key = entry.name.to_ascii_uppercase();
                database.put_with_flags(&mut target, PutFlags::APPEND, key.as_bytes(), &value)?;
                count += 1;
            }
            target.commit()?;
        }
    }
    println!("engine-size {:.1}", size(&path)? as f64 / count as f64);
    Ok(())
}

fn read(directory: &Path, form: &str) -> BenchResult {
    let names = shuffled_names(directory)?;
    let absent: Vec<String> = names.iter().map(|name| format!("{name}-absent")).collect();
    let (ours, path) = (directory.join("tendot"), directory.join(form));
    for file in [&ours, &path] {
        warm_page_cache(&file.join("data.mdb"))?;
    }

    let store = Arc::new(AnyStore::from(EmbeddedStore::open_read_only(&ours)?));
    let registry = Registry::with_shared_store(Arc::clone(&store), RegistrySettings::default());
    let read_ours = |name: &str| -> BenchResult<bool> {
        let entry = poll_ready(store.get(&NameKey::new(name)?))?;
        Ok(entry.is_some_and(|entry| !black_box(&entry).values.is_empty()))
    };
    let resolve = |name: &str| -> BenchResult<bool> {
        let query = ResolveQuery::new(Handle::from(name));
        match poll_ready(registry.resolve(&query, &Caller::Anonymous, &mut Budget::PER_REQUEST.clone()))? {
            Resolution::Values(values) => Ok(!black_box(values).is_empty()),
            Resolution::Referral(_) => Ok(false),
        }
    };
    let read = Reads { label: "read", names: &names, are_stored: true, read: &read_ours };
    let resolution = Reads { label: "resolve", read: &resolve, ..read };
    let miss = Reads { label: "miss", names: &absent, are_stored: false, ..read };
    for reads in [&read, &resolution, &miss] {
        reads.rate(0..names.len())?;
    }
    println!("read-memory {}", anonymous_memory(std::process::id()) / 1024);

    let (env, database) = engine(&path, false)?;
    let read_engine = |name: &str| -> BenchResult<bool> {
        let txn = env.read_txn()?;
        let key = name.to_ascii_uppercase();
        Ok(database.get(&txn, key.as_bytes())?.is_some_and(|bytes| !black_box(bytes).is_empty()))
    };
    // Bytes used after the transaction must be copied.
    let copy_engine = |name: &str| -> BenchResult<bool> {
        let txn = env.read_txn()?;
        let key = name.to_ascii_uppercase();
        Ok(database.get(&txn, key.as_bytes())?.is_some_and(|bytes| !black_box(bytes.to_vec()).is_empty()))
    };
    let engine = Reads { label: "engine", read: &read_engine, ..read };
    let engine_copy = Reads { label: "engine-copy", read: &copy_engine, ..read };
    let engine_miss = Reads { label: "engine-miss", read: &read_engine, ..miss };
    engine.rate(0..names.len())?;
    engine_miss.rate(0..names.len())?;
    print_rounds(
        &[engine, read, resolution, engine_copy, miss, engine_miss],
        &[engine, read, resolution, miss],
    )
}

/// Names of the records to read, in random order.
fn shuffled_names(directory: &Path) -> BenchResult<Vec<String>> {
    let text = fs::read_to_string(directory.join("names"))?;
    let mut names: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut random = SeededRng::new(11);
    for at in (1..names.len()).rev() {
        names.swap(at, random.below(at + 1));
    }
    Ok(names)
}

/// Prints the medians of rates and of 99th percentiles of the latency.
fn print_rounds(rates: &[Reads<'_>], p99s: &[Reads<'_>]) -> BenchResult {
    let count = rates.first().map_or(0, |reads| reads.names.len());
    let mut measured_rates = vec![Vec::new(); rates.len()];
    let mut measured_p99s = vec![Vec::new(); p99s.len()];
    for _ in 0..ROUNDS {
        // Short alternating rounds, so that background load affects all systems alike.
        for start in (0..count).step_by(ROUND_READS) {
            for (reads, measured) in rates.iter().zip(&mut measured_rates) {
                measured.push(reads.rate(start..count.min(start + ROUND_READS))?);
            }
        }
        for (reads, measured) in p99s.iter().zip(&mut measured_p99s) {
            measured.push(reads.p99()?);
        }
    }
    for (reads, measured) in rates.iter().zip(measured_rates) {
        println!("{}-rate {:.0}", reads.label, median(measured));
    }
    for (reads, measured) in p99s.iter().zip(measured_p99s) {
        println!("{}-p99 {:.0}", reads.label, median(measured));
    }
    Ok(())
}

/// Names to read from a system.
#[derive(Clone, Copy)]
struct Reads<'a> {
    label: &'static str,
    names: &'a [String],
    /// Whether the names exist.
    are_stored: bool,
    /// Reads a name; true if it was found.
    read: &'a dyn Fn(&str) -> BenchResult<bool>,
}

impl Reads<'_> {
    /// Reads per second.
    fn rate(&self, range: Range<usize>) -> BenchResult<f64> {
        let names = &self.names[range];
        let (time, read) = seconds(|| names.iter().try_for_each(|name| self.check(name, (self.read)(name)?)));
        read?;
        Ok(names.len() as f64 / time)
    }

    /// 99th percentile of the latency in nanoseconds.
    fn p99(&self) -> BenchResult<f64> {
        let mut times = Vec::with_capacity(self.names.len());
        for name in self.names {
            let begin = Instant::now();
            let is_found = (self.read)(name)?;
            times.push(begin.elapsed().as_nanos() as u64);
            self.check(name, is_found)?;
        }
        times.sort_unstable();
        Ok(times[times.len() * 99 / 100] as f64)
    }

    fn check(&self, name: &str, is_found: bool) -> BenchResult {
        if is_found == self.are_stored {
            return Ok(());
        }
        Err(format!("{name} was {}found", if is_found { "" } else { "not " }).into())
    }
}

/// Opens the records of an LMDB file with the options of the embedded store, and creates them if it may write.
fn engine(path: &Path, may_write: bool) -> BenchResult<(Env, Database<'static, Bytes, Bytes>)> {
    let env = open_lmdb(path, may_write)?;
    if may_write {
        let created = env.create_databases_and_commit(env.write_txn()?, |opener, txn| {
            opener.create_database::<Bytes, Bytes>(txn, Some("records")).map(CommitOrAbort::<_, ()>::Commit)
        })?;
        return match created {
            CommitOrAbort::Commit(database) => Ok((env, database)),
            CommitOrAbort::Abort(()) => Err("cannot create the database `records`".into()),
        };
    }
    let database = open_database(&env, "records")?.ok_or("no database `records`")?;
    Ok((env, database))
}

#[allow(unsafe_code, reason = "LMDB cannot be opened without")]
fn open_lmdb(path: &Path, may_write: bool) -> BenchResult<Env> {
    let mut flags = EnvFlags::NO_READ_AHEAD;
    flags.set(EnvFlags::READ_ONLY, !may_write);
    let mut options = EnvOpenOptions::new();
    options.map_size(1 << 40).max_dbs(8);
    // SAFETY: no other process writes the file, and the flags affect only reads.
    Ok(unsafe { options.flags(flags).open(path)? })
}

/// Opens a database of an LMDB file, if it exists.
fn open_database(env: &Env, name: &str) -> BenchResult<Option<Database<'static, Bytes, Bytes>>> {
    let opened = env.open_databases_and_commit(env.read_txn()?, |opener, txn| {
        let opened = opener.open_database::<Bytes, Bytes>(txn, Some(name))?;
        Ok::<_, heed::Error>(opened.map_or(CommitOrAbort::Abort(()), CommitOrAbort::Commit))
    })?;
    Ok(match opened {
        CommitOrAbort::Commit(database) => Some(database),
        CommitOrAbort::Abort(()) => None,
    })
}

/// Bytes of the pages of a database of the store; zero if there is none.
fn database_size(directory: &Path, name: &str) -> BenchResult<u64> {
    let env = open_lmdb(directory, false)?;
    let Some(database) = open_database(&env, name)? else { return Ok(0) };
    let txn = env.read_txn()?;
    let stat = database.stat(&txn)?;
    let pages = stat.branch_pages + stat.leaf_pages + stat.overflow_pages;
    Ok(pages as u64 * u64::from(stat.page_size))
}

fn size(directory: &Path) -> BenchResult<u64> {
    Ok(fs::metadata(directory.join("data.mdb"))?.len())
}

/// Reads a file once to fill the page cache.
fn warm_page_cache(path: &Path) -> BenchResult {
    let (mut file, mut buffer) = (File::open(path)?, vec![0; 1 << 20]);
    while file.read(&mut buffer)? > 0 {}
    Ok(())
}

/// Polls a future that is ready at once, as those of this store are.
fn poll_ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(ready) => ready,
        Poll::Pending => unreachable!("reads of the embedded store do not wait"),
    }
}

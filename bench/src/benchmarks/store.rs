//! Embedded store, compared with LMDB alone on the same records.
//!
//! `store import DIR COUNT` imports records and saves a sample of their names; `store engine own|wire DIR` fills an LMDB
//! database with the bytes of the store, or with the wire form; `store read own|wire DIR` reads the names from both in
//! alternating rounds. Each prints its measurements.

use std::error::Error;
use std::fs::{self, File};
use std::future::Future;
use std::hint::black_box;
use std::io::{BufWriter, Read as _, Write as _};
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
    println!("size {:.1}", size(&directory.join("tendot"))? as f64 / count as f64);
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
    let text = fs::read_to_string(directory.join("names"))?;
    let mut names: Vec<&str> = text.lines().collect();
    let mut random = SeededRng::new(11);
    for at in (1..names.len()).rev() {
        names.swap(at, random.below(at + 1));
    }
    let (ours, path) = (directory.join("tendot"), directory.join(form));
    for file in [&ours, &path] {
        warm_page_cache(&file.join("data.mdb"))?;
    }

    let store = Arc::new(AnyStore::from(EmbeddedStore::open_read_only(&ours)?));
    let registry = Registry::with_shared_store(Arc::clone(&store), RegistrySettings::default());
    let read_ours = |name: &str| -> BenchResult<usize> {
        Ok(poll_ready(store.get(&NameKey::new(name)?))?.map_or(0, |entry| black_box(&entry).values.len()))
    };
    let resolve = |name: &str| -> BenchResult<usize> {
        let query = ResolveQuery::new(Handle::from(name));
        match poll_ready(registry.resolve(&query, &Caller::Anonymous, &mut Budget::PER_REQUEST.clone()))? {
            Resolution::Values(values) => Ok(black_box(values).len()),
            Resolution::Referral(_) => Ok(0),
        }
    };
    read_rate(&names, &read_ours)?;
    read_rate(&names, &resolve)?;
    println!("read-memory {}", anonymous_memory(std::process::id()) / 1024);

    let (env, database) = engine(&path, false)?;
    let read_engine = |name: &str| -> BenchResult<usize> {
        let txn = env.read_txn()?;
        let key = name.to_ascii_uppercase();
        Ok(database.get(&txn, key.as_bytes())?.map_or(0, |bytes| black_box(bytes).len()))
    };
    // Bytes used after the transaction must be copied.
    let copy_engine = |name: &str| -> BenchResult<usize> {
        let txn = env.read_txn()?;
        let key = name.to_ascii_uppercase();
        Ok(database.get(&txn, key.as_bytes())?.map_or(0, |bytes| black_box(bytes.to_vec()).len()))
    };
    read_rate(&names, &read_engine)?;

    let mut rates = [const { Vec::new() }; 4];
    let mut p99s = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        // Short alternating rounds, so that background load affects all systems alike.
        for names in names.chunks(ROUND_READS) {
            let [engine, ours, resolved, copied] = &mut rates;
            engine.push(read_rate(names, &read_engine)?);
            ours.push(read_rate(names, &read_ours)?);
            resolved.push(read_rate(names, &resolve)?);
            copied.push(read_rate(names, &copy_engine)?);
        }
        let [engine, ours, resolved] = &mut p99s;
        engine.push(read_p99(&names, &read_engine)?);
        ours.push(read_p99(&names, &read_ours)?);
        resolved.push(read_p99(&names, &resolve)?);
    }
    for (name, rates) in ["engine", "read", "resolve", "engine-copy"].iter().zip(rates) {
        println!("{name}-rate {:.0}", median(rates));
    }
    for (name, times) in ["engine", "read", "resolve"].iter().zip(p99s) {
        println!("{name}-p99 {:.0}", median(times));
    }
    Ok(())
}

/// Reads per second.
fn read_rate(names: &[&str], read: &impl Fn(&str) -> BenchResult<usize>) -> BenchResult<f64> {
    let (time, found) = seconds(|| names.iter().try_for_each(|&name| ensure_found(name, read(name)?)));
    found?;
    Ok(names.len() as f64 / time)
}

/// 99th percentile of the read latency in nanoseconds.
fn read_p99(names: &[&str], read: &impl Fn(&str) -> BenchResult<usize>) -> BenchResult<f64> {
    let mut times = Vec::with_capacity(names.len());
    for &name in names {
        let begin = Instant::now();
        let found = read(name)?;
        times.push(begin.elapsed().as_nanos() as u64);
        ensure_found(name, found)?;
    }
    times.sort_unstable();
    Ok(times[times.len() * 99 / 100] as f64)
}

fn ensure_found(name: &str, found: usize) -> BenchResult {
    if found == 0 { Err(format!("{name} was not found").into()) } else { Ok(()) }
}

/// Opens an LMDB database with the options of the embedded store.
#[allow(unsafe_code, reason = "LMDB cannot be opened without")]
fn engine(path: &Path, may_write: bool) -> BenchResult<(Env, Database<'static, Bytes, Bytes>)> {
    let mut flags = EnvFlags::NO_READ_AHEAD;
    flags.set(EnvFlags::READ_ONLY, !may_write);
    let mut options = EnvOpenOptions::new();
    options.map_size(1 << 40).max_dbs(8);
    // SAFETY: no other process writes the file, and the flags affect only reads.
    let env = unsafe { options.flags(flags).open(path)? };
    let opened = if may_write {
        env.create_databases_and_commit(env.write_txn()?, |opener, txn| {
            opener.create_database::<Bytes, Bytes>(txn, Some("records")).map(CommitOrAbort::<_, ()>::Commit)
        })?
    } else {
        env.open_databases_and_commit(env.read_txn()?, |opener, txn| {
            let opened = opener.open_database::<Bytes, Bytes>(txn, Some("records"))?;
            Ok::<_, heed::Error>(opened.map_or(CommitOrAbort::Abort(()), CommitOrAbort::Commit))
        })?
    };
    match opened {
        CommitOrAbort::Commit(database) => Ok((env, database)),
        CommitOrAbort::Abort(()) => Err("no database `records`".into()),
    }
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

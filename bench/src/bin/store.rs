//! The embedded store with so many records: import, size, random reads; and the bare engine with the wire form of the
//! same records. `store DIR RECORDS` prints what it measured.

use std::error::Error;
use std::future::Future;
use std::hint::black_box;
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, PutFlags};
use tendot_bench::random::Random;
use tendot_bench::records::Records;
use tendot_proto::Value;
use tendot_store::{Embedded, Importer, Key, Store};

const READS: usize = 300_000;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, directory, count] = arguments.as_slice() else { return Err("usage: store DIR RECORDS".into()) };
    let (directory, count): (&Path, u64) = (directory.as_ref(), count.parse()?);

    let ours = directory.join("tendot");
    let start = Instant::now();
    let mut importer = Importer::open(&ours, "bench", 0)?;
    let mut records = Records::new(7);
    for _ in 0..count {
        let (name, values) = records.record();
        importer.put(name.into(), &values)?;
    }
    let imported = importer.finish(|_| {})?;
    assert_eq!(imported.created, count);
    println!("import {:.0}", count as f64 / start.elapsed().as_secs_f64());
    println!("size {:.1}", size(&ours)? as f64 / count as f64);

    let engine = directory.join("engine");
    let (env, database) = load_engine(&engine, count)?;
    println!("engine-size {:.1}", size(&engine)? as f64 / count as f64);

    let store = Embedded::open(&ours)?;
    let names = names(count);
    let read_engine = |name: &str| -> Result<usize, Box<dyn Error>> {
        let txn = env.read_txn()?;
        Ok(database
            .get(&txn, name.to_ascii_uppercase().as_bytes())?
            .map_or(0, |bytes| black_box(bytes).len()))
    };
    let read_ours = |name: &str| -> Result<usize, Box<dyn Error>> {
        Ok(now(store.get(&Key::new(name)?))?.map_or(0, |entry| black_box(&entry).values.len()))
    };
    // Twice, so that both are warm.
    for _ in 0..2 {
        report("engine-read", &names, read_engine)?;
        report("read", &names, read_ours)?;
    }
    Ok(())
}

/// Names that are there, at random.
fn names(count: u64) -> Vec<String> {
    let mut random = Random::new(11);
    let every = (count as usize / READS).max(1);
    let mut records = Records::new(7);
    let mut names: Vec<String> = Vec::with_capacity(READS);
    for number in 0..count as usize {
        let (name, _) = records.record();
        if number.is_multiple_of(every) && names.len() < READS {
            names.push(name);
        }
    }
    for at in (1..names.len()).rev() {
        names.swap(at, random.below(at as u64 + 1) as usize);
    }
    names
}

fn report(
    what: &str,
    names: &[String],
    read: impl Fn(&str) -> Result<usize, Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let mut times = Vec::with_capacity(names.len());
    let start = Instant::now();
    for name in names {
        let begin = Instant::now();
        assert!(read(name)? > 0, "{name}");
        times.push(begin.elapsed().as_nanos());
    }
    let rate = names.len() as f64 / start.elapsed().as_secs_f64();
    times.sort_unstable();
    println!("{what} {rate:.0} p99 {}", times[times.len() * 99 / 100]);
    Ok(())
}

/// The wire form of the same records, sorted and appended, as kindly as the engine can be treated.
#[allow(unsafe_code, reason = "LMDB cannot be opened without")]
fn load_engine(path: &Path, count: u64) -> Result<(Env, Database<'static, Bytes, Bytes>), Box<dyn Error>> {
    let mut all: Vec<(Vec<u8>, Vec<u8>)> = Vec::with_capacity(count as usize);
    let mut records = Records::new(7);
    for _ in 0..count {
        let (name, values) = records.record();
        all.push((name.to_ascii_uppercase().into_bytes(), values.iter().flat_map(Value::to_bytes).collect()));
    }
    all.sort_unstable();
    std::fs::create_dir_all(path)?;
    let mut options = EnvOpenOptions::new();
    options.map_size(1 << 40).max_dbs(1);
    // SAFETY: nobody else has the file, and the flag changes only how it is read.
    let env = unsafe { options.flags(EnvFlags::NO_READ_AHEAD).open(path)? };
    let database = env
        .create_databases_and_commit(env.write_txn()?, |opener, txn| {
            opener.create_database::<Bytes, Bytes>(txn, Some("records")).map(CommitOrAbort::<_, ()>::Commit)
        })?
        .unwrap_commit();
    for part in all.chunks(50_000) {
        let mut txn = env.write_txn()?;
        for (key, value) in part {
            database.put_with_flags(&mut txn, PutFlags::APPEND, key, value)?;
        }
        txn.commit()?;
    }
    Ok((env, database))
}

fn size(directory: &Path) -> Result<u64, Box<dyn Error>> {
    Ok(std::fs::metadata(directory.join("data.mdb"))?.len())
}

/// What a future gives that is ready at once, as those of this store are.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(ready) => ready,
        Poll::Pending => unreachable!("a store on this machine answers at once"),
    }
}

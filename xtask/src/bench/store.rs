//! Embedded store against LMDB alone, against PostgreSQL, and one writer against many. Writes `docs/speed.md`.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

use super::dist::{benchmark, build_dist, tendot};
use super::measure::{
    MarkdownTable, Measurements, cpu_model, group_digits, load_average, measurement, recreate_dir,
    run_measured, total_memory,
};
use super::postgres_server::Postgres;
use crate::process::{output, run};
use crate::root;

const STORE_SIZES: [u64; 4] = [1_000_000, 5_000_000, 20_000_000, 50_000_000];

/// Records of the import comparison.
const IMPORT_RECORDS: u64 = 10_000_000;

/// Maximum disk space per record: sort runs and store; for the import also JSON lines and PostgreSQL.
const DISK_BYTES_PER_RECORD: u64 = 350;
const IMPORT_DISK_BYTES_PER_RECORD: u64 = 1_700;

/// Measures stores of these sizes; without sizes, all default sizes and the import comparison.
#[allow(clippy::print_stdout, reason = "this command prints a report")]
pub(crate) fn bench_store(sizes: &[u64]) -> Result<()> {
    let begin = Instant::now();
    let folder = root().join("target/bench/store");
    recreate_dir(&folder)?;
    build_dist()?;
    let is_all = sizes.is_empty();
    let imported =
        if is_all { IMPORT_RECORDS } else { sizes.iter().copied().max().unwrap_or(IMPORT_RECORDS) };
    let mut left_out = Vec::new();
    let mut fits = |records: u64, room: u64| -> Result<bool> {
        let (free, needed) = (free_bytes(&folder)?, records * room);
        let fits = needed <= free;
        if !fits {
            let missing = format!(
                "{} records were left out: they need {} GB of disk, {} were free",
                group_digits(records),
                needed.div_ceil(1_000_000_000),
                free / 1_000_000_000
            );
            println!("{missing}");
            left_out.push(missing);
        }
        Ok(fits)
    };

    let mut stores = Vec::new();
    for records in if is_all { &STORE_SIZES } else { sizes } {
        if fits(*records, DISK_BYTES_PER_RECORD)? {
            stores.push((*records, measure_store(&folder, *records)?));
        }
    }
    let import = if fits(imported, IMPORT_DISK_BYTES_PER_RECORD)? {
        Some(measure_import(&folder, imported)?)
    } else {
        None
    };
    let deposits = run_measured(benchmark("deposits").arg(&folder))?.0;
    fs::remove_dir_all(&folder)?;

    let minutes = begin.elapsed().as_secs() / 60;
    let report = StoreReport { stores, import, imported, deposits, left_out, minutes };
    let text = report.to_markdown()?;
    println!("\n{text}");
    if is_all {
        fs::write(root().join("docs/speed.md"), text)?;
    }
    Ok(())
}

/// Measures a store of this size, and LMDB with the same records.
fn measure_store(folder: &Path, records: u64) -> Result<Measurements> {
    recreate_dir(folder)?;
    let program = |arguments: &[&str]| {
        let mut command = benchmark("store");
        command.args(arguments).arg(folder);
        command
    };
    let (mut all, memory) = run_measured(program(&["import"]).arg(records.to_string()))?;
    all.insert("import-memory".into(), memory);
    for form in ["own", "wire"] {
        let (size, _) = run_measured(&mut program(&["engine", form]))?;
        let (read, _) = run_measured(&mut program(&["read", form]))?;
        all.extend(size.into_iter().chain(read).map(|(name, number)| (format!("{form}-{name}"), number)));
        fs::remove_dir_all(folder.join(form))?;
    }
    Ok(all)
}

/// Imports the same records with `tendot import` and with PostgreSQL's `COPY`.
fn measure_import(folder: &Path, records: u64) -> Result<Measurements> {
    recreate_dir(folder)?;
    let mut all = Measurements::new();
    let write = |form: &str, path: &Path| {
        run(benchmark("records").args([form, &records.to_string()]).stdout(File::create(path)?))
    };
    let (lines, data) = (folder.join("records.jsonl"), folder.join("tendot"));
    write("lines", &lines)?;
    let tendot = tendot();
    let start = Instant::now();
    let (_, memory) = run_measured(Command::new(&tendot).arg("import").arg(&lines).arg("--data").arg(&data))?;
    all.insert("tendot-seconds".into(), start.elapsed().as_secs_f64());
    all.insert("tendot-memory".into(), memory);
    all.insert("tendot-size".into(), fs::metadata(data.join("data.mdb"))?.len() as f64);

    // The export must equal the input.
    let digest = |input: Stdio| output(benchmark("records").arg("digest").stdin(input));
    let given = digest(File::open(&lines)?.into())?;
    fs::remove_file(&lines)?;
    let mut export =
        Command::new(&tendot).arg("export").arg("--data").arg(&data).stdout(Stdio::piped()).spawn()?;
    let exported = digest(export.stdout.take().context("what was exported")?.into())?;
    ensure!(export.wait()?.success() && given == exported, "imported {given}, but exported {exported}");
    fs::remove_dir_all(&data)?;

    let (library, _) = run_measured(benchmark("store").arg("import").arg(folder).arg(records.to_string()))?;
    all.insert("library-seconds".into(), records as f64 / measurement(&library, "import-rate")?);
    fs::remove_dir_all(&data)?;

    // A directory that the user of PostgreSQL can access.
    let server = std::env::temp_dir().join(format!("tendot-bench-{}", std::process::id()));
    let postgres = Postgres::start(&server)?;
    let table = server.join("records.copy");
    write("table", &table)?;
    let (seconds, size) = postgres.copy(&table)?;
    all.insert("postgres-seconds".into(), seconds);
    all.insert("postgres-size".into(), size as f64);
    Ok(all)
}

/// Measurements of the embedded store.
struct StoreReport {
    stores: Vec<(u64, Measurements)>,
    import: Option<Measurements>,
    imported: u64,
    deposits: Measurements,
    left_out: Vec<String>,
    minutes: u64,
}

impl StoreReport {
    fn to_markdown(&self) -> Result<String> {
        let mut out = String::from(INTRO);
        writeln!(
            out,
            "The machine: {}, {} cores, {} of memory; {} programs wanted to run at once, over the last quarter of an hour. A \
             page of\n4 KiB is durable (`fdatasync`) after {:.0} µs, median of 200. All of it took {} minutes.\n",
            cpu_model()?,
            std::thread::available_parallelism()?,
            total_memory()?,
            load_average()?,
            measurement(&self.deposits, "sync-microseconds")?,
            self.minutes
        )?;
        for line in &self.left_out {
            writeln!(out, "{line}.\n")?;
        }
        if !self.stores.is_empty() {
            self.read_section(&mut out)?;
        }
        if let Some(import) = &self.import {
            self.import_section(import, &mut out)?;
        }
        self.commit_section(&mut out)?;
        Ok(out)
    }

    fn read_section(&self, out: &mut String) -> Result<()> {
        out.push_str(READ_METHOD);
        let ratio = |one: &'static str, two: &'static str| -> CellFormat {
            Box::new(move |all| Ok(format!("{:.2}", measurement(all, one)? / measurement(all, two)?)))
        };
        let whole = |name: &'static str| -> CellFormat {
            Box::new(move |all| Ok(group_digits(measurement(all, name)? as u64)))
        };
        let micros = |name: &'static str| -> CellFormat {
            Box::new(move |all| Ok(format!("{:.1} µs", measurement(all, name)? / 1e3)))
        };
        let megabytes = |name: &'static str| -> CellFormat {
            Box::new(move |all| Ok(format!("{:.0} MB", measurement(all, name)? / 1e3)))
        };
        let rows: [(&str, CellFormat); 15] = [
            ("records read a second", whole("own-read-rate")),
            ("… of the bare engine, same bytes", ratio("own-read-rate", "own-engine-rate")),
            ("… of the bare engine, same bytes, copied", ratio("own-read-rate", "own-engine-copy-rate")),
            ("… of the bare engine, wire form", ratio("wire-read-rate", "wire-engine-rate")),
            ("names resolved a second", whole("own-resolve-rate")),
            ("… of the bare engine, same bytes", ratio("own-resolve-rate", "own-engine-rate")),
            ("… of the bare engine, wire form", ratio("wire-resolve-rate", "wire-engine-rate")),
            ("reading, p99", micros("own-read-p99")),
            ("… bare engine, same bytes", micros("own-engine-p99")),
            ("… bare engine, wire form", micros("wire-engine-p99")),
            ("bytes on disk, a record", Box::new(|all| Ok(format!("{:.1}", measurement(all, "size")?)))),
            ("… of the bare engine, wire form", ratio("size", "wire-engine-size")),
            ("imported a second, by the library", whole("import-rate")),
            ("memory of its own, importing", megabytes("import-memory")),
            ("memory of its own, reading", megabytes("own-read-memory")),
        ];
        let columns = self.stores.iter().map(|(records, _)| group_digits(*records));
        let mut table = MarkdownTable::new(out, columns)?;
        for (name, show) in rows {
            table.row(name, self.stores.iter().map(|(_, measured)| show(measured)))?;
        }
        if let [(few, first), .., (many, last)] = self.stores.as_slice() {
            let times = measurement(last, "own-read-p99")? / measurement(first, "own-read-p99")?;
            let (few, many) = (group_digits(*few), group_digits(*many));
            writeln!(out, "\nReading's p99 with {many} records is {times:.2} times that with {few}.")?;
        }
        out.push('\n');
        Ok(())
    }

    fn import_section(&self, import: &Measurements, out: &mut String) -> Result<()> {
        let records = self.imported as f64;
        writeln!(out, "## Importing {} records\n\n{IMPORT_METHOD}", group_digits(self.imported))?;
        let columns = ["`tendot import` of JSON lines", "the library", "PostgreSQL's `COPY`"];
        let mut table = MarkdownTable::new(out, columns.into_iter().map(str::to_owned))?;
        let seconds =
            ["tendot-seconds", "library-seconds", "postgres-seconds"].map(|name| measurement(import, name));
        let [ours, library, theirs] = seconds;
        let seconds = [ours?, library?, theirs?];
        let theirs = seconds[2];
        let (size, their_size) = (measurement(import, "tendot-size")?, measurement(import, "postgres-size")?);
        table.row("seconds", seconds.iter().map(|seconds| Ok(format!("{seconds:.1}"))))?;
        table.row(
            "records a second",
            seconds.iter().map(|seconds| Ok(group_digits((records / seconds) as u64))),
        )?;
        table.row(
            "times as fast as PostgreSQL",
            seconds.iter().map(|seconds| Ok(format!("{:.2}", theirs / seconds))),
        )?;
        let sizes = [size, size, their_size];
        table
            .row("bytes on disk, a record", sizes.iter().map(|size| Ok(format!("{:.1}", size / records))))?;
        let memory = measurement(import, "tendot-memory")? / 1e3;
        Ok(writeln!(out, "\n`tendot import` had at most {memory:.0} MB of memory of its own.\n")?)
    }

    fn commit_section(&self, out: &mut String) -> Result<()> {
        out.push_str(COMMIT_METHOD);
        let mut table =
            MarkdownTable::new(out, ["a second", "times one writer"].into_iter().map(str::to_owned))?;
        for writers in [1, 16, 64] {
            let rate = measurement(&self.deposits, &format!("deposits-{writers}"))?;
            let ratio = measurement(&self.deposits, &format!("deposits-ratio-{writers}"))?;
            let cells = [Ok(group_digits(rate as u64)), Ok(format!("{ratio:.1}"))];
            table.row(&format!("{writers} at once"), cells.into_iter())?;
        }
        Ok(())
    }
}

/// Formats one table cell.
type CellFormat = Box<dyn Fn(&Measurements) -> Result<String>>;

const INTRO: &str = "\
# How fast the embedded store is

Written by `cargo xtask bench-store`, which measures all of it anew. Times say little about another machine; the ratios are
to peers that were measured in the same run with the same records.

";

const READ_METHOD: &str = "\
## Reading and size

Records have two or three values, addresses of 60 to 90 bytes and one of 5,000 prefixes of very different size; they come
unsorted. 300,000 names, drawn from all, are read in random order by one thread, each in a transaction of its own.
Everything is in memory and was read before. Ours and the engine take turns, every 10,000 names; rates are medians of
150 turns, p99 of five rounds.

The bare engine is LMDB, opened as we open it. It gives bytes where they are; we give a record of typed values of its own,
its checksum verified. It holds the very bytes that our store has (“same bytes”; also with these copied, so that they
outlive the transaction), or records as they stand in messages (“wire form”). Resolving is all that the registry does:
whether the prefix is ours, which values may be read.

Memory of its own is `RssAnon`: the most of it while importing; after reading, the names for the measurement included.
Pages of the store are the system's.

";

const IMPORT_METHOD: &str = "\
Unsorted, from a file, into a new store. PostgreSQL 15 copies the same records from a file of its text format (`COPY`) into
a table with the name as primary key and the wire form of the values as `bytea`; durable as it is by default, with 1 GB of
shared buffers and `max_wal_size` of 8 GB. The library makes up its records as it goes. `tendot export` gave back the same
lines, by a digest that does not depend on their order.
";

const COMMIT_METHOD: &str = "\
## Durable deposits

Each writer waits until its record is durable before it sends the next. Medians of five rounds of three seconds; each ratio
is to the one writer of its own round.

";

fn free_bytes(folder: &Path) -> Result<u64> {
    let free = output(Command::new("df").args(["--output=avail", "-B1"]).arg(folder))?;
    free.lines().last().context("a line of numbers")?.trim().parse().context("a number of bytes")
}

//! Embedded store against LMDB alone, against PostgreSQL, and one writer against many.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use xshell::cmd;

use super::dist::{benchmark, tendot};
use super::measure::{
    MarkdownTable, Measurements, cpu_model, group_digits, load_average, measurement, recreate_dir,
    run_measured, start_postgres, total_memory,
};
use super::report::{Bar, write_plot, write_section};
use crate::process::{run_to_file, shell};
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
    let folder = root().join("target/bench/store");
    recreate_dir(&folder)?;
    let is_all = sizes.is_empty();
    let imported =
        if is_all { IMPORT_RECORDS } else { sizes.iter().copied().max().unwrap_or(IMPORT_RECORDS) };
    let mut skipped = Vec::new();
    let mut fits = |records: u64, bytes_per_record: u64| -> Result<bool> {
        let (free, needed) = (free_bytes(&folder)?, records * bytes_per_record);
        let fits = needed <= free;
        if !fits {
            let message = format!(
                "Skipped {} records: {} GB of disk needed, {} GB free",
                group_digits(records),
                needed.div_ceil(1_000_000_000),
                free / 1_000_000_000
            );
            println!("{message}");
            skipped.push(message);
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
    let deposits = run_measured(benchmark(&shell()?, "deposits").arg(&folder))?.0;
    fs::remove_dir_all(&folder)?;

    let report = StoreReport { stores, import, imported, deposits, skipped };
    let text = report.to_markdown()?;
    println!("\n{text}");
    if is_all {
        write_plot("store", &report.bars()?)?;
        write_section("store", &text)?;
    }
    Ok(())
}

/// Measures a store of this size, and LMDB with the same records.
fn measure_store(folder: &Path, records: u64) -> Result<Measurements> {
    recreate_dir(folder)?;
    let sh = shell()?;
    let program = |arguments: &[&str]| benchmark(&sh, "store").args(arguments).arg(folder);
    let (mut all, memory) = run_measured(program(&["import"]).arg(records.to_string()))?;
    all.insert("import-memory".into(), memory);
    for form in ["own", "wire"] {
        let (size, _) = run_measured(program(&["engine", form]))?;
        let (read, _) = run_measured(program(&["read", form]))?;
        all.extend(size.into_iter().chain(read).map(|(name, number)| (format!("{form}-{name}"), number)));
        fs::remove_dir_all(folder.join(form))?;
    }
    Ok(all)
}

/// Imports the same records with `tendot import` and with PostgreSQL's `COPY`.
fn measure_import(folder: &Path, records: u64) -> Result<Measurements> {
    recreate_dir(folder)?;
    let (sh, mut all) = (shell()?, Measurements::new());
    let write = |form: &str, path: &Path| {
        run_to_file(benchmark(&sh, "records").args([form, &records.to_string()]), path)
    };
    let (lines, data) = (folder.join("records.jsonl"), folder.join("tendot"));
    write("lines", &lines)?;
    let tendot = tendot();
    let start = Instant::now();
    let (_, memory) = run_measured(cmd!(sh, "{tendot} import {lines} --data {data}"))?;
    all.insert("tendot-seconds".into(), start.elapsed().as_secs_f64());
    all.insert("tendot-memory".into(), memory);
    all.insert("tendot-size".into(), fs::metadata(data.join("data.mdb"))?.len() as f64);

    // The export must equal the input.
    let digest = |input: Stdio| -> Result<String> {
        let output = Command::from(benchmark(&sh, "records").arg("digest")).stdin(input).output()?;
        ensure!(output.status.success(), "`records digest` failed: {}", output.status);
        Ok(String::from_utf8(output.stdout)?)
    };
    let given = digest(File::open(&lines)?.into())?;
    fs::remove_file(&lines)?;
    let export = cmd!(sh, "{tendot} export --data {data}");
    let mut export = Command::from(export).stdout(Stdio::piped()).spawn()?;
    let exported = digest(export.stdout.take().context("stdout is not piped")?.into())?;
    ensure!(export.wait()?.success() && given == exported, "imported {given}, but exported {exported}");
    fs::remove_dir_all(&data)?;

    let import = benchmark(&sh, "store").arg("import").arg(folder).arg(records.to_string());
    let (library, _) = run_measured(import)?;
    all.insert("library-seconds".into(), records as f64 / measurement(&library, "import-rate")?);
    fs::remove_dir_all(&data)?;

    let postgres = start_postgres();
    let table = postgres.dir().join("records.copy");
    write("table", &table)?;
    postgres.psql("create table records (name text primary key, record bytea not null)");
    let start = Instant::now();
    postgres.psql(&format!("copy records from '{}'", table.display()));
    all.insert("postgres-seconds".into(), start.elapsed().as_secs_f64());
    let size = postgres.psql("select pg_total_relation_size('records')");
    all.insert("postgres-size".into(), size.parse().context("a size")?);
    Ok(all)
}

/// Measurements of the embedded store.
struct StoreReport {
    stores: Vec<(u64, Measurements)>,
    import: Option<Measurements>,
    imported: u64,
    deposits: Measurements,
    skipped: Vec<String>,
}

impl StoreReport {
    fn to_markdown(&self) -> Result<String> {
        let mut out = String::new();
        writeln!(
            out,
            "`cargo xtask bench store`. Records have two or three values, URLs of 60 to 90 bytes and one of 5,000 prefixes; they are\n\
             unsorted. The machine: {}, {} cores, {} of memory, load average {} (15 min); `fdatasync` of 4 KiB takes {:.0} µs\n\
             (median of 200).\n\n![Embedded store relative to LMDB and PostgreSQL](../images/performance-store.svg)\n",
            cpu_model()?,
            std::thread::available_parallelism()?,
            total_memory()?,
            load_average()?,
            measurement(&self.deposits, "sync-microseconds")?,
        )?;
        for line in &self.skipped {
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

    /// Bars of the plot: the largest store, the import and the commits.
    fn bars(&self) -> Result<Vec<Bar>> {
        let mut bars = Vec::new();
        let mut bar = |label: String, ratio: f64| bars.push(Bar { label, ratio });
        if let Some((records, all)) = self.stores.last() {
            let ratio = measurement(all, "own-read-rate")? / measurement(all, "own-engine-rate")?;
            bar(format!("reads of {} records, relative to LMDB", group_digits(*records)), ratio);
        }
        if let Some(import) = &self.import {
            let theirs = measurement(import, "postgres-seconds")?;
            bar("tendot import, relative to COPY".into(), theirs / measurement(import, "tendot-seconds")?);
            bar("library import, relative to COPY".into(), theirs / measurement(import, "library-seconds")?);
        }
        let ratio = measurement(&self.deposits, "deposits-ratio-64")?;
        bar("durable writes of 64 writers, relative to one".into(), ratio);
        Ok(bars)
    }

    fn read_section(&self, out: &mut String) -> Result<()> {
        out.push_str(READ_METHOD);
        let ratio = |numerator: &'static str, denominator: &'static str| -> CellFormat {
            Box::new(move |all| {
                Ok(format!("{:.2}", measurement(all, numerator)? / measurement(all, denominator)?))
            })
        };
        let integer = |name: &'static str| -> CellFormat {
            Box::new(move |all| Ok(group_digits(measurement(all, name)? as u64)))
        };
        let micros = |name: &'static str| -> CellFormat {
            Box::new(move |all| Ok(format!("{:.1} µs", measurement(all, name)? / 1e3)))
        };
        let megabytes = |name: &'static str| -> CellFormat {
            Box::new(move |all| Ok(format!("{:.0} MB", measurement(all, name)? / 1e3)))
        };
        let decimal = |name: &'static str| -> CellFormat {
            Box::new(move |all| Ok(format!("{:.1}", measurement(all, name)?)))
        };
        let rows: [(&str, CellFormat); 21] = [
            ("reads/s", integer("own-read-rate")),
            ("relative to LMDB, same bytes", ratio("own-read-rate", "own-engine-rate")),
            ("relative to LMDB, same bytes, copied", ratio("own-read-rate", "own-engine-copy-rate")),
            ("relative to LMDB, wire form", ratio("wire-read-rate", "wire-engine-rate")),
            ("misses/s", integer("own-miss-rate")),
            ("relative to reads", ratio("own-miss-rate", "own-read-rate")),
            ("relative to LMDB, same bytes", ratio("own-miss-rate", "own-engine-miss-rate")),
            ("relative to LMDB, wire form", ratio("wire-miss-rate", "wire-engine-miss-rate")),
            ("resolutions/s", integer("own-resolve-rate")),
            ("relative to LMDB, same bytes", ratio("own-resolve-rate", "own-engine-rate")),
            ("relative to LMDB, wire form", ratio("wire-resolve-rate", "wire-engine-rate")),
            ("read p99", micros("own-read-p99")),
            ("miss p99", micros("own-miss-p99")),
            ("LMDB p99, same bytes", micros("own-engine-p99")),
            ("LMDB p99, wire form", micros("wire-engine-p99")),
            ("disk bytes per record", decimal("size")),
            ("relative to LMDB, wire form", ratio("size", "wire-engine-size")),
            ("disk bytes of name hashes, per record", decimal("hash-size")),
            ("library import, records/s", integer("import-rate")),
            ("memory during import", megabytes("import-memory")),
            ("memory during reads", megabytes("own-read-memory")),
        ];
        let columns = self.stores.iter().map(|(records, _)| group_digits(*records));
        let mut table = MarkdownTable::new(out, columns)?;
        for (name, show) in rows {
            let cells = self.stores.iter().map(|(_, measured)| show(measured)).collect::<Result<Vec<_>>>()?;
            table.row(name, cells)?;
        }
        if let [(few, first), .., (many, last)] = self.stores.as_slice() {
            let times = measurement(last, "own-read-p99")? / measurement(first, "own-read-p99")?;
            let (few, many) = (group_digits(*few), group_digits(*many));
            writeln!(out, "\nRead p99 at {many} records: {times:.2} × that at {few}.")?;
        }
        out.push('\n');
        Ok(())
    }

    fn import_section(&self, import: &Measurements, out: &mut String) -> Result<()> {
        let records = self.imported as f64;
        writeln!(out, "### Import of {} records\n\n{IMPORT_METHOD}", group_digits(self.imported))?;
        let columns = ["`tendot import` of JSON lines", "library", "PostgreSQL `COPY`"];
        let mut table = MarkdownTable::new(out, columns.into_iter().map(str::to_owned))?;
        let seconds =
            ["tendot-seconds", "library-seconds", "postgres-seconds"].map(|name| measurement(import, name));
        let [ours, library, theirs] = seconds;
        let seconds = [ours?, library?, theirs?];
        let theirs = seconds[2];
        let (size, their_size) = (measurement(import, "tendot-size")?, measurement(import, "postgres-size")?);
        table.row("seconds", seconds.iter().map(|seconds| format!("{seconds:.1}")))?;
        table.row("records/s", seconds.iter().map(|seconds| group_digits((records / seconds) as u64)))?;
        table.row(
            "relative to PostgreSQL",
            seconds.iter().map(|seconds| format!("{:.2}", theirs / seconds)),
        )?;
        let sizes = [size, size, their_size];
        table.row("disk bytes per record", sizes.iter().map(|size| format!("{:.1}", size / records)))?;
        let memory = measurement(import, "tendot-memory")? / 1e3;
        Ok(writeln!(out, "\nPeak memory of `tendot import`: {memory:.0} MB.\n")?)
    }

    fn commit_section(&self, out: &mut String) -> Result<()> {
        out.push_str(COMMIT_METHOD);
        let mut table =
            MarkdownTable::new(out, ["writes/s", "relative to one writer"].into_iter().map(str::to_owned))?;
        for writers in [1, 16, 64] {
            let rate = measurement(&self.deposits, &format!("deposits-{writers}"))?;
            let ratio = measurement(&self.deposits, &format!("deposits-ratio-{writers}"))?;
            let label = format!("{writers} writer{}", if writers == 1 { "" } else { "s" });
            table.row(&label, [group_digits(rate as u64), format!("{ratio:.1}")])?;
        }
        Ok(())
    }
}

/// Formats one table cell.
type CellFormat = Box<dyn Fn(&Measurements) -> Result<String>>;

const READ_METHOD: &str = "\
### Reads and size

300,000 random names are read by one thread, each in its own transaction, with everything in memory. Rates are medians of 150 turns of
10,000 names, p99 of five rounds. LMDB is opened as we open it and returns bytes; the store returns typed values and verifies a
checksum. *Same bytes*: LMDB holds the bytes of our store, also copied; *wire form*: records as in messages. *Misses* are names that do
not exist; the store confirms them by the hashes of all names. *Resolutions* add the registry: responsibility and permissions.

";

const IMPORT_METHOD: &str = "\
Unsorted, from a file, into a new store. PostgreSQL 15 copies the same records by `COPY` into a table with the name as primary key and
the wire form as `bytea`, durable, with 1 GB of shared buffers and `max_wal_size` of 8 GB. `tendot export` returned the same lines.
";

const COMMIT_METHOD: &str = "\
### Durable writes

Each writer waits until its record is durable. Medians of five rounds of three seconds.

";

fn free_bytes(folder: &Path) -> Result<u64> {
    let sh = shell()?;
    let free = cmd!(sh, "df --output=avail -B1 {folder}").read()?;
    free.lines().last().context("`df` printed nothing")?.trim().parse().context("`df` printed no number")
}

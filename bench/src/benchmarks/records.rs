//! Generated records on standard output, identical in every run.
//!
//! `records lines COUNT` writes JSON lines for `tendot import`; `records table COUNT` writes text for PostgreSQL's `COPY`: the
//! name in upper case, and the wire form of the values. `records digest` prints an order-independent digest of the lines it
//! reads.

use std::error::Error;
use std::hash::{DefaultHasher, Hasher as _};
use std::io::{self, BufRead as _, BufWriter, Write};

use crate::records::RecordGenerator;
use tendot_proto::HandleValue;
use tendot_proto::record::HandleRecord;
use tendot_testing::hex;

pub(crate) fn run(arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    let mut out = BufWriter::with_capacity(1 << 20, io::stdout().lock());
    match arguments {
        ["lines", count] => {
            let mut records = RecordGenerator::new(7);
            for _ in 0..count.parse()? {
                let (name, values) = records.record();
                serde_json::to_writer(&mut out, &HandleRecord { handle: name.into_bytes().into(), values })?;
                out.write_all(b"\n")?;
            }
        }
        ["table", count] => {
            let mut records = RecordGenerator::new(7);
            for _ in 0..count.parse()? {
                let (name, values) = records.record();
                out.write_all(row(&name, &values).as_bytes())?;
            }
        }
        ["digest"] => writeln!(out, "{}", digest()?)?,
        _ => return Err("usage: records lines|table COUNT, or records digest".into()),
    }
    Ok(out.flush()?)
}

fn row(name: &str, values: &[HandleValue<'_>]) -> String {
    let bytes: Vec<u8> = values.iter().flat_map(HandleValue::to_bytes).collect();
    format!("{}\t\\\\x{}\n", name.to_ascii_uppercase(), hex::encode(&bytes))
}

fn digest() -> Result<String, Box<dyn Error>> {
    let (mut sum, mut count, mut line) = (0_u64, 0_u64, Vec::new());
    let mut input = io::stdin().lock();
    while input.read_until(b'\n', &mut line)? > 0 {
        let mut hasher = DefaultHasher::new();
        hasher.write(&line);
        sum = sum.wrapping_add(hasher.finish());
        count += 1;
        line.clear();
    }
    Ok(format!("{count} lines, {sum:016x}"))
}

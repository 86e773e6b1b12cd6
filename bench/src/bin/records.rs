//! The same records for everybody: `records COUNT LINES TABLE` writes them as JSON lines for `tendot import`, and as text
//! for PostgreSQL's `COPY`: the name in upper case, and the wire form of the values.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write as _};

use tendot_bench::records::Records;
use tendot_proto::Value;
use tendot_proto::record::Record;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, count, lines, table] = arguments.as_slice() else {
        return Err("usage: records COUNT LINES TABLE".into());
    };
    let create = |path: &str| File::create(path).map(|file| BufWriter::with_capacity(1 << 20, file));
    let (mut lines, mut table) = (create(lines)?, create(table)?);
    let mut records = Records::new(7);
    for _ in 0..count.parse()? {
        let (name, values) = records.record();
        let mut row = name.to_ascii_uppercase().into_bytes();
        row.extend_from_slice(b"\t\\\\x");
        for byte in values.iter().flat_map(Value::to_bytes) {
            row.extend(b"0123456789abcdef".get(usize::from(byte >> 4)));
            row.extend(b"0123456789abcdef".get(usize::from(byte & 15)));
        }
        row.push(b'\n');
        table.write_all(&row)?;
        serde_json::to_writer(&mut lines, &Record { handle: name.into_bytes().into(), values })?;
        lines.write_all(b"\n")?;
    }
    lines.flush()?;
    Ok(table.flush()?)
}

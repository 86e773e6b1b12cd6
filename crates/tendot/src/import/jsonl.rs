//! A record a line.

use tendot_proto::record::Record;

use super::{Item, LONGEST, Source, Take};
use crate::Failure;
use crate::lines::Lines;

pub(super) fn read(source: Source, take: &mut Take<'_>) -> Result<(), Failure> {
    let (name, reader) = source.into_parts();
    let mut lines = Lines::of(reader, &name, LONGEST);
    let mut number = 0;
    while let Some(line) = lines.next()? {
        number += 1;
        if line.len() > LONGEST {
            take(number, Item::Refused(format!("the line has more than {LONGEST} bytes")))?;
        } else if !line.trim_ascii().is_empty() {
            take(
                number,
                match Record::from_json(line) {
                    Ok(record) => Item::Record(record),
                    Err(error) => Item::Refused(error.to_string()),
                },
            )?;
        }
    }
    Ok(())
}

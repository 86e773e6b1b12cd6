//! `tendot verify`

use serde::Serialize;
use tendot_store::Verified;

use crate::args::VerifyArguments;
use crate::failure::{escaped, tell};
use crate::output::Output;
use crate::store::{RECORDS, progress, unread};
use crate::{Answer, Failure};

#[derive(Serialize)]
struct Damage<'a> {
    damage: &'a str,
}

#[derive(Serialize)]
struct Summary {
    records: u64,
    tombstones: u64,
    parts: u64,
    prefixes: u64,
    lines: u64,
    damaged: u64,
}

pub(crate) fn run(arguments: &VerifyArguments) -> Result<Answer, Failure> {
    let store = arguments.store.open_read_only()?;
    // What cannot be counted is damaged, and will be told as such.
    let bar = progress(store.count().unwrap_or_default(), RECORDS);
    let verified = store
        .verify(|verified| bar.set_position(verified.records + verified.tombstones))
        .map_err(|error| unread(&error))?;
    bar.finish_and_clear();
    let Verified { records, tombstones, parts, prefixes, lines, damage, damaged } = &verified;
    let mut output = Output::new();
    for damage in damage {
        if arguments.json {
            output.json(&Damage { damage })?;
        } else {
            output.line(escaped(damage))?;
        }
    }
    if arguments.json {
        let (records, tombstones, parts) = (*records, *tombstones, *parts);
        let (prefixes, lines, damaged) = (*prefixes, *lines, *damaged);
        output.json(&Summary { records, tombstones, parts, prefixes, lines, damaged })?;
    }
    output.flush()?;
    if *damaged == 0 {
        tell(format_args!("{} records, all right", records + tombstones));
        return Ok(Answer::Yes);
    }
    tell(format_args!("{} records are right, {damaged} damages were found", records + tombstones));
    Ok(Answer::No)
}

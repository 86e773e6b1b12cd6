//! `tendot verify`

use std::process::{Command, ExitStatus};

use serde::Serialize;
use tendot_store::{Embedded, OpenError, PostgresSettings, Verified};

use crate::args::VerifyArguments;
use crate::failure::{escaped, tell};
use crate::moving::runtime;
use crate::output::Output;
use crate::store::{Place, RECORDS, open_postgres, progress, unopened, unread};
use crate::{Answer, Failure};

#[derive(Serialize)]
struct DamageJson<'a> {
    damage: &'a str,
}

#[derive(Default, Serialize)]
struct Summary {
    records: u64,
    tombstones: u64,
    parts: u64,
    prefixes: u64,
    lines: u64,
    history: u64,
    notes: u64,
    registrations: u64,
    damaged: u64,
}

impl Summary {
    const fn of(verified: &Verified) -> Self {
        Self {
            records: verified.records,
            tombstones: verified.tombstones,
            parts: verified.parts,
            prefixes: verified.prefixes,
            lines: verified.lines,
            history: verified.history,
            notes: verified.notes,
            registrations: verified.registrations,
            damaged: verified.damaged,
        }
    }
}

/// LMDB trusts its own pages, so one that is damaged can end the process that reads it. That has to be told like any
/// other damage, and so another process reads.
pub(crate) fn run(arguments: &VerifyArguments) -> Result<Answer, Failure> {
    if let Place::Database(address) = arguments.store.place()? {
        return verify_postgres(arguments, &address);
    }
    if arguments.in_this_process {
        return verify(arguments);
    }
    let unstarted = |error| Failure::io("the process that reads the store can't be started", &error);
    let program = std::env::current_exe().map_err(unstarted)?;
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1)).arg("--in-this-process");
    let status = command.status().map_err(unstarted)?;
    match status.code() {
        Some(0) => Ok(Answer::Yes),
        Some(1) => Ok(Answer::No),
        Some(2) => Ok(Answer::Incomplete),
        _ if was_stopped(status) => {
            Err(Failure::new(format!("the process that read the store was stopped: {status}")))
        }
        _ => {
            let damage = format!("the pages of the engine are damaged: reading them ended with {status}");
            report_unreadable(&damage, arguments.json)
        }
    }
}

/// Tells of damage after which nothing can be read.
fn report_unreadable(damage: &str, json: bool) -> Result<Answer, Failure> {
    let mut output = Output::new();
    if json {
        output.json(&DamageJson { damage })?;
        output.json(&Summary { damaged: 1, ..Summary::default() })?;
    } else {
        output.line(escaped(damage))?;
    }
    output.flush()?;
    tell("the store is damaged; `tendot restore` makes a new one of a backup");
    Ok(Answer::No)
}

/// Whether somebody wanted the process to end: SIGHUP, SIGINT, SIGKILL, SIGPIPE, SIGTERM.
#[cfg(unix)]
fn was_stopped(status: ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt as _;
    status.signal().is_some_and(|signal| matches!(signal, 1 | 2 | 9 | 13 | 15))
}

#[cfg(not(unix))]
const fn was_stopped(_: ExitStatus) -> bool {
    false
}

fn verify(arguments: &VerifyArguments) -> Result<Answer, Failure> {
    let store = match Embedded::open_read_only(&arguments.store.directory()?) {
        Ok(store) => store,
        Err(error @ (OpenError::CutOff { .. } | OpenError::Store { .. })) => {
            return report_unreadable(&error.to_string(), arguments.json);
        }
        Err(error) => return Err(unopened(&error)),
    };
    // What cannot be counted is damaged, and will be told as such.
    let bar = progress(store.count().unwrap_or_default(), RECORDS);
    let verified = store
        .verify(|verified| bar.set_position(verified.records + verified.tombstones))
        .map_err(|error| unread(&error))?;
    bar.finish_and_clear();
    report_verified(&verified, arguments.json)
}

fn verify_postgres(arguments: &VerifyArguments, address: &str) -> Result<Answer, Failure> {
    let settings = PostgresSettings { migrate: false, ..PostgresSettings::default() };
    let verified = runtime()?.block_on(async {
        let store = open_postgres(address, &settings).await?;
        let bar = progress(0, "{human_pos} records  {per_sec}");
        let verified =
            store.verify(|verified| bar.set_position(verified.records + verified.tombstones)).await;
        bar.finish_and_clear();
        verified.map_err(|error| unread(&error))
    })?;
    report_verified(&verified, arguments.json)
}

fn report_verified(verified: &Verified, json: bool) -> Result<Answer, Failure> {
    let Verified { records, tombstones, damage, damaged, .. } = verified;
    let mut output = Output::new();
    for damage in damage {
        if json {
            output.json(&DamageJson { damage })?;
        } else {
            output.line(escaped(damage))?;
        }
    }
    if json {
        output.json(&Summary::of(verified))?;
    }
    output.flush()?;
    if *damaged == 0 {
        tell(format_args!("{} records, all right", records + tombstones));
        return Ok(Answer::Yes);
    }
    tell(format_args!("{} records are right, {damaged} damages were found", records + tombstones));
    Ok(Answer::No)
}

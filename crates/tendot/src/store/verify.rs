//! `tendot verify`: reads and checks every record and page.

use std::path::Path;
use std::process::{Command, ExitStatus};

use clap::Args;
use serde::Serialize;
use tendot_registry::registration::IndexRepair;
use tendot_registry::{Registry, RegistrySettings, key_warning};
use tendot_store::{AnyStore, EmbeddedStore, OpenError, PostgresSettings, StoredRecord, VerifyReport};

use super::{StoreArguments, StoreLocation, open_error, open_postgres, read_error};
use crate::terminal::{
    RECORD_PROGRESS, StdoutWriter, eprint_line, eprint_warning, escape_control, progress_bar,
};
use crate::{CliError, CommandStatus, runtime};

/// Read a whole store and report corruption, and keys that cannot authenticate
///
/// Works while a server is running. Records of the embedded store have checksums; in PostgreSQL all rows are read and compared
/// with each other. Secret keys that were publicly readable, and public keys that are too short, are warnings, not corruption.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot verify
  tendot verify --data /var/lib/tendot --json
  tendot verify --store postgres://tendot@db.example.org/tendot
  tendot verify --repair

Exit codes: 0 success, 1 corruption found, 2 error")]
pub(crate) struct VerifyArguments {
    #[command(flatten)]
    pub(crate) store: StoreArguments,

    /// Rebuild the index of descriptions, which finds duplicate metadata, and corrupt name hashes; not if anything else is corrupt
    ///
    /// The embedded store must not be open in a server.
    #[arg(long)]
    pub(crate) repair: bool,

    /// Print JSON: one object per fault and per warning, then one with counts
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,

    /// Verify in this process; a corrupt LMDB page may crash it
    #[arg(long, hide = true)]
    pub(crate) in_process: bool,
}

#[derive(Serialize)]
struct DamageJson<'a> {
    damage: &'a str,
}

#[derive(Serialize)]
struct KeyWarningJson<'a> {
    warning: &'a str,
}

/// Maximum number of warnings printed; the rest is counted.
const MAX_PRINTED_WARNINGS: usize = 100;

/// Keys that cannot authenticate: no corruption, but the administrator should replace them.
#[derive(Default)]
struct KeyWarnings {
    count: u64,
    messages: Vec<String>,
}

impl KeyWarnings {
    fn inspect(&mut self, record: &StoredRecord) {
        for warning in record.values.iter().filter_map(key_warning) {
            self.count += 1;
            if self.messages.len() < MAX_PRINTED_WARNINGS {
                self.messages.push(format!("`{}`: {warning}", record.name));
            }
        }
    }
}

#[derive(Default, Serialize)]
struct VerifyJson {
    records: u64,
    tombstones: u64,
    values: u64,
    dictionary_entries: u64,
    prefixes: u64,
    log_entries: u64,
    history: u64,
    aux_entries: u64,
    registrations: u64,
    unusable_keys: u64,
    damaged: u64,
}

impl VerifyJson {
    const fn of(verified: &VerifyReport, keys: &KeyWarnings) -> Self {
        Self {
            records: verified.records,
            tombstones: verified.tombstones,
            values: verified.values,
            dictionary_entries: verified.dictionary_entries,
            prefixes: verified.homed_prefixes,
            log_entries: verified.log_entries,
            history: verified.history_entries,
            aux_entries: verified.aux_entries,
            registrations: verified.registrations,
            unusable_keys: keys.count,
            damaged: verified.error_count,
        }
    }
}

/// Verifies the store in a child process: LMDB does not validate pages, so a corrupt one can crash the reader; a crash is reported
/// as corruption.
pub(crate) fn run(arguments: &VerifyArguments) -> Result<CommandStatus, CliError> {
    let directory = match arguments.store.locate()?.location {
        StoreLocation::Embedded(directory) => directory,
        StoreLocation::Postgres(address) => return verify_postgres(arguments, &address),
    };
    if arguments.in_process {
        return verify_embedded(arguments, &directory);
    }
    let start_error = |error| CliError::io("cannot start the verify process", &error);
    let program = std::env::current_exe().map_err(start_error)?;
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1)).arg("--in-process");
    let status = command.status().map_err(start_error)?;
    match status.code() {
        Some(0) => Ok(CommandStatus::Success),
        Some(1) => Ok(CommandStatus::Negative),
        Some(2) => Ok(CommandStatus::Partial),
        _ if was_terminated_by_signal(status) => {
            Err(CliError::new(format!("the verify process was terminated: {status}")))
        }
        _ => {
            let damage = format!("LMDB pages are corrupt: reading them ended with {status}");
            report_unreadable(&damage, arguments.json)
        }
    }
}

/// Reports corruption that prevents reading the store.
fn report_unreadable(damage: &str, json: bool) -> Result<CommandStatus, CliError> {
    let mut output = StdoutWriter::new();
    if json {
        output.write_json(&DamageJson { damage })?;
        output.write_json(&VerifyJson { damaged: 1, ..VerifyJson::default() })?;
    } else {
        output.write_line(escape_control(damage))?;
    }
    output.flush()?;
    eprint_line("the store is corrupt; restore a backup with `tendot restore`");
    Ok(CommandStatus::Negative)
}

/// True if an external signal terminated the process: SIGHUP, SIGINT, SIGKILL, SIGPIPE or SIGTERM.
#[cfg(unix)]
fn was_terminated_by_signal(status: ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt as _;
    status.signal().is_some_and(|signal| matches!(signal, 1 | 2 | 9 | 13 | 15))
}

#[cfg(not(unix))]
const fn was_terminated_by_signal(_: ExitStatus) -> bool {
    false
}

fn verify_embedded(arguments: &VerifyArguments, directory: &Path) -> Result<CommandStatus, CliError> {
    let store = match EmbeddedStore::open_read_only(directory) {
        Ok(store) => store,
        Err(error @ (OpenError::Truncated { .. } | OpenError::Store { .. })) => {
            return report_unreadable(&error.to_string(), arguments.json);
        }
        Err(error) => return Err(open_error(&error)),
    };
    // If counting fails, verification reports the corruption.
    let bar = progress_bar(store.count().unwrap_or_default(), RECORD_PROGRESS);
    let mut keys = KeyWarnings::default();
    let verified = store
        .verify_and_inspect(
            |record| keys.inspect(record),
            |verified| bar.set_position(verified.records + verified.tombstones),
        )
        .map_err(|error| read_error(&error))?;
    bar.finish_and_clear();
    drop(store);
    let status = report_verified(&verified, &keys, arguments)?;
    // Name hashes can be computed from the records.
    if !arguments.repair || verified.error_count > verified.name_hash_errors {
        return Ok(status);
    }
    let store = EmbeddedStore::open(directory).map_err(|error| open_error(&error))?;
    if verified.name_hash_errors > 0 {
        store.rebuild_name_hashes().map_err(|error| read_error(&error))?;
        eprint_line("name hashes: recomputed from the records");
    }
    runtime::multi_thread(1)?.block_on(repair_index(store.into()))?;
    Ok(CommandStatus::Success)
}

/// Rebuilds the index of descriptions.
async fn repair_index(store: AnyStore) -> Result<(), CliError> {
    let registry = Registry::new(store, RegistrySettings::default());
    let repaired = registry.repair_description_index().await;
    let IndexRepair { names, added, removed } =
        repaired.map_err(|error| CliError::new(escape_control(&error.detail)))?;
    eprint_line(format_args!(
        "index of descriptions: {names} names with metadata, {added} entries added, {removed} corrected"
    ));
    Ok(())
}

/// Status of a verification.
fn status_of(verified: &VerifyReport) -> CommandStatus {
    if verified.error_count == 0 { CommandStatus::Success } else { CommandStatus::Negative }
}

fn verify_postgres(arguments: &VerifyArguments, address: &str) -> Result<CommandStatus, CliError> {
    let settings = PostgresSettings { migrate_schema: false, ..PostgresSettings::default() };
    let runtime = runtime::multi_thread(2)?;
    let mut keys = KeyWarnings::default();
    let verified = runtime.block_on(async {
        let store = open_postgres(address, &settings).await?;
        let bar = progress_bar(0, "{human_pos} records  {rate}");
        let verified = store
            .verify_and_inspect(
                |record| keys.inspect(record),
                |verified| bar.set_position(verified.records + verified.tombstones),
            )
            .await;
        bar.finish_and_clear();
        verified.map_err(|error| read_error(&error))
    })?;
    if report_verified(&verified, &keys, arguments)? == CommandStatus::Success && arguments.repair {
        runtime.block_on(async { repair_index(open_postgres(address, &settings).await?.into()).await })?;
    }
    Ok(status_of(&verified))
}

/// Maximum number of names in the hint.
const MAX_NAMES_IN_HINT: usize = 3;

/// Command that restores the names with corrupt records; `None` if there are none.
fn restore_hint(names: &[Box<str>]) -> Option<String> {
    // Others would have to be quoted.
    let is_plain = |name: &str| !name.contains('\'') && escape_control(name) == name;
    let flags: Vec<String> = match names {
        [] => return None,
        names if names.len() > MAX_NAMES_IN_HINT || !names.iter().all(|name| is_plain(name)) => {
            vec!["--damaged".into()]
        }
        names => names.iter().map(|name| format!("--name '{name}'")).collect(),
    };
    let flags = flags.join(" ");
    Some(format!(
        "restore the corrupt records: stop the server and run `tendot restore {flags} BACKUP`, with the same `--data`"
    ))
}

fn report_verified(
    verified: &VerifyReport,
    keys: &KeyWarnings,
    arguments: &VerifyArguments,
) -> Result<CommandStatus, CliError> {
    let json = arguments.json;
    let VerifyReport { records, tombstones, errors: damage, error_count: damaged, .. } = verified;
    let mut output = StdoutWriter::new();
    for damage in damage {
        if json {
            output.write_json(&DamageJson { damage })?;
        } else {
            output.write_line(escape_control(damage))?;
        }
    }
    for warning in &keys.messages {
        if json {
            output.write_json(&KeyWarningJson { warning })?;
        } else {
            eprint_warning(&escape_control(warning));
        }
    }
    if json {
        output.write_json(&VerifyJson::of(verified, keys))?;
    }
    output.flush()?;
    if keys.count > 0 {
        eprint_line(format_args!("{} keys cannot authenticate", keys.count));
    }
    if *damaged == 0 {
        eprint_line(format_args!("{} records verified, no corruption", records + tombstones));
        return Ok(CommandStatus::Success);
    }
    let faults = if *damaged == 1 { "1 fault" } else { &format!("{damaged} faults") };
    eprint_line(format_args!("{} records verified, {faults} found", records + tombstones));
    if *damaged == verified.name_hash_errors {
        eprint_line(
            "no record is corrupt; stop the server and recompute the name hashes with `tendot verify --repair`",
        );
    } else if let Some(hint) = restore_hint(&verified.damaged_names) {
        eprint_line(hint);
    }
    Ok(CommandStatus::Negative)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The printed command can be pasted into a shell, whatever the names are.
    #[test]
    fn hints_contain_no_names_to_quote() {
        let hint = |names: &[&str]| {
            let names: Vec<Box<str>> = names.iter().map(|name| (*name).into()).collect();
            restore_hint(&names).map(|hint| hint.split('`').nth(1).unwrap().to_owned())
        };
        let all = Some("tendot restore --damaged BACKUP".to_owned());
        assert_eq!(hint(&[]), None);
        assert_eq!(
            hint(&["10.1/A;B", "10.1/$C"]),
            Some("tendot restore --name '10.1/A;B' --name '10.1/$C' BACKUP".to_owned())
        );
        assert_eq!(hint(&["10.1/A", "10.1/X';/TMP/Y;'"]), all);
        assert_eq!(hint(&["10.1/A\u{200b}"]), all);
        assert_eq!(hint(&["10.1/1", "10.1/2", "10.1/3", "10.1/4"]), all);
    }
}

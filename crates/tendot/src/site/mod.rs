//! `tendot site`: shows the site record, combines records, and exports the site bundle.
//!
//! In reading order:
//!
//! - `files`: key pairs and site record in the data directory
//! - `bundle`: `tendot site export`

pub(crate) mod bundle;
mod files;

use std::path::PathBuf;

use bundle::{SiteExportArguments, export};
use clap::{Args, Subcommand, ValueEnum};
pub(crate) use files::{
    ADMIN_KEY_FILES, PublishedEndpoints, finish_key_rotation, generate_key_pair, load_combined_site,
    load_or_create_site, next_serial, read_private_key, read_site_file, read_site_record, rotate_key,
    write_site_file,
};
use tendot_proto::record::{HashOption, Site, SiteAttribute, SiteServer};

use crate::cli::ConfigSourceArguments;
use crate::config::load_settings;
use crate::terminal::{StdoutWriter, eprint_error, eprint_line, print_json};
use crate::{CliError, CommandStatus};

/// Manage the site record (HS_SITE) of this server
#[derive(Debug, Subcommand)]
pub(crate) enum SiteCommand {
    Show(SiteShowArguments),
    Export(SiteExportArguments),
    Combine(SiteCombineArguments),
    RotateKey(SiteRotateKeyArguments),
}

/// Replace the server key; the old one stays in use for clients that know only that
///
/// Keeps the old key as `privkey-previous.bin` and generates a new one. Restart the server and publish the new site record (`tendot site
/// show`): requests of clients with the new record get responses signed with the new key, those of clients with the old record get
/// responses signed with the old key. When the old record has expired everywhere, `--finish` deletes the old key.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot site rotate-key --data /var/lib/tendot
  tendot site rotate-key --data /var/lib/tendot --finish

Exit codes: 0 success, 1 no roll-over to finish, 2 error")]
pub(crate) struct SiteRotateKeyArguments {
    /// Delete the old key; the server stops using it at its next start
    #[arg(long)]
    pub(crate) finish: bool,

    /// Data directory of the server [default: tendot-data]
    #[arg(long, value_name = "DIR", help_heading = "Store")]
    pub(crate) data: Option<String>,

    #[command(flatten)]
    pub(crate) configuration: ConfigSourceArguments,
}

/// Print the site record as JSON
///
/// The first `tendot serve` creates the site record and the server key in the data directory. A later start increments the
/// serial number if addresses, ports or the description have changed.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot site show
  tendot site show --data /var/lib/tendot --json | jq .serialNumber

Exit codes: 0 success, 1 no site record yet, 2 error")]
pub(crate) struct SiteShowArguments {
    /// Data directory: embedded store, operator token, server key, site record [default: tendot-data]
    #[arg(long, value_name = "DIR", help_heading = "Store")]
    pub(crate) data: Option<String>,

    #[command(flatten)]
    pub(crate) configuration: ConfigSourceArguments,

    /// Print JSON on one line
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

/// Combine the records of several servers into one site
///
/// Each FILE is the site record of a server that has been started once: `siteinfo.json` in its data directory. A hash of the
/// handle selects the responsible server, so the number and order of the files matter: changing them moves handles between
/// servers. Set `native.site_file` to the output file on every server; each finds itself in it by its server key. If the output
/// file exists, its serial number is incremented.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot site combine one/siteinfo.json two/siteinfo.json three/siteinfo.json --output site.json
  tendot serve --data one --native 192.0.2.1:2641 --set native.site_file=site.json

Exit codes: 0 success, 2 error")]
pub(crate) struct SiteCombineArguments {
    /// Site records (siteinfo.json) of the servers, in order
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,

    /// Output file
    #[arg(long, value_name = "FILE")]
    pub(crate) output: PathBuf,

    /// Part of the handle that selects the server (RFC 3651: HashOption)
    #[arg(long, value_name = "PART", default_value = "handle")]
    pub(crate) hash_option: HashOptionArgument,

    /// Description of the site
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) description: String,

    /// Print the site record as JSON
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

/// Part of the handle that selects the responsible server.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum HashOptionArgument {
    /// the whole handle
    Handle,
    /// the part after the first `/`
    Suffix,
    /// the part before it: all handles of a prefix on one server
    Prefix,
}

pub(crate) fn run(arguments: &SiteCommand) -> Result<CommandStatus, CliError> {
    match arguments {
        SiteCommand::Show(arguments) => show(arguments),
        SiteCommand::Export(arguments) => export(arguments),
        SiteCommand::Combine(arguments) => combine(arguments),
        SiteCommand::RotateKey(arguments) => rotate_server_key(arguments),
    }
}

fn rotate_server_key(arguments: &SiteRotateKeyArguments) -> Result<CommandStatus, CliError> {
    let flags: Vec<_> = arguments.data.iter().map(|data| ("data", "--data", data.clone())).collect();
    let settings = load_settings(&arguments.configuration, &flags)?;
    let Some(directory) = settings.data_dir() else {
        return Err(CliError::new("the memory store has no persistent server key"));
    };
    if !arguments.finish {
        rotate_key(&directory, settings.site_file.as_deref())?;
        eprint_line("new server key; restart the server, then publish the new site record");
        return Ok(CommandStatus::Success);
    }
    if finish_key_rotation(&directory)? {
        eprint_line("old server key deleted; restart the server");
        return Ok(CommandStatus::Success);
    }
    eprint_error("there is no old server key");
    Ok(CommandStatus::Negative)
}

fn show(arguments: &SiteShowArguments) -> Result<CommandStatus, CliError> {
    let Some((_, site)) = load_site(&arguments.configuration, arguments.data.as_ref())? else {
        return Ok(CommandStatus::Negative);
    };
    let mut output = StdoutWriter::new();
    if arguments.json {
        output.write_json(&site)?;
    } else {
        output.write_line(to_pretty_json(&site)?)?;
    }
    output.flush()?;
    Ok(CommandStatus::Success)
}

/// Data directory and the site record in it; prints an error and returns `None` if there is no record.
fn load_site(
    configuration: &ConfigSourceArguments,
    data: Option<&String>,
) -> Result<Option<(PathBuf, Site<'static>)>, CliError> {
    let flags: Vec<_> = data.map(|data| ("data", "--data", data.clone())).into_iter().collect();
    let settings = load_settings(configuration, &flags)?;
    let Some(directory) = settings.data_dir() else {
        return Err(CliError::new("the memory store has no persistent site record"));
    };
    if let Some(site_file) = &settings.site_file {
        let site = load_combined_site(&directory, site_file)?.site().clone();
        return Ok(Some((directory, site)));
    }
    let site = read_site_record(&directory)?;
    if site.is_none() {
        let directory = directory.display();
        eprint_error(&format!("no site record in `{directory}`; it is created by the first `tendot serve`"));
    }
    Ok(site.map(|site| (directory, site)))
}

fn to_pretty_json(site: &Site<'_>) -> Result<String, CliError> {
    serde_json::to_string_pretty(site).map_err(|error| CliError::new(error.to_string()))
}

fn combine(arguments: &SiteCombineArguments) -> Result<CommandStatus, CliError> {
    let mut servers: Vec<SiteServer<'static>> = Vec::new();
    let previous = read_site_file(&arguments.output)?;
    let mut serial = previous.as_ref().map_or(0, |previous| previous.serial);
    for file in &arguments.files {
        let path = file.display();
        let part = read_site_file(file)?.ok_or_else(|| CliError::new(format!("`{path}` does not exist")))?;
        serial = serial.max(part.serial);
        for server in part.servers {
            if server.ip().is_unspecified() || server.public_key.is_empty() {
                return Err(CliError::new(format!("`{path}` has no public address or no key"))
                    .with_hint("set `native.public_address` on that server and start it once"));
            }
            if servers.iter().any(|other| other.public_key == server.public_key) {
                return Err(CliError::new(format!("duplicate server key in `{path}`")));
            }
            let id = u32::try_from(servers.len()).unwrap_or(u32::MAX).saturating_add(1);
            servers.push(SiteServer { id, ..server });
        }
    }
    let description = (!arguments.description.is_empty()).then(|| SiteAttribute {
        name: b"desc"[..].into(),
        value: arguments.description.clone().into_bytes().into(),
    });
    let hash_option = match arguments.hash_option {
        HashOptionArgument::Handle => HashOption::WHOLE,
        HashOptionArgument::Suffix => HashOption::SUFFIX,
        HashOptionArgument::Prefix => HashOption::PREFIX,
    };
    let attributes = description.into_iter().collect();
    let mut site = Site { flags: Site::FLAG_PRIMARY, hash_option, attributes, servers, ..Site::default() };
    match previous {
        Some(previous) if previous == (Site { serial: previous.serial, ..site.clone() }) => site = previous,
        _ => {
            site.serial = next_serial(serial);
            write_site_file(&arguments.output, &site)?;
        }
    }
    if arguments.json {
        print_json(&site)?;
    } else {
        let (count, path) = (site.servers.len(), arguments.output.display());
        eprint_line(format_args!(
            "wrote `{path}` with {count} servers; set `native.site_file` on each of them"
        ));
    }
    Ok(CommandStatus::Success)
}

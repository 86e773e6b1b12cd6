//! `tendot site`: shows the site record, combines records, and exports the site bundle.

pub(crate) mod bundle;
mod files;

use std::path::PathBuf;

use bundle::{SiteExportArguments, export};
use clap::{Args, Subcommand, ValueEnum};
pub(crate) use files::{
    ADMIN_KEY_FILES, PublishedEndpoints, generate_key_pair, load_combined_site, load_or_create_site,
    next_serial, read_private_key, read_site_file, read_site_record, write_site_file,
};
use tendot_proto::record::{HashOption, Site, SiteAttribute, SiteServer};

use crate::cli::ConfigSourceArguments;
use crate::config::load_settings_with;
use crate::terminal::{StdoutWriter, eprint_error, eprint_line};
use crate::{CliError, CommandStatus};

/// Shows who this service is to others: its record, and what a prefix registry asks for
#[derive(Debug, Subcommand)]
pub(crate) enum SiteCommand {
    Show(SiteShowArguments),
    Export(SiteExportArguments),
    Join(SiteCombineArguments),
}

/// Prints the record of this service's site (HS_SITE) as JSON
///
/// The record, and the key in it, are made at the first start of `tendot serve` in the directory of all data; its serial
/// number goes up whenever something in it has changed at a start.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot site show
  tendot site show --data /var/lib/tendot --json | jq .serialNumber

Exit codes: 0 it is printed, 1 there is none yet, 2 it could not be read.")]
pub(crate) struct SiteShowArguments {
    /// The directory of all that is kept [default: tendot-data]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<String>,

    #[command(flatten)]
    pub(crate) configuration: ConfigSourceArguments,

    /// Print it on one line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Makes one site of several servers, which share its names
///
/// Each FILE is the record of a server that has been started once on its own: `siteinfo.json` in its directory of all data.
/// The order of the servers is that of the files, and decides, with their number, who keeps which name: names move when it
/// changes. What is written is the record for all of them, whose setting `native.site` says where it is; each knows by its
/// key which one it is. If the file is there already, the serial number goes on from it.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot site join one/siteinfo.json two/siteinfo.json three/siteinfo.json --into site.json
  tendot serve --data one --native 192.0.2.1:2641 --set native.site=site.json

Exit codes: 0 it is written, 2 it could not be.")]
pub(crate) struct SiteCombineArguments {
    /// The records of the servers
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,

    /// The file to be written
    #[arg(long, value_name = "FILE")]
    pub(crate) into: PathBuf,

    /// Which part of a name decides who keeps it
    #[arg(long, value_name = "PART", default_value = "name")]
    pub(crate) hash: HashOptionArgument,

    /// What the site says of itself
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) description: String,

    /// Print the record as a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which part of a name decides the server that keeps it.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum HashOptionArgument {
    /// All of it
    Name,
    /// What follows the first slash
    Local,
    /// What is before it: all names of a prefix are on one server
    Prefix,
}

pub(crate) fn run(arguments: &SiteCommand) -> Result<CommandStatus, CliError> {
    match arguments {
        SiteCommand::Show(arguments) => show(arguments),
        SiteCommand::Export(arguments) => export(arguments),
        SiteCommand::Join(arguments) => combine(arguments),
    }
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
    let settings = load_settings_with(configuration, &flags)?;
    let Some(directory) = settings.data_dir() else {
        return Err(CliError::new("a store in memory has no record of a site that stays"));
    };
    if let Some(site_file) = &settings.site_file {
        let site = load_combined_site(&directory, site_file)?.site().clone();
        return Ok(Some((directory, site)));
    }
    let site = read_site_record(&directory)?;
    if site.is_none() {
        let directory = directory.display();
        eprint_error(&format!(
            "`{directory}` has no record of a site; the first start of `tendot serve` makes it"
        ));
    }
    Ok(site.map(|site| (directory, site)))
}

fn to_pretty_json(site: &Site<'_>) -> Result<String, CliError> {
    serde_json::to_string_pretty(site).map_err(|error| CliError::new(error.to_string()))
}

fn combine(arguments: &SiteCombineArguments) -> Result<CommandStatus, CliError> {
    let mut servers: Vec<SiteServer<'static>> = Vec::new();
    let before = read_site_file(&arguments.into)?;
    let mut serial = before.as_ref().map_or(0, |before| before.serial);
    for file in &arguments.files {
        let path = file.display();
        let part = read_site_file(file)?.ok_or_else(|| CliError::new(format!("`{path}` is not there")))?;
        serial = serial.max(part.serial);
        for server in part.servers {
            if server.ip().is_unspecified() || server.public_key.is_empty() {
                return Err(CliError::new(format!(
                    "`{path}` has no address that others can reach, or no key"
                ))
                .with_hint("set `native.public_address` there, and start the service once"));
            }
            if servers.iter().any(|other| other.public_key == server.public_key) {
                return Err(CliError::new(format!("`{path}` has a key that another server has, too")));
            }
            let id = u32::try_from(servers.len()).unwrap_or(u32::MAX).saturating_add(1);
            servers.push(SiteServer { id, ..server });
        }
    }
    let description = (!arguments.description.is_empty()).then(|| SiteAttribute {
        name: b"desc"[..].into(),
        value: arguments.description.clone().into_bytes().into(),
    });
    let hash_option = match arguments.hash {
        HashOptionArgument::Name => HashOption::WHOLE,
        HashOptionArgument::Local => HashOption::SUFFIX,
        HashOptionArgument::Prefix => HashOption::PREFIX,
    };
    let attributes = description.into_iter().collect();
    let mut site = Site { flags: Site::FLAG_PRIMARY, hash_option, attributes, servers, ..Site::default() };
    match before {
        Some(before) if before == (Site { serial: before.serial, ..site.clone() }) => site = before,
        _ => {
            site.serial = next_serial(serial);
            write_site_file(&arguments.into, &site)?;
        }
    }
    if arguments.json {
        let mut output = StdoutWriter::new();
        output.write_json(&site)?;
        output.flush()?;
    } else {
        let (count, path) = (site.servers.len(), arguments.into.display());
        eprint_line(format_args!(
            "`{path}` has {count} servers: `native.site` of each has to say where it is"
        ));
    }
    Ok(CommandStatus::Success)
}

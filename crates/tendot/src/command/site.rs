//! `tendot site`

use std::io::Write as _;
use std::path::PathBuf;

use flate2::Crc;
use serde::Serialize;
use tendot_proto::record::{HashOption, Site, SiteAttribute, SiteServer};

use crate::args::{
    ConfigSourceArguments, HashOptionArgument, SiteArguments, SiteCombineArguments, SiteExportArguments,
    SiteShowArguments,
};
use crate::failure::{eprint_error, eprint_line};
use crate::output::StdoutWriter;
use crate::replacement::AtomicFile;
use crate::site::{
    ADMIN_KEY_FILES, generate_key_pair, load_combined_site, next_serial, read_private_key, read_site_file,
    read_site_record, write_site_file,
};
use crate::{CliError, CommandStatus, command};

pub(crate) fn run(arguments: &SiteArguments) -> Result<CommandStatus, CliError> {
    match arguments {
        SiteArguments::Show(arguments) => show(arguments),
        SiteArguments::Export(arguments) => export(arguments),
        SiteArguments::Join(arguments) => combine(arguments),
    }
}

fn show(arguments: &SiteShowArguments) -> Result<CommandStatus, CliError> {
    let Some((_, site)) = load_site(&arguments.configuration, arguments.data.as_ref())? else {
        return Ok(CommandStatus::No);
    };
    let mut output = StdoutWriter::new();
    if arguments.json {
        output.write_json(&site)?;
    } else {
        output.write_line(to_pretty_json(&site)?)?;
    }
    output.flush()?;
    Ok(CommandStatus::Yes)
}

/// The directory of all data, and the record in it; it is told if there is none.
fn load_site(
    configuration: &ConfigSourceArguments,
    data: Option<&String>,
) -> Result<Option<(PathBuf, Site<'static>)>, CliError> {
    let flags: Vec<_> = data.map(|data| ("data", "--data", data.clone())).into_iter().collect();
    let settings = command::serve::load_settings_with(configuration, &flags)?;
    let Some(directory) = settings.data_dir() else {
        return Err(CliError::new("a store in memory has no record of a site that stays"));
    };
    if let Some(joined) = &settings.site {
        let site = load_combined_site(&directory, joined)?.site().clone();
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
        let shown = file.display();
        let part = read_site_file(file)?.ok_or_else(|| CliError::new(format!("`{shown}` is not there")))?;
        serial = serial.max(part.serial);
        for server in part.servers {
            if server.ip().is_unspecified() || server.public_key.is_empty() {
                return Err(CliError::new(format!(
                    "`{shown}` has no address that others can reach, or no key"
                ))
                .with_hint("set `native.public_address` there, and start the service once"));
            }
            if servers.iter().any(|other| other.public_key == server.public_key) {
                return Err(CliError::new(format!("`{shown}` has a key that another server has, too")));
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
        let (count, shown) = (site.servers.len(), arguments.into.display());
        eprint_line(format_args!(
            "`{shown}` has {count} servers: `native.site` of each has to say where it is"
        ));
    }
    Ok(CommandStatus::Yes)
}

#[derive(Serialize)]
struct BundleJson<'a> {
    file: String,
    contents: Vec<&'a str>,
}

fn export(arguments: &SiteExportArguments) -> Result<CommandStatus, CliError> {
    let Some((directory, site)) = load_site(&arguments.configuration, arguments.data.as_ref())? else {
        return Ok(CommandStatus::No);
    };
    let unspecified = site.servers.iter().any(|server| server.ip().is_unspecified());
    if unspecified {
        return Err(CliError::new("the record has no address that others can reach")
            .with_hint("set `native.public_address`, and start the service once"));
    }
    let key = match read_private_key(&directory, ADMIN_KEY_FILES)? {
        Some(key) => key,
        None => {
            let key = generate_key_pair(&directory, ADMIN_KEY_FILES)?;
            let path = directory.join(ADMIN_KEY_FILES.private);
            eprint_line(format_args!(
                "the key of the prefix's administrator was made: keep `{}` safe",
                path.display()
            ));
            key
        }
    };
    let public = key.public_key().map(|key| key.to_bytes());
    let public =
        public.ok_or_else(|| CliError::new("the administrator's key is no RSA key with its primes"))?;
    let files = [
        ("siteinfo.json", to_pretty_json(&site)?.into_bytes()),
        ("siteinfo.bin", site.to_bytes()),
        (ADMIN_KEY_FILES.public, public),
        ("contactdata.dct", contact_file(arguments).into_bytes()),
    ];
    let mut replacement = AtomicFile::create(&arguments.file)?;
    let file = arguments.file.display().to_string();
    let written = replacement.file().write_all(&zip_stored(&files));
    written.map_err(|error| CliError::io(format!("`{file}` can't be written"), &error))?;
    replacement.commit()?;
    if arguments.json {
        let mut output = StdoutWriter::new();
        output.write_json(&BundleJson { file, contents: files.iter().map(|(name, _)| *name).collect() })?;
        output.flush()?;
    } else {
        eprint_line(format_args!("`{file}` is written"));
    }
    Ok(CommandStatus::Yes)
}

/// Whom to ask, as Handle.Net's tools write it.
fn contact_file(arguments: &SiteExportArguments) -> String {
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    let fields =
        [("name", &arguments.contact), ("email", &arguments.email), ("org", &arguments.organization)];
    let lines = fields.iter().map(|(name, text)| format!("  \"{name}\" = \"{}\"\n", quoted(text)));
    format!("{{\n{}}}\n", lines.collect::<String>())
}

/// A ZIP archive of files as they are, of no date (APPNOTE.TXT, 4.3).
fn zip_stored(files: &[(&str, Vec<u8>)]) -> Vec<u8> {
    const ZIP_VERSION: u16 = 20;
    /// The first of January 1980.
    const DOS_EPOCH_DATE: u16 = 0x21;
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for (name, bytes) in files {
        let mut sum = Crc::new();
        sum.update(bytes);
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let name_length = u16::try_from(name.len()).unwrap_or(u16::MAX);
        let mut common = Vec::new();
        for number in [ZIP_VERSION, 0, 0, 0, DOS_EPOCH_DATE] {
            common.extend(number.to_le_bytes());
        }
        for number in [sum.sum(), length, length] {
            common.extend(number.to_le_bytes());
        }
        common.extend(name_length.to_le_bytes());
        common.extend([0, 0]);
        let at = u32::try_from(archive.len()).unwrap_or(u32::MAX);
        archive.extend(b"PK\x03\x04");
        archive.extend(&common);
        archive.extend(name.as_bytes());
        archive.extend(bytes);
        directory.extend(b"PK\x01\x02");
        directory.extend(ZIP_VERSION.to_le_bytes());
        directory.extend(&common);
        // No comment, first disk, no attributes.
        directory.extend([0; 10]);
        directory.extend(at.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let count = u16::try_from(files.len()).unwrap_or(u16::MAX).to_le_bytes();
    let length = u32::try_from(directory.len()).unwrap_or(u32::MAX).to_le_bytes();
    let at = u32::try_from(archive.len()).unwrap_or(u32::MAX).to_le_bytes();
    archive.extend(directory);
    archive.extend(b"PK\x05\x06\0\0\0\0");
    archive.extend([count, count].concat());
    archive.extend([length, at].concat());
    archive.extend([0, 0]);
    archive
}

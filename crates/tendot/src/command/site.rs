//! `tendot site`

use std::io::Write as _;
use std::path::PathBuf;

use flate2::Crc;
use serde::Serialize;
use tendot_proto::record::{Attribute, HashOption, Server, Site};

use crate::args::{
    ConfigSourceArguments, HashOptionArgument, SiteArguments, SiteExportArguments, SiteCombineArguments,
    SiteShowArguments,
};
use crate::failure::{tell, tell_error};
use crate::output::Output;
use crate::replacement::AtomicFile;
use crate::site::{
    ADMINISTRATOR, joined_site, make_key, next_serial, read_key, read_site, site_in, write_site,
};
use crate::{Answer, Failure, command};

pub(crate) fn run(arguments: &SiteArguments) -> Result<Answer, Failure> {
    match arguments {
        SiteArguments::Show(arguments) => show(arguments),
        SiteArguments::Export(arguments) => export(arguments),
        SiteArguments::Join(arguments) => join(arguments),
    }
}

fn show(arguments: &SiteShowArguments) -> Result<Answer, Failure> {
    let Some((_, site)) = found(&arguments.configuration, arguments.data.as_ref())? else {
        return Ok(Answer::No);
    };
    let mut output = Output::new();
    if arguments.json {
        output.json(&site)?;
    } else {
        output.line(pretty(&site)?)?;
    }
    output.flush()?;
    Ok(Answer::Yes)
}

/// The directory of all data, and the record in it; it is told if there is none.
fn found(
    configuration: &ConfigSourceArguments,
    data: Option<&String>,
) -> Result<Option<(PathBuf, Site<'static>)>, Failure> {
    let flags: Vec<_> = data.map(|data| ("data", "--data", data.clone())).into_iter().collect();
    let settings = command::serve::load_settings_with(configuration, &flags)?;
    let Some(directory) = settings.directory() else {
        return Err(Failure::new("a store in memory has no record of a site that stays"));
    };
    if let Some(joined) = &settings.site {
        let site = joined_site(&directory, joined)?.site().clone();
        return Ok(Some((directory, site)));
    }
    let site = read_site(&directory)?;
    if site.is_none() {
        let directory = directory.display();
        tell_error(&format!(
            "`{directory}` has no record of a site; the first start of `tendot serve` makes it"
        ));
    }
    Ok(site.map(|site| (directory, site)))
}

fn pretty(site: &Site<'_>) -> Result<String, Failure> {
    serde_json::to_string_pretty(site).map_err(|error| Failure::new(error.to_string()))
}

fn join(arguments: &SiteCombineArguments) -> Result<Answer, Failure> {
    let mut servers: Vec<Server<'static>> = Vec::new();
    let before = site_in(&arguments.into)?;
    let mut serial = before.as_ref().map_or(0, |before| before.serial);
    for file in &arguments.files {
        let shown = file.display();
        let part = site_in(file)?.ok_or_else(|| Failure::new(format!("`{shown}` is not there")))?;
        serial = serial.max(part.serial);
        for server in part.servers {
            if server.ip().is_unspecified() || server.public_key.is_empty() {
                return Err(Failure::new(format!(
                    "`{shown}` has no address that others can reach, or no key"
                ))
                .hint("set `native.public_address` there, and start the service once"));
            }
            if servers.iter().any(|other| other.public_key == server.public_key) {
                return Err(Failure::new(format!("`{shown}` has a key that another server has, too")));
            }
            let id = u32::try_from(servers.len()).unwrap_or(u32::MAX).saturating_add(1);
            servers.push(Server { id, ..server });
        }
    }
    let description = (!arguments.description.is_empty()).then(|| Attribute {
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
            write_site(&arguments.into, &site)?;
        }
    }
    if arguments.json {
        let mut output = Output::new();
        output.json(&site)?;
        output.flush()?;
    } else {
        let (count, shown) = (site.servers.len(), arguments.into.display());
        tell(format_args!("`{shown}` has {count} servers: `native.site` of each has to say where it is"));
    }
    Ok(Answer::Yes)
}

#[derive(Serialize)]
struct BundleJson<'a> {
    file: String,
    contents: Vec<&'a str>,
}

fn export(arguments: &SiteExportArguments) -> Result<Answer, Failure> {
    let Some((directory, site)) = found(&arguments.configuration, arguments.data.as_ref())? else {
        return Ok(Answer::No);
    };
    let unspecified = site.servers.iter().any(|server| server.ip().is_unspecified());
    if unspecified {
        return Err(Failure::new("the record has no address that others can reach")
            .hint("set `native.public_address`, and start the service once"));
    }
    let key = match read_key(&directory, ADMINISTRATOR)? {
        Some(key) => key,
        None => {
            let key = make_key(&directory, ADMINISTRATOR)?;
            let path = directory.join(ADMINISTRATOR.private);
            tell(format_args!(
                "the key of the prefix's administrator was made: keep `{}` safe",
                path.display()
            ));
            key
        }
    };
    let public = key.public_key().map(|key| key.to_bytes());
    let public =
        public.ok_or_else(|| Failure::new("the administrator's key is no RSA key with its primes"))?;
    let files = [
        ("siteinfo.json", pretty(&site)?.into_bytes()),
        ("siteinfo.bin", site.to_bytes()),
        (ADMINISTRATOR.public, public),
        ("contactdata.dct", contact(arguments).into_bytes()),
    ];
    let mut replacement = AtomicFile::create(&arguments.file)?;
    let file = arguments.file.display().to_string();
    let written = replacement.file().write_all(&zip(&files));
    written.map_err(|error| Failure::io(format!("`{file}` can't be written"), &error))?;
    replacement.finish()?;
    if arguments.json {
        let mut output = Output::new();
        output.json(&BundleJson { file, contents: files.iter().map(|(name, _)| *name).collect() })?;
        output.flush()?;
    } else {
        tell(format_args!("`{file}` is written"));
    }
    Ok(Answer::Yes)
}

/// Whom to ask, as Handle.Net's tools write it.
fn contact(arguments: &SiteExportArguments) -> String {
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    let fields =
        [("name", &arguments.contact), ("email", &arguments.email), ("org", &arguments.organization)];
    let lines = fields.iter().map(|(name, text)| format!("  \"{name}\" = \"{}\"\n", quoted(text)));
    format!("{{\n{}}}\n", lines.collect::<String>())
}

/// A ZIP archive of files as they are, of no date (APPNOTE.TXT, 4.3).
fn zip(files: &[(&str, Vec<u8>)]) -> Vec<u8> {
    const VERSION: u16 = 20;
    /// The first of January 1980.
    const DOS_EPOCH_DATE: u16 = 0x21;
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for (name, bytes) in files {
        let mut sum = Crc::new();
        sum.update(bytes);
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let name_length = u16::try_from(name.len()).unwrap_or(u16::MAX);
        let mut common = Vec::new();
        for number in [VERSION, 0, 0, 0, DOS_EPOCH_DATE] {
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
        directory.extend(VERSION.to_le_bytes());
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

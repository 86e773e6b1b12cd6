//! `tendot site export`: site bundle (`sitebndl.zip`) for a prefix registry.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use flate2::Crc;
use serde::Serialize;

use super::{ADMIN_KEY_FILES, generate_key_pair, load_site, read_private_key, to_pretty_json};
use crate::atomic_file::AtomicFile;
use crate::cli::ConfigSourceArguments;
use crate::terminal::{eprint_line, print_json};
use crate::{CliError, CommandStatus};

/// Write the site bundle (sitebndl.zip) for a prefix registry
///
/// The bundle contains the site record, the public key of the prefix administrator, and contact data, in the format of
/// Handle.Net. If the data directory has no administrator key pair (`admpub.bin`, `admpriv.bin`), it is created. The private key
/// is not in the bundle; it is needed to administer the prefix.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot site export --contact 'Ada Lovelace' --email ada@example.org --organization 'Example Press'
  tendot site export --data /var/lib/tendot bundle.zip

Exit codes: 0 success, 1 no site record yet, 2 error")]
pub(crate) struct SiteExportArguments {
    /// Output file
    #[arg(value_name = "FILE", default_value = "sitebndl.zip")]
    pub(crate) file: PathBuf,

    /// Contact person
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(crate) contact: String,

    /// Contact e-mail
    #[arg(long, value_name = "ADDRESS", default_value = "")]
    pub(crate) email: String,

    /// Organization
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(crate) organization: String,

    /// Data directory: embedded store, operator token, server key, site record [default: tendot-data]
    #[arg(long, value_name = "DIR", help_heading = "Store")]
    pub(crate) data: Option<String>,

    #[command(flatten)]
    pub(crate) configuration: ConfigSourceArguments,

    /// Print a JSON object: file, contents
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

#[derive(Serialize)]
struct BundleJson<'a> {
    file: String,
    contents: Vec<&'a str>,
}

pub(super) fn export(arguments: &SiteExportArguments) -> Result<CommandStatus, CliError> {
    let Some((directory, site)) = load_site(&arguments.configuration, arguments.data.as_ref())? else {
        return Ok(CommandStatus::Negative);
    };
    let unspecified = site.servers.iter().any(|server| server.ip().is_unspecified());
    if unspecified {
        return Err(CliError::new("the site record has no public address")
            .with_hint("set `native.public_address` and start the server once"));
    }
    let key = match read_private_key(&directory, ADMIN_KEY_FILES)? {
        Some(key) => key,
        None => {
            let key = generate_key_pair(&directory, ADMIN_KEY_FILES)?;
            let path = directory.join(ADMIN_KEY_FILES.private);
            eprint_line(format_args!("created the prefix administrator key; keep `{}` safe", path.display()));
            key
        }
    };
    let public = key.public_key().map(|key| key.to_bytes());
    let public =
        public.ok_or_else(|| CliError::new("the administrator key is not a complete RSA private key"))?;
    let files = [
        ("siteinfo.json", to_pretty_json(&site)?.into_bytes()),
        ("siteinfo.bin", site.to_bytes()),
        (ADMIN_KEY_FILES.public, public),
        ("contactdata.dct", contact_file(arguments).into_bytes()),
    ];
    let mut bundle = AtomicFile::create(&arguments.file)?;
    let file = arguments.file.display().to_string();
    let written = bundle.file().write_all(&zip_stored(&files));
    written.map_err(|error| CliError::io(format!("cannot write `{file}`"), &error))?;
    bundle.commit()?;
    if arguments.json {
        print_json(&BundleJson { file, contents: files.iter().map(|(name, _)| *name).collect() })?;
    } else {
        eprint_line(format_args!("wrote `{file}`"));
    }
    Ok(CommandStatus::Success)
}

/// Contact data in the format of Handle.Net's tools.
fn contact_file(arguments: &SiteExportArguments) -> String {
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    let fields =
        [("name", &arguments.contact), ("email", &arguments.email), ("org", &arguments.organization)];
    let lines = fields.iter().map(|(name, text)| format!("  \"{name}\" = \"{}\"\n", quoted(text)));
    format!("{{\n{}}}\n", lines.collect::<String>())
}

/// ZIP archive of uncompressed files with a fixed date (APPNOTE.TXT, 4.3).
fn zip_stored(files: &[(&str, Vec<u8>)]) -> Vec<u8> {
    const ZIP_VERSION: u16 = 20;
    /// 1 January 1980.
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

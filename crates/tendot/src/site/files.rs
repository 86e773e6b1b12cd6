//! Key pairs and site record in the data directory, in the file formats of Handle.Net.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tendot_proto::Budget;
use tendot_proto::auth::PrivateKey;
use tendot_proto::crypto::AwsLcProvider;
use tendot_proto::record::{
    InterfaceKind, InterfaceProtocol, ServerInterface, Site, SiteAttribute, SiteServer,
};
use tendot_server::native::{OwnSite, SiteKeyError};

use crate::CliError;
use crate::atomic_file::AtomicFile;

/// File names of a key pair in the data directory.
#[derive(Clone, Copy)]
pub(crate) struct KeyPairFiles {
    pub(crate) private: &'static str,
    pub(crate) public: &'static str,
}

/// Key pair that signs responses.
pub(crate) const SERVER_KEY_FILES: KeyPairFiles =
    KeyPairFiles { private: "privkey.bin", public: "pubkey.bin" };

/// Server key before a roll-over, and the site record that publishes its public part.
const PREVIOUS_KEY_FILES: KeyPairFiles =
    KeyPairFiles { private: "privkey-previous.bin", public: "pubkey-previous.bin" };
const PREVIOUS_SITE_RECORD_FILE: &str = "siteinfo-previous.json";

/// Key pair of a prefix's administrator.
pub(crate) const ADMIN_KEY_FILES: KeyPairFiles =
    KeyPairFiles { private: "admpriv.bin", public: "admpub.bin" };

const SITE_RECORD_FILE: &str = "siteinfo.json";

/// Maximum size of a key or site file.
const MAX_SITE_FILE_BYTES: u64 = 1 << 20;

/// Addresses and description published in the site record (HS_SITE).
pub(crate) struct PublishedEndpoints<'a> {
    pub(crate) native: SocketAddr,
    /// Public address, if it differs from that of `native`.
    pub(crate) public_ip: Option<IpAddr>,
    pub(crate) http: Option<u16>,
    pub(crate) description: &'a str,
}

/// Site of this server, with the key in the data directory; both are created if missing. `combined` is the record of a site of
/// several servers, of which this server is one.
pub(crate) fn load_or_create_site(
    directory: Option<&Path>,
    endpoints: &PublishedEndpoints<'_>,
    combined: Option<&Path>,
) -> Result<OwnSite, CliError> {
    let Some(directory) = directory else {
        if combined.is_some() {
            return Err(CliError::new("the memory store has no persistent key and cannot be part of a site"));
        }
        let key = OwnSite::generate_key().map_err(unusable)?;
        let site = build_site_record(&key, endpoints);
        return OwnSite::new(site, &key).map_err(unusable);
    };
    let key = match read_private_key(directory, SERVER_KEY_FILES)? {
        Some(key) => key,
        None => generate_key_pair(directory, SERVER_KEY_FILES)?,
    };
    let mut site = build_site_record(&key, endpoints);
    let previous = read_site_record(directory)?;
    if let Some(previous) = &previous {
        site.serial = previous.serial;
    }
    if previous.as_ref() != Some(&site) {
        site.serial = next_serial(site.serial);
        write_site_file(&directory.join(SITE_RECORD_FILE), &site)?;
    }
    let Some(combined) = combined else {
        return with_previous_key(directory, OwnSite::new(site, &key).map_err(unusable)?);
    };
    let own_site = load_combined_site(directory, combined)?;
    let (current, published) = (site.servers.first(), own_site.site().servers.get(own_site.server_index()));
    let is_same = current.zip(published).is_some_and(|(current, published)| {
        current.address == published.address && current.interfaces == published.interfaces
    });
    if !is_same {
        tracing::warn!(
            "addresses or ports of this server differ from the site record `{}`; run `tendot site combine` again",
            combined.display()
        );
    }
    with_previous_key(directory, own_site)
}

/// Adds the key before a roll-over that is not finished.
fn with_previous_key(directory: &Path, own_site: OwnSite) -> Result<OwnSite, CliError> {
    let record = read_site_file(&directory.join(PREVIOUS_SITE_RECORD_FILE))?;
    match (read_private_key(directory, PREVIOUS_KEY_FILES)?, record) {
        (Some(key), Some(record)) => own_site.with_previous_key(record.serial, &key).map_err(unusable),
        _ => Ok(own_site),
    }
}

fn unusable(error: SiteKeyError) -> CliError {
    CliError::new(error.to_string())
}

/// Starts a roll-over of the server key: keeps the old key and its site record, and generates a new key. `combined` is the record
/// of a site of several servers.
pub(crate) fn rotate_key(directory: &Path, combined: Option<&Path>) -> Result<(), CliError> {
    let missing = || {
        CliError::new(format!("no server key or site record in `{}`", directory.display()))
            .with_hint("they are created by the first `tendot serve`")
    };
    if directory.join(PREVIOUS_KEY_FILES.private).exists() {
        return Err(CliError::new("the last roll-over is not finished")
            .with_hint("run `tendot site rotate-key --finish` when no client has the old site record"));
    }
    let record = match combined {
        Some(file) => read_site_file(file)?,
        None => read_site_record(directory)?,
    };
    let record = record.ok_or_else(missing)?;
    let key = read_private_key(directory, SERVER_KEY_FILES)?.ok_or_else(missing)?;
    write_site_file(&directory.join(PREVIOUS_SITE_RECORD_FILE), &record)?;
    let public = key.public_key().map(|key| key.to_bytes()).unwrap_or_default();
    write_file(&directory.join(PREVIOUS_KEY_FILES.public), &public)?;
    write_file(&directory.join(PREVIOUS_KEY_FILES.private), &key.to_file_bytes())?;
    generate_key_pair(directory, SERVER_KEY_FILES).map(drop)
}

/// Finishes a roll-over: deletes the old key. Returns false if there is none.
pub(crate) fn finish_key_rotation(directory: &Path) -> Result<bool, CliError> {
    let mut was_removed = false;
    for file in [PREVIOUS_KEY_FILES.private, PREVIOUS_KEY_FILES.public, PREVIOUS_SITE_RECORD_FILE] {
        let path = directory.join(file);
        match fs::remove_file(&path) {
            Ok(()) => was_removed = true,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(CliError::io(format!("cannot delete `{}`", path.display()), &error)),
        }
    }
    Ok(was_removed)
}

/// Reads a site of several servers; the key in the data directory identifies this server.
pub(crate) fn load_combined_site(directory: &Path, file: &Path) -> Result<OwnSite, CliError> {
    let site = read_site_file(file)?.ok_or_else(|| {
        CliError::new(format!("`{}` does not exist", file.display())).with_hint(COMBINE_HINT)
    })?;
    let key = read_private_key(directory, SERVER_KEY_FILES)?.ok_or_else(|| {
        CliError::new(format!("no server key in `{}`", directory.display())).with_hint(COMBINE_HINT)
    })?;
    let failed = |error| CliError::new(format!("`{}`: {error}", file.display())).with_hint(COMBINE_HINT);
    OwnSite::new(site, &key).map_err(failed)
}

const COMBINE_HINT: &str =
    "start each server once, then combine their site records with `tendot site combine`";

/// Site record with serial number 0.
fn build_site_record(key: &PrivateKey, endpoints: &PublishedEndpoints<'_>) -> Site<'static> {
    let port = u32::from(endpoints.native.port());
    let interface = |kind, protocol, port| ServerInterface { kind, protocol, port };
    let mut interfaces = vec![
        interface(InterfaceKind::BOTH, InterfaceProtocol::TCP, port),
        // The source address of a datagram is not verified, so UDP allows queries only.
        interface(InterfaceKind::QUERY, InterfaceProtocol::UDP, port),
    ];
    interfaces.extend(
        endpoints.http.map(|port| interface(InterfaceKind::BOTH, InterfaceProtocol::HTTP, u32::from(port))),
    );
    let description = endpoints.description;
    let attribute = |name: &str, value: &str| SiteAttribute {
        name: name.as_bytes().to_vec().into(),
        value: value.as_bytes().to_vec().into(),
    };
    Site {
        flags: Site::FLAG_PRIMARY,
        attributes: (!description.is_empty()).then(|| attribute("desc", description)).into_iter().collect(),
        servers: vec![SiteServer {
            id: 1,
            address: SiteServer::encode_address(endpoints.public_ip.unwrap_or(endpoints.native.ip())),
            public_key: key.public_key().map(|key| key.to_bytes()).unwrap_or_default().into(),
            interfaces,
        }],
        ..Site::default()
    }
}

/// Reads the site record in the data directory, if it exists.
pub(crate) fn read_site_record(directory: &Path) -> Result<Option<Site<'static>>, CliError> {
    let hint =
        "delete the file to have it created at the next start; its serial number must be higher than before";
    read_site_file(&directory.join(SITE_RECORD_FILE)).map_err(|error| error.with_hint(hint))
}

/// Reads a site record from a file, if it exists.
pub(crate) fn read_site_file(path: &Path) -> Result<Option<Site<'static>>, CliError> {
    let Some(json) = read_file(path)? else { return Ok(None) };
    let malformed = |error| CliError::new(format!("invalid site record `{}`: {error}", path.display()));
    Site::from_json(&json).map(Some).map_err(malformed)
}

/// Writes a site record as JSON.
pub(crate) fn write_site_file(path: &Path, site: &Site<'_>) -> Result<(), CliError> {
    let mut json = serde_json::to_vec_pretty(site).map_err(|error| CliError::new(error.to_string()))?;
    json.push(b'\n');
    write_file(path, &json)
}

/// Next serial number; wraps at `i16::MAX`, because peers read it as a signed number.
pub(crate) const fn next_serial(serial: u16) -> u16 {
    if serial >= i16::MAX.cast_unsigned() { 1 } else { serial + 1 }
}

/// Reads a private key, if it exists; its file must not be accessible by others.
pub(crate) fn read_private_key(directory: &Path, pair: KeyPairFiles) -> Result<Option<PrivateKey>, CliError> {
    let path = directory.join(pair.private);
    let Some(file) = read_file(&path)? else { return Ok(None) };
    let mode = fs::metadata(&path).map_or(0, |metadata| metadata.permissions().mode() & 0o777);
    if mode & 0o077 != 0 {
        let message = format!("`{}` is readable by other users (mode {mode:o})", path.display());
        return Err(CliError::new(message).with_hint(format!("run `chmod 600 {}`", path.display())));
    }
    let unusable = |error| CliError::new(format!("cannot use `{}`: {error}", path.display()));
    PrivateKey::from_file_bytes(&file, None, &AwsLcProvider, &mut { Budget::PER_REQUEST })
        .map(Some)
        .map_err(unusable)
}

/// Generates a key pair and writes both files.
pub(crate) fn generate_key_pair(directory: &Path, pair: KeyPairFiles) -> Result<PrivateKey, CliError> {
    let key = OwnSite::generate_key().map_err(|error| CliError::new(error.to_string()))?;
    let public = key.public_key().map(|key| key.to_bytes()).unwrap_or_default();
    // The private key is written last: without it, the pair is generated again.
    write_file(&directory.join(pair.public), &public)?;
    write_file(&directory.join(pair.private), &key.to_file_bytes())?;
    Ok(key)
}

fn read_file(path: &Path) -> Result<Option<Vec<u8>>, CliError> {
    let failed = |error| CliError::io(format!("cannot read `{}`", path.display()), &error);
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
        Ok(metadata) if metadata.len() > MAX_SITE_FILE_BYTES => {
            return Err(failed(ErrorKind::FileTooLarge.into()));
        }
        Ok(_) => {}
    }
    fs::read(path).map(Some).map_err(failed)
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    let mut file = AtomicFile::create(path)?;
    let written = file.file().write_all(bytes);
    written.map_err(|error| CliError::io(format!("cannot write `{}`", path.display()), &error))?;
    file.commit()
}

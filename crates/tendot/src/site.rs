//! The key and the record of our site, as files in the directory of all data: named and written as Handle.Net does.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tendot_proto::Work;
use tendot_proto::auth::PrivateKey;
use tendot_proto::crypto::AwsLcProvider;
use tendot_proto::record::{Attribute, Interface, InterfaceKind, Server, Site, Transport};
use tendot_server::native::OwnSite;

use crate::Failure;
use crate::replacement::AtomicFile;

/// The files of a key pair.
#[derive(Clone, Copy)]
pub(crate) struct Pair {
    pub(crate) private: &'static str,
    pub(crate) public: &'static str,
}

/// What answers are signed with.
pub(crate) const SERVER: Pair = Pair { private: "privkey.bin", public: "pubkey.bin" };

/// What a prefix is administered with.
pub(crate) const ADMINISTRATOR: Pair = Pair { private: "admpriv.bin", public: "admpub.bin" };

const RECORD: &str = "siteinfo.json";

/// Bytes of a file at most: nobody has so much to say.
const LARGEST: u64 = 1 << 20;

/// Where others reach us.
pub(crate) struct PublishedEndpoints<'a> {
    pub(crate) native: SocketAddr,
    /// None if it is the address of `native`.
    pub(crate) address: Option<IpAddr>,
    pub(crate) http: Option<u16>,
    pub(crate) description: &'a str,
}

/// Our site, with the key of the directory; both are made if they are not there. With the record of a site of several
/// servers, it is that site, and what is in the directory our part of it.
pub(crate) fn own_site(
    directory: Option<&Path>,
    reached: &PublishedEndpoints<'_>,
    joined: Option<&Path>,
) -> Result<OwnSite, Failure> {
    let unusable = |error: tendot_server::native::KeyError| Failure::new(error.to_string());
    let Some(directory) = directory else {
        if joined.is_some() {
            return Err(Failure::new("a store in memory has no key that stays, and so no part of a site"));
        }
        let key = OwnSite::make_key().map_err(unusable)?;
        let site = described(&key, reached);
        return OwnSite::new(site, &key).map_err(unusable);
    };
    let key = match read_key(directory, SERVER)? {
        Some(key) => key,
        None => make_key(directory, SERVER)?,
    };
    let mut site = described(&key, reached);
    let before = read_site(directory)?;
    if let Some(before) = &before {
        site.serial = before.serial;
    }
    if before.as_ref() != Some(&site) {
        site.serial = next_serial(site.serial);
        write_site(&directory.join(RECORD), &site)?;
    }
    let Some(joined) = joined else { return OwnSite::new(site, &key).map_err(unusable) };
    let own = joined_site(directory, joined)?;
    let (ours, said) = (site.servers.first(), own.site().servers.get(own.place()));
    let is_same = ours
        .zip(said)
        .is_some_and(|(ours, said)| ours.address == said.address && ours.interfaces == said.interfaces);
    if !is_same {
        tracing::warn!(
            "`{}` has other addresses or ports of this server than it has: join the site again",
            joined.display()
        );
    }
    Ok(own)
}

/// The site of several servers in a file, of which we are the one with the key of the directory.
pub(crate) fn joined_site(directory: &Path, file: &Path) -> Result<OwnSite, Failure> {
    let site = site_in(file)?
        .ok_or_else(|| Failure::new(format!("`{}` is not there", file.display())).hint(COMBINE_HINT))?;
    let key = read_key(directory, SERVER)?.ok_or_else(|| {
        Failure::new(format!("`{}` has no key, so we are no server of a site", directory.display()))
            .hint(COMBINE_HINT)
    })?;
    let failed = |error| Failure::new(format!("`{}`: {error}", file.display())).hint(COMBINE_HINT);
    OwnSite::new(site, &key).map_err(failed)
}

const COMBINE_HINT: &str = "start each server once on its own; `tendot site join` makes one site of their records";

/// What our site is, with the number 0.
fn described(key: &PrivateKey, reached: &PublishedEndpoints<'_>) -> Site<'static> {
    let port = u32::from(reached.native.port());
    let interface = |kind, transport, port| Interface { kind, transport, port };
    let mut interfaces = vec![
        interface(InterfaceKind::BOTH, Transport::TCP, port),
        // Nobody has proved where a datagram comes from.
        interface(InterfaceKind::QUERY, Transport::UDP, port),
    ];
    interfaces
        .extend(reached.http.map(|port| interface(InterfaceKind::BOTH, Transport::HTTP, u32::from(port))));
    let description = reached.description;
    let attribute = |name: &str, value: &str| Attribute {
        name: name.as_bytes().to_vec().into(),
        value: value.as_bytes().to_vec().into(),
    };
    Site {
        flags: Site::FLAG_PRIMARY,
        attributes: (!description.is_empty()).then(|| attribute("desc", description)).into_iter().collect(),
        servers: vec![Server {
            id: 1,
            address: Server::address_of(reached.address.unwrap_or(reached.native.ip())),
            public_key: key.public_key().map(|key| key.to_bytes()).unwrap_or_default().into(),
            interfaces,
        }],
        ..Site::default()
    }
}

/// The record in a directory; none if there is none.
pub(crate) fn read_site(directory: &Path) -> Result<Option<Site<'static>>, Failure> {
    let hint =
        "remove it, and the next start makes a new one; its serial number has to be higher than before";
    site_in(&directory.join(RECORD)).map_err(|failure| failure.hint(hint))
}

/// The record in a file; none if there is none.
pub(crate) fn site_in(path: &Path) -> Result<Option<Site<'static>>, Failure> {
    let Some(json) = read(path)? else { return Ok(None) };
    let malformed = |error| Failure::new(format!("`{}` is no record of a site: {error}", path.display()));
    Site::from_json(&json).map(Some).map_err(malformed)
}

/// Writes a record.
pub(crate) fn write_site(path: &Path, site: &Site<'_>) -> Result<(), Failure> {
    let mut json = serde_json::to_vec_pretty(site).map_err(|error| Failure::new(error.to_string()))?;
    json.push(b'\n');
    write(path, &json)
}

/// The number after this one. Peers take it for signed.
pub(crate) const fn next_serial(serial: u16) -> u16 {
    if serial >= i16::MAX.cast_unsigned() { 1 } else { serial + 1 }
}

/// A private key in a directory; none if there is none.
pub(crate) fn read_key(directory: &Path, pair: Pair) -> Result<Option<PrivateKey>, Failure> {
    let path = directory.join(pair.private);
    let Some(file) = read(&path)? else { return Ok(None) };
    let mode = fs::metadata(&path).map_or(0, |found| found.permissions().mode() & 0o777);
    if mode & 0o077 != 0 {
        let problem = format!("`{}` can be read by others (mode {mode:o})", path.display());
        return Err(Failure::new(problem).hint(format!("chmod 600 {}", path.display())));
    }
    let unusable = |error| Failure::new(format!("`{}` can't be used: {error}", path.display()));
    PrivateKey::from_file(&file, None, &AwsLcProvider, &mut { Work::PER_REQUEST }).map(Some).map_err(unusable)
}

/// Makes a key pair in a directory.
pub(crate) fn make_key(directory: &Path, pair: Pair) -> Result<PrivateKey, Failure> {
    let key = OwnSite::make_key().map_err(|error| Failure::new(error.to_string()))?;
    let public = key.public_key().map(|key| key.to_bytes()).unwrap_or_default();
    // The private key last: what is there without it is made again.
    write(&directory.join(pair.public), &public)?;
    write(&directory.join(pair.private), &key.to_file_bytes())?;
    Ok(key)
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    let failed = |error| Failure::io(format!("`{}` can't be read", path.display()), &error);
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
        Ok(found) if found.len() > LARGEST => return Err(failed(ErrorKind::FileTooLarge.into())),
        Ok(_) => {}
    }
    fs::read(path).map(Some).map_err(failed)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut replacement = AtomicFile::create(path)?;
    let written = replacement.file().write_all(bytes);
    written.map_err(|error| Failure::io(format!("`{}` can't be written", path.display()), &error))?;
    replacement.finish()
}

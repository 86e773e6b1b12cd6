//! Country of a client: from the URL, a header of a trusted proxy, or a MaxMind DB file.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use http::HeaderName;
use maxminddb::{MaxMindDbError, PathElement, Reader};

use crate::file_stamp::{FILE_CHECK_INTERVAL, FileStamp};
use crate::http::request::request_head::RequestHead;

/// ISO 3166-1 alpha-2 code of a country, and where it came from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ClientCountry {
    code: [u8; 2],
    source: CountrySource,
}

/// Where the country of a client came from.
#[derive(Clone, Debug, Eq, PartialEq)]
enum CountrySource {
    Parameter,
    Header(HeaderName),
    Database,
}

impl ClientCountry {
    /// Country with a code of two ASCII letters; `XX` means unknown.
    fn new(code: &str, source: CountrySource) -> Option<Self> {
        let code: [u8; 2] = code.trim().as_bytes().try_into().ok()?;
        let is_code = code.iter().all(u8::is_ascii_alphabetic) && !code.eq_ignore_ascii_case(b"XX");
        is_code.then(|| Self { code: code.map(|letter| letter.to_ascii_uppercase()), source })
    }

    /// Country in the parameter `country`.
    pub(crate) fn from_parameter(code: &str) -> Option<Self> {
        Self::new(code, CountrySource::Parameter)
    }

    /// Code in upper case.
    pub(crate) fn code(&self) -> &str {
        str::from_utf8(&self.code).unwrap_or_default()
    }
}

impl fmt::Display for ClientCountry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "country {} ", self.code())?;
        match &self.source {
            CountrySource::Parameter => f.write_str("(query parameter)"),
            CountrySource::Header(name) => write!(f, "(header {name})"),
            CountrySource::Database => f.write_str("(MaxMind DB)"),
        }
    }
}

/// Configured sources of the country of clients.
#[derive(Debug, Default)]
pub(crate) struct CountrySources {
    /// Header that trusted proxies set.
    pub(crate) header: Option<HeaderName>,
    pub(crate) database: Option<Arc<CountryDatabase>>,
}

impl CountrySources {
    /// Whether the country of clients is looked up at all.
    pub(crate) const fn is_configured(&self) -> bool {
        self.header.is_some() || self.database.is_some()
    }

    /// Country of the requested address, or of the client of a request: the header of a trusted proxy, else the database.
    pub(crate) fn country_of(
        &self,
        request: &RequestHead<'_>,
        requested_address: Option<IpAddr>,
    ) -> Option<ClientCountry> {
        let from_header = self.header.as_ref().filter(|_| request.is_proxied && requested_address.is_none());
        let from_header = from_header.and_then(|name| {
            // The last one is that of the nearest proxy.
            let value = request.headers.get_all(name).iter().next_back()?.to_str().ok()?;
            ClientCountry::new(value, CountrySource::Header(name.clone()))
        });
        let address = requested_address.or(request.client);
        from_header.or_else(|| self.database.as_ref()?.country_of(address?))
    }
}

/// Reason a country database cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the country database `{}`: {error}", path.display())]
pub struct CountryDatabaseError {
    path: PathBuf,
    #[source]
    error: MaxMindDbError,
}

/// Country database in the MaxMind DB format, read into memory and replaced when its file changes.
#[derive(Debug)]
pub struct CountryDatabase {
    path: PathBuf,
    current: RwLock<Arc<Reader<Vec<u8>>>>,
    /// Stamp of the file when last checked.
    seen: Mutex<Option<FileStamp>>,
}

/// Where databases have the country code: GeoLite2 and DB-IP, IPinfo, and as a last resort the country that the network is
/// registered in.
const CODE_PATHS: [&[PathElement<'static>]; 3] = [
    &[PathElement::Key("country"), PathElement::Key("iso_code")],
    &[PathElement::Key("country_code")],
    &[PathElement::Key("registered_country"), PathElement::Key("iso_code")],
];

impl CountryDatabase {
    /// Reads a database into memory.
    pub fn load(path: impl Into<PathBuf>) -> Result<Self, CountryDatabaseError> {
        let path = path.into();
        // Taken before reading, so that a concurrent change triggers another load.
        let seen = Mutex::new(FileStamp::read(&path));
        let current = RwLock::new(Arc::new(read_database(&path)?));
        Ok(Self { path, current, seen })
    }

    /// Country of an address.
    fn country_of(&self, address: IpAddr) -> Option<ClientCountry> {
        let reader = Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner));
        let found = reader.lookup(address.to_canonical()).ok()?;
        CODE_PATHS.iter().find_map(|path| {
            let code = found.decode_path::<&str>(path).ok()??;
            ClientCountry::new(code, CountrySource::Database)
        })
    }

    /// Reads the file again if it has changed since the last call, and logs the result. On error, the current database stays in
    /// use.
    fn reload_if_changed(&self) {
        let now = FileStamp::read(&self.path);
        let seen = std::mem::replace(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner), now);
        if seen == now {
            return;
        }
        match read_database(&self.path) {
            Ok(reader) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(reader);
                tracing::info!("country database reloaded");
            }
            Err(error) => tracing::error!(%error, "country database reload failed; keeping the old one"),
        }
    }

    /// Replaces the database when its file changes. Never returns.
    pub(crate) async fn watch_file(self: Arc<Self>) {
        loop {
            tokio::time::sleep(FILE_CHECK_INTERVAL).await;
            let database = Arc::clone(&self);
            let _ = tokio::task::spawn_blocking(move || database.reload_if_changed()).await;
        }
    }
}

fn read_database(path: &Path) -> Result<Reader<Vec<u8>>, CountryDatabaseError> {
    Reader::open_readfile(path).map_err(|error| CountryDatabaseError { path: path.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes() {
        for (text, expected) in [
            ("gb", Some("GB")),
            (" De ", Some("DE")),
            ("XX", None),
            ("xx", None),
            ("T1", None),
            ("GBR", None),
            ("", None),
            ("\u{e9}", None),
        ] {
            let country = ClientCountry::from_parameter(text);
            assert_eq!(country.as_ref().map(ClientCountry::code), expected, "{text:?}");
        }
        let country = ClientCountry::from_parameter("gb").unwrap();
        assert_eq!(country.to_string(), "country GB (query parameter)");
    }
}

//! Server certificate: loading, reload on change, expiry warning.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::SystemTime;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, NoClientAuth, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;

use crate::clock::to_unix_seconds;
use crate::file_stamp::{FILE_CHECK_INTERVAL, FileStamp};
use crate::http::server::client_verifier::UnanchoredClientVerifier;
use crate::http::server::x509::not_after;

/// Reason a certificate or key cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read `{}`: {error}", path.display())]
    Read {
        /// File.
        path: PathBuf,
        /// Cause.
        error: std::io::Error,
    },
    /// A file does not contain the expected PEM item.
    #[error("no PEM {what} in `{}`: {error}", path.display())]
    InvalidPem {
        /// File.
        path: PathBuf,
        /// Expected item.
        what: &'static str,
        /// Cause.
        error: rustls::pki_types::pem::Error,
    },
    /// The key file is readable by others.
    #[error("private key `{}` is world-accessible (mode {mode:o}); run `chmod 600`", path.display())]
    InsecureKeyMode {
        /// File.
        path: PathBuf,
        /// Permission bits.
        mode: u32,
    },
    /// The key does not match the certificate, or its type is not supported.
    #[error("key `{}` does not match certificate `{}`: {error}", key.display(), certificate.display())]
    KeyMismatch {
        /// Certificate file.
        certificate: PathBuf,
        /// Key file.
        key: PathBuf,
        /// Cause.
        error: rustls::Error,
    },
}

/// Server certificate and key, reloaded when their files change.
#[derive(Debug)]
pub struct ServerCertificate {
    files: [PathBuf; 2],
    current: Arc<CurrentCertificate>,
    /// Stamps of the files when last checked.
    seen: Mutex<[Option<FileStamp>; 2]>,
    config: Arc<ServerConfig>,
}

fn read_stamps(files: &[PathBuf; 2]) -> [Option<FileStamp>; 2] {
    files.each_ref().map(|path| FileStamp::read(path))
}

/// Certificate resolver that returns the certificate loaded last.
#[derive(Debug)]
struct CurrentCertificate(RwLock<Arc<CertifiedKey>>);

impl CurrentCertificate {
    fn get(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.get())
    }
}

impl ServerCertificate {
    /// Loads a certificate chain and its key.
    pub fn load(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Result<Self, TlsError> {
        let files = [certificate.into(), key.into()];
        // Taken before reading, so that a concurrent change triggers a reload.
        let seen = Mutex::new(read_stamps(&files));
        let loaded = load_key_pair(&files[0], &files[1])?;
        let current = Arc::new(CurrentCertificate(RwLock::new(Arc::new(loaded))));
        let mismatch =
            |error| TlsError::KeyMismatch { certificate: files[0].clone(), key: files[1].clone(), error };
        let config = server_config(&current, Arc::new(NoClientAuth)).map_err(mismatch)?;
        Ok(Self { seen, current, config: Arc::new(config), files })
    }

    /// Requests client certificates, for authentication. Default: off, because browsers with client certificates then prompt
    /// their users.
    pub fn request_client_certificates(mut self) -> Result<Self, TlsError> {
        let config = server_config(&self.current, Arc::new(UnanchoredClientVerifier::new()));
        let [certificate, key] = self.files.clone();
        self.config = Arc::new(config.map_err(|error| TlsError::KeyMismatch { certificate, key, error })?);
        Ok(self)
    }

    /// Reloads the files, and logs the result. On error, the current certificate stays in use.
    pub fn reload(&self) -> Result<(), TlsError> {
        // Taken before reading, so that a concurrent change triggers another reload.
        self.has_changed_files();
        let loaded = load_key_pair(&self.files[0], &self.files[1]);
        match &loaded {
            Ok(_) => tracing::info!("certificate reloaded"),
            Err(error) => tracing::error!(%error, "certificate reload failed; keeping the old one"),
        }
        *self.current.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(loaded?);
        Ok(())
    }

    /// Whether the files have changed since the last call or reload.
    fn has_changed_files(&self) -> bool {
        let now = read_stamps(&self.files);
        std::mem::replace(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner), now) != now
    }

    /// Expiry of the certificate, in Unix seconds.
    pub fn not_after(&self) -> Option<u64> {
        not_after(self.current.get().cert.first()?)
    }

    /// Reloads the files when they change, and warns before expiry. Never returns.
    pub(crate) async fn watch_files(&self) {
        let mut last_warning = None;
        loop {
            self.warn_before_expiry(&mut last_warning);
            tokio::time::sleep(FILE_CHECK_INTERVAL).await;
            if self.has_changed_files() {
                last_warning = None;
                let _ = self.reload();
            }
        }
    }

    /// Warns once each when 30 days, 7 days and one day are left.
    fn warn_before_expiry(&self, last_warning: &mut Option<u64>) {
        let now = to_unix_seconds(SystemTime::now());
        let Some(expiry) = self.not_after() else { return };
        let days = expiry.saturating_sub(now) / 86_400;
        let Some(threshold) = [1, 7, 30].into_iter().find(|threshold| days < *threshold) else { return };
        if last_warning.is_none_or(|last| threshold < last) {
            *last_warning = Some(threshold);
            tracing::warn!(days, "certificate expires soon");
        }
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config))
    }
}

fn server_config(
    current: &Arc<CurrentCertificate>,
    clients: Arc<dyn ClientCertVerifier>,
) -> Result<ServerConfig, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(aws_lc_rs::default_provider().into())
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(clients)
        .with_cert_resolver(Arc::clone(current) as _);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.ticketer = aws_lc_rs::Ticketer::new()?;
    Ok(config)
}

fn load_key_pair(certificate: &Path, key: &Path) -> Result<CertifiedKey, TlsError> {
    let file = |path: &Path| {
        let failed = |error| TlsError::Read { path: path.into(), error };
        // Certificate and key files are small: reject large files.
        let size = fs::metadata(path).map_err(failed)?.len();
        if size > 1 << 20 {
            return Err(failed(std::io::ErrorKind::FileTooLarge.into()));
        }
        fs::read(path).map_err(failed)
    };
    let mode = fs::metadata(key).map_or(0, |found| found.permissions().mode() & 0o777);
    if mode & 0o007 != 0 {
        return Err(TlsError::InsecureKeyMode { path: key.into(), mode });
    }
    let invalid_pem = |path: &Path, what, error| TlsError::InvalidPem { path: path.into(), what, error };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&file(certificate)?).collect();
    let chain =
        chain
            .and_then(|chain| {
                if chain.is_empty() { Err(rustls::pki_types::pem::Error::NoItemsFound) } else { Ok(chain) }
            })
            .map_err(|error| invalid_pem(certificate, "certificate", error))?;
    let secret =
        PrivateKeyDer::from_pem_slice(&file(key)?).map_err(|error| invalid_pem(key, "private key", error))?;
    CertifiedKey::from_der(chain, secret, &aws_lc_rs::default_provider())
        .map_err(|error| TlsError::KeyMismatch { certificate: certificate.into(), key: key.into(), error })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files that were reloaded on request are not loaded again when the watcher looks at them.
    #[test]
    fn reloaded_files_are_seen() {
        let directory = tempfile::tempdir().unwrap();
        let files = ["certificate", "key"].map(|name| directory.path().join(name));
        let write_new = || {
            let generated = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
            fs::write(&files[0], generated.cert.pem()).unwrap();
            fs::write(&files[1], generated.signing_key.serialize_pem()).unwrap();
            fs::set_permissions(&files[1], fs::Permissions::from_mode(0o600)).unwrap();
        };
        write_new();
        let certificate = ServerCertificate::load(&files[0], &files[1]).unwrap();
        assert!(!certificate.has_changed_files());
        let before = certificate.current.get();
        write_new();
        certificate.reload().unwrap();
        assert_ne!(certificate.current.get().cert, before.cert);
        assert!(!certificate.has_changed_files());
        write_new();
        assert!(certificate.has_changed_files());
    }
}

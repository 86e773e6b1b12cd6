//! Connection pools, session settings and TLS.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio::time::timeout;

use super::connection_string::{ConnectionString, HostConfig};
use crate::postgres::{PostgresOpenError, PostgresSettings};

impl ConnectionString {
    /// Creates a connection pool for a host.
    pub(crate) fn pool(
        &self,
        host: &HostConfig,
        max_size: usize,
        settings: &PostgresSettings,
    ) -> Result<Pool, PostgresOpenError> {
        // `Fast` checks only whether a connection is closed; other faults are detected on use.
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(host.config.clone(), self.tls.clone(), recycling);
        let setup: Arc<str> = session_setup_sql(settings).into();
        let wait_timeout = settings.wait_timeout;
        // The pool's create timeout does not cover this hook.
        let set_up = Hook::async_fn(move |client, _| {
            let setup = Arc::clone(&setup);
            Box::pin(async move {
                let result = timeout(wait_timeout, client.batch_execute(&setup)).await;
                result.map_err(|_| HookError::message("session setup timed out"))?.map_err(HookError::Backend)
            })
        });
        Pool::builder(manager)
            .max_size(max_size.max(1))
            .wait_timeout(Some(settings.wait_timeout))
            .create_timeout(Some(settings.wait_timeout))
            .recycle_timeout(Some(settings.wait_timeout))
            .runtime(Runtime::Tokio1)
            .post_create(set_up)
            .build()
            .map_err(|error| PostgresOpenError::Other {
                database: self.display_name.clone(),
                reason: error.to_string(),
            })
    }
}

/// Session settings. A transaction whose client has vanished must end, since it may hold the writers' lock; and commits must be
/// durable on this host and on synchronous standbys, whatever the database's default.
fn session_setup_sql(settings: &PostgresSettings) -> String {
    let milliseconds = |time: Duration| time.as_millis().clamp(1, i32::MAX as u128);
    let (wait, statement) = (milliseconds(settings.wait_timeout), milliseconds(settings.statement_timeout));
    format!(
        "set statement_timeout = {statement}; set lock_timeout = {wait}; \
         set idle_in_transaction_session_timeout = {wait}; \
         select set_config('synchronous_commit', 'on', false) \
         where current_setting('synchronous_commit') in ('off', 'local')"
    )
}

pub(crate) fn tls_config(ca_file: Option<&str>) -> Result<ClientConfig, PostgresOpenError> {
    let mut roots = RootCertStore::empty();
    match ca_file {
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(path) => {
            let invalid =
                |reason: String| PostgresOpenError::InvalidCaFile { reason: format!("{path}: {reason}") };
            let certificates =
                CertificateDer::pem_file_iter(path).map_err(|error| invalid(error.to_string()))?;
            for certificate in certificates {
                let certificate = certificate.map_err(|error| invalid(error.to_string()))?;
                roots.add(certificate).map_err(|error| invalid(error.to_string()))?;
            }
            if roots.is_empty() {
                return Err(invalid("no certificates found".into()));
            }
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| PostgresOpenError::InvalidCaFile { reason: error.to_string() })?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

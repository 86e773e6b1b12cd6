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
        most: usize,
        settings: &PostgresSettings,
    ) -> Result<Pool, PostgresOpenError> {
        // `Fast` checks only whether a connection is closed; other faults are detected on use.
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(host.config.clone(), self.tls.clone(), recycling);
        let begin: Arc<str> = session_setup_sql(settings).into();
        let patience = settings.patience;
        // The pool's create timeout does not cover this hook.
        let prepare = Hook::async_fn(move |client, _| {
            let begin = Arc::clone(&begin);
            Box::pin(async move {
                let begun = timeout(patience, client.batch_execute(&begin)).await;
                begun.map_err(|_| HookError::message("silent"))?.map_err(HookError::Backend)
            })
        });
        Pool::builder(manager)
            .max_size(most.max(1))
            .wait_timeout(Some(settings.patience))
            .create_timeout(Some(settings.patience))
            .recycle_timeout(Some(settings.patience))
            .runtime(Runtime::Tokio1)
            .post_create(prepare)
            .build()
            .map_err(|error| PostgresOpenError::Failed { place: self.place.clone(), why: error.to_string() })
    }
}

/// Session settings. A transaction whose client has vanished must end, since it may hold the writers' lock; and commits must be
/// durable on this host and on synchronous standbys, whatever the database's default.
fn session_setup_sql(settings: &PostgresSettings) -> String {
    let milliseconds = |time: Duration| time.as_millis().clamp(1, i32::MAX as u128);
    let (patience, statement) = (milliseconds(settings.patience), milliseconds(settings.statement));
    format!(
        "set statement_timeout = {statement}; set lock_timeout = {patience}; \
         set idle_in_transaction_session_timeout = {patience}; \
         select set_config('synchronous_commit', 'on', false) \
         where current_setting('synchronous_commit') in ('off', 'local')"
    )
}

pub(crate) fn tls_config(certificates: Option<&str>) -> Result<ClientConfig, PostgresOpenError> {
    let mut roots = RootCertStore::empty();
    match certificates {
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(path) => {
            let invalid = |why: String| PostgresOpenError::Certificates { why: format!("{path}: {why}") };
            let found = CertificateDer::pem_file_iter(path).map_err(|error| invalid(error.to_string()))?;
            for certificate in found {
                let certificate = certificate.map_err(|error| invalid(error.to_string()))?;
                roots.add(certificate).map_err(|error| invalid(error.to_string()))?;
            }
            if roots.is_empty() {
                return Err(invalid("there is none in it".into()));
            }
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| PostgresOpenError::Certificates { why: error.to_string() })?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

//! Reload on SIGHUP: TLS certificate, operator token and `security.txt`.

use std::path::PathBuf;
use std::sync::Arc;

use tendot_server::http::{HttpServer, ServerCertificate};

use super::operator_token;
use super::security_txt;
use crate::CliError;

/// What a running server reads again from its files.
pub(super) struct Reloader {
    pub(super) http: Arc<HttpServer>,
    pub(super) certificate: Option<Arc<ServerCertificate>>,
    /// File of the operator token, if there is one.
    pub(super) operator_token: Option<PathBuf>,
    pub(super) security_txt: Option<PathBuf>,
}

impl Reloader {
    /// Reads the files again, and logs the results. What cannot be read stays as it is.
    pub(super) fn reload(&self) {
        if let Some(certificate) = &self.certificate {
            // The result is logged.
            drop(certificate.reload());
        }
        if let Some(path) = &self.operator_token {
            let token = operator_token::read(path);
            log_reload("operator token", token.map(|token| self.http.replace_operator_token(token)));
        }
        if let Some(path) = &self.security_txt {
            let text = security_txt::read(path);
            log_reload("security.txt", text.map(|text| self.http.replace_security_txt(text)));
        }
    }
}

fn log_reload(what: &str, result: Result<(), CliError>) {
    match result {
        Ok(()) => tracing::info!("{what} reloaded"),
        Err(error) => tracing::error!(%error, "{what} reload failed; keeping the old one"),
    }
}

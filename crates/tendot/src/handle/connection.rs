//! Operations on handle records at a server, over the native protocol.

use tendot_client::native::{AdminClient, AdminError, AdminIdentity, AdminServer, ResolveOptions, RootSites};
use tendot_proto::{HandleValue, ResponseCode, ValueReference};
use tokio::runtime::Runtime;

use super::HandleConnectionArguments;
use crate::key::{read_passphrase, read_private_key_file};
use crate::resolve::server_addresses;
use crate::terminal::{escape_control, quote_input};
use crate::{CliError, runtime};

/// Connection of a handle command to a server.
pub(super) struct HandleConnection {
    sites: RootSites,
    identity: AdminIdentity,
    runtime: Runtime,
}

/// Error of an operation.
#[derive(Debug)]
pub(super) struct OperationError(AdminError);

impl OperationError {
    /// Error of a command on `handle`.
    pub(super) fn into_cli_error(self, handle: &str) -> CliError {
        let error = CliError::new(format!(
            "`{}`: {}",
            quote_input(handle.as_bytes()),
            escape_control(&self.0.to_string())
        ));
        match self.0 {
            AdminError::ErrorResponse {
                code: ResponseCode::HANDLE_NOT_FOUND | ResponseCode::VALUES_NOT_FOUND,
                ..
            } => error.negative(),
            _ => error,
        }
    }
}

impl HandleConnection {
    /// Prepares a connection; nothing is sent yet.
    pub(super) fn open(arguments: &HandleConnectionArguments) -> Result<Self, CliError> {
        let (Some(server), Some(auth), Some(key)) = (&arguments.server, &arguments.auth, &arguments.key)
        else {
            return Err(CliError::new("`--server hdl://…`, `--auth` and `--key` are required"));
        };
        let passphrase = read_passphrase(arguments.passphrase_file.as_deref())?;
        let private = read_private_key_file(key, passphrase.as_deref())?;
        let reference = ValueReference::parse(auth);
        let handle = String::from_utf8_lossy(&reference.handle).into_owned();
        let identity = AdminIdentity::with_private_key(reference.index, &handle, &private)
            .map_err(|error| CliError::new(format!("cannot use the key `{}`: {error}", key.display())))?;
        let sites = RootSites::from_addresses(&server_addresses(server)?, None);
        Ok(Self { sites, identity, runtime: runtime::multi_thread(1)? })
    }

    fn client(&self, name: &str) -> Result<AdminClient, OperationError> {
        let server =
            AdminServer::for_handle(&self.sites, name).ok_or(OperationError(AdminError::NoAdminInterface))?;
        Ok(AdminClient::new(server, self.identity.clone()))
    }

    /// Reads all values that the identity may read.
    pub(super) fn resolve(
        &mut self,
        name: &str,
        options: &ResolveOptions,
    ) -> Result<Vec<HandleValue<'static>>, OperationError> {
        let mut client = self.client(name)?;
        self.runtime.block_on(client.resolve(name, options)).map_err(OperationError)
    }

    /// Adds a value, or replaces the one at its index if `overwrite`.
    pub(super) fn add_values(
        &mut self,
        name: &str,
        values: &[HandleValue<'_>],
        overwrite: bool,
    ) -> Result<(), OperationError> {
        let mut client = self.client(name)?;
        self.runtime
            .block_on(async {
                if overwrite {
                    let modified = client.modify_values(name, values).await;
                    if !matches!(
                        modified,
                        Err(AdminError::ErrorResponse { code: ResponseCode::VALUES_NOT_FOUND, .. })
                    ) {
                        return modified;
                    }
                }
                client.add_values(name, values).await
            })
            .map_err(OperationError)
    }

    /// Ends the connection.
    pub(super) fn close(self) {
        drop(self);
    }
}

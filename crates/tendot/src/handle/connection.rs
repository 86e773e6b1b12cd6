//! Operations on handle records at a server, over REST or the native protocol.

use std::net::{SocketAddr, TcpStream};
use std::ops::ControlFlow;
use std::time::Duration;

use tendot_client::native::{
    AdminClient, AdminError, AdminIdentity, AdminServer, NativeClient, ResolveOptions, RootSites,
};
use tendot_client::{HandleApiClient, HandleApiCredentials, HandleApiError, LookupOutcome, ServerTrust};
use tendot_proto::record::PublicKey;
use tendot_proto::{Handle, HandleValue, ResponseCode};
use tokio::runtime::Runtime;

use super::HandleConnectionArguments;
use super::credentials::Credentials;
use crate::key::{read_public_key_file, read_small_file};
use crate::registry::server_or_default;
use crate::resolve::server_addresses;
use crate::terminal::{eprint_warning, escape_control, quote_input};
use crate::{CliError, runtime};

/// Connection of a handle command to a server.
pub(super) struct HandleConnection {
    transport: Transport,
    runtime: Runtime,
    /// Server as given, for messages and the journal.
    pub(super) server: String,
    trust: TrustFiles,
}

enum Transport {
    Native(Box<NativeTransport>),
    Rest(Box<HandleApiClient>),
}

/// Contents of the files that identify an HTTPS server.
struct TrustFiles {
    ca_certificates: Option<Vec<u8>>,
    public_key: Option<Vec<u8>>,
}

impl TrustFiles {
    fn as_trust(&self) -> ServerTrust<'_> {
        match (&self.ca_certificates, &self.public_key) {
            (Some(certificates), _) => ServerTrust::CaCertificates(certificates),
            (None, Some(key)) => ServerTrust::PublicKey(key),
            (None, None) => ServerTrust::PublicCas,
        }
    }
}

/// One server of the native protocol.
struct NativeTransport {
    sites: RootSites,
    address: SocketAddr,
    admin: Option<AdminClient>,
    /// Whether to use encrypted sessions: the server's key is known.
    uses_session: bool,
    is_session_open: bool,
    has_warned: bool,
}

/// Error of an operation.
#[derive(Debug)]
pub(super) enum OperationError {
    /// The server refused the operation.
    Refused { code: ResponseCode, message: String },
    /// Authentication is required or failed.
    Authentication(String),
    /// The server may have executed the operation.
    OutcomeUnknown(String),
    /// The operation was not executed.
    Failed(String),
}

impl OperationError {
    /// Explanation for `handle`, in one line.
    pub(super) fn explain(&self, handle: &str) -> String {
        let handle = quote_input(handle.as_bytes());
        match self {
            Self::Refused { code, message } => {
                let number = code.0;
                let mut text = match *code {
                    ResponseCode::HANDLE_NOT_FOUND => format!("handle not found: `{handle}`"),
                    ResponseCode::HANDLE_ALREADY_EXISTS => format!("handle already exists: `{handle}`"),
                    ResponseCode::VALUES_NOT_FOUND => format!("no such value in `{handle}`"),
                    ResponseCode::VALUE_ALREADY_EXISTS => format!("value already exists in `{handle}`"),
                    ResponseCode::SERVER_NOT_RESPONSIBLE => {
                        format!("the server is not responsible for `{handle}`")
                    }
                    ResponseCode::INVALID_ADMIN | ResponseCode::INSUFFICIENT_PERMISSIONS => {
                        format!("not authorized for `{handle}`")
                    }
                    code => format!("`{handle}`: {code}"),
                };
                // Servers often repeat what the code says.
                let repeated = text.get(..message.len());
                if !repeated.is_some_and(|repeated| repeated.eq_ignore_ascii_case(message)) {
                    text += &format!(": {}", escape_control(message));
                }
                format!("{text} (response code {number})")
            }
            Self::Authentication(reason) | Self::OutcomeUnknown(reason) | Self::Failed(reason) => {
                escape_control(reason)
            }
        }
    }

    /// Response code, if the server refused the operation.
    pub(super) const fn code(&self) -> Option<ResponseCode> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Whether it is a negative result: not found, or already exists.
    pub(super) fn is_negative(&self) -> bool {
        let negative = [
            ResponseCode::HANDLE_NOT_FOUND,
            ResponseCode::HANDLE_ALREADY_EXISTS,
            ResponseCode::VALUES_NOT_FOUND,
            ResponseCode::VALUE_ALREADY_EXISTS,
        ];
        self.code().is_some_and(|code| negative.contains(&code))
    }

    /// Error of a command on `handle`.
    pub(super) fn into_cli_error(self, handle: &str) -> CliError {
        let error = CliError::new(self.explain(handle));
        match &self {
            error_kind if error_kind.is_negative() => error.negative(),
            Self::Authentication(_) => error.or_hint(AUTHENTICATION_HINT),
            Self::OutcomeUnknown(_) => error.with_hint("check with `tendot handle show` before you retry"),
            _ => error,
        }
    }
}

const AUTHENTICATION_HINT: &str = "authenticate with `--auth INDEX:HANDLE` and `--key FILE` or `--secret-file FILE`; at a Tendot \
                                   server over HTTP also with `--token-file FILE`";

impl From<AdminError> for OperationError {
    fn from(error: AdminError) -> Self {
        match error {
            AdminError::ErrorResponse { code, message, .. } => Self::from_code(code, message),
            AdminError::OutcomeUnknown { .. } => Self::OutcomeUnknown(error.to_string()),
            AdminError::Authentication(_) => Self::Authentication(error.to_string()),
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<HandleApiError> for OperationError {
    fn from(error: HandleApiError) -> Self {
        match error {
            HandleApiError::ErrorResponse { code, message, .. } => Self::from_code(code, message),
            HandleApiError::OutcomeUnknown { .. } => Self::OutcomeUnknown(error.to_string()),
            HandleApiError::AuthenticationFailed { .. } | HandleApiError::Proof(_) => {
                Self::Authentication(error.to_string())
            }
            error => Self::Failed(error.to_string()),
        }
    }
}

impl OperationError {
    fn from_code(code: ResponseCode, message: String) -> Self {
        match code {
            ResponseCode::AUTHENTICATION_NEEDED => Self::Authentication("authentication required".into()),
            ResponseCode::AUTHENTICATION_FAILED
            | ResponseCode::INVALID_CREDENTIAL
            | ResponseCode::AUTHENTICATION_TIMEOUT
            | ResponseCode::AUTHENTICATION_ERROR => {
                let message = if message.is_empty() { code.to_string() } else { message };
                Self::Authentication(format!("authentication failed: {message}"))
            }
            code => Self::Refused { code, message },
        }
    }
}

impl HandleConnection {
    /// Prepares a connection; nothing is sent yet.
    pub(super) fn open(arguments: &HandleConnectionArguments) -> Result<Self, CliError> {
        let server = server_or_default(arguments.server.as_deref());
        let credentials = Credentials::from_arguments(arguments)?;
        let runtime = runtime::multi_thread(1)?;
        let mut trust = TrustFiles { ca_certificates: None, public_key: None };
        let transport = if server.starts_with("hdl://") {
            if arguments.ca_file.is_some() {
                return Err(CliError::new("`--ca-file` requires `--server https://…`"));
            }
            let key = arguments.server_key.as_deref().map(read_public_key_file).transpose()?;
            let mut native = NativeTransport::new(&server, key.as_ref())?;
            match credentials {
                Credentials::Anonymous => {}
                Credentials::Identity(identity) => native.authenticate(identity)?,
                // A token in the environment is for other commands.
                Credentials::Token(_) if arguments.token.is_none() && arguments.token_file.is_none() => {}
                Credentials::Token(_) => {
                    let why = "API tokens are for HTTP; the native protocol needs a handle identity";
                    return Err(CliError::new(why).with_hint("use `--auth INDEX:HANDLE` with `--key FILE`"));
                }
            }
            Transport::Native(Box::new(native))
        } else {
            if server.starts_with("http://")
                && (arguments.ca_file.is_some() || arguments.server_key.is_some())
            {
                return Err(CliError::new("`--ca-file` and `--server-key` require `--server https://…`"));
            }
            trust.ca_certificates = arguments.ca_file.as_deref().map(read_small_file).transpose()?;
            if let Some(file) = &arguments.server_key {
                trust.public_key = Some(read_public_key_file(file)?.to_bytes());
            }
            let credentials = match credentials {
                Credentials::Anonymous => HandleApiCredentials::Anonymous,
                Credentials::Token(token) => HandleApiCredentials::Token(token),
                Credentials::Identity(identity) => HandleApiCredentials::Identity(identity),
            };
            Transport::Rest(Box::new(open_rest(&server, credentials, &trust)?))
        };
        Ok(Self { transport, runtime, server, trust })
    }

    /// Acts as another identity from now on.
    pub(super) fn authenticate(&mut self, identity: AdminIdentity) -> Result<(), CliError> {
        let Self { transport, runtime, server, trust } = self;
        match transport {
            Transport::Native(native) => native.authenticate(identity),
            Transport::Rest(client) => {
                runtime.block_on(client.close());
                **client = open_rest(server, HandleApiCredentials::Identity(identity), trust)?;
                Ok(())
            }
        }
    }

    /// Values of a record; all that the identity may read.
    pub(super) fn resolve(
        &mut self,
        name: &str,
        options: &ResolveOptions,
    ) -> Result<Vec<HandleValue<'static>>, OperationError> {
        self.runtime.block_on(async {
            match &mut self.transport {
                Transport::Native(native) if native.admin.is_none() => {
                    native.resolve_public(name, options).await
                }
                Transport::Native(native) => {
                    native.execute(async |admin| admin.resolve(name, options).await).await
                }
                Transport::Rest(client) => Ok(client.resolve(name, options).await?),
            }
        })
    }

    /// Creates a record; an existing one is replaced only if `overwrite`.
    pub(super) fn create(
        &mut self,
        name: &str,
        values: &[HandleValue<'_>],
        overwrite: bool,
    ) -> Result<(), OperationError> {
        self.runtime.block_on(async {
            match &mut self.transport {
                Transport::Native(native) => {
                    native.warn_about_private_values(values);
                    native
                        .execute(async |admin| match overwrite {
                            true => admin.replace(name, values).await,
                            false => admin.create(name, values).await,
                        })
                        .await
                }
                Transport::Rest(client) => Ok(client.create(name, values, overwrite).await?),
            }
        })
    }

    /// Adds values; those at the same indexes are replaced only if `overwrite`.
    pub(super) fn add_values(
        &mut self,
        name: &str,
        values: &[HandleValue<'_>],
        overwrite: bool,
    ) -> Result<(), OperationError> {
        self.runtime.block_on(async {
            match &mut self.transport {
                Transport::Native(native) => {
                    native.warn_about_private_values(values);
                    native
                        .execute(async |admin| match overwrite {
                            true => admin.put_values(name, values).await,
                            false => admin.add_values(name, values).await,
                        })
                        .await
                }
                Transport::Rest(client) => Ok(client.add_values(name, values, overwrite).await?),
            }
        })
    }

    /// Replaces the values at their indexes, which must exist.
    pub(super) fn modify_values(
        &mut self,
        name: &str,
        values: &[HandleValue<'_>],
    ) -> Result<(), OperationError> {
        self.runtime.block_on(async {
            match &mut self.transport {
                Transport::Native(native) => {
                    native.warn_about_private_values(values);
                    native.execute(async |admin| admin.modify_values(name, values).await).await
                }
                Transport::Rest(client) => Ok(client.modify_values(name, values).await?),
            }
        })
    }

    /// Removes the values at these indexes.
    pub(super) fn remove_values(&mut self, name: &str, indexes: &[u32]) -> Result<(), OperationError> {
        self.runtime.block_on(async {
            match &mut self.transport {
                Transport::Native(native) => {
                    native.execute(async |admin| admin.remove_values(name, indexes).await).await
                }
                Transport::Rest(client) => Ok(client.remove_values(name, indexes).await?),
            }
        })
    }

    /// Deletes a record.
    pub(super) fn delete(&mut self, name: &str) -> Result<(), OperationError> {
        self.runtime.block_on(async {
            match &mut self.transport {
                Transport::Native(native) => native.execute(async |admin| admin.delete(name).await).await,
                Transport::Rest(client) => Ok(client.delete(name).await?),
            }
        })
    }

    /// Homes a prefix.
    pub(super) fn home(&mut self, prefix: &str) -> Result<(), OperationError> {
        self.runtime.block_on(async {
            match &mut self.transport {
                Transport::Native(native) => {
                    native.execute(async |admin| admin.home_prefix(prefix).await).await
                }
                Transport::Rest(client) => Ok(client.home_prefix(&qualified(prefix)).await?),
            }
        })
    }

    /// Unhomes a prefix.
    pub(super) fn unhome(&mut self, prefix: &str) -> Result<(), OperationError> {
        self.runtime.block_on(async {
            match &mut self.transport {
                Transport::Native(native) => {
                    native.execute(async |admin| admin.unhome_prefix(prefix).await).await
                }
                Transport::Rest(client) => Ok(client.unhome_prefix(&qualified(prefix)).await?),
            }
        })
    }

    /// Calls `on_handle` for each handle under a prefix, or for each homed prefix, until it returns `Break`.
    pub(super) fn list(
        &mut self,
        prefix: Option<&str>,
        mut on_handle: impl FnMut(&str) -> ControlFlow<()> + Send,
    ) -> Result<(), OperationError> {
        self.runtime.block_on(async {
            match &mut self.transport {
                Transport::Native(native) => {
                    let mut on_name = |name: Handle<'_>| on_handle(&String::from_utf8_lossy(name.as_bytes()));
                    let admin = native.connect().await?;
                    match prefix {
                        Some(prefix) => admin.list_handles(prefix, &mut on_name).await?,
                        None => admin.list_homed_prefixes(&mut on_name).await?,
                    }
                }
                Transport::Rest(client) => match prefix {
                    Some(prefix) => client.list_handles(prefix, on_handle).await?,
                    None => client.list_homed_prefixes(on_handle).await?,
                },
            }
            Ok(())
        })
    }

    /// Ends the session, if there is one.
    pub(super) fn close(mut self) {
        self.runtime.block_on(async {
            match &mut self.transport {
                Transport::Native(native) => {
                    if let Some(admin) = &mut native.admin {
                        let _ = admin.close_session().await;
                    }
                }
                Transport::Rest(client) => client.close().await,
            }
        });
    }
}

fn open_rest(
    server: &str,
    credentials: HandleApiCredentials,
    trust: &TrustFiles,
) -> Result<HandleApiClient, CliError> {
    HandleApiClient::new(server, credentials, trust.as_trust()).map_err(|error| {
        let failure = CliError::new(escape_control(&error.to_string()));
        match error {
            HandleApiError::InsecureTransport { .. } => failure.with_hint("use `https://…` or an SSH tunnel"),
            HandleApiError::InvalidBaseUrl { .. } => {
                failure.with_hint("expected a URL such as `https://127.0.0.1` or `hdl://127.0.0.1:2641`")
            }
            _ => failure,
        }
    })
}

/// Handle of a prefix: `0.NA/10.5555` for `10.5555`.
fn qualified(prefix: &str) -> String {
    String::from_utf8_lossy(&Handle::from(prefix).qualified()).into_owned()
}

/// Timeout of trying one of several addresses of a host.
const ADDRESS_TIMEOUT: Duration = Duration::from_secs(3);

impl NativeTransport {
    fn new(server: &str, key: Option<&PublicKey<'_>>) -> Result<Self, CliError> {
        let addresses = server_addresses(server)?;
        let is_reachable =
            |address: &&SocketAddr| TcpStream::connect_timeout(address, ADDRESS_TIMEOUT).is_ok();
        let address = match &addresses[..] {
            [] => return Err(CliError::new(format!("no address of `{}`", quote_input(server.as_bytes())))),
            [address] => *address,
            // Such as `localhost`, where the server may listen on one of two addresses.
            [first, ..] => *addresses.iter().find(is_reachable).unwrap_or(first),
        };
        let sites = RootSites::from_addresses(&[address], key);
        let uses_session = key.is_some();
        Ok(Self { sites, address, admin: None, uses_session, is_session_open: false, has_warned: false })
    }

    fn authenticate(&mut self, identity: AdminIdentity) -> Result<(), CliError> {
        // The site has one server, whatever the handle is.
        let server = AdminServer::for_handle(&self.sites, "0.NA/0.NA");
        let server = server.ok_or_else(|| CliError::new("the site has no server"))?;
        self.admin = Some(AdminClient::new(server, identity));
        self.is_session_open = false;
        Ok(())
    }

    /// Client of the server; opens a session if the server's key is known.
    async fn connect(&mut self) -> Result<&mut AdminClient, OperationError> {
        let Some(admin) = &mut self.admin else {
            return Err(OperationError::Authentication("authentication required".into()));
        };
        if self.uses_session && !self.is_session_open {
            admin.open_session(true).await?;
            self.is_session_open = true;
        }
        Ok(admin)
    }

    /// Executes an operation; once more if the session has ended.
    async fn execute<T>(
        &mut self,
        operation: impl AsyncFn(&mut AdminClient) -> Result<T, AdminError>,
    ) -> Result<T, OperationError> {
        let is_session_end = |error: &AdminError| {
            let ended = [ResponseCode::SESSION_TIMEOUT, ResponseCode::INVALID_SESSION_KEY];
            matches!(error, AdminError::ErrorResponse { code, .. } if ended.contains(code))
        };
        match operation(self.connect().await?).await {
            Err(error) if self.is_session_open && is_session_end(&error) => {
                self.is_session_open = false;
                Ok(operation(self.connect().await?).await?)
            }
            result => Ok(result?),
        }
    }

    /// Reads public values without authentication.
    async fn resolve_public(
        &self,
        name: &str,
        options: &ResolveOptions,
    ) -> Result<Vec<HandleValue<'static>>, OperationError> {
        let mut config = self.sites.clone().into_direct_config(Handle::from(name));
        config.require_signatures = self.uses_session;
        let reply = NativeClient::new(config).resolve(name, options).await;
        let reply = reply.map_err(|error| OperationError::Failed(error.to_string()))?;
        let code = match reply.outcome {
            LookupOutcome::Values(values) => return Ok(values),
            LookupOutcome::NoValues => ResponseCode::VALUES_NOT_FOUND,
            LookupOutcome::NotFound => ResponseCode::HANDLE_NOT_FOUND,
            LookupOutcome::NotResponsible => ResponseCode::SERVER_NOT_RESPONSIBLE,
        };
        Err(OperationError::Refused { code, message: String::new() })
    }

    /// Warns once if private values are sent over the network without encryption.
    fn warn_about_private_values(&mut self, values: &[HandleValue<'_>]) {
        let is_exposed = !self.uses_session
            && !self.address.ip().is_loopback()
            && values.iter().any(|value| !value.is_public());
        if is_exposed && !self.has_warned {
            self.has_warned = true;
            eprint_warning(
                "private values are sent unencrypted; pass the server's public key with `--server-key`",
            );
        }
    }
}

//! Administration operations.

use std::ops::ControlFlow;

use tendot_proto::auth::AuthPolicy;
use tendot_proto::wire::WireList;
use tendot_proto::{Handle, HandleValue, OpFlags, Opcode, Request, ResponseData};

use super::exchange::{AdminChannel, response_outcome};
use super::{AdminIdentity, AdminServer};
use crate::native::{AdminError, ResolveOptions};

/// Client that administers the records of one server.
///
/// Each operation is sent once, over TCP, else HTTP or HTTPS, and authenticated when the server sends a challenge. If it is not
/// known whether the server applied it, the error is [`AdminError::OutcomeUnknown`].
///
/// In a session ([`open_session`](Self::open_session)) the key is used once, and messages are protected against changes.
///
/// ```no_run
/// use tendot_client::native::{AdminClient, AdminIdentity, AdminServer, RootSites};
/// use tendot_proto::HandleValue;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// // The site record of the server has its public key.
/// let sites = RootSites::from_bytes(&std::fs::read("siteinfo.json")?)?;
/// let server = AdminServer::for_handle(&sites, "10.1000/182").ok_or("not a primary site")?;
/// let key = std::fs::read("admpriv.bin")?;
/// let mut admin = AdminClient::new(server, AdminIdentity::with_key_file(300, "0.NA/10.1000", &key, None)?);
///
/// admin.open_session(true).await?;
/// admin.create("10.1000/182", &[HandleValue::new(1, "URL", "https://example.org/")]).await?;
/// admin.modify_values("10.1000/182", &[HandleValue::new(1, "URL", "https://example.org/182")]).await?;
/// admin.close_session().await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct AdminClient {
    channel: AdminChannel,
}

impl AdminClient {
    /// Client of `server` that acts as `identity`.
    pub fn new(server: AdminServer, identity: AdminIdentity) -> Self {
        Self { channel: AdminChannel::new(server, identity) }
    }

    /// Accepts a success only if the response is signed by the server, also outside a session.
    ///
    /// Needs the public key in the site record.
    #[must_use]
    pub const fn require_signature(mut self) -> Self {
        self.channel.requires_signature = true;
        self
    }

    /// Uses another authentication policy, for old servers.
    #[must_use]
    pub const fn with_policy(mut self, policy: AuthPolicy) -> Self {
        self.channel.policy = policy;
        self
    }

    /// Identity of the administrator.
    pub const fn identity(&self) -> &AdminIdentity {
        &self.channel.identity
    }

    /// Sets up a session, in which messages are authenticated and, if `is_encrypted`, encrypted.
    ///
    /// Private values are always encrypted. The identity is authenticated once, by the first challenge in the session. The site
    /// record needs the server's public key, which authenticates the server.
    pub async fn open_session(&mut self, is_encrypted: bool) -> Result<(), AdminError> {
        self.channel.open_session(is_encrypted).await
    }

    /// Ends the session, if there is one.
    pub async fn close_session(&mut self) -> Result<(), AdminError> {
        self.channel.close_session().await
    }

    /// Creates a record that does not exist.
    pub async fn create(&mut self, name: &str, values: &[HandleValue<'_>]) -> Result<(), AdminError> {
        self.send_values(Opcode::CREATE_HANDLE, OpFlags::DEFAULT, name, values).await.map(drop)
    }

    /// Creates or overwrites a record.
    pub async fn replace(&mut self, name: &str, values: &[HandleValue<'_>]) -> Result<(), AdminError> {
        let flags = OpFlags::DEFAULT | OpFlags::OVERWRITE;
        self.send_values(Opcode::CREATE_HANDLE, flags, name, values).await.map(drop)
    }

    /// Creates a record whose suffix the server mints after `start`; returns its name unless the server is too old.
    pub async fn mint(
        &mut self,
        start: &str,
        values: &[HandleValue<'_>],
    ) -> Result<Option<String>, AdminError> {
        let flags = OpFlags::DEFAULT | OpFlags::MINT_NEW_SUFFIX;
        let response = self.send_values(Opcode::CREATE_HANDLE, flags, start, values).await?;
        Ok(match response_outcome(&response) {
            Some(ResponseData::Created { handle: Some(handle) }) => {
                Some(String::from_utf8_lossy(handle.as_bytes()).into_owned())
            }
            _ => None,
        })
    }

    /// Deletes a record.
    pub async fn delete(&mut self, name: &str) -> Result<(), AdminError> {
        self.send_handle(Opcode::DELETE_HANDLE, Handle::from(name)).await
    }

    /// Adds values to a record, at unused indexes.
    pub async fn add_values(&mut self, name: &str, values: &[HandleValue<'_>]) -> Result<(), AdminError> {
        self.send_values(Opcode::ADD_VALUE, OpFlags::DEFAULT, name, values).await.map(drop)
    }

    /// Adds values to a record; values at the same indexes are replaced.
    pub async fn put_values(&mut self, name: &str, values: &[HandleValue<'_>]) -> Result<(), AdminError> {
        let flags = OpFlags::DEFAULT | OpFlags::OVERWRITE;
        self.send_values(Opcode::ADD_VALUE, flags, name, values).await.map(drop)
    }

    /// Replaces the values at their indexes.
    pub async fn modify_values(&mut self, name: &str, values: &[HandleValue<'_>]) -> Result<(), AdminError> {
        self.send_values(Opcode::MODIFY_VALUE, OpFlags::DEFAULT, name, values).await.map(drop)
    }

    /// Removes the values at these indexes.
    pub async fn remove_values(&mut self, name: &str, indexes: &[u32]) -> Result<(), AdminError> {
        let handle = Handle::from(name);
        let request = Request::RemoveValues { handle, indexes: WireList::from(indexes) };
        self.channel.execute(Opcode::REMOVE_VALUE, OpFlags::DEFAULT, request, handle).await.map(drop)
    }

    /// Resolves the selected values of a record that this identity may read.
    pub async fn resolve(
        &mut self,
        name: &str,
        options: &ResolveOptions,
    ) -> Result<Vec<HandleValue<'static>>, AdminError> {
        let handle = Handle::from(name);
        let types: Vec<&[u8]> = options.types.iter().map(String::as_bytes).collect();
        let indexes = WireList::from(&options.indexes[..]);
        let request = Request::Resolve { handle, indexes, types: WireList::from(&types[..]) };
        let flags = OpFlags::DEFAULT - OpFlags::PUBLIC_ONLY;
        let response = self.channel.execute(Opcode::RESOLUTION, flags, request, handle).await?;
        match response_outcome(&response) {
            Some(ResponseData::Resolved { values, .. }) => {
                Ok(values.iter().map(HandleValue::into_owned).collect())
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Calls `on_handle` for each handle under a prefix until it returns `Break`.
    pub async fn list_handles(
        &mut self,
        prefix: &str,
        on_handle: impl FnMut(Handle<'_>) -> ControlFlow<()> + Send,
    ) -> Result<(), AdminError> {
        let handle = Handle::from(prefix).qualified();
        let handle = Handle::new(&handle);
        self.send_list(Opcode::LIST_HANDLES, Request::HandleOnly { handle }, handle, on_handle).await
    }

    /// Calls `on_handle` for each prefix homed at the server until it returns `Break`.
    pub async fn list_homed_prefixes(
        &mut self,
        on_handle: impl FnMut(Handle<'_>) -> ControlFlow<()> + Send,
    ) -> Result<(), AdminError> {
        let request = Request::NoOperand { handle: Some(Handle::BLANK) };
        self.send_list(Opcode::LIST_HOMED_PREFIXES, request, Handle::BLANK, on_handle).await
    }

    /// Makes the server responsible for a prefix, `10.1000` or `0.NA/10.1000`.
    pub async fn home_prefix(&mut self, prefix: &str) -> Result<(), AdminError> {
        let handle = Handle::from(prefix).qualified();
        self.send_handle(Opcode::HOME_PREFIX, Handle::new(&handle)).await
    }

    /// Ends the responsibility of the server for a prefix.
    pub async fn unhome_prefix(&mut self, prefix: &str) -> Result<(), AdminError> {
        let handle = Handle::from(prefix).qualified();
        self.send_handle(Opcode::UNHOME_PREFIX, Handle::new(&handle)).await
    }

    async fn send_values(
        &mut self,
        opcode: Opcode,
        flags: OpFlags,
        name: &str,
        values: &[HandleValue<'_>],
    ) -> Result<Vec<u8>, AdminError> {
        let handle = Handle::from(name);
        self.channel
            .execute(opcode, flags, Request::WriteValues { handle, values: WireList::from(values) }, handle)
            .await
    }

    async fn send_handle(&mut self, opcode: Opcode, handle: Handle<'_>) -> Result<(), AdminError> {
        self.channel.execute(opcode, OpFlags::DEFAULT, Request::HandleOnly { handle }, handle).await.map(drop)
    }

    async fn send_list(
        &mut self,
        opcode: Opcode,
        request: Request<'_>,
        handle: Handle<'_>,
        mut on_handle: impl FnMut(Handle<'_>) -> ControlFlow<()> + Send,
    ) -> Result<(), AdminError> {
        let mut on_message = |response: &[u8]| match response_outcome(response) {
            Some(ResponseData::Handles(handles)) => {
                handles.iter().try_for_each(|handle| on_handle(Handle::new(handle)))
            }
            _ => ControlFlow::Continue(()),
        };
        self.channel
            .execute_list(opcode, OpFlags::DEFAULT, request, handle, true, &mut on_message)
            .await
            .map(drop)
    }
}

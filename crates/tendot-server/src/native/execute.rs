//! Execution of a request for an authenticated or anonymous caller.

use tendot_proto::auth::{AuthError, Challenge, SecretKeyMac, SecretKeyResponse};
use tendot_proto::endpoint::{IncomingRequest, Transport};
use tendot_proto::wire::WireList;
use tendot_proto::{Handle, OpFlags, Opcode, ProtocolVersion, ResponseCode, ResponseData, ValueReference};
use tendot_registry::{
    CallContext, Caller, Error, HandleOperation, HandleWrite, Resolution, ResolveQuery, ResolvedRecord,
};
use tendot_store::NameKey;

use crate::native::dispatch::{CpuPermit, release_while_pending};
use crate::native::operation::NativeOperation;
use crate::native::{MessageClient, NativeReply, NativeServer};

/// Name of the algorithm that Handle.Net's library uses for a secret key without a challenge of the server.
const SHA1: &str = SecretKeyMac::Sha1.name();

impl NativeServer {
    /// Executes a request.
    pub(crate) async fn execute(
        &self,
        incoming: &mut IncomingRequest<'_>,
        caller: &Caller,
        client: MessageClient,
        cpu_permit: &mut Option<CpuPermit<'_>>,
    ) -> NativeReply {
        let mut scratch = Vec::new();
        match NativeOperation::from_request(incoming, &mut scratch) {
            Some(operation) => self.execute_operation(incoming, &operation, caller, client, cpu_permit).await,
            None => self.unsupported(incoming),
        }
    }

    /// Executes the operation of a request.
    pub(crate) async fn execute_operation(
        &self,
        incoming: &mut IncomingRequest<'_>,
        operation: &NativeOperation<'_>,
        caller: &Caller,
        client: MessageClient,
        cpu_permit: &mut Option<CpuPermit<'_>>,
    ) -> NativeReply {
        let result = match operation {
            NativeOperation::Registry(HandleOperation::Resolve(query)) => {
                release_while_pending(cpu_permit, self.resolve(incoming, query, caller)).await
            }
            NativeOperation::Registry(HandleOperation::Write(write)) => {
                *cpu_permit = None;
                match self.refer_derived_prefix(incoming).await {
                    Some(reply) => Ok(reply),
                    None => self.write(incoming, write, caller, client).await,
                }
            }
            NativeOperation::Registry(list) => {
                release_while_pending(cpu_permit, self.list(incoming, list, caller, None)).await
            }
            NativeOperation::Status(query) => self.status(incoming, query, caller).await,
            NativeOperation::SiteInfo => {
                let response =
                    incoming.respond(ResponseCode::SUCCESS, ResponseData::SiteInfo(self.site.bytes()));
                Ok(self.seal(incoming, response))
            }
            NativeOperation::VerifyChallenge { key_handle, key_index, challenge, answer } => {
                let key = ValueReference::new(*key_index, key_handle.as_bytes());
                self.verify_challenge(incoming, &key, *challenge, answer, client).await
            }
            NativeOperation::SetUpSession(setup) => Ok(self.set_up_session(incoming, setup)),
            NativeOperation::TerminateSession => Ok(self.terminate_session(incoming)),
        };
        result.unwrap_or_else(|error| self.registry_error(incoming, &error))
    }

    async fn resolve(
        &self,
        incoming: &mut IncomingRequest<'_>,
        query: &ResolveQuery<'_>,
        caller: &Caller,
    ) -> Result<NativeReply, Error> {
        let resolved = self.registry.resolve_record(query, caller, &mut incoming.budget).await;
        if let (Some(resolution_counter), Caller::Anonymous, Ok(name)) =
            (&self.resolution_counter, caller, query.handle.to_str())
        {
            match &resolved {
                Ok(ResolvedRecord { is_stored: true, .. }) => {
                    if let Ok(key) = NameKey::new(name) {
                        resolution_counter.count_stored(&self.registry, &key).await;
                    }
                }
                Ok(_) => {}
                Err(error) => resolution_counter.count_failure(&self.registry, name, error).await,
            }
        }
        let ResolvedRecord { resolution, is_stored, .. } = resolved?;
        let (code, outcome) = match &resolution {
            Resolution::Values(values) => {
                let values = WireList::from(&values[..]);
                (ResponseCode::SUCCESS, ResponseData::Resolved { handle: query.handle, values })
            }
            Resolution::Referral(values) => {
                let values = Some(WireList::from(&values[..]));
                (ResponseCode::PREFIX_REFERRAL, ResponseData::Referral { handle: Handle::new(&[]), values })
            }
        };
        let response = incoming.respond(code, outcome);
        Ok(NativeReply { is_stored, ..self.seal(incoming, response) })
    }

    async fn write(
        &self,
        incoming: &mut IncomingRequest<'_>,
        write: &HandleWrite<'_>,
        caller: &Caller,
        client: MessageClient,
    ) -> Result<NativeReply, Error> {
        let call = CallContext::new(caller, self.registry.now_ms(), &mut incoming.budget)
            .from_client(client.address);
        let result = self.registry.write(write, call).await?;
        let outcome = match write {
            HandleWrite::Create { .. } => ResponseData::Created { handle: Some(Handle::from(&*result.name)) },
            _ => ResponseData::Empty,
        };
        let mut response = incoming.respond(ResponseCode::SUCCESS, outcome);
        if matches!(write, HandleWrite::Create { uuid_bytes: Some(_), .. }) {
            response.header.flags |= OpFlags::MINT_NEW_SUFFIX;
        }
        if result.replaced && matches!(write, HandleWrite::Create { .. } | HandleWrite::AddValues { .. }) {
            response.header.flags |= OpFlags::OVERWRITE;
        }
        Ok(self.seal(incoming, response))
    }

    /// Referral for a write to the record of a derived prefix that another service stores. Older clients do not understand it.
    async fn refer_derived_prefix(&self, incoming: &mut IncomingRequest<'_>) -> Option<NativeReply> {
        let (envelope, header) = (incoming.parts.envelope, incoming.parts.header);
        let name = incoming.request.handle().filter(|name| name.is_prefix_handle())?;
        let is_homing = matches!(header.opcode, Opcode::HOME_PREFIX | Opcode::UNHOME_PREFIX);
        if is_homing
            || header.flags.contains(OpFlags::DO_NOT_REFER)
            || envelope.newest_version() < ProtocolVersion::PREFIX_REFERRALS
        {
            return None;
        }
        let found =
            self.registry.resolve(&ResolveQuery::new(name), &Caller::Anonymous, &mut incoming.budget).await;
        let Ok(Resolution::Referral(values)) = found else { return None };
        let outcome =
            ResponseData::Referral { handle: Handle::new(&[]), values: Some(WireList::from(&values[..])) };
        let response = incoming.respond(ResponseCode::PREFIX_REFERRAL, outcome);
        Some(self.seal(incoming, response))
    }

    /// Verifies the answer to another server's challenge against a secret key that is stored here.
    async fn verify_challenge(
        &self,
        incoming: &mut IncomingRequest<'_>,
        key: &ValueReference<'_>,
        challenge: Challenge<'_>,
        answer: &[u8],
        client: MessageClient,
    ) -> Result<NativeReply, Error> {
        if !self.registry.owns(key.handle()) {
            return Err(Error::OtherServer);
        }
        let keys = self.registry.key_values(key.handle(), &mut incoming.budget).await?;
        // Another server of the site has limited the attempts of its client.
        let attempt = if incoming.transport == Transport::Tcp && self.is_site_peer(client) {
            None
        } else {
            match self.start_attempt(incoming.transport, client, key) {
                Some(attempt) => Some(attempt),
                None => return Ok(self.throttled(incoming)),
            }
        };
        let version = incoming.parts.envelope.response_version();
        let context = &mut self.auth(&mut incoming.budget);
        context.policy = self.verification_policy;
        let verified = SecretKeyResponse::from_bytes(answer, version)
            .map_err(AuthError::from)
            .and_then(|proof| challenge.verify_secret_key(&proof, key.index, &keys, context));
        if matches!(verified, Err(AuthError::AlgorithmNotAllowed { algorithm: SHA1 })) {
            self.sha1_warning.warn(key, client);
        }
        let is_valid = verified.is_ok();
        if is_valid && let Some(attempt) = attempt {
            attempt.mark_succeeded();
        }
        let response =
            incoming.respond(ResponseCode::SUCCESS, ResponseData::ChallengeVerified(u8::from(is_valid)));
        Ok(self.seal(incoming, response))
    }
}

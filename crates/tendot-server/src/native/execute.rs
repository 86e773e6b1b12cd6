//! Execution of a request for an authenticated or anonymous caller.

use tendot_proto::auth::{Challenge, SecretKeyResponse};
use tendot_proto::crypto::AwsLcProvider;
use tendot_proto::endpoint::IncomingRequest;
use tendot_proto::wire::WireList;
use tendot_proto::{
    Handle, Message, MessageBody, OpFlags, Opcode, ProtocolVersion, Request, ResponseCode, ResponseData,
};
use tendot_registry::{CallContext, Caller, Error, HandleOperation, HandleWrite, Resolution, ResolveQuery};

use crate::native::dispatch::{CpuPermit, release_while_pending};
use crate::native::operation::to_operation;
use crate::native::status::is_status;
use crate::native::{NativeReply, NativeServer};

impl NativeServer {
    pub(crate) async fn execute(
        &self,
        incoming: &mut IncomingRequest<'_>,
        caller: &Caller,
        cpu_permit: &mut Option<CpuPermit<'_>>,
    ) -> NativeReply {
        match incoming.request {
            Request::Resolve { handle, .. } if is_status(handle) => {
                return self.status_reply(incoming, caller).await;
            }
            Request::SessionSetup(setup) => return self.set_up_session(incoming, &setup),
            Request::VerifyChallenge { .. } => return self.verify_challenge(incoming).await,
            Request::NoOperand { .. } => match incoming.message.header.opcode {
                Opcode::GET_SITE_INFO => {
                    let response =
                        incoming.respond(ResponseCode::SUCCESS, ResponseData::SiteInfo(self.site.bytes()));
                    return self.seal(incoming, response);
                }
                Opcode::SESSION_TERMINATE => return self.terminate_session(incoming),
                _ => {}
            },
            _ => {}
        }
        let mut scratch = Vec::new();
        // Its names borrow from the message, which is therefore copied.
        let message = incoming.message;
        let result = match to_operation(&message, &mut scratch) {
            None => return self.unsupported(incoming),
            Some(HandleOperation::Resolve(query)) => {
                release_while_pending(cpu_permit, self.resolve(incoming, &query, caller)).await
            }
            Some(HandleOperation::Write(write)) => {
                *cpu_permit = None;
                if let Some(reply) = self.refer_derived_prefix(incoming).await {
                    return reply;
                }
                self.write(incoming, &write, caller).await
            }
            Some(_) => {
                return release_while_pending(cpu_permit, self.list_reply(incoming, caller, None)).await;
            }
        };
        result.unwrap_or_else(|error| self.registry_error(incoming, &error))
    }

    async fn resolve(
        &self,
        incoming: &mut IncomingRequest<'_>,
        query: &ResolveQuery<'_>,
        caller: &Caller,
    ) -> Result<NativeReply, Error> {
        let resolution = self.registry.resolve(query, caller, &mut incoming.budget).await;
        if let (Some(resolution_counter), Caller::Anonymous, Ok(name)) =
            (&self.resolution_counter, caller, query.handle.to_str())
        {
            match &resolution {
                Ok(Resolution::Values(_)) => resolution_counter.count_resolution(&self.registry, name).await,
                Ok(Resolution::Referral(_)) => {}
                Err(error) => resolution_counter.count_failure(&self.registry, name, error).await,
            }
        }
        let resolution = resolution?;
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
        Ok(self.seal(incoming, response))
    }

    async fn write(
        &self,
        incoming: &mut IncomingRequest<'_>,
        write: &HandleWrite<'_>,
        caller: &Caller,
    ) -> Result<NativeReply, Error> {
        let now_ms = self.now().unix.saturating_mul(1_000);
        let call = CallContext::new(caller, now_ms, &mut incoming.budget);
        let result = self.registry.write(write, call).await?;
        let outcome = match write {
            HandleWrite::Create { .. } => ResponseData::Created { handle: Some(Handle::from(&*result.name)) },
            _ => ResponseData::Empty,
        };
        let mut response = incoming.respond(ResponseCode::SUCCESS, outcome);
        if matches!(write, HandleWrite::Create { uuid_bytes: Some(_), .. }) {
            response.header.flags = response.header.flags.with(OpFlags::MINT_NEW_SUFFIX);
        }
        if result.replaced && matches!(write, HandleWrite::Create { .. } | HandleWrite::AddValues { .. }) {
            response.header.flags = response.header.flags.with(OpFlags::OVERWRITE);
        }
        Ok(self.seal(incoming, response))
    }

    /// Referral for a write to the record of a derived prefix that another service stores. Older clients do not understand it.
    async fn refer_derived_prefix(&self, incoming: &mut IncomingRequest<'_>) -> Option<NativeReply> {
        let Message { envelope, header, body: MessageBody::Request(request), .. } = incoming.message else {
            return None;
        };
        let name = request.handle().filter(|name| name.is_prefix_handle())?;
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
    async fn verify_challenge(&self, incoming: &mut IncomingRequest<'_>) -> NativeReply {
        let Request::VerifyChallenge { key_handle, key_index, nonce, digest, response: answer } =
            incoming.request
        else {
            return self.unsupported(incoming);
        };
        if !self.registry.owns(key_handle) {
            return self.registry_error(incoming, &Error::OtherServer);
        }
        let budget = &mut incoming.budget;
        let keys = match self.registry.key_values(key_handle, budget).await {
            Ok(keys) => keys,
            Err(error) => return self.registry_error(incoming, &error),
        };
        let version = incoming.message.envelope.response_version();
        let challenge = Challenge { nonce, digest: digest.bytes };
        let is_valid = SecretKeyResponse::from_bytes(answer, version).is_ok_and(|proof| {
            challenge
                .verify_secret_key(&proof, key_index, &keys, &self.policy, &AwsLcProvider, budget)
                .is_ok()
        });
        let response =
            incoming.respond(ResponseCode::SUCCESS, ResponseData::ChallengeVerified(u8::from(is_valid)));
        self.seal(incoming, response)
    }
}

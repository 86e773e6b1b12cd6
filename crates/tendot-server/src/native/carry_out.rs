//! A request of somebody who is known, or not, carried out.

use tendot_proto::auth::{Challenge, SecretKeyResponse};
use tendot_proto::crypto::AwsLcProvider;
use tendot_proto::endpoint::Incoming;
use tendot_proto::wire::List;
use tendot_proto::{Body, Handle, Message, OpFlags, Opcode, Outcome, Request, ResponseCode, Version};
use tendot_registry::{Caller, Error, Operation, ResolveQuery, Resolution, Write};

use super::dispatch::{CpuPermit, lend};
use super::operation::operation;
use super::status::is_status;
use super::{Native, NativeReply};

impl Native {
    pub(super) async fn carry_out(
        &self,
        incoming: &mut Incoming<'_>,
        caller: &Caller,
        core: &mut Option<CpuPermit<'_>>,
    ) -> NativeReply {
        match incoming.request {
            Request::Resolve { handle, .. } if is_status(handle) => {
                return self.status(incoming, caller).await;
            }
            Request::SessionSetup(setup) => return self.set_up_session(incoming, &setup),
            Request::VerifyChallenge { .. } => return self.verify_challenge(incoming).await,
            Request::Plain { .. } => match incoming.message.header.opcode {
                Opcode::GET_SITE_INFO => {
                    let response =
                        incoming.respond(ResponseCode::SUCCESS, Outcome::SiteInfo(self.site.bytes()));
                    return self.send(incoming, response);
                }
                Opcode::SESSION_TERMINATE => return self.terminate_session(incoming),
                _ => {}
            },
            _ => {}
        }
        let mut scratch = Vec::new();
        // Its names borrow from the message, which is copied for that.
        let message = incoming.message;
        let done = match operation(&message, &mut scratch) {
            None => return self.unsupported(incoming),
            Some(Operation::Resolve(query)) => lend(core, self.resolve(incoming, &query, caller)).await,
            Some(Operation::Write(write)) => {
                *core = None;
                if let Some(reply) = self.refer(incoming).await {
                    return reply;
                }
                self.write(incoming, &write, caller).await
            }
            Some(_) => return lend(core, self.list(incoming, caller, None)).await,
        };
        done.unwrap_or_else(|error| self.refuse(incoming, &error))
    }

    async fn resolve(
        &self,
        incoming: &mut Incoming<'_>,
        query: &ResolveQuery<'_>,
        caller: &Caller,
    ) -> Result<NativeReply, Error> {
        let resolution = self.registry.resolve(query, caller, &mut incoming.work).await;
        if let (Some(tally), Caller::Anonymous, Ok(name)) = (&self.tally, caller, query.name.to_str()) {
            match &resolution {
                Ok(Resolution::Values(_)) => tally.resolved(&self.registry, name).await,
                Ok(Resolution::Referral(_)) => {}
                Err(error) => tally.failed(&self.registry, name, error).await,
            }
        }
        let resolution = resolution?;
        let (code, outcome) = match &resolution {
            Resolution::Values(values) => {
                let values = List::from(&values[..]);
                (ResponseCode::SUCCESS, Outcome::Resolved { handle: query.name, values })
            }
            Resolution::Referral(values) => {
                let values = Some(List::from(&values[..]));
                (ResponseCode::PREFIX_REFERRAL, Outcome::Referral { handle: Handle::new(&[]), values })
            }
        };
        let response = incoming.respond(code, outcome);
        Ok(self.send(incoming, response))
    }

    async fn write(
        &self,
        incoming: &mut Incoming<'_>,
        write: &Write<'_>,
        caller: &Caller,
    ) -> Result<NativeReply, Error> {
        let done = self.registry.write(write, caller, self.now(), &mut incoming.work).await?;
        let outcome = match write {
            Write::Create { .. } => Outcome::Created { handle: Some(Handle::from(&*done.name)) },
            _ => Outcome::Done,
        };
        let mut response = incoming.respond(ResponseCode::SUCCESS, outcome);
        if matches!(write, Write::Create { mint: Some(_), .. }) {
            response.header.flags = response.header.flags.with(OpFlags::MINT_NEW_SUFFIX);
        }
        if done.replaced && matches!(write, Write::Create { .. } | Write::Add { .. }) {
            response.header.flags = response.header.flags.with(OpFlags::OVERWRITE);
        }
        Ok(self.send(incoming, response))
    }

    /// The referral of a write to the record of a derived prefix, if another service keeps it. Older clients would not
    /// understand it.
    async fn refer(&self, incoming: &mut Incoming<'_>) -> Option<NativeReply> {
        let Message { envelope, header, body: Body::Request(request), .. } = incoming.message else {
            return None;
        };
        let name = request.handle().filter(|name| name.is_prefix_handle())?;
        let is_homing = matches!(header.opcode, Opcode::HOME_PREFIX | Opcode::UNHOME_PREFIX);
        if is_homing
            || header.flags.has(OpFlags::DO_NOT_REFER)
            || envelope.suggested() < Version::PREFIX_REFERRALS
        {
            return None;
        }
        let found = self.registry.resolve(&ResolveQuery::new(name), &Caller::Anonymous, &mut incoming.work).await;
        let Ok(Resolution::Referral(values)) = found else { return None };
        let outcome = Outcome::Referral { handle: Handle::new(&[]), values: Some(List::from(&values[..])) };
        let response = incoming.respond(ResponseCode::PREFIX_REFERRAL, outcome);
        Some(self.send(incoming, response))
    }

    /// Whether an answer to another server's challenge fits a secret key that is kept here.
    async fn verify_challenge(&self, incoming: &mut Incoming<'_>) -> NativeReply {
        let Request::VerifyChallenge { key_handle, key_index, nonce, digest, answer } = incoming.request
        else {
            return self.unsupported(incoming);
        };
        if !self.registry.owns(key_handle) {
            return self.refuse(incoming, &Error::OtherServer);
        }
        let work = &mut incoming.work;
        let keys = match self.registry.keys(key_handle, work).await {
            Ok(keys) => keys,
            Err(error) => return self.refuse(incoming, &error),
        };
        let version = incoming.message.envelope.response_version();
        let challenge = Challenge { nonce, digest: digest.bytes };
        let fits = SecretKeyResponse::from_bytes(answer, version).is_ok_and(|proof| {
            challenge.verify_secret_key(&proof, key_index, &keys, &self.policy, &AwsLcProvider, work).is_ok()
        });
        let response = incoming.respond(ResponseCode::SUCCESS, Outcome::Verified(u8::from(fits)));
        self.send(incoming, response)
    }
}

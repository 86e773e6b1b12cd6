//! Session setup and termination; `dispatch.rs` authenticates callers in sessions.

use tendot_proto::auth::{ServerKeyExchange, SessionError};
use tendot_proto::crypto::{AwsLcProvider, SystemRandom};
use tendot_proto::endpoint::IncomingRequest;
use tendot_proto::message::{KeyExchangeMode, SessionSetup};
use tendot_proto::{ResponseCode, ResponseData};

use crate::native::{NativeReply, NativeServer};

impl NativeServer {
    pub(crate) fn set_up_session(
        &self,
        incoming: &mut IncomingRequest<'_>,
        setup: &SessionSetup<'_>,
    ) -> NativeReply {
        let envelope = incoming.parts.envelope;
        let budget = &mut incoming.budget;
        let answer =
            ServerKeyExchange::new(setup, &envelope, &self.policy, &AwsLcProvider, &mut SystemRandom, budget);
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return self.error_reply(incoming, error.response_code(), &error.to_string()),
        };
        let data = answer.response_data().to_vec();
        let id = {
            let mut sessions = self.lock_sessions();
            let challenges = self.lock_challenges();
            sessions.insert(answer, self.now(), &mut SystemRandom, |id| challenges.contains(id))
        };
        let outcome = ResponseData::SessionSetup { mode: KeyExchangeMode::DIFFIE_HELLMAN, data: &data };
        let mut response = incoming.respond(ResponseCode::SUCCESS, outcome);
        response.envelope.session_id = id;
        self.seal(incoming, response)
    }

    /// Ends the session of the request, whose MAC has been verified.
    pub(crate) fn terminate_session(&self, incoming: &mut IncomingRequest<'_>) -> NativeReply {
        if !self.lock_sessions().remove(incoming.session_id) {
            let error = SessionError::UnknownSession;
            return self.error_reply(incoming, error.response_code(), &error.to_string());
        }
        let response = incoming.respond(ResponseCode::SUCCESS, ResponseData::Empty);
        self.seal(incoming, response)
    }
}

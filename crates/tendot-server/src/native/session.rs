//! Sessions: made for whoever asks, authenticated in `dispatch.rs`.

use tendot_proto::auth::{ServerKeyExchange, SessionError};
use tendot_proto::crypto::{AwsLcProvider, SystemRandom};
use tendot_proto::endpoint::Incoming;
use tendot_proto::message::{KeyExchangeMode, SessionSetup};
use tendot_proto::{Outcome, ResponseCode};

use super::{Native, NativeReply};

impl Native {
    pub(super) fn set_up_session(&self, incoming: &mut Incoming<'_>, setup: &SessionSetup<'_>) -> NativeReply {
        let envelope = incoming.message.envelope;
        let work = &mut incoming.work;
        let answer = ServerKeyExchange::new(setup, &envelope, &self.policy, &AwsLcProvider, &mut SystemRandom, work);
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return self.fail(incoming, error.response_code(), &error.to_string()),
        };
        let data = answer.data().to_vec();
        let id = {
            let mut sessions = self.sessions();
            let challenges = self.challenges();
            sessions.insert(answer, self.now(), &mut SystemRandom, |id| challenges.contains(id))
        };
        let outcome = Outcome::Session { mode: KeyExchangeMode::DIFFIE_HELLMAN, data: &data };
        let mut response = incoming.respond(ResponseCode::SUCCESS, outcome);
        response.envelope.session_id = id;
        self.send(incoming, response)
    }

    /// Ends the session that the request came in; its MAC has been verified.
    pub(super) fn terminate_session(&self, incoming: &mut Incoming<'_>) -> NativeReply {
        if !self.sessions().remove(incoming.session_id) {
            let error = SessionError::Unknown;
            return self.fail(incoming, error.response_code(), &error.to_string());
        }
        let response = incoming.respond(ResponseCode::SUCCESS, Outcome::Done);
        self.send(incoming, response)
    }
}

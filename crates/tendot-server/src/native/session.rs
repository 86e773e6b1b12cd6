//! Session setup and termination; `dispatch.rs` authenticates callers in sessions.

use tendot_proto::auth::{ServerKeyExchange, SessionError};
use tendot_proto::crypto::SystemRandom;
use tendot_proto::endpoint::IncomingRequest;
use tendot_proto::message::{KeyExchangeMode, SessionSetup};
use tendot_proto::{ResponseCode, ResponseData};

use crate::native::{NativeReply, NativeServer};
use crate::session_info::SessionInfo;

impl NativeServer {
    pub(crate) fn set_up_session(
        &self,
        incoming: &mut IncomingRequest<'_>,
        setup: &SessionSetup<'_>,
    ) -> NativeReply {
        let envelope = incoming.parts.envelope;
        let budget = &mut incoming.budget;
        let answer = ServerKeyExchange::new(setup, &envelope, &mut SystemRandom, &mut self.auth(budget));
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

    /// Authenticated sessions, for the operator.
    pub(crate) fn authenticated_sessions(&self) -> Vec<SessionInfo> {
        let (sessions, now) = (self.lock_sessions(), self.now());
        let authenticated = sessions.iter(now).filter_map(|(id, session)| {
            Some(SessionInfo {
                id: format!("native-{id}"),
                protocol: "native",
                identity: session.authenticated_identity()?.0.to_string(),
                age: now.elapsed.saturating_sub(session.created_at()),
                idle: now.elapsed.saturating_sub(session.last_used()),
                remaining: session.expires_at().saturating_sub(now.elapsed),
            })
        });
        authenticated.collect()
    }

    /// Ends the session with this id of [`authenticated_sessions`](Self::authenticated_sessions); returns whether it existed.
    pub(crate) fn end_session(&self, id: &str) -> bool {
        let number = id.strip_prefix("native-").and_then(|number| number.parse().ok());
        number.is_some_and(|number| self.lock_sessions().remove(number))
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

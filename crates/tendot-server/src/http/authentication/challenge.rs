//! `WWW-Authenticate` challenges.

use std::time::Instant;

use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};

use crate::http::authentication::{AuthParams, Authenticator, HttpCredentials};
use crate::http::request::request_head::RequestHead;
use crate::http::response::reply::Reply;

/// Algorithm of server signatures.
pub(crate) const SERVER_SIGNATURE_ALGORITHM: &str = "SHA-256";

impl Authenticator {
    /// Adds `WWW-Authenticate`: Basic, Bearer, and a `Handle` session with its nonce.
    pub(crate) async fn add_challenge_headers(&self, response: &mut Reply, request: &RequestHead<'_>) {
        let credentials = HttpCredentials::from_request(request);
        // For a script's request, the browser would show a password prompt.
        let is_script = request.headers.get("x-requested-with").is_some_and(|by| by == "XMLHttpRequest");
        if matches!(credentials, Ok(Some(HttpCredentials::Basic(_))))
            || !is_script && !has_non_basic_credentials(request.headers)
        {
            append_challenge(response, "Basic realm=\"handle\"".to_owned());
            append_challenge(response, "Bearer".to_owned());
        }
        let params = match credentials {
            Ok(Some(HttpCredentials::Handle(params))) => params,
            _ => AuthParams::default(),
        };
        let now = Instant::now();
        let id = response.session_id.or_else(|| params.session_id().flatten());
        let session = id.and_then(|id| self.sessions.get(id, now));
        let session = session.unwrap_or_else(|| self.sessions.create(now));
        let mut challenge =
            format!("Handle sessionId=\"{}\", nonce=\"{}\"", session.id, session.nonce_base64());
        if let Some(signature) = self.sign_nonces(&session, &params, request).await {
            challenge +=
                &format!(", serverAlg=\"{SERVER_SIGNATURE_ALGORITHM}\", serverSignature=\"{signature}\"");
        }
        if let Some(error) = response.auth_error {
            challenge += &format!(", error=\"{error}\"");
        }
        append_challenge(response, challenge);
    }
}

/// Whether the request has credentials other than Basic.
fn has_non_basic_credentials(headers: &HeaderMap) -> bool {
    headers.get(AUTHORIZATION).is_some_and(|credentials| {
        !credentials.as_bytes().get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"basic"))
    })
}

fn append_challenge(response: &mut Reply, challenge: String) {
    if let Ok(challenge) = HeaderValue::try_from(challenge) {
        response.headers_mut().append(WWW_AUTHENTICATE, challenge);
    }
}

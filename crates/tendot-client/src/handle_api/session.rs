//! Authentication with a handle identity: a session, proven by a signature or MAC over two nonces.

use data_encoding::BASE64;
use http::Method;
use http::header::HeaderValue;
use percent_encoding::utf8_percent_encode;
use serde::Deserialize;
use tendot_proto::auth::{
    AuthContext, AuthPolicy, Challenge, ClientKey, PublicKeyResponse, SecretKeyMac, SecretKeyResponse,
};
use tendot_proto::crypto::{AwsLcProvider, SecureRandom as _, SystemRandom};
use tendot_proto::{Budget, ProtocolVersion};

use super::{ApiResponse, HandleApiClient, HandleApiError};
use crate::http_client::SEGMENT_ENCODE_SET;
use crate::native::AdminIdentity;

/// Length of a client nonce.
const CLIENT_NONCE_BYTES: usize = 16;

/// Response body of `/api/sessions`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SessionBody {
    session_id: Option<String>,
    nonce: Option<String>,
    #[serde(default)]
    authenticated: bool,
    error: Option<String>,
}

impl HandleApiClient {
    /// Opens a session, authenticates it, and returns the `Authorization` header of its requests.
    pub(super) async fn authenticate(&self, identity: &AdminIdentity) -> Result<HeaderValue, HandleApiError> {
        let opened = self.send_once(Method::POST, "/api/sessions", None, None).await?;
        let session = self.parse_session(&opened)?;
        let (Some(id), Some(nonce)) = (&session.session_id, &session.nonce) else {
            return Err(self.invalid_session(&opened));
        };
        let nonce = BASE64.decode(nonce.as_bytes()).map_err(|_| self.invalid_session(&opened))?;
        let in_session = session_parameters(id);
        let proof = prove(identity, &nonce)?;
        let reference = identity.reference().to_string();
        let claimed = utf8_percent_encode(&reference, SEGMENT_ENCODE_SET);
        let header = self.session_header(&format!("{in_session}, id=\"{claimed}\", {proof}"))?;
        let proven = self.send_once(Method::PUT, "/api/sessions/this", Some(&header), None).await?;
        let answer = self.parse_session(&proven)?;
        if !answer.authenticated {
            let message = answer.error.unwrap_or_else(|| format!("status {}", proven.status.as_u16()));
            return Err(HandleApiError::AuthenticationFailed { message });
        }
        // A server may give the session a new id at login.
        self.session_header(&answer.session_id.map_or(in_session, |renewed| session_parameters(&renewed)))
    }

    fn parse_session(&self, response: &ApiResponse) -> Result<SessionBody, HandleApiError> {
        match serde_json::from_slice(&response.body) {
            Ok(session) => Ok(session),
            // A rejected proof has an empty body at some servers.
            Err(_) if response.status.as_u16() == 401 => {
                Err(HandleApiError::AuthenticationFailed { message: "credentials rejected".into() })
            }
            Err(_) => Err(self.invalid_session(response)),
        }
    }

    fn invalid_session(&self, response: &ApiResponse) -> HandleApiError {
        let text: String = String::from_utf8_lossy(&response.body).chars().take(100).collect();
        let message = format!("no session: status {} {}", response.status.as_u16(), text.trim());
        HandleApiError::AuthenticationFailed { message }
    }

    fn session_header(&self, text: &str) -> Result<HeaderValue, HandleApiError> {
        let mut header = HeaderValue::try_from(text).map_err(|_| HandleApiError::AuthenticationFailed {
            message: "the session id is not valid in a header".into(),
        })?;
        header.set_sensitive(true);
        Ok(header)
    }
}

/// Parameters of the `Handle` scheme that name a session.
fn session_parameters(id: &str) -> String {
    format!("Handle version=\"0\", sessionId=\"{}\"", quoted(id))
}

/// Parameters of the `Handle` scheme that prove an identity: a signature or MAC over both nonces.
fn prove(identity: &AdminIdentity, nonce: &[u8]) -> Result<String, HandleApiError> {
    let mut cnonce = [0; CLIENT_NONCE_BYTES];
    SystemRandom.fill(&mut cnonce);
    let challenge = Challenge { nonce, digest: &cnonce };
    let mut budget = Budget::PER_REQUEST;
    let context = &mut AuthContext::new(&AwsLcProvider, AuthPolicy::default(), &mut budget);
    let version = ProtocolVersion::LATEST;
    let (kind, algorithm, proof) = match identity.credentials() {
        ClientKey::PrivateKey(key) => {
            let answer = PublicKeyResponse::create(key, challenge, version, context)?;
            let answer =
                PublicKeyResponse::from_bytes(&answer).map_err(|_| tendot_proto::auth::AuthError::Failed)?;
            ("HS_PUBKEY", String::from_utf8_lossy(answer.hash).into_owned(), BASE64.encode(answer.signature))
        }
        ClientKey::SecretKey(secret) => {
            let algorithm = SecretKeyMac::HmacSha256;
            let answer = SecretKeyResponse::create(algorithm, secret, challenge, &mut SystemRandom, context)?;
            let answer = SecretKeyResponse::from_bytes(&answer, version);
            let Ok(SecretKeyResponse::Mac { mac, .. }) = answer else {
                return Err(tendot_proto::auth::AuthError::Failed.into());
            };
            ("HS_SECKEY", algorithm.name().to_owned(), BASE64.encode(mac))
        }
    };
    let cnonce = BASE64.encode(&cnonce);
    Ok(format!(r#"type="{kind}", cnonce="{cnonce}", alg="{algorithm}", signature="{proof}""#))
}

/// Text for a quoted string (RFC 9110, 5.6.4).
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

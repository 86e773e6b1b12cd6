//! `/api/verifications/{identity}`: whether an answer to another server's challenge fits a secret key that is kept here.

use data_encoding::BASE64;
use http::StatusCode;
use serde::Serialize;
use tendot_proto::{Handle, Reference, ResponseCode, Work};
use tendot_registry::{Caller, Error, ResolveQuery};
use utoipa::ToSchema;
use utoipa::openapi::HttpMethod;

use super::body::{Form, fail, print, refuse, unknown_caller};
use super::handles::{JSON, failure, read};
use crate::http::answer::Answer;
use crate::http::authenticate::{AuthenticationError, Fields, ChallengeAnswer};
use crate::http::describe::{Described, Doing, index, text};
use crate::http::request::Request;
use crate::http::{Http, WORK, caching, status};

/// What an answer says.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Verification)]
struct VerificationBody<'a> {
    response_code: u32,
    /// Whether it fits.
    is_valid: bool,
    handle: &'a str,
}

impl Http {
    /// Answers `GET /api/verifications/{identity}`, to everybody: secrets stay here, and who guesses is held back.
    pub(crate) async fn get_verification(&self, path: &str, request: &Request<'_>) -> Answer {
        let (identity, parameters) = match read(path, request) {
            Ok(read) => read,
            Err(error) => return refuse(&error.to_string()),
        };
        if identity.is_empty() {
            return refuse("no identity is named; one is written as `300:0.NA/10.1000`");
        }
        let Some((index, handle)) =
            identity.split_once(':').filter(|(index, _)| index.parse::<u32>().is_ok())
        else {
            return refuse(&format!("`{identity}` has no index"));
        };
        let claim = Reference::new(index.parse().unwrap_or_default(), handle.as_bytes()).into_owned();
        if ["nonce", "cnonce", "alg", "signature"].iter().any(|name| !parameters.has(name)) {
            return refuse("`nonce`, `cnonce`, `alg` and `signature` are needed");
        }
        let form = Form::asked(&parameters);
        // Of what is kept elsewhere, nothing can be said.
        if let Err(error) = self.is_kept(Handle::from(handle)).await {
            let status = status::of(error.response_code(), request.takes_credentials);
            return fail(&error, status, handle, &form);
        }
        let fields = Fields::from_query(&parameters);
        if fields.has_invalid_number() {
            return refuse("`iterations` and `length` are numbers from 1 on");
        }
        let nonce = parameters.get("nonce").and_then(|nonce| BASE64.decode(nonce.as_bytes()).ok());
        let proof = match fields.proof("HS_SECKEY") {
            Err(AuthenticationError::Malformed) => return refuse("the algorithm is not known"),
            proof => proof,
        };
        let is_valid = match (nonce, fields.cnonce(), proof) {
            (Some(nonce), Some(cnonce), Ok(proof)) => {
                let attempt = match self.attempts.begin(request, &claim.to_string()) {
                    Ok(attempt) => attempt,
                    Err(error) => return unknown_caller(error, handle, request),
                };
                let (keys, attempt) = match self.keys(&claim, attempt).await {
                    Ok(keys) => keys,
                    Err(error) => return unknown_caller(error, handle, request),
                };
                let answer = ChallengeAnswer { claim, cnonce, proof };
                self.verify(nonce, answer, keys, attempt).await.is_ok()
            }
            _ => false,
        };
        let body = VerificationBody { response_code: ResponseCode::SUCCESS.0, is_valid, handle };
        let mut response = print(StatusCode::OK, &body, &form);
        caching::set_private_no_store(response.headers_mut());
        response
    }

    /// Whether names like this are kept here; whether it is one of them does not matter.
    async fn is_kept(&self, name: Handle<'_>) -> Result<(), Error> {
        let query = ResolveQuery { public_only: true, ..ResolveQuery::new(name) };
        match self.registry.resolve(&query, &Caller::Anonymous, &mut Work::new(WORK)).await {
            Err(error @ (Error::NotResponsible { .. } | Error::OtherServer | Error::Name(_))) => Err(error),
            _ => Ok(()),
        }
    }
}

/// What is done at `/api/verifications/{identity}`.
pub(crate) fn describe() -> Described {
    let verify = || {
        let doing = Doing::new("Whether a secret key has signed two nonces")
            .group("Sessions")
            .in_path("identity", "The key, `INDEX:HANDLE`", text())
            .query_param("nonce", "The server's nonce, as Base64", text())
            .query_param("cnonce", "The client's nonce, as Base64", text())
            .query_param("alg", "`HMAC-SHA256` or `PBKDF2-HMAC-SHA1`", text())
            .query_param("signature", "What the key makes of both, as Base64", text())
            .query_param("salt", "For PBKDF2, as Base64", text())
            .query_param("iterations", "For PBKDF2", index())
            .query_param("length", "For PBKDF2: bits of the key", index())
            .query_param("pretty", "On several lines", text())
            .query_param("callback", "A function that a script calls with it", text())
            .answer(StatusCode::OK, "Whether it has")
            .json::<VerificationBody<'_>>(JSON)
            .text("application/javascript");
        let doing = failure(doing, StatusCode::BAD_REQUEST, "Not understood, or not kept here (code 301)");
        let doing = failure(doing, StatusCode::REQUEST_TIMEOUT, "The body did not come in time");
        failure(doing, StatusCode::PAYLOAD_TOO_LARGE, "The body is too large")
    };
    Described::read(verify()).and(
        HttpMethod::Post,
        verify().about("As GET; the parameters may be in the body, as a form or as JSON."),
    )
}

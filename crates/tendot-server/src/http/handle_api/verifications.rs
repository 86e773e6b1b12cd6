//! `/api/verifications/{identity}`: verifies the answer to another server's challenge against a secret key that is stored here.

use data_encoding::BASE64;
use http::StatusCode;
use serde::Serialize;
use tendot_proto::{Budget, Handle, ResponseCode, ValueReference};
use tendot_registry::{Caller, Error, ResolveQuery};
use utoipa::ToSchema;
use utoipa::openapi::HttpMethod;

use crate::guess_throttle::ThrottledAccount;
use crate::http::authentication::{AuthParams, AuthenticationError, ChallengeAnswer};
use crate::http::handle_api::handles::{JSON, with_error};
use crate::http::handle_api::reply_body::{
    JsonOptions, authentication_error, json_reply, protocol_error, registry_error,
};
use crate::http::request::name_path::parse_name_and_query;
use crate::http::request::request_head::RequestHead;
use crate::http::response::caching;
use crate::http::response::errors::error_status;
use crate::http::response::reply::Reply;
use crate::http::routing::operation_spec::{OperationSpec, PathSpec, index_schema, text_schema};
use crate::http::{HttpServer, REQUEST_BUDGET};

/// Response body of `/api/verifications`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Verification)]
struct VerificationBody<'a> {
    response_code: u32,
    /// Whether the MAC is valid.
    is_valid: bool,
    handle: &'a str,
}

impl HttpServer {
    /// Handles `GET /api/verifications/{identity}`. It is public: secrets are not disclosed, and guesses are throttled.
    pub(crate) async fn get_verification(&self, path: &str, request: &RequestHead<'_>) -> Reply {
        let (identity, parameters) = match parse_name_and_query(path, request) {
            Ok(read) => read,
            Err(error) => return protocol_error(&error.to_string()),
        };
        if identity.is_empty() {
            return protocol_error("missing identity, such as `300:0.NA/10.1000`");
        }
        let Some((index, handle)) =
            identity.split_once(':').filter(|(index, _)| index.parse::<u32>().is_ok())
        else {
            return protocol_error(&format!("identity `{identity}` has no index"));
        };
        let claim = ValueReference::new(index.parse().unwrap_or_default(), handle.as_bytes()).into_owned();
        let required = ["nonce", "cnonce", "alg", "signature"];
        if let Some(missing) = required.iter().find(|name| !parameters.has(name)) {
            return protocol_error(&format!("missing parameter: `{missing}`"));
        }
        let options = JsonOptions::from_query(&parameters);
        // Keys of other services cannot be verified here.
        if let Err(error) = self.check_responsible(Handle::from(handle)).await {
            let status = error_status(&error, request.accepts_credentials);
            return registry_error(&error, status, handle, &options);
        }
        let params = AuthParams::from_query(&parameters);
        if params.has_invalid_number() {
            return protocol_error("`iterations` and `length` must be positive");
        }
        let nonce = parameters.get("nonce").and_then(|nonce| BASE64.decode(nonce.as_bytes()).ok());
        let proof = match params.proof("HS_SECKEY") {
            Err(AuthenticationError::Malformed) => return protocol_error("unknown algorithm"),
            proof => proof,
        };
        let is_valid = match (nonce, params.cnonce(), proof) {
            (Some(nonce), Some(cnonce), Ok(proof)) => {
                let attempt =
                    match self.authenticator.start_attempt(request, ThrottledAccount::Identity(&claim)) {
                        Ok(attempt) => attempt,
                        Err(error) => return authentication_error(error, handle, request),
                    };
                let (keys, attempt) = match self.authenticator.read_keys(&claim, attempt).await {
                    Ok(keys) => keys,
                    Err(error) => return authentication_error(error, handle, request),
                };
                let answer = ChallengeAnswer { claim, cnonce, proof };
                self.authenticator.verify_proof(nonce, answer, keys, attempt).await.is_ok()
            }
            _ => false,
        };
        let body = VerificationBody { response_code: ResponseCode::SUCCESS.0, is_valid, handle };
        let mut response = json_reply(StatusCode::OK, &body, &options);
        caching::set_private_no_store(response.headers_mut());
        response
    }

    /// Whether this server is responsible for a name, existing or not.
    async fn check_responsible(&self, name: Handle<'_>) -> Result<(), Error> {
        let query = ResolveQuery { public_only: true, ..ResolveQuery::new(name) };
        match self.registry.resolve(&query, &Caller::Anonymous, &mut Budget::new(REQUEST_BUDGET)).await {
            Err(error @ (Error::NotResponsible { .. } | Error::OtherServer | Error::Name(_))) => Err(error),
            _ => Ok(()),
        }
    }
}

/// OpenAPI spec of `/api/verifications/{identity}`.
pub(crate) fn describe() -> PathSpec {
    let verify = || {
        let spec = OperationSpec::new("Verify a MAC over two nonces")
            .tag("Sessions")
            .path_param("identity", "Secret key, `INDEX:HANDLE`", text_schema())
            .query_param("nonce", "Server nonce, Base64", text_schema())
            .query_param("cnonce", "Client nonce, Base64", text_schema())
            .query_param("alg", "`HMAC-SHA256` or `PBKDF2-HMAC-SHA1`", text_schema())
            .query_param("signature", "MAC over both nonces, Base64", text_schema())
            .query_param("salt", "Salt of PBKDF2, Base64", text_schema())
            .query_param("iterations", "Iterations of PBKDF2", index_schema())
            .query_param("length", "Key length of PBKDF2, in bits", index_schema())
            .query_param("pretty", "Pretty-print the JSON", text_schema())
            .query_param("callback", "JSONP callback function", text_schema())
            .response(StatusCode::OK, "Verification result")
            .json_content::<VerificationBody<'_>>(JSON)
            .text_content("application/javascript");
        let spec =
            with_error(spec, StatusCode::BAD_REQUEST, "Malformed request, or not responsible (code 301)");
        let spec = with_error(spec, StatusCode::REQUEST_TIMEOUT, "Timeout while reading the body");
        with_error(spec, StatusCode::PAYLOAD_TOO_LARGE, "Body too large")
    };
    PathSpec::readable(verify()).with_method(
        HttpMethod::Post,
        verify().description("Same as GET, with parameters in a form or JSON body."),
    )
}

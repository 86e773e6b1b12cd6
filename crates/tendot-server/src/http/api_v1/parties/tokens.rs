//! API tokens: `/api/v1/tokens`.

use std::borrow::Cow;

use http::StatusCode;
use http::header::{CACHE_CONTROL, HeaderValue};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::to_raw_value;
use tendot_registry::party::{ApiToken, CreateToken, RevokeToken, Role, Scope, TokenRevocation};
use tendot_registry::{IdempotentOutcome, ResultPage};
use utoipa::openapi::schema::Type;
use utoipa::openapi::{HttpMethod, ObjectBuilder, RefOr, Required, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::http::HttpServer;
use crate::http::api_v1::idempotency::{idempotency_key, replay};
use crate::http::api_v1::schemas::{NewTokenForm, described};
use crate::http::api_v1::{
    ApiError, ApiRequest, ApiResult, JSON, ListItem, ListJson, created_reply, format_millis, list_reply,
    parse_json, request_budget, with_common_responses, with_paging, with_write_responses,
};
use crate::http::request::body::RequestBody;
use crate::http::response::errors::invalid_timestamp;
use crate::http::response::reply::{self, reply};
use crate::http::routing::operation_spec::{OperationSpec, PathSpec, array_schema, enum_schema, text_schema};
use crate::random::random_bytes;

/// Body of `POST /api/v1/tokens`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewTokenJson {
    role: Role,
    #[serde(default)]
    subject: Option<Box<str>>,
    #[serde(default)]
    scopes: Option<Vec<Scope>>,
    #[serde(default)]
    prefixes: Vec<Box<str>>,
    #[serde(default)]
    expires: Option<String>,
    #[serde(default)]
    label: Option<Box<str>>,
}

/// Token, without its secret.
#[derive(Serialize, ToSchema)]
#[schema(as = Token)]
struct TokenJson<'a> {
    id: &'a str,
    #[schema(schema_with = role_schema)]
    role: Role,
    /// Agency code or registrant id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    subject: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = scopes_schema)]
    scopes: Option<&'a [Scope]>,
    /// Prefixes; default: all.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    #[schema(value_type = Vec<String>)]
    prefixes: &'a [Box<str>],
    /// Expiry time (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime)]
    expires: Option<String>,
    /// Label.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    label: Option<&'a str>,
    /// Creation time (RFC 3339).
    #[schema(format = DateTime)]
    created: String,
    /// Id of the token that created this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    parent: Option<&'a str>,
}

/// Result of a revocation.
#[derive(Serialize, ToSchema)]
#[schema(as = TokenRevocation)]
struct RevocationJson<'a> {
    /// Ids of the revoked tokens, the requested one first.
    #[schema(value_type = Vec<String>)]
    revoked: &'a [Box<str>],
    /// Ids of tokens that were created with the revoked ones and stay valid.
    #[schema(value_type = Vec<String>)]
    children: &'a [Box<str>],
    /// Ids of transfers that were proposed with the revoked tokens; they can no longer be accepted.
    #[schema(value_type = Vec<String>)]
    proposals: &'a [Box<str>],
}

/// New token with its secret.
#[derive(Serialize)]
struct CreatedTokenJson<'a> {
    #[serde(flatten)]
    stored: TokenJson<'a>,
    /// Secret, for `Authorization: Bearer …`; not shown again.
    token: String,
}

/// Reply to a repeated request: the secret is not stored.
#[derive(Serialize)]
struct ReplayedTokenJson<'a> {
    #[serde(flatten)]
    stored: TokenJson<'a>,
    hint: &'static str,
}

impl<'a> From<&'a ApiToken> for ReplayedTokenJson<'a> {
    fn from(token: &'a ApiToken) -> Self {
        let hint = "the secret was sent once and is not stored; if it was lost, revoke this token and create another one with \
                    another `Idempotency-Key`";
        Self { stored: TokenJson::from(token), hint }
    }
}

/// Path of a token.
pub(in crate::http::api_v1) fn token_path(id: &str) -> String {
    format!("/api/v1/tokens/{id}")
}

impl PartialSchema for CreatedTokenJson<'_> {
    /// One object: a flattened member would be described as two of which each has to match.
    fn schema() -> RefOr<Schema> {
        let RefOr::T(Schema::Object(mut schema)) = TokenJson::schema() else {
            return RefOr::T(Schema::default());
        };
        let token = ObjectBuilder::new().schema_type(Type::String).description(Some(
            "Secret, for `Authorization: Bearer …`; not shown again, also not in a replayed reply",
        ));
        let hint =
            ObjectBuilder::new().schema_type(Type::String).description(Some("Advice, in a replayed reply"));
        schema.properties.insert("token".into(), token.into());
        schema.properties.insert("hint".into(), hint.into());
        schema.description = Some("New token with its secret".into());
        RefOr::T(Schema::Object(schema))
    }
}

impl ToSchema for CreatedTokenJson<'_> {
    fn name() -> Cow<'static, str> {
        "CreatedToken".into()
    }
}

impl ListItem for TokenJson<'_> {
    const LIST_NAME: &'static str = "TokenList";
    const LIST_DESCRIPTION: &'static str = "Page of tokens";
}

fn role_schema() -> Schema {
    described(enum_schema(["operator", "agency", "registrant"]), "Role")
}

fn scopes_schema() -> Schema {
    let scopes = [Scope::Read, Scope::Register, Scope::Transfer, Scope::Administer];
    described(array_schema(enum_schema(scopes.map(Scope::as_str))), "Scopes; default: all of the role")
}

impl<'a> From<&'a ApiToken> for TokenJson<'a> {
    fn from(stored: &'a ApiToken) -> Self {
        Self {
            id: &stored.id,
            role: stored.role,
            subject: stored.subject.as_deref(),
            scopes: stored.scopes.as_deref(),
            prefixes: &stored.prefixes,
            expires: stored.expires_ms.map(format_millis),
            label: stored.label.as_deref(),
            created: format_millis(stored.created_ms),
            parent: stored.parent.as_deref(),
        }
    }
}

impl HttpServer {
    pub(crate) async fn list_tokens(&self, request: &ApiRequest<'_>) -> ApiResult {
        let (after, limit) = request.page_params()?;
        let ResultPage { items, next } =
            self.registry.list_tokens(after, limit, request.call(&mut request_budget())).await?;
        Ok(list_reply(items.iter().map(|stored| TokenJson::from(&stored.value)).collect(), next))
    }

    pub(crate) async fn create_token(&self, request: &ApiRequest<'_>, body: RequestBody) -> ApiResult {
        let bytes = self.read_json_bytes(body).await?;
        let idempotent = match idempotency_key(request)? {
            Some(key) => Some(self.registry.load_idempotent_request(key, "POST /tokens", &bytes).await?),
            None => None,
        };
        if let Some(idempotent) = &idempotent
            && let Some(stored) = idempotent.stored_reply(request.now_ms)?
        {
            return Ok(replay(&stored));
        }
        let new_token: NewTokenJson = parse_json(&bytes)?;
        let expires = new_token.expires.as_deref().map(parse_timestamp).transpose()?;
        let command = CreateToken {
            role: new_token.role,
            subject: new_token.subject,
            scopes: new_token.scopes,
            prefixes: new_token.prefixes,
            expires_ms: expires,
            label: new_token.label,
            random_bytes: random_bytes(),
        };
        let mut budget = request_budget();
        let call = request.call(&mut budget);
        let outcome = match &idempotent {
            None => self.registry.execute(&command, call).await?,
            Some(idempotent) => {
                let reply = |token: &ApiToken| to_raw_value(&ReplayedTokenJson::from(token)).ok();
                match self.registry.execute_idempotent(&command, call, idempotent, reply).await? {
                    IdempotentOutcome::Executed(outcome) => outcome,
                    IdempotentOutcome::Replayed(stored) => return Ok(replay(&stored)),
                }
            }
        };
        let stored = TokenJson::from(&outcome.output);
        let created = CreatedTokenJson { stored, token: command.plaintext() };
        let path = token_path(&outcome.output.id);
        Ok(created_reply(&created, outcome.revision, &path, request.head.headers))
    }

    pub(crate) async fn revoke_token(&self, request: &ApiRequest<'_>) -> ApiResult {
        let cascade = request.parameters.is_set("cascade");
        let command = RevokeToken { id: request.path_param.as_str().into(), cascade };
        let outcome = self.registry.execute(&command, request.call(&mut request_budget())).await?;
        let TokenRevocation { revoked, children, proposals } = &outcome.output;
        let body = serde_json::to_string(&RevocationJson { revoked, children, proposals });
        let mut response = reply(StatusCode::OK, reply::JSON, body.unwrap_or_default());
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Ok(response)
    }
}

/// Parses an expiry time to Unix milliseconds.
fn parse_timestamp(text: &str) -> Result<u64, Box<ApiError>> {
    let time = text.parse::<Timestamp>().ok().and_then(|time| u64::try_from(time.as_millisecond()).ok());
    time.ok_or_else(|| invalid_timestamp(text, "/expires").into())
}

pub(crate) fn describe() -> PathSpec {
    let get = with_paging(with_common_responses(OperationSpec::new("List tokens")))
        .description("Tokens that you may manage, without their secrets.")
        .response(StatusCode::OK, "The tokens, ordered by id")
        .json_content::<ListJson<TokenJson<'_>>>(JSON);
    let post = with_write_responses(OperationSpec::new("Create a token"))
        .description(
            "`subject` is an agency code or a registrant id, absent for the operator. The secret is shown once. Without \
             `scopes`, the token has all scopes of its role. A token that is created with another one expires at the same \
             time at the latest. With `Idempotency-Key`, a repeated request creates no second token: its reply has the \
             `id`, no `token`, and a hint, for 24 hours.",
        )
        .request_body::<NewTokenForm>(JSON, "Role, scopes, expiry", Required::True)
        .response(StatusCode::CREATED, "The token; send `token` as `Authorization: Bearer …`")
        .json_content::<CreatedTokenJson<'_>>(JSON)
        .response_header("Location", "URL of the token")
        .response_header("Idempotency-Replayed", "`true` for a replayed response")
        .response_header("ETag", "Revision");
    PathSpec::readable(get).with_method(HttpMethod::Post, post)
}

pub(crate) fn describe_one() -> PathSpec {
    let delete = with_write_responses(OperationSpec::new("Revoke a token"))
        .path_param("id", "Token id", text_schema())
        .query_param(
            "cascade",
            "Also revoke the tokens that were created with it, and with those",
            text_schema(),
        )
        .response(StatusCode::OK, "Revoked; with the tokens and transfers that this concerns")
        .json_content::<RevocationJson<'_>>(JSON);
    PathSpec::single(HttpMethod::Delete, delete)
}

//! Native messages inside HTTP.

use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use tendot_proto::endpoint::Transport;
use tendot_proto::{limits, tunnel};

use crate::http::HttpServer;
use crate::http::middleware::client_address::RemoteClient;
use crate::http::middleware::metrics::RequestKind;
use crate::http::request::body::RequestBody;
use crate::http::response::reply::{Reply, TEXT, reply};
use crate::http::routing::endpoint::{ApiEndpoint, Operation};
use crate::native::MessageClient;

/// Endpoint of native messages. The path is ignored: clients put the name there, too.
pub(crate) static ENDPOINT: ApiEndpoint = ApiEndpoint::without_path(&[Operation::post(|server, call| {
    Box::pin(server.post_handle_message(call.body, call.client))
})
.kind(RequestKind::Native)]);

/// Maximum size of a message, with the line break that some clients put before it.
const MAX_MESSAGE_BYTES: usize = 2 + limits::ENVELOPE_LEN + limits::MAX_MESSAGE_LEN;

const HANDLE_MESSAGE: HeaderValue = HeaderValue::from_static(tunnel::CONTENT_TYPE);

/// Whether a request carries a native message.
pub(crate) fn is_handle_message(method: &Method, headers: &HeaderMap) -> bool {
    let media_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    *method == Method::POST && media_type.is_some_and(tunnel::is_message_type)
}

impl HttpServer {
    /// Handles a native message.
    ///
    /// Clients read the body whatever the status is; so it has a length and is never compressed.
    pub(crate) async fn post_handle_message(&self, body: RequestBody, client: &RemoteClient) -> Reply {
        let Some(native) = &self.native_server else {
            let message = "Handle messages over HTTP are disabled\n";
            return reply(StatusCode::UNSUPPORTED_MEDIA_TYPE, TEXT, message);
        };
        let body = match self.body_reader.read(body, MAX_MESSAGE_BYTES).await {
            Ok(body) => body,
            Err(error) => return reply(error.status(), TEXT, format!("{error}\n")),
        };
        let message = tunnel::strip_leading_newline(&body);
        let client = MessageClient::tunnelled(client, self.is_client_hidden(client));
        match native.handle_message_complete(message, Transport::Http, client).await {
            Some(message) => reply(StatusCode::OK, HANDLE_MESSAGE, message),
            None => reply(StatusCode::BAD_REQUEST, TEXT, "invalid Handle message\n"),
        }
    }
}

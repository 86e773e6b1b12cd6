//! Messages of the Handle System inside HTTP.

use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use hyper::body::Incoming;
use tendot_proto::endpoint::Transport;
use tendot_proto::{limits, tunnel};

use super::HttpServer;
use super::answer::{Reply, TEXT, reply};
use super::client::RemoteClient;

/// Bytes of a message, and of the line break that some put before it.
const MAX_MESSAGE_BYTES: usize = 2 + limits::ENVELOPE_LEN + limits::MAX_MESSAGE_LEN;

const HANDLE_MESSAGE: HeaderValue = HeaderValue::from_static(tunnel::CONTENT_TYPE);

/// Whether a request carries a message.
pub(super) fn is_handle_message(method: &Method, headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    *method == Method::POST && kind.is_some_and(tunnel::is_message_type)
}

impl HttpServer {
    /// Answers a message; the path does not matter, since clients put the name there, too.
    ///
    /// Clients read the body as it is, whatever the status says; so it has a length and is never compressed.
    pub(super) async fn post_handle_message(&self, body: Incoming, client: &RemoteClient) -> Reply {
        let Some(native) = &self.native else {
            let why = "messages of the Handle System are not taken here\n";
            return reply(StatusCode::UNSUPPORTED_MEDIA_TYPE, TEXT, why);
        };
        let body = match self.bodies.read(body, MAX_MESSAGE_BYTES).await {
            Ok(body) => body,
            Err(error) => return reply(error.status(), TEXT, format!("{error}\n")),
        };
        let message = tunnel::strip_leading_newline(&body);
        match native.handle_message_complete(message, Transport::Http, client.address).await {
            Some(message) => reply(StatusCode::OK, HANDLE_MESSAGE, message),
            None => reply(StatusCode::BAD_REQUEST, TEXT, "this is no message that is answered\n"),
        }
    }
}

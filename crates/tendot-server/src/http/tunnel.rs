//! Messages of the Handle System inside HTTP.

use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use hyper::body::Incoming;
use tendot_proto::endpoint::Transport;
use tendot_proto::{limits, tunnel};

use super::Http;
use super::answer::{Answer, TEXT, answer};
use super::client::Client;

/// Bytes of a message, and of the line break that some put before it.
const MESSAGE: usize = 2 + limits::ENVELOPE_LEN + limits::MESSAGE;

const KIND: HeaderValue = HeaderValue::from_static(tunnel::CONTENT_TYPE);

/// Whether a request carries a message.
pub(super) fn is_message(method: &Method, headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    *method == Method::POST && kind.is_some_and(tunnel::is_message)
}

impl Http {
    /// Answers a message; the path does not matter, since clients put the name there, too.
    ///
    /// Clients read the body as it is, whatever the status says; so it has a length and is never compressed.
    pub(super) async fn tunnel(&self, body: Incoming, client: &Client) -> Answer {
        let Some(native) = &self.native else {
            let why = "messages of the Handle System are not taken here\n";
            return answer(StatusCode::UNSUPPORTED_MEDIA_TYPE, TEXT, why);
        };
        let body = match self.bodies.read(body, MESSAGE).await {
            Ok(body) => body,
            Err(error) => return answer(error.status(), TEXT, format!("{error}\n")),
        };
        let message = tunnel::strip_leading_newline(&body);
        match native.handle_message_complete(message, Transport::Http, client.address).await {
            Some(reply) => answer(StatusCode::OK, KIND, reply),
            None => answer(StatusCode::BAD_REQUEST, TEXT, "this is no message that is answered\n"),
        }
    }
}

//! `/api/site`: who we are.

use http::{Method, StatusCode};
use utoipa::openapi::HttpMethod;

use super::body::{Body, Form, print, refuse};
use super::handles::{JSON, failure};
use crate::http::answer::Answer;
use crate::http::describe::{Described, Doing, text};
use crate::http::parameters::Parameters;
use crate::http::request::Request;
use crate::http::{Http, api};

impl Http {
    /// Answers `GET /api/site`; without the native protocol there is none.
    pub(crate) fn get_site(&self, request: &Request<'_>) -> Answer {
        let Some(native) = &self.native else { return api::unknown(&Method::GET, "/api/site") };
        match Parameters::parse(request.query) {
            Ok(parameters) => {
                print(StatusCode::OK, &Body::of_site(native.site().site()), &Form::asked(&parameters))
            }
            Err(error) => refuse(&error.to_string()),
        }
    }
}

pub(crate) fn describe() -> Described {
    let get = get_spec().sample("curl -s \"$SERVER/api/site?pretty\"");
    let post = get_spec().about("As GET, for clients that can do no other.");
    let post = failure(post, StatusCode::REQUEST_TIMEOUT, "The body did not come in time");
    let post = failure(post, StatusCode::PAYLOAD_TOO_LARGE, "The body is too large");
    Described::read(get).and(HttpMethod::Post, post)
}

fn get_spec() -> Doing {
    let doing = Doing::new("Who this service is in the Handle System")
        .group("Operation")
        .query_param("pretty", "On several lines", text())
        .query_param("callback", "A function that a script calls with it", text())
        .answer(StatusCode::OK, "Its addresses and keys, as HS_SITE has them")
        .json::<Body<'_>>(JSON)
        .text("application/javascript");
    let doing = failure(doing, StatusCode::BAD_REQUEST, "Not understood");
    failure(doing, StatusCode::NOT_FOUND, "It does not speak the native protocol")
}

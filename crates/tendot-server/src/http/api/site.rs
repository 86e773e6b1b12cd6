//! `/api/site`: who we are.

use http::{Method, StatusCode};
use tendot_store::Store;

use super::body::{Body, Form, print, refuse};
use crate::http::answer::Answer;
use crate::http::parameters::Parameters;
use crate::http::request::Request;
use crate::http::{Http, api};

impl<S: Store> Http<S> {
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

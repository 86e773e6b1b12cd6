//! Other ways to a name: search box, form and OpenURL.

use hyper::body::Incoming;
use tendot_names::Parser;

use crate::http::request::name_path;
use crate::http::request::query::QueryParams;
use crate::http::request::request_head::RequestHead;
use crate::http::resolve::redirect;
use crate::http::resolve::requested_name::RequestedName;
use crate::http::response::reply::{Reply, TEXT, reply};
use crate::http::{HttpServer, MAX_FORM_BYTES, pages};

impl HttpServer {
    /// Handles an OpenURL request: resolves the name in `id` or `rft_id`.
    pub(crate) async fn open_url(&self, request: &RequestHead<'_>) -> Reply {
        let parameters = match QueryParams::parse(request.query) {
            Ok(parameters) => parameters,
            Err(error) => {
                return pages::syntax_error_page(&error, request.query.unwrap_or_default(), request);
            }
        };
        match parameters.get("id").or_else(|| parameters.get("rft_id")) {
            Some(name) => self.resolver.resolve_name(&RequestedName::parse(name), &parameters, request).await,
            None => self.get_home().await,
        }
    }

    /// Handles `POST /`: resolves the name in the form field `hdl`, as older proxy pages send it.
    pub(crate) async fn post_resolve_form(&self, body: Incoming, request: &RequestHead<'_>) -> Reply {
        let text = match self.body_reader.read_text(body, MAX_FORM_BYTES).await {
            Ok(text) => text,
            Err(error) => return reply(error.status(), TEXT, format!("{error}\n")),
        };
        let parameters = match QueryParams::parse_form(&text) {
            Ok(parameters) => parameters,
            Err(error) => return pages::syntax_error_page(&error, &text, request),
        };
        match parameters.get("hdl") {
            Some(name) => self.resolver.resolve_name(&RequestedName::parse(name), &parameters, request).await,
            None => self.get_home().await,
        }
    }

    /// Handles `GET /`: the home page, or a redirect to the name that was entered in the search box.
    pub(crate) async fn get_home_or_search(&self, request: &RequestHead<'_>) -> Reply {
        // Browsers encode a space in a form as a plus sign.
        let query = request.query.map(|query| query.replace('+', " "));
        match QueryParams::parse(query.as_deref()) {
            Err(error) => pages::syntax_error_page(&error, query.as_deref().unwrap_or_default(), request),
            Ok(parameters) => match parameters.get("text").map(str::trim).filter(|text| !text.is_empty()) {
                Some(text) => redirect::redirect_to_name(&extract_name(text), request),
                None => self.get_home().await,
            },
        }
    }
}

/// Extracts a name from pasted text: a name in any form, a name within the text, or the text as it is.
pub(crate) fn extract_name(pasted: &str) -> String {
    if let Ok(parsed) = Parser::lenient().parse(pasted) {
        return parsed.into_identifier().as_str().to_owned();
    }
    let found = tendot_names::find_iter(pasted.as_bytes()).next().map(|found| found.doi.to_string());
    found.unwrap_or_else(|| name_path::parse_or_short_doi(pasted).into_owned())
}

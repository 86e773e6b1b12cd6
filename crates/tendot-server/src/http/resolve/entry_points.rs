//! Other ways to a name: search box, form and OpenURL.

use tendot_names::{ErrorKind, InputForm, Parser};

use crate::http::request::body::RequestBody;
use crate::http::request::name_path;
use crate::http::request::query::QueryParams;
use crate::http::request::request_head::RequestHead;
use crate::http::resolve::open_url::{self, OpenUrlTarget};
use crate::http::resolve::redirect;
use crate::http::resolve::requested_name::RequestedName;
use crate::http::response::reply::{Reply, TEXT, reply};
use crate::http::{HttpServer, MAX_FORM_BYTES, pages};

impl HttpServer {
    /// Handles an OpenURL request: resolves the name in `id`, `rft_id` or `rft.doi`, or the whole query.
    pub(crate) async fn open_url(&self, request: &RequestHead<'_>) -> Reply {
        let found = QueryParams::parse(request.query).and_then(|parameters| {
            let target = open_url::find_name(request.query, &parameters)?;
            Ok((target, parameters))
        });
        match found {
            Err(error) => pages::syntax_error_page(&error, request.query.unwrap_or_default(), request),
            Ok((OpenUrlTarget::Param(name), parameters)) => {
                self.resolve_name(&RequestedName::new(name), &parameters, request).await
            }
            Ok((OpenUrlTarget::WholeQuery(name), _)) => {
                let (name, parameters) = (RequestedName::new(name), QueryParams::default());
                let request = &RequestHead { query: None, ..*request };
                let mut reply = self.resolve_name(&name, &parameters, request).await;
                // The response cache does not know the query.
                reply.cache_policy = None;
                reply
            }
            Ok((OpenUrlTarget::NoName, _)) => pages::no_identifier(request),
            Ok((OpenUrlTarget::Empty, _)) => self.get_home().await,
        }
    }

    /// Handles `POST /`: resolves the name in the form field `hdl`, as older proxy pages send it.
    pub(crate) async fn post_resolve_form(&self, body: RequestBody, request: &RequestHead<'_>) -> Reply {
        let text = match self.body_reader.read_text(body, MAX_FORM_BYTES).await {
            Ok(text) => text,
            Err(error) => return reply(error.status(), TEXT, format!("{error}\n")),
        };
        let parameters = match QueryParams::parse_form(&text) {
            Ok(parameters) => parameters,
            Err(error) => return pages::syntax_error_page(&error, &text, request),
        };
        match parameters.get("hdl") {
            Some(name) => self.resolve_name(&RequestedName::parse(name), &parameters, request).await,
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
                Some(text) => match extract_name(text) {
                    Ok(Some(name)) => redirect::redirect_to_name(&name, request),
                    Ok(None) => pages::no_name_in_text(text, request),
                    Err(error) => pages::invalid_name(text, &error, request),
                },
                None => self.get_home().await,
            },
        }
    }
}

/// Extracts a name from pasted text: a name in any form, a name within the text, a shortDOI, or a prefix. Fails if text after
/// a scheme is not UTF-8 after percent-decoding.
pub(crate) fn extract_name(pasted: &str) -> Result<Option<String>, tendot_names::Error> {
    let parsed = tendot_names::parse_handle(pasted);
    // A scheme is followed by a prefix and a slash, not by a sentence.
    let is_name = |name: &str| match name.split_once('/') {
        Some((prefix, suffix)) => {
            !prefix.is_empty() && !suffix.is_empty() && !prefix.contains(char::is_whitespace)
        }
        None => false,
    };
    match parsed {
        Ok(parsed) if parsed.input_form() != InputForm::Bare && is_name(parsed.as_str()) => {
            return Ok(Some(parsed.into_name().into_owned()));
        }
        Ok(parsed) if Parser::lenient().parse(pasted).is_ok() => {
            return Ok(Some(parsed.into_name().into_owned()));
        }
        Err(error) if error.kind() == ErrorKind::InvalidUtf8 => return Err(error),
        _ => {}
    }
    if let Some(found) = tendot_names::find_iter(pasted.as_bytes()).next() {
        return Ok(Some(found.doi.to_string()));
    }
    if let Some(name) = open_url_name(pasted) {
        return Ok(Some(name));
    }
    let name = name_path::parse_or_short_doi(pasted);
    Ok(name_path::is_bare_name(&name).then(|| name.into_owned()))
}

/// Name in the query of a pasted URL, such as that of an OpenURL request.
fn open_url_name(pasted: &str) -> Option<String> {
    let (address, query) = pasted.split_once('?')?;
    address.contains("://").then_some(())?;
    let parameters = QueryParams::parse(Some(query)).ok()?;
    match open_url::find_name(Some(query), &parameters).ok()? {
        OpenUrlTarget::Param(name) | OpenUrlTarget::WholeQuery(name) => Some(name),
        OpenUrlTarget::NoName | OpenUrlTarget::Empty => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pasted_text() {
        let check = |text: &str, expected: &str| {
            assert_eq!(extract_name(text).unwrap().as_deref(), Some(expected), "{text}");
        };
        check("10.1000/182", "10.1000/182");
        check("doi:10.1000/456%23789", "10.1000/456#789");
        check("doi:alpha-beta/msws", "alpha-beta/msws");
        check("urn:doi:20.500.12345/x", "20.500.12345/x");
        check("DOI:dk/P%C3%A6dagogi%2037(2),%20562", "dk/Pædagogi 37(2), 562");
        check("doi: see 10.1000/182", "10.1000/182");
        check("Bak et al., 10.1000/182.", "10.1000/182");
        check("http://my.resolver.example/resolve?id=doi%3Aalpha-beta%2Fmsws", "alpha-beta/msws");
        check("rtsp://service.example/query?doi%3A10.abc%2Fab%2Fcd%2Fef", "10.abc/ab/cd/ef");
        check("20.500/a%20b", "20.500/a%20b");
        check("abcde", "10/abcde");
        check("10.1000", "10.1000");
        check("10.1000/", "10.1000/");
        for text in ["Self-organized criticality", "https://example.org/x", "Bak et al., 1987", "doi:", "é"]
        {
            assert_eq!(extract_name(text).unwrap(), None, "{text}");
        }
        assert_eq!(extract_name("doi:dk/caf%E9").unwrap_err().offset(), 10);
    }
}

//! Metadata of locally registered names, and the negotiation of its format.

use http::StatusCode;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderMap, HeaderValue};
use tendot_proto::Budget;
use tendot_registry::metadata::MetadataFormat;
use tendot_registry::registration::DoiRecord;
use tendot_registry::{CallContext, Caller, Error, RegistryError, RegistryErrorKind};

use crate::http::request::accept::{best_match, is_browser_type, metadata_media_types, parse_entries};
use crate::http::resolve::resolver::RecordResolver;
use crate::http::response::caching::{self, ClientDependence};
use crate::http::response::errors;
use crate::http::response::reply::{Reply, reply};

/// Metadata formats, by names for links.
pub(crate) const METADATA_FORMATS: [(&str, &str, MetadataFormat); 8] = [
    ("kernel-json", "Kernel JSON", MetadataFormat::KernelJson),
    ("kernel-xml", "Kernel XML", MetadataFormat::KernelXml),
    ("system-json", "System JSON", MetadataFormat::SystemJson),
    ("csl-json", "CSL JSON", MetadataFormat::CslJson),
    ("bibtex", "BibTeX", MetadataFormat::BibTeX),
    ("ris", "RIS", MetadataFormat::Ris),
    ("schema-org", "Schema.org", MetadataFormat::SchemaOrg),
    ("datacite-json", "DataCite JSON", MetadataFormat::DataCiteJson),
];

/// Metadata format requested by `Accept`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum MetadataPreference {
    /// No metadata requested: redirect, or show a page.
    NotRequested,
    /// This format, sent with this media type.
    Format(MetadataFormat, &'static str),
    /// Only unsupported types are acceptable.
    NotAcceptable,
}

/// Metadata preference for a name that can also redirect: metadata must be preferred to browser types.
pub(crate) fn metadata_over_page(headers: &HeaderMap) -> MetadataPreference {
    let ranges = parse_entries(headers, &ACCEPT);
    let browser_types = ranges.iter().filter(|(range, _)| is_browser_type(range));
    let page = browser_types.map(|(_, quality)| *quality).max().unwrap_or_default();
    match best_match(&ranges, metadata_media_types()) {
        _ if ranges.is_empty() => MetadataPreference::NotRequested,
        Some((quality, format, media_type)) if quality > page => {
            MetadataPreference::Format(format, media_type)
        }
        _ if page > 0 => MetadataPreference::NotRequested,
        _ => MetadataPreference::NotAcceptable,
    }
}

/// Metadata preference where only metadata is available; JSON by default.
pub(crate) fn metadata_only(headers: &HeaderMap) -> MetadataPreference {
    const DEFAULT_FORMAT: (MetadataFormat, &str) = (MetadataFormat::KernelJson, "application/json");
    let ranges = parse_entries(headers, &ACCEPT);
    match best_match(&ranges, std::iter::once(DEFAULT_FORMAT).chain(metadata_media_types())) {
        _ if ranges.is_empty() => MetadataPreference::Format(DEFAULT_FORMAT.0, DEFAULT_FORMAT.1),
        Some((_, format, media_type)) => MetadataPreference::Format(format, media_type),
        None => MetadataPreference::NotAcceptable,
    }
}

impl RecordResolver {
    /// Public registration data of a name; `None` if it was never registered.
    pub(crate) async fn public_registration(
        &self,
        name: &str,
        budget: &mut Budget,
    ) -> Result<Option<DoiRecord>, Error> {
        self.registration(name, &Caller::Anonymous, budget).await
    }

    /// Registration data of a name as visible to this caller.
    pub(crate) async fn registration(
        &self,
        name: &str,
        caller: &Caller,
        budget: &mut Budget,
    ) -> Result<Option<DoiRecord>, Error> {
        let call = CallContext::new(caller, self.registry.now_ms(), budget);
        match self.registry.get_doi(name, call).await {
            Ok(registered) => Ok(Some(registered)),
            Err(error) if error.kind == RegistryErrorKind::NotFound => Ok(None),
            Err(RegistryError { source: Some(error), .. }) => Err(Error::Store(error)),
            Err(error) => Err(Error::Registry(Box::new(error))),
        }
    }
}

/// Reply with metadata of this media type.
pub(crate) fn metadata_reply(text: String, media_type: &str, request: &HeaderMap) -> Reply {
    let content_type = HeaderValue::try_from(format!("{media_type};charset=utf-8"));
    let content_type = content_type.unwrap_or(HeaderValue::from_static("application/octet-stream"));
    let mut response = reply(StatusCode::OK, content_type, text);
    // Extensions can be of any namespace, XHTML included: browsers must not run them.
    response.headers_mut().insert(
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'; sandbox"),
    );
    ClientDependence::ACCEPT.add_vary(response.headers_mut());
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // The ETag covers the media type, too.
    let content = [media_type.as_bytes(), b" ", response.body()].concat();
    caching::add_etag(response, &content, request)
}

/// Reply 406, with the available formats.
pub(crate) fn not_acceptable(name: &str) -> Reply {
    let media_types = metadata_media_types().map(|(_, media_type)| media_type).collect();
    let mut response = Reply::from(errors::not_acceptable(name, media_types));
    ClientDependence::ACCEPT.add_vary(response.headers_mut());
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_preferences() {
        let (bibtex, kernel) = ("application/x-bibtex", "application/vnd.doi.kernel+json");
        for (accept, expected, alone) in [
            ("", "page", "application/json"),
            ("*/*", "page", "application/json"),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "page", "application/xml"),
            ("text/html", "page", "not acceptable"),
            ("text/*", "page", "text/xml"),
            ("image/png", "page", "not acceptable"),
            ("application/json", "application/json", "application/json"),
            ("application/json, text/plain, */*", "page", "application/json"),
            ("application/json, */*;q=0.9", "application/json", "application/json"),
            ("application/x-bibtex", bibtex, bibtex),
            ("Application/X-BibTeX; charset=utf-8", bibtex, bibtex),
            ("application/x-bibtex;q=0.5, text/html", "page", bibtex),
            ("application/x-bibtex, text/html;q=0.5", bibtex, bibtex),
            ("application/x-bibtex, text/html", "page", bibtex),
            ("application/xml, application/x-bibtex", "application/xml", "application/xml"),
            ("application/xml;q=0.3, application/x-bibtex;q=0.4", bibtex, bibtex),
            ("application/*", kernel, "application/json"),
            ("application/*, application/json;q=0", kernel, kernel),
            ("application/*, application/vnd.doi.kernel+json;q=0", "application/json", "application/json"),
            ("application/vnd.doi.kernel+json", kernel, kernel),
            ("text/turtle", "not acceptable", "not acceptable"),
            ("text/turtle, */*;q=0.1", "page", "application/json"),
            ("application/json;q=0", "not acceptable", "not acceptable"),
            ("application/json;q=0, */*;q=0.5", "page", kernel),
            ("text/x-bibliography; style=apa, application/x-bibtex;q=0.5", bibtex, bibtex),
        ] {
            let headers = match accept {
                "" => HeaderMap::new(),
                accept => HeaderMap::from_iter([(ACCEPT, accept.parse().unwrap())]),
            };
            let describe = |preference| match preference {
                MetadataPreference::NotRequested => "page",
                MetadataPreference::Format(_, media_type) => media_type,
                MetadataPreference::NotAcceptable => "not acceptable",
            };
            assert_eq!(describe(metadata_over_page(&headers)), expected, "{accept}");
            assert_eq!(describe(metadata_only(&headers)), alone, "{accept} alone");
        }
    }
}

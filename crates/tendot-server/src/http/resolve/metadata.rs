//! Metadata of locally registered names, in the negotiated format.

use std::time::SystemTime;

use http::StatusCode;
use http::header::{CACHE_CONTROL, HeaderMap, HeaderValue, VARY};
use tendot_proto::Budget;
use tendot_registry::metadata::MetadataFormat;
use tendot_registry::registration::DoiRecord;
use tendot_registry::{Caller, Error, RegistryError, RegistryErrorKind};

pub(crate) use crate::clock::to_unix_millis;
use crate::http::request::accept::metadata_media_types;
use crate::http::response::reply::{Reply, reply};
use crate::http::response::{caching, codes};
use crate::http::{HttpServer, pages};

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

impl HttpServer {
    /// Public registration data of a name; `None` if it was never registered.
    pub(crate) async fn public_registration(
        &self,
        name: &str,
        now: SystemTime,
        budget: &mut Budget,
    ) -> Result<Option<DoiRecord>, Error> {
        self.registration(name, &Caller::Anonymous, now, budget).await
    }

    /// Registration data of a name as visible to this caller.
    pub(crate) async fn registration(
        &self,
        name: &str,
        caller: &Caller,
        now: SystemTime,
        budget: &mut Budget,
    ) -> Result<Option<DoiRecord>, Error> {
        match self.registry.get_doi(name, caller, to_unix_millis(now), budget).await {
            Ok(registered) => Ok(Some(registered)),
            Err(refusal) if refusal.reason == RegistryErrorKind::NotFound => Ok(None),
            Err(RegistryError { failure: Some(error), .. }) => Err(Error::Store(error)),
            Err(refusal) => Err(Error::Policy(Box::new(refusal))),
        }
    }
}

/// Reply with metadata of this media type.
pub(crate) fn metadata_reply(text: String, media_type: &str, request: &HeaderMap) -> Reply {
    let content_type = HeaderValue::try_from(format!("{media_type};charset=utf-8"));
    let content_type = content_type.unwrap_or(HeaderValue::from_static("application/octet-stream"));
    let mut response = reply(StatusCode::OK, content_type, text);
    add_vary_accept(response.headers_mut());
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // The ETag covers the media type, too.
    let content = [media_type.as_bytes(), b" ", response.body()].concat();
    caching::add_etag(response, &content, request)
}

/// Adds `Vary: Accept`.
pub(crate) fn add_vary_accept(headers: &mut HeaderMap) {
    headers.append(VARY, HeaderValue::from_static("Accept"));
}

/// Reply 406, with the available formats.
pub(crate) fn not_acceptable(name: &str) -> Reply {
    let types: Vec<&str> = metadata_media_types().map(|(_, media_type)| media_type).collect();
    let detail = format!("No metadata format of `{name}` matches `Accept`.");
    let problem = pages::problem(StatusCode::NOT_ACCEPTABLE, codes::NOT_ACCEPTABLE, detail)
        .hint("use one of `types`, or `*/*`")
        .member("types", types);
    let mut response = Reply::from(problem);
    add_vary_accept(response.headers_mut());
    response
}

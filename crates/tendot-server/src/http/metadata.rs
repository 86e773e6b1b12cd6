//! Metadata that is kept here of a name, in the form that who asks would rather have.

use std::time::SystemTime;

use http::StatusCode;
use http::header::{CACHE_CONTROL, HeaderMap, HeaderValue, VARY};
use tendot_proto::Budget;
use tendot_registry::doi::DoiRecord;
use tendot_registry::metadata::MetadataFormat;
use tendot_registry::{Caller, Error, RegistryError, RegistryErrorKind};

use super::answer::{Reply, reply};
use super::negotiate::metadata_media_types;
use super::{HttpServer, caching, page};

/// The forms of metadata by names that can stand in a link.
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
    /// What everybody may know of a name that is or was registered; none if it is not.
    pub(crate) async fn public_registration(
        &self,
        name: &str,
        now: SystemTime,
        work: &mut Budget,
    ) -> Result<Option<DoiRecord>, Error> {
        self.registration(name, &Caller::Anonymous, now, work).await
    }

    /// The same for somebody who may know more.
    pub(crate) async fn registration(
        &self,
        name: &str,
        caller: &Caller,
        now: SystemTime,
        work: &mut Budget,
    ) -> Result<Option<DoiRecord>, Error> {
        match self.registry.get_doi(name, caller, to_unix_millis(now), work).await {
            Ok(registered) => Ok(Some(registered)),
            Err(refusal) if refusal.reason == RegistryErrorKind::NotFound => Ok(None),
            Err(RegistryError { failure: Some(error), .. }) => Err(Error::Store(error)),
            Err(refusal) => Err(Error::Policy(Box::new(refusal))),
        }
    }
}

/// A time as the registry has it.
pub(crate) fn to_unix_millis(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Metadata as this type.
pub(crate) fn metadata_reply(text: String, media_type: &str, request: &HeaderMap) -> Reply {
    let kind = HeaderValue::try_from(format!("{media_type};charset=utf-8"));
    let kind = kind.unwrap_or(HeaderValue::from_static("application/octet-stream"));
    let mut response = reply(StatusCode::OK, kind, text);
    add_vary_accept(response.headers_mut());
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // The same text as another type is another answer.
    let of = [media_type.as_bytes(), b" ", response.body()].concat();
    caching::add_etag(response, &of, request)
}

/// Says that who asks otherwise may be answered otherwise.
pub(crate) fn add_vary_accept(headers: &mut HeaderMap) {
    headers.append(VARY, HeaderValue::from_static("Accept"));
}

/// The answer to somebody who takes nothing that can be given.
pub(crate) fn not_acceptable(name: &str) -> Reply {
    let types: Vec<&str> = metadata_media_types().map(|(_, media_type)| media_type).collect();
    let detail = format!("`Accept` names no type that the metadata of `{name}` can be given as.");
    let problem = page::problem(StatusCode::NOT_ACCEPTABLE, "not-acceptable", detail)
        .hint("ask for one of `types`, or for `*/*`")
        .member("types", types);
    let mut response = Reply::from(problem);
    add_vary_accept(response.headers_mut());
    response
}

//! Metadata that is kept here of a name, in the form that who asks would rather have.

use std::time::SystemTime;

use http::StatusCode;
use http::header::{CACHE_CONTROL, HeaderMap, HeaderValue, VARY};
use tendot_proto::Work;
use tendot_registry::doi::Registered;
use tendot_registry::metadata::Format;
use tendot_registry::{Caller, Error, Reason, Refusal};

use super::answer::{Answer, answer};
use super::negotiate::media_types;
use super::{Http, caching, page};

/// The forms of metadata by names that can stand in a link.
pub(crate) const METADATA_FORMATS: [(&str, &str, Format); 8] = [
    ("kernel-json", "Kernel JSON", Format::KernelJson),
    ("kernel-xml", "Kernel XML", Format::KernelXml),
    ("system-json", "System JSON", Format::SystemJson),
    ("csl-json", "CSL JSON", Format::CslJson),
    ("bibtex", "BibTeX", Format::BibTeX),
    ("ris", "RIS", Format::Ris),
    ("schema-org", "Schema.org", Format::SchemaOrg),
    ("datacite-json", "DataCite JSON", Format::DataCiteJson),
];

impl Http {
    /// What everybody may know of a name that is or was registered; none if it is not.
    pub(crate) async fn registered(
        &self,
        name: &str,
        now: SystemTime,
        work: &mut Work,
    ) -> Result<Option<Registered>, Error> {
        self.registration(name, &Caller::Anonymous, now, work).await
    }

    /// The same for somebody who may know more.
    pub(crate) async fn registration(
        &self,
        name: &str,
        caller: &Caller,
        now: SystemTime,
        work: &mut Work,
    ) -> Result<Option<Registered>, Error> {
        match self.registry.registered(name, caller, milliseconds(now), work).await {
            Ok(registered) => Ok(Some(registered)),
            Err(refusal) if refusal.reason == Reason::NotFound => Ok(None),
            Err(Refusal { failure: Some(error), .. }) => Err(Error::Store(error)),
            Err(refusal) => Err(Error::Policy(Box::new(refusal))),
        }
    }
}

/// A time as the registry has it.
pub(crate) fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Metadata as this type.
pub(crate) fn give(text: String, media_type: &str, request: &HeaderMap) -> Answer {
    let kind = HeaderValue::try_from(format!("{media_type};charset=utf-8"));
    let kind = kind.unwrap_or(HeaderValue::from_static("application/octet-stream"));
    let mut response = answer(StatusCode::OK, kind, text);
    vary(response.headers_mut());
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // The same text as another type is another answer.
    let of = [media_type.as_bytes(), b" ", response.body()].concat();
    caching::tag(response, &of, request)
}

/// Says that who asks otherwise may be answered otherwise.
pub(crate) fn vary(headers: &mut HeaderMap) {
    headers.append(VARY, HeaderValue::from_static("Accept"));
}

/// The answer to somebody who takes nothing that can be given.
pub(crate) fn not_acceptable(name: &str) -> Answer {
    let types: Vec<&str> = media_types().map(|(_, media_type)| media_type).collect();
    let detail = format!("`Accept` names no type that the metadata of `{name}` can be given as.");
    let problem = page::problem(StatusCode::NOT_ACCEPTABLE, "not-acceptable", detail)
        .hint("ask for one of `types`, or for `*/*`")
        .member("types", types);
    let mut response = Answer::from(problem);
    vary(response.headers_mut());
    response
}

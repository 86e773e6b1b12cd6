//! Operator of the service and resolver of its names, as pages show them.

use bytes::Bytes;
use tendot_names::OutputForm;

use crate::http::request::name_path;
use crate::http::resolve::requested_name::{NameKind, RequestedName};

/// Resolver of handles that are not DOIs, unless another one is set.
const HANDLE_RESOLVER: &str = "https://hdl.handle.net";

/// Operator of the service, and the URLs of names, on pages.
#[derive(Debug)]
pub struct ServiceIdentity {
    /// Name in the header, the titles and the footer.
    pub name: Box<str>,
    /// Logo in the header and icon of the pages: media type, and the image. Default: that of Tendot.
    pub logo: Option<(&'static str, Bytes)>,
    /// URL of this service, without a slash at the end, if its names resolve there and not at doi.org.
    pub public_url: Option<Box<str>>,
    /// URL of the resolver of other names, without a slash at the end. Default: `https://doi.org` for DOIs,
    /// `https://hdl.handle.net` for other handles.
    pub resolver_url: Option<Box<str>>,
}

impl Default for ServiceIdentity {
    fn default() -> Self {
        Self { name: "Tendot".into(), logo: None, public_url: None, resolver_url: None }
    }
}

impl ServiceIdentity {
    /// URL of a name of another service at its resolver.
    pub(crate) fn resolver_url(&self, name: &RequestedName<'_>) -> Option<String> {
        let at = |resolver: &str| Some(format!("{resolver}{}", name.path()));
        match (name.kind(), &self.resolver_url) {
            (NameKind::Prefix(_) | NameKind::Empty, _) => None,
            (_, Some(resolver)) => at(resolver),
            (NameKind::Doi(identifier), None) => {
                identifier.format(OutputForm::Url).map(|url| url.to_string())
            }
            (NameKind::Handle, None) => at(HANDLE_RESOLVER),
        }
    }

    /// URL of a name of this service, if it is not that of the common resolvers.
    pub(super) fn public_url(&self, name: &str) -> Option<String> {
        self.public_url.as_ref().map(|url| format!("{url}{}", name_path::format(name)))
    }
}

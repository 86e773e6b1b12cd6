//! Input form of a parsed DOI.

/// Input form of a parsed DOI.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum InputForm {
    /// Bare DOI.
    Name,
    /// `doi:` URI or label.
    Doi,
    /// `urn:doi:`.
    Urn,
    /// Proxy URL (doi.org).
    ProxyUrl,
    /// Handle proxy URL (hdl.handle.net).
    HandleUrl,
    /// `info:doi/`.
    Info,
    /// `hdl:`.
    Hdl,
    /// `urn:eidr:`.
    UrnEidr,
}

impl InputForm {
    /// Stable code in kebab case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Doi => "doi",
            Self::Urn => "urn",
            Self::ProxyUrl => "proxy-url",
            Self::HandleUrl => "handle-url",
            Self::Info => "info",
            Self::Hdl => "hdl",
            Self::UrnEidr => "urn-eidr",
        }
    }

    /// Of two nested forms the one to report: URL before URN or URI, these before a label.
    pub(super) const fn more_specific(self, inner: Self) -> Self {
        if inner.specificity() > self.specificity() { inner } else { self }
    }

    const fn specificity(self) -> u8 {
        match self {
            Self::Name => 0,
            Self::Doi => 1,
            Self::Urn | Self::Info | Self::Hdl | Self::UrnEidr => 2,
            Self::ProxyUrl | Self::HandleUrl => 3,
        }
    }

    pub(super) const fn is_url(self) -> bool {
        matches!(self, Self::ProxyUrl | Self::HandleUrl)
    }
}

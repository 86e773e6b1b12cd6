//! Input form of a parsed DOI.

/// Input form of a parsed DOI.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum InputForm {
    /// Bare DOI.
    Bare,
    /// `doi:` URI or label.
    DoiUri,
    /// `urn:doi:`.
    Urn,
    /// Proxy URL (doi.org).
    ProxyUrl,
    /// Handle proxy URL (hdl.handle.net).
    HandleProxyUrl,
    /// `info:doi/`.
    InfoUri,
    /// `hdl:`.
    HdlUri,
    /// `urn:eidr:`.
    UrnEidr,
}

impl InputForm {
    /// Stable code in kebab case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bare => "name",
            Self::DoiUri => "doi",
            Self::Urn => "urn",
            Self::ProxyUrl => "proxy-url",
            Self::HandleProxyUrl => "handle-url",
            Self::InfoUri => "info",
            Self::HdlUri => "hdl",
            Self::UrnEidr => "urn-eidr",
        }
    }

    /// Of two nested forms the one to report: URL before URN or URI, these before a label.
    pub(super) const fn more_specific(self, inner: Self) -> Self {
        if inner.specificity() > self.specificity() { inner } else { self }
    }

    const fn specificity(self) -> u8 {
        match self {
            Self::Bare => 0,
            Self::DoiUri => 1,
            Self::Urn | Self::InfoUri | Self::HdlUri | Self::UrnEidr => 2,
            Self::ProxyUrl | Self::HandleProxyUrl => 3,
        }
    }

    pub(super) const fn is_url(self) -> bool {
        matches!(self, Self::ProxyUrl | Self::HandleProxyUrl)
    }
}

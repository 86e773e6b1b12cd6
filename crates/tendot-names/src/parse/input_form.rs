//! Input form of a parsed DOI.

/// Input form of a parsed DOI.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum InputForm {
    /// The name alone.
    Name,
    /// After `doi:`, as URI or for display.
    Doi,
    /// After `urn:doi:`.
    Urn,
    /// As the address of the DOI proxy.
    ProxyUrl,
    /// As the address of the Handle proxy.
    HandleUrl,
    /// After `info:doi/`.
    Info,
    /// After `hdl:`.
    Hdl,
    /// After `urn:eidr:`.
    UrnEidr,
}

impl InputForm {
    /// The form's stable name.
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

    /// Of two forms around the same name, the one that is told: an address rather than a URN or URI, these
    /// rather than a label.
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

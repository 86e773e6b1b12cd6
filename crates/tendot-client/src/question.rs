use std::borrow::Cow;

/// Resolution request to an upstream: name, authoritative flag, hops so far.
///
/// ```
/// use tendot_client::ResolveRequest;
///
/// assert!(!ResolveRequest::from("10.1000/182").is_authoritative);
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ResolveRequest<'a> {
    /// The name of a record.
    pub name: Cow<'a, str>,
    /// Whether the answer has to come from who keeps the record, and not from what somebody kept of it.
    pub is_authoritative: bool,
    /// The services that it went through, this one last and with commas between them; empty if that does not matter.
    pub way: Cow<'a, str>,
}

impl ResolveRequest<'_> {
    /// Whether another service forwarded the request.
    pub(crate) fn is_forwarded(&self) -> bool {
        self.way.contains(',')
    }

    pub(crate) fn into_owned(self) -> ResolveRequest<'static> {
        ResolveRequest {
            name: self.name.into_owned().into(),
            is_authoritative: self.is_authoritative,
            way: self.way.into_owned().into(),
        }
    }
}

impl<'a> From<&'a str> for ResolveRequest<'a> {
    fn from(name: &'a str) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

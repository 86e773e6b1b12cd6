//! Class of a caller, by which shared resources are divided.

use tendot_registry::Caller;

/// Class of a caller.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) enum CallerClass {
    Operator,
    Anonymous,
    /// An agency or registrant, regardless of the token; or all handles of a prefix, regardless of the key, because the holder of a
    /// prefix can create any number of them.
    Identity(String),
}

impl CallerClass {
    pub(crate) fn of(caller: &Caller) -> Self {
        match caller {
            Caller::Operator => Self::Operator,
            Caller::Token(token) if token.is_operator() => Self::Operator,
            Caller::Anonymous => Self::Anonymous,
            Caller::Token(token) => Self::Identity(token.party()),
            Caller::Handle(identity) => {
                let handle = identity.handle();
                let prefix = match handle.suffix() {
                    Some(prefix) if handle.is_prefix_handle() => prefix,
                    _ => handle.prefix(),
                };
                Self::Identity(String::from_utf8_lossy(&prefix.to_ascii_uppercase()).into_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tendot_registry::HandleIdentity;

    use super::*;

    /// All handles of a prefix are one identity, in all spellings; other prefixes are others.
    #[test]
    fn handles_of_a_prefix_are_one_identity() {
        let class = |handle: &str| {
            CallerClass::of(&Caller::Handle(HandleIdentity::from_proof(300, handle.as_bytes()).unwrap()))
        };
        for handle in ["10.1a/ONE", "10.1A/two", "0.NA/10.1a", "0.na/10.1A", "10.1a"] {
            assert_eq!(class(handle), CallerClass::Identity("10.1A".into()), "{handle}");
        }
        assert_eq!(class("10.1a.2/one"), CallerClass::Identity("10.1A.2".into()));
    }
}

//! Changes made by lenient parsing.

use core::fmt;

macro_rules! adjustments {
    ($($(#[$doc:meta])* $name:ident = $bit:literal, $code:literal;)*) => {
        /// One change made by lenient parsing or repair.
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        #[non_exhaustive]
        pub enum Adjustment {
            $($(#[$doc])* $name = $bit,)*
        }

        impl Adjustment {
            const ALL: &[Self] = &[$(Self::$name),*];

            /// Stable code in kebab case.
            pub const fn code(self) -> &'static str {
                match self {
                    $(Self::$name => $code,)*
                }
            }
        }
    };
}

adjustments! {
    /// White space around the DOI or after a label was trimmed.
    WhitespaceTrimmed = 0, "whitespace-trimmed";
    /// Angle brackets, quotes or a colon around the input were removed.
    DelimitersRemoved = 1, "delimiters-removed";
    /// A label was removed.
    LabelRemoved = 2, "label-removed";
    /// The proxy URL was repeated.
    DuplicateUrl = 3, "duplicate-url";
    /// More than one slash followed the host.
    ExtraSlashes = 4, "extra-slashes";
    /// The URL had no scheme.
    MissingScheme = 5, "missing-scheme";
    /// The URL named the default port.
    DefaultPort = 6, "default-port";
    /// Invisible characters were removed.
    InvisibleRemoved = 7, "invisible-removed";
    /// A bare DOI without `/` was percent-decoded.
    PercentDecoded = 8, "percent-decoded";
    /// An invalid `%` was read as a literal.
    LiteralPercent = 9, "literal-percent";
    /// An unassigned code point was accepted.
    UnassignedAccepted = 10, "unassigned-accepted";
    /// A query was removed from a URN.
    QueryRemoved = 11, "query-removed";
    /// A URN had characters that must be percent-encoded.
    UnencodedInUrn = 12, "unencoded-in-urn";
    /// Repair removed text.
    Repaired = 13, "repaired";
}

/// Set of [`Adjustment`]s.
#[derive(Clone, Copy, Default, Eq, Hash, PartialEq)]
pub struct Adjustments(u16);

impl Adjustments {
    /// Whether nothing was changed.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the set contains `adjustment`.
    pub const fn contains(self, adjustment: Adjustment) -> bool {
        self.0 & (1 << adjustment as u16) != 0
    }

    /// Iterates over the adjustments.
    pub fn iter(self) -> impl Iterator<Item = Adjustment> {
        Adjustment::ALL.iter().copied().filter(move |&adjustment| self.contains(adjustment))
    }

    pub(super) const fn with(self, adjustment: Adjustment) -> Self {
        Self(self.0 | 1 << adjustment as u16)
    }

    pub(super) const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for Adjustments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

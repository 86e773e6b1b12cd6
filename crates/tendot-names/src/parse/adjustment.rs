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
    Trimmed = 0, "trimmed";
    /// Angle brackets, quotes or a colon around the input were removed.
    Unwrapped = 1, "unwrapped";
    /// A label was removed.
    LabelDropped = 2, "label-dropped";
    /// The proxy URL was repeated.
    DoubledAddress = 3, "doubled-address";
    /// More than one slash followed the host.
    ExtraSlashes = 4, "extra-slashes";
    /// The URL had no scheme.
    SchemeMissing = 5, "scheme-missing";
    /// The URL named the default port.
    DefaultPort = 6, "default-port";
    /// Invisible characters were removed.
    InvisibleDropped = 7, "invisible-dropped";
    /// A bare DOI without `/` was percent-decoded.
    Decoded = 8, "decoded";
    /// An invalid `%` was kept as a literal.
    PercentKept = 9, "percent-kept";
    /// An unassigned code point was accepted.
    UnassignedAccepted = 10, "unassigned-accepted";
    /// A query was removed from a URN.
    QueryCut = 11, "query-cut";
    /// A URN had characters that must be percent-encoded.
    RawInUrn = 12, "raw-in-urn";
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

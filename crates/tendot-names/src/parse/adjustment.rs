//! What a lenient reading changed.

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

            /// The note's stable name in kebab case.
            pub const fn code(self) -> &'static str {
                match self {
                    $(Self::$name => $code,)*
                }
            }
        }
    };
}

adjustments! {
    /// White space around the name or after a label was dropped.
    Trimmed = 0, "trimmed";
    /// Angle brackets or quotes around the whole were dropped.
    Unwrapped = 1, "unwrapped";
    /// A label, or a second one, was dropped.
    LabelDropped = 2, "label-dropped";
    /// The proxy's address stood there twice.
    DoubledAddress = 3, "doubled-address";
    /// More than one slash stood after the host.
    ExtraSlashes = 4, "extra-slashes";
    /// The address had no scheme.
    SchemeMissing = 5, "scheme-missing";
    /// The address named the default port.
    DefaultPort = 6, "default-port";
    /// Invisible characters were dropped.
    InvisibleDropped = 7, "invisible-dropped";
    /// A bare name without a slash was percent-decoded.
    Decoded = 8, "decoded";
    /// A `%` that begins no percent-encoded byte was kept as it is.
    PercentKept = 9, "percent-kept";
    /// A character that this version of Unicode does not assign was accepted.
    UnassignedAccepted = 10, "unassigned-accepted";
    /// A query, which a URN does not have, was cut off.
    QueryCut = 11, "query-cut";
    /// Characters that a URN has to percent-encode stood there raw.
    RawInUrn = 12, "raw-in-urn";
    /// Damage was cut off by a repair.
    Repaired = 13, "repaired";
}

/// Set of [`Adjustment`]s.
#[derive(Clone, Copy, Default, Eq, Hash, PartialEq)]
pub struct Adjustments(u16);

impl Adjustments {
    /// True when nothing was changed.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True when `note` is among them.
    pub const fn contains(self, note: Adjustment) -> bool {
        self.0 & (1 << note as u16) != 0
    }

    /// The notes, one by one.
    pub fn iter(self) -> impl Iterator<Item = Adjustment> {
        Adjustment::ALL.iter().copied().filter(move |&note| self.contains(note))
    }

    pub(super) const fn with(self, note: Adjustment) -> Self {
        Self(self.0 | 1 << note as u16)
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

//! Changes made by lenient parsing.

use crate::flag_set::flag_set;

flag_set! {
    /// One change made by lenient parsing or repair.
    enum Adjustment;
    /// Set of [`Adjustment`]s.
    struct Adjustments(u16);
    /// White space around the DOI or after a label was trimmed.
    WhitespaceTrimmed = "whitespace-trimmed",
    /// Angle brackets, quotes or a colon around the input were removed.
    DelimitersRemoved = "delimiters-removed",
    /// A label was removed.
    LabelRemoved = "label-removed",
    /// The proxy URL was repeated.
    DuplicateUrl = "duplicate-url",
    /// More than one slash followed the host.
    ExtraSlashes = "extra-slashes",
    /// The URL had no scheme.
    MissingScheme = "missing-scheme",
    /// The URL named the default port.
    DefaultPort = "default-port",
    /// Invisible characters were removed.
    InvisibleRemoved = "invisible-removed",
    /// A bare DOI without `/` was percent-decoded.
    PercentDecoded = "percent-decoded",
    /// An invalid `%` was read as a literal.
    LiteralPercent = "literal-percent",
    /// An unassigned code point was accepted.
    UnassignedAccepted = "unassigned-accepted",
    /// A query was removed from a URN.
    QueryRemoved = "query-removed",
    /// A URN had characters that must be percent-encoded.
    UnencodedInUrn = "unencoded-in-urn",
    /// [Repair](crate::Parser::repair) removed text.
    Repaired = "repaired",
}

impl Adjustments {
    pub(super) const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

//! Extraction of DOIs from text.
//!
//! `incremental` searches the text for `10.`. At each hit, `prefix` matches the prefix and its slash, and `context` looks
//! back for a label, URL, bracket or quote (`preceding_char` decodes what is before it). `candidate` scans to the end of the
//! candidate: `escaped_char` and `html_entity` decode escapes, `line_join` continues on the next line, `unescaped` holds the decoded text and maps its offsets back.
//! `name_extent` then decides which part is the DOI: `trim` removes punctuation, `publisher_tail` tails and annotations,
//! `field_tail` a year or `#` after the DOI if the input is a single field. `extracted_doi` is the result.
//! Each byte is scanned once, and every look back or ahead is bounded, so the work is linear for any input.

mod incremental;

mod context;
mod preceding_char;
mod prefix;

mod candidate;
mod escaped_char;
mod html_entity;
mod line_join;
mod unescaped;

mod field_tail;
mod name_extent;
mod publisher_tail;
mod trim;

mod extracted_doi;

pub use extracted_doi::{ExtractedDoi, ExtractionFlag, ExtractionFlags};
pub use incremental::{ExtractStep, IncrementalExtractor};

/// Extracts the DOIs in `text` with the default settings of [`Extractor`].
///
/// ```
/// let text = "See (10.1130/2013.2502(04)) and https://doi.org/10.1000/456%23789.".as_bytes();
/// let dois: Vec<_> = tendot_names::find_iter(text).map(|found| found.doi.to_string()).collect();
/// assert_eq!(dois, ["10.1130/2013.2502(04)", "10.1000/456#789"]);
/// ```
pub fn find_iter(text: &[u8]) -> impl Iterator<Item = ExtractedDoi<'_>> {
    Extractor::new().find_iter(text)
}

/// Extractor of DOIs from text; the text need not be UTF-8.
///
/// ```
/// use tendot_names::Extractor;
///
/// let text = b"doi: 10.1016/j.brainresrev.2010.03.\n002 PMID: 20227440";
/// let mut joined = Extractor::new().join_lines(true).find_iter(text);
/// assert_eq!(joined.next().unwrap().doi.as_str(), "10.1016/j.brainresrev.2010.03.002");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Extractor {
    pub(crate) join_lines: bool,
    pub(crate) keep_publisher_tails: bool,
    pub(crate) field_separator: Option<u8>,
    pub(crate) max_len: usize,
    /// Whether the text is one field that holds a DOI, so that a short registrant code needs no label.
    pub(crate) is_single_field: bool,
}

impl Extractor {
    /// Default settings: does not join lines, trims publisher tails, accepts DOIs of any length.
    pub const fn new() -> Self {
        Self {
            join_lines: false,
            keep_publisher_tails: false,
            field_separator: None,
            max_len: usize::MAX,
            is_single_field: false,
        }
    }

    /// Joins a DOI that is broken across lines, as in text from PDF files.
    pub const fn join_lines(self, join_lines: bool) -> Self {
        Self { join_lines, ..self }
    }

    /// Keeps publisher tails (`/full`, `.pdf`) and annotations.
    ///
    /// Tails are always kept where the standards define that everything is the DOI: in a proxy URL and after `doi:`, `urn:doi:`
    /// and the like.
    ///
    /// ```
    /// # use tendot_names::Extractor;
    /// let text = b"https://publisher.example/doi/10.1002/asi.20001/full";
    /// let found = |extractor: Extractor| extractor.find_iter(text).next().unwrap().doi.to_string();
    /// assert_eq!(found(Extractor::new()), "10.1002/asi.20001");
    /// assert_eq!(found(Extractor::new().keep_publisher_tails(true)), "10.1002/asi.20001/full");
    /// ```
    pub const fn keep_publisher_tails(self, keep_publisher_tails: bool) -> Self {
        Self { keep_publisher_tails, ..self }
    }

    /// Field separator of a table (`,` or tab); ends a DOI outside quotes.
    ///
    /// ```
    /// # use tendot_names::Extractor;
    /// let found = Extractor::new().field_separator(Some(b',')).find_iter(b"1,10.1000/182,2010").next().unwrap();
    /// assert_eq!(found.doi.as_str(), "10.1000/182");
    /// ```
    pub const fn field_separator(self, separator: Option<u8>) -> Self {
        Self { field_separator: separator, ..self }
    }

    /// Skips candidates longer than `bytes`; unlimited by default.
    ///
    /// ```
    /// # use tendot_names::Extractor;
    /// assert_eq!(Extractor::new().max_len(16).find_iter(b"10.1000/182 10.1000/much-too-long").count(), 1);
    /// ```
    pub const fn max_len(self, bytes: usize) -> Self {
        Self { max_len: bytes, ..self }
    }

    /// Extracts the DOIs in `text`, in order.
    pub fn find_iter(self, text: &[u8]) -> impl Iterator<Item = ExtractedDoi<'_>> {
        let mut extractor = IncrementalExtractor::new(self);
        core::iter::from_fn(move || match extractor.next_doi(text, true) {
            ExtractStep::Found(found) => Some(found),
            ExtractStep::NeedMoreInput { .. } | ExtractStep::End => None,
        })
    }

    /// Extractor for text in chunks, see [`IncrementalExtractor::next_doi`].
    pub fn incremental(self) -> IncrementalExtractor {
        IncrementalExtractor::new(self)
    }
}

impl Default for Extractor {
    fn default() -> Self {
        Self::new()
    }
}

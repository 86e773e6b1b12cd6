//! Finding names in running text.
//!
//! `scan` goes through the text from one `10.` to the next, `walk` over each candidate once, so the work is linear
//! whatever the input. On the way, `prefix` reads how a name begins, `context` what stands before it (a label, an
//! address, an open bracket), `token` one character however it is escaped, and `join` decides whether a name goes on
//! in the next line; `decoded` keeps a candidate that differs from the text, and `tail` cuts off what is not part of
//! the name.

mod incremental;

mod context;
mod prefix;

mod candidate;
mod escaped_char;
mod line_join;
mod unescaped;

mod name_extent;
mod publisher_tail;
mod trim;

mod extracted_doi;

pub use extracted_doi::{ExtractedDoi, ExtractionFlag, ExtractionFlags};
pub use incremental::{ExtractStep, IncrementalExtractor};

/// Finds the DOI names in `text`, with the default settings of [`Extractor`].
///
/// ```
/// let text = "See (10.1130/2013.2502(04)) and https://doi.org/10.1000/456%23789.".as_bytes();
/// let names: Vec<_> = tendot_names::find_iter(text).map(|found| found.name.to_string()).collect();
/// assert_eq!(names, ["10.1130/2013.2502(04)", "10.1000/456#789"]);
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
/// assert_eq!(joined.next().unwrap().name.as_str(), "10.1016/j.brainresrev.2010.03.002");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Extractor {
    pub(crate) join_lines: bool,
    pub(crate) keep_tails: bool,
    pub(crate) field_separator: Option<u8>,
    pub(crate) max_len: usize,
    /// The text is one field that holds a name, so a short registrant code needs no label.
    pub(crate) labelled: bool,
}

impl Extractor {
    /// Does not join lines, trims publisher tails, accepts DOIs of up to 2,048 bytes.
    pub const fn new() -> Self {
        Self { join_lines: false, keep_tails: false, field_separator: None, max_len: 2048, labelled: false }
    }

    /// Joins a DOI that is broken across lines, as in text from PDF files.
    pub const fn join_lines(self, join_lines: bool) -> Self {
        Self { join_lines, ..self }
    }

    /// Keeps publisher tails (`/full`, `.pdf`) and annotations.
    ///
    /// ```
    /// # use tendot_names::Extractor;
    /// let text = b"https://publisher.example/doi/10.1002/asi.20001/full";
    /// let found = |extractor: Extractor| extractor.find_iter(text).next().unwrap().name.to_string();
    /// assert_eq!(found(Extractor::new()), "10.1002/asi.20001");
    /// assert_eq!(found(Extractor::new().keep_publisher_tails(true)), "10.1002/asi.20001/full");
    /// ```
    pub const fn keep_publisher_tails(self, keep_tails: bool) -> Self {
        Self { keep_tails, ..self }
    }

    /// Field separator of a table (`,` or tab); ends a DOI outside quotes.
    ///
    /// ```
    /// # use tendot_names::Extractor;
    /// let found = Extractor::new().field_separator(Some(b',')).find_iter(b"1,10.1000/182,2010").next().unwrap();
    /// assert_eq!(found.name.as_str(), "10.1000/182");
    /// ```
    pub const fn field_separator(self, separator: Option<u8>) -> Self {
        Self { field_separator: separator, ..self }
    }

    /// Skips candidates longer than `bytes`.
    ///
    /// ```
    /// # use tendot_names::Extractor;
    /// assert_eq!(Extractor::new().max_len(16).find_iter(b"10.1000/182 10.1000/much-too-long").count(), 1);
    /// ```
    pub const fn max_len(self, bytes: usize) -> Self {
        Self { max_len: bytes, ..self }
    }

    /// The names in `text`, in order.
    pub fn find_iter(self, text: &[u8]) -> impl Iterator<Item = ExtractedDoi<'_>> {
        let mut scan = IncrementalExtractor::new(self);
        core::iter::from_fn(move || match scan.next_doi(text, true) {
            ExtractStep::Found(found) => Some(found),
            ExtractStep::NeedMore(_) | ExtractStep::End => None,
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

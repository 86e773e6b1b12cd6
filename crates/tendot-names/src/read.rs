//! Reading a name in any of its written forms.
//!
//! A strict reading takes what the standards define and nothing else. A lenient one also takes what people
//! paste, and says what it changed.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use crate::character::is_stray_invisible;
use crate::escape::{Malformed, decode, position_before_decoding};
use crate::fold::append_upper;
use crate::notes::{Note, Notes};
use crate::peel::{self, Peeled, Plain, peel, peel_decoded};
use crate::{Doi, Error, ErrorKind, Form, Name, Rules, ShortDoi, Written, cast};

/// Reads names in any written form.
///
/// ```
/// use tendot_names::{Note, Reader, WrittenAs};
///
/// let reading = Reader::lenient().read(" DOI: https://dx.doi.org/10.1000%2F182 ")?;
/// assert_eq!(reading.name().unwrap().as_str(), "10.1000/182");
/// assert_eq!(reading.form(), WrittenAs::ProxyUrl);
/// assert!(reading.notes().contains(Note::Trimmed));
/// assert!(reading.notes().contains(Note::LabelDropped));
///
/// // A strict reading refuses it, and says where.
/// assert_eq!(Reader::strict().read("DOI: 10.1000/182").unwrap_err().at(), 4);
/// # Ok::<(), tendot_names::Error>(())
/// ```
///
/// # What is not read
///
/// Names inside other addresses, such as publishers' pages, are found by [`find_iter`](crate::find_iter), not
/// read. `https://doi.org/gf4gqc`, a shortDOI without its `10/`, only a proxy can tell from its own pages.
#[derive(Clone, Copy, Debug)]
pub struct Reader {
    rules: Rules,
    lenient: bool,
    max_len: usize,
}

impl Reader {
    /// Takes the written forms that the standards define.
    pub const fn strict() -> Self {
        Self { rules: Rules::Current, lenient: false, max_len: usize::MAX }
    }

    /// Also takes what people paste: labels, surrounding white space and quotes, addresses without scheme,
    /// doubled prefixes, invisible characters. [`Reading::notes`] tells what was changed.
    pub const fn lenient() -> Self {
        Self { lenient: true, ..Self::strict() }
    }

    /// Checks names by these rules instead of the current ones.
    ///
    /// ```
    /// # use tendot_names::{Reader, Rules};
    /// let reader = Reader::strict().rules(Rules::Minimal2002);
    /// assert_eq!(reader.read("doi:1.23/2002/january/21/4690")?.name().unwrap().prefix(), "1.23");
    /// # Ok::<(), tendot_names::Error>(())
    /// ```
    pub const fn rules(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }

    /// Refuses inputs of more than `bytes` bytes before looking at them. There is no limit otherwise, as in the
    /// standards.
    ///
    /// ```
    /// # use tendot_names::{ErrorKind, Reader};
    /// let error = Reader::lenient().max_len(256).read(&"a".repeat(257)).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::TooLong);
    /// ```
    pub const fn max_len(self, bytes: usize) -> Self {
        Self { max_len: bytes, ..self }
    }

    /// Reads bytes, which must be UTF-8.
    pub fn read_bytes<'a>(&self, bytes: &'a [u8]) -> Result<Reading<'a>, Error> {
        let text =
            str::from_utf8(bytes).map_err(|error| Error::new(ErrorKind::InvalidUtf8, error.valid_up_to()))?;
        self.read(text)
    }

    /// Reads a text. Nothing is copied unless something had to be decoded or dropped.
    pub fn read<'a>(&self, text: &'a str) -> Result<Reading<'a>, Error> {
        if text.len() > self.max_len {
            return Err(Error::new(ErrorKind::TooLong, self.max_len));
        }
        if let Some(reading) = self.read_plain(text) {
            return Ok(reading);
        }
        if !self.lenient {
            return self.read_peeled(peel::strict(text)?, Notes::default());
        }
        if text.is_ascii() || !text.contains(is_stray_invisible) {
            return self.read_peeled(peel(text)?, Notes::default());
        }
        let clean: String = text.chars().filter(|&c| !is_stray_invisible(c)).collect();
        let place = |error: Error| Error::new(error.kind(), position_before_dropping(text, error.at()));
        let notes = Notes::default().with(Note::InvisibleDropped);
        let peeled = peel(&clean).map_err(place)?;
        Ok(self.read_peeled(peeled, notes).map_err(place)?.into_owned())
    }

    /// Reads what is written plainly. All else, and all that is wrong, is left to the long way.
    #[inline]
    fn read_plain<'a>(&self, text: &'a str) -> Option<Reading<'a>> {
        let Plain { name, form, encoded } = peel::plain(text)?;
        if !encoded {
            self.rules.check_parts(name).ok()?;
            return Some(Reading::doi(Cow::Borrowed(cast::name(name)), form, Notes::default()));
        }
        let Cow::Owned(name) = decode(name, Malformed::Refuse).ok()?.text else { return None };
        self.rules.check(&name, false).ok()?;
        Some(Reading::doi(Cow::Owned(Doi::checked(name)), form, Notes::default()))
    }

    /// Decodes and checks what is left once labels and addresses are taken off.
    fn read_peeled<'a>(&self, peeled: Peeled<'a>, notes: Notes) -> Result<Reading<'a>, Error> {
        let Peeled { text, offset, form, eidr, notes: peeled_notes } = peeled;
        let mut notes = notes.and(peeled_notes);
        if eidr {
            return self.read_eidr(text, offset, form, notes);
        }
        let encoded = if form == WrittenAs::Name { self.lenient && hides_its_slash(text) } else { true };
        if !encoded {
            return self.finish(Cow::Borrowed(text), form, notes).map_err(|error| error.moved(offset));
        }
        let malformed = if self.lenient { Malformed::Keep } else { Malformed::Refuse };
        let decoded = decode(text, malformed).map_err(|error| error.moved(offset))?;
        if form == WrittenAs::Name {
            notes = notes.with(Note::Decoded);
        }
        if decoded.stray_percent {
            notes = notes.with(Note::PercentKept);
        }
        let place =
            |error: Error| Error::new(error.kind(), offset + position_before_decoding(text, error.at()));
        if self.lenient && matches!(decoded.text, Cow::Owned(_)) && !decoded.text.starts_with("10.") {
            // `https://doi.org/doi%3A10.1000%2F182`: the label shows only now. It is not decoded again.
            let inner = peel_decoded(&decoded.text).map_err(place)?;
            if inner.offset > 0 {
                let form = form.or_outer(inner.form);
                let notes = notes.and(inner.notes).with(Note::LabelDropped);
                let reading = self.finish(Cow::Borrowed(inner.text), form, notes);
                return Ok(reading.map_err(|error| place(error.moved(inner.offset)))?.into_owned());
            }
        }
        self.finish(decoded.text, form, notes).map_err(place)
    }

    /// RFC 7972 writes `:` where the name has its first `/`.
    fn read_eidr<'a>(
        &self,
        text: &str,
        offset: usize,
        form: WrittenAs,
        notes: Notes,
    ) -> Result<Reading<'a>, Error> {
        let name = match text.split_once(':') {
            Some((prefix, suffix)) if !prefix.contains('/') => [prefix, "/", suffix].concat(),
            _ if self.lenient || text.is_empty() => String::from(text),
            _ => return Err(Error::new(ErrorKind::MissingSlash, offset + text.len())),
        };
        let malformed = if self.lenient { Malformed::Keep } else { Malformed::Refuse };
        let decoded = decode(&name, malformed).map_err(|error| error.moved(offset))?;
        let notes = if decoded.stray_percent { notes.with(Note::PercentKept) } else { notes };
        let place =
            |error: Error| Error::new(error.kind(), offset + position_before_decoding(&name, error.at()));
        Ok(self.finish(decoded.text, form, notes).map_err(place)?.into_owned())
    }

    fn finish<'a>(&self, text: Cow<'a, str>, form: WrittenAs, notes: Notes) -> Result<Reading<'a>, Error> {
        if ShortDoi::matches(&text) {
            let target = Target::Short(ShortDoi::checked(text));
            return Ok(Reading { target, form, notes });
        }
        let mut notes = notes;
        if let Err(error) = self.rules.check(&text, false) {
            if !self.lenient || error.kind() != ErrorKind::UnassignedCharacter {
                return Err(error);
            }
            self.rules.check(&text, true)?;
            notes = notes.with(Note::UnassignedAccepted);
        }
        let name = match text {
            Cow::Borrowed(text) => Cow::Borrowed(cast::name(text)),
            Cow::Owned(text) => Cow::Owned(Doi::checked(text)),
        };
        Ok(Reading::doi(name, form, notes))
    }
}

/// A bare name is never decoded, but for this shape: no slash, and one that is percent-encoded.
fn hides_its_slash(text: &str) -> bool {
    !text.contains('/')
        && text.contains('%')
        && text.as_bytes().windows(3).any(|bytes| bytes.eq_ignore_ascii_case(b"%2F"))
}

/// The offset in `text` of what stands at `clean_at` once stray invisible characters are dropped.
fn position_before_dropping(text: &str, clean_at: usize) -> usize {
    let mut left = clean_at;
    for (at, c) in text.char_indices() {
        if is_stray_invisible(c) {
            continue;
        }
        if left == 0 {
            return at;
        }
        left = left.saturating_sub(c.len_utf8());
    }
    text.len()
}

/// What a written form was found to say.
#[derive(Clone, Debug)]
pub struct Reading<'a> {
    target: Target<'a>,
    form: WrittenAs,
    notes: Notes,
}

impl<'a> Reading<'a> {
    fn doi(name: Cow<'a, Name>, form: WrittenAs, notes: Notes) -> Self {
        Self { target: Target::Doi(name), form, notes }
    }

    /// The name, or the shortDOI.
    pub const fn target(&self) -> &Target<'a> {
        &self.target
    }

    /// The name, or the shortDOI, taken out.
    pub fn into_target(self) -> Target<'a> {
        self.target
    }

    /// The DOI name, unless it is a shortDOI.
    pub fn name(&self) -> Option<&Name> {
        match &self.target {
            Target::Doi(name) => Some(name),
            Target::Short(_) => None,
        }
    }

    /// The form in which it was written.
    pub const fn form(&self) -> WrittenAs {
        self.form
    }

    /// What a lenient reading changed; empty for a strict one.
    pub const fn notes(&self) -> Notes {
        self.notes
    }

    fn into_owned<'b>(self) -> Reading<'b> {
        let target = match self.target {
            Target::Doi(name) => Target::Doi(Cow::Owned(name.into_owned())),
            Target::Short(short) => Target::Short(ShortDoi::checked(Cow::Owned(short.into_string()))),
        };
        Reading { target, form: self.form, notes: self.notes }
    }
}

/// What a text names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Target<'a> {
    /// A DOI name.
    Doi(Cow<'a, Name>),
    /// A shortDOI, which is not a DOI name but stands for one.
    Short(ShortDoi<'a>),
}

impl Target<'_> {
    /// The name or shortDOI as written, decoded.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Doi(name) => name.as_str(),
            Self::Short(short) => short.as_str(),
        }
    }

    /// The part before the first slash.
    pub fn prefix(&self) -> &str {
        match self {
            Self::Doi(name) => name.prefix(),
            Self::Short(short) => short.prefix(),
        }
    }

    /// The part after the first slash.
    pub fn suffix(&self) -> &str {
        match self {
            Self::Doi(name) => name.suffix(),
            Self::Short(short) => short.suffix(),
        }
    }

    /// In another form; nothing when there is none, as with [`Form::Eidr`] for names of others.
    pub fn written_as(&self, form: Form) -> Option<Written<'_>> {
        match self {
            Self::Doi(name) => name.written_as(form),
            Self::Short(short) => short.written_as(form),
        }
    }

    /// Writes the comparison key to the end of `key`, as [`Name::write_key`] does.
    pub fn write_key(&self, key: &mut Vec<u8>) {
        append_upper(key, self.as_str().as_bytes());
    }
}

/// The form in which a name was found written.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum WrittenAs {
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

impl WrittenAs {
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
    pub(crate) const fn or_outer(self, inner: Self) -> Self {
        if inner.rank() > self.rank() { inner } else { self }
    }

    const fn rank(self) -> u8 {
        match self {
            Self::Name => 0,
            Self::Doi => 1,
            Self::Urn | Self::Info | Self::Hdl | Self::UrnEidr => 2,
            Self::ProxyUrl | Self::HandleUrl => 3,
        }
    }
}

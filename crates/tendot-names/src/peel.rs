//! Taking labels, schemes and proxy addresses off the front of a name, and queries and fragments off its end.

use crate::character::is_printable_ascii;
use crate::escape::{Literal, Malformed, decode};
use crate::notes::{Note, Notes};
use crate::read::WrittenAs;
use crate::{Error, ErrorKind};

/// What is left of an input: the part that holds the name, perhaps percent-encoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peeled<'a> {
    pub(crate) text: &'a str,
    /// Where `text` begins in the input.
    pub(crate) offset: usize,
    pub(crate) form: WrittenAs,
    /// It stood after `urn:eidr:`, perhaps inside an address: its first `:` stands for `/`.
    pub(crate) eidr: bool,
    pub(crate) notes: Notes,
}

/// A label or address that can stand before a name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Lead {
    form: WrittenAs,
    len: usize,
}

/// The hosts that resolve DOI names. Compared exactly: `evil-doi.org` and `doi.org.example` are others.
const HOSTS: [(&str, WrittenAs); 4] = [
    ("doi.org", WrittenAs::ProxyUrl),
    ("dx.doi.org", WrittenAs::ProxyUrl),
    ("www.doi.org", WrittenAs::ProxyUrl),
    ("hdl.handle.net", WrittenAs::HandleUrl),
];

/// The most frequent kinds of input, of which strict and lenient readings think alike: printable ASCII, bare or after
/// `doi:`, `urn:doi:` or a usual spelling of the proxy's address, with nothing to cut off.
pub(crate) struct Plain<'a> {
    pub(crate) name: &'a str,
    pub(crate) form: WrittenAs,
    /// Whether something in it may be percent-encoded.
    pub(crate) encoded: bool,
}

/// Takes such an input apart, if it is one.
#[inline]
pub(crate) fn plain(text: &str) -> Option<Plain<'_>> {
    let (name, form) = match text.as_bytes().first()? {
        b'1' => (text, WrittenAs::Name),
        b'd' => (text.strip_prefix("doi:")?, WrittenAs::Doi),
        b'h' => {
            let rest = text.strip_prefix("http")?;
            let rest = rest.strip_prefix('s').unwrap_or(rest).strip_prefix("://")?;
            let rest = rest.strip_prefix("dx.").or_else(|| rest.strip_prefix("www.")).unwrap_or(rest);
            (rest.strip_prefix("doi.org/")?, WrittenAs::ProxyUrl)
        }
        b'u' => (text.strip_prefix("urn:doi:")?, WrittenAs::Urn),
        _ => return None,
    };
    // A space at the end is dropped by a lenient reading.
    if !name.starts_with("10.") || name.ends_with(' ') {
        return None;
    }
    let bytes = name.as_bytes();
    let (fits, encoded) = match form {
        WrittenAs::Name => (is_printable_ascii(bytes), false),
        WrittenAs::Urn => (bytes.iter().all(|byte| is_urn_byte(*byte)), bytes.contains(&b'%')),
        _ => {
            let Survey { printable, percent, query_or_fragment } = survey(bytes);
            (printable && !(query_or_fragment && form == WrittenAs::ProxyUrl), percent)
        }
    };
    fits.then_some(Plain { name, form, encoded })
}

/// What the bytes of a name are.
struct Survey {
    /// All are printable ASCII.
    printable: bool,
    percent: bool,
    query_or_fragment: bool,
}

/// Looks at all bytes, sixteen at a time, because this is most of the work of reading a name.
#[inline]
fn survey(bytes: &[u8]) -> Survey {
    const UNPRINTABLE: u8 = 1;
    const PERCENT: u8 = 2;
    const END: u8 = 4;
    let judge = |byte: u8| {
        let unprintable = u8::from(byte.wrapping_sub(b' ') > b'~' - b' ') * UNPRINTABLE;
        let percent = u8::from(byte == b'%') * PERCENT;
        let end = u8::from((byte == b'?') | (byte == b'#')) * END;
        unprintable | percent | end
    };
    // Each of sixteen places collects what was found there, which is vectorized.
    let mut places = [0u8; 16];
    let mut look = |chunk: &[u8; 16]| {
        for (place, byte) in places.iter_mut().zip(chunk) {
            *place |= judge(*byte);
        }
    };
    let found = match bytes.last_chunk::<16>() {
        Some(last) => {
            let mut rest = bytes;
            while let Some((chunk, after)) = rest.split_first_chunk::<16>() {
                look(chunk);
                rest = after;
            }
            // The last sixteen again, since some of them may be left: cheaper than a shorter read.
            look(last);
            places.iter().fold(0, |found, place| found | place)
        }
        None => bytes.iter().fold(0, |found, byte| found | judge(*byte)),
    };
    Survey {
        printable: found & UNPRINTABLE == 0,
        percent: found & PERCENT != 0,
        query_or_fragment: found & END != 0,
    }
}

/// Takes off the one form that a strict reading allows.
pub(crate) fn strict(text: &str) -> Result<Peeled<'_>, Error> {
    let bare = Peeled { text, offset: 0, form: WrittenAs::Name, eidr: false, notes: Notes::default() };
    if text.starts_with("10.") {
        return Ok(bare);
    }
    if let Some(lead) = scheme(text) {
        let peeled = bare.without(lead);
        return if matches!(lead.form, WrittenAs::Urn | WrittenAs::UrnEidr) {
            strict_urn(peeled)
        } else {
            Ok(peeled.cut_tail())
        };
    }
    match address(text)? {
        Some(address) if !address.port && address.scheme => {
            Ok(bare.without(address.lead).one_slash().without_api_path().cut_tail())
        }
        Some(Address { port: true, scheme: true, lead }) => Err(Error::new(ErrorKind::UnknownForm, lead.len)),
        _ => Ok(bare),
    }
}

/// RFC 8141: the name ends at the r-, q- or f-component, and only certain characters stand unencoded.
fn strict_urn(peeled: Peeled<'_>) -> Result<Peeled<'_>, Error> {
    let name = peeled.cut_tail();
    let bad = |at: usize| Error::new(ErrorKind::BadUrn, peeled.offset + at);
    if let Some(at) = name.text.bytes().position(|byte| !is_urn_byte(byte)) {
        return Err(bad(at));
    }
    let components = peeled.text.get(name.text.len()..).unwrap_or_default();
    let mut at = name.text.len();
    let (resolution_and_query, fragment) = components.split_once('#').unwrap_or((components, ""));
    if !resolution_and_query.is_empty() {
        let (resolution, query) = match resolution_and_query.strip_prefix("?+") {
            Some(rest) => rest.split_once("?=").map_or((Some(rest), None), |(r, q)| (Some(r), Some(q))),
            None => (None, resolution_and_query.strip_prefix("?=")),
        };
        if resolution.is_none() && query.is_none() {
            return Err(bad(at));
        }
        for component in [resolution, query].into_iter().flatten() {
            at += 2;
            check_component(component).map_err(|error| error.moved(peeled.offset + at))?;
            if component.is_empty() || component.starts_with(['/', '?']) {
                return Err(bad(at));
            }
            at += component.len();
        }
    }
    check_component(fragment).map_err(|error| error.moved(peeled.offset + at + 1))?;
    Ok(name)
}

/// What may stand in an r-, q- or f-component, percent-encoding well formed.
fn check_component(text: &str) -> Result<(), Error> {
    if let Some(at) = text.bytes().position(|byte| !is_urn_byte(byte) && byte != b'?') {
        return Err(Error::new(ErrorKind::BadUrn, at));
    }
    decode(text, Malformed::Refuse)
        .map(|_| ())
        .map_err(|error| Error::new(ErrorKind::BadPercentEncoding, error.at()))
}

/// `pchar` of RFC 3986 and the slash.
fn is_urn_byte(byte: u8) -> bool {
    Literal::URN.contains(byte)
}

/// Takes off everything that a lenient reading may take off.
pub(crate) fn peel(text: &str) -> Result<Peeled<'_>, Error> {
    let mut peeled = Peeled { text, offset: 0, form: WrittenAs::Name, eidr: false, notes: Notes::default() };
    loop {
        let before = peeled.text.len();
        peeled = peeled.trimmed().unwrapped();
        if peeled.text.starts_with("10.") {
            break;
        }
        if peeled.text.len() < before {
            continue;
        }
        if let Some(lead) = scheme(peeled.text) {
            peeled = peeled.without(lead);
            continue;
        }
        if let Some(lead) = label(peeled.text) {
            peeled = peeled.without(lead);
            peeled.notes = peeled.notes.with(Note::LabelDropped);
            continue;
        }
        let is_first_address = !peeled.form.is_address();
        let Some(address) = address(peeled.text).map_err(|error| error.moved(peeled.offset))? else { break };
        peeled = peeled.without(address.lead);
        for (happened, note) in [
            (!is_first_address, Note::DoubledAddress),
            (!address.scheme, Note::SchemeMissing),
            (address.port, Note::DefaultPort),
        ] {
            if happened {
                peeled.notes = peeled.notes.with(note);
            }
        }
        peeled = peeled.one_slash().extra_slashes().without_api_path();
    }
    let whole = peeled;
    peeled = peeled.cut_tail();
    if peeled.form == WrittenAs::Urn || peeled.form == WrittenAs::UrnEidr {
        let tail = whole.text.get(peeled.text.len()..).unwrap_or_default();
        if tail.starts_with('?') && !tail.starts_with("?+") && !tail.starts_with("?=") {
            peeled.notes = peeled.notes.with(Note::QueryCut);
        } else if strict_urn(whole).is_err() {
            peeled.notes = peeled.notes.with(Note::RawInUrn);
        }
    }
    Ok(peeled)
}

/// Takes off what shows only once an address is decoded: `doi%3A10.1000%2F182`. Nothing is trimmed, since what was
/// encoded is data.
pub(crate) fn peel_decoded(text: &str) -> Result<Peeled<'_>, Error> {
    let mut peeled = Peeled { text, offset: 0, form: WrittenAs::Name, eidr: false, notes: Notes::default() };
    while !peeled.text.starts_with("10.") {
        if let Some(lead) = scheme(peeled.text) {
            peeled = peeled.without(lead);
        } else if let Some(Address { lead, scheme: true, .. }) =
            address(peeled.text).map_err(|error| error.moved(peeled.offset))?
        {
            peeled = peeled.without(lead).one_slash();
        } else {
            break;
        }
    }
    Ok(peeled)
}

impl<'a> Peeled<'a> {
    fn without(self, lead: Lead) -> Self {
        let mut notes = self.notes;
        let is_second = self.form != WrittenAs::Name;
        if is_second && !(self.form.is_address() && lead.form.is_address()) {
            notes = notes.with(Note::LabelDropped);
        }
        let eidr = self.eidr || lead.form == WrittenAs::UrnEidr;
        Self { form: self.form.or_outer(lead.form), eidr, notes, ..self.from(lead.len) }
    }

    fn from(self, at: usize) -> Self {
        Self { text: self.text.get(at..).unwrap_or_default(), offset: self.offset + at, ..self }
    }

    fn trimmed(self) -> Self {
        // White space is at most this in ASCII, or outside it.
        let may_be_space = |byte: Option<&u8>| byte.is_some_and(|byte| *byte <= b' ' || *byte >= 0x80);
        let bytes = self.text.as_bytes();
        if !may_be_space(bytes.first()) && !may_be_space(bytes.last()) {
            return self;
        }
        let text = self.text.trim_start();
        let dropped = self.text.len() - text.len();
        let trimmed = Self { text: text.trim_end(), offset: self.offset + dropped, ..self };
        if trimmed.text.len() == self.text.len() {
            return self;
        }
        Self { notes: self.notes.with(Note::Trimmed), ..trimmed }
    }

    /// Drops `<…>` and quotes around the whole, with a colon after them, and a colon that has lost its label.
    fn unwrapped(self) -> Self {
        const PAIRS: [(char, char); 11] = [
            ('<', '>'),
            ('"', '"'),
            ('\'', '\''),
            ('`', '`'),
            ('“', '”'),
            ('„', '“'),
            ('‘', '’'),
            ('«', '»'),
            ('‹', '›'),
            ('「', '」'),
            ('『', '』'),
        ];
        if self.text.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            return self;
        }
        let noted = self.notes.with(Note::Unwrapped);
        if let Some(rest) = self.text.strip_prefix(':').filter(|_| !self.eidr) {
            return Self { text: rest, offset: self.offset + 1, notes: noted, ..self };
        }
        let without_colon = self.text.strip_suffix(':').unwrap_or(self.text).trim_end();
        for (open, close) in PAIRS {
            for text in [self.text, without_colon] {
                if let Some(inner) = text.strip_prefix(open).and_then(|rest| rest.strip_suffix(close)) {
                    let offset = self.offset + open.len_utf8();
                    return Self { text: inner, offset, notes: noted, ..self };
                }
            }
        }
        self
    }

    fn one_slash(self) -> Self {
        if self.text.starts_with('/') { self.from(1) } else { self }
    }

    fn extra_slashes(self) -> Self {
        let extra = self.text.len() - self.text.trim_start_matches('/').len();
        if extra == 0 {
            return self;
        }
        Self { notes: self.notes.with(Note::ExtraSlashes), ..self.from(extra) }
    }

    /// 2024 draft, section 3: records are asked for under `/api/handles/`.
    fn without_api_path(self) -> Self {
        const PATH: &str = "api/handles/";
        if self.text.starts_with(PATH) { self.from(PATH.len()) } else { self }
    }

    /// Cuts off what is not part of the name: query and fragment of an address, the components of a URN, the
    /// fragment of an info URI. After `doi:` and `hdl:` and in a bare name, `?` and `#` are data: a `doi` URI has
    /// neither query nor fragment (2024 draft, section 2).
    fn cut_tail(self) -> Self {
        let end = match self.form {
            WrittenAs::ProxyUrl | WrittenAs::HandleUrl | WrittenAs::Urn | WrittenAs::UrnEidr => {
                self.text.bytes().position(|byte| matches!(byte, b'?' | b'#'))
            }
            WrittenAs::Info => self.text.find('#'),
            WrittenAs::Name | WrittenAs::Doi | WrittenAs::Hdl => None,
        };
        let Some(end) = end else { return self };
        Self { text: self.text.get(..end).unwrap_or_default(), ..self }
    }
}

impl WrittenAs {
    const fn is_address(self) -> bool {
        matches!(self, Self::ProxyUrl | Self::HandleUrl)
    }
}

/// A scheme or URN namespace that a strict reading takes too.
fn scheme(text: &str) -> Option<Lead> {
    let (scheme, form) = match text.as_bytes() {
        [b'd' | b'D', ..] => ("doi:", WrittenAs::Doi),
        [b'u' | b'U', _, _, _, b'd' | b'D', ..] => ("urn:doi:", WrittenAs::Urn),
        [b'u' | b'U', ..] => ("urn:eidr:", WrittenAs::UrnEidr),
        [b'i' | b'I', ..] => ("info:doi/", WrittenAs::Info),
        [b'h' | b'H', b'd' | b'D', ..] => ("hdl:", WrittenAs::Hdl),
        _ => return None,
    };
    starts_with_ignore_case(text, scheme).then_some(Lead { form, len: scheme.len() })
}

/// A label as people write it: `DOI 10.1000/182`, `DOI：10.1000/182`, `doi10.1000/182`, `URL:https://…`.
fn label(text: &str) -> Option<Lead> {
    if starts_with_ignore_case(text, "url:http") {
        return Some(Lead { form: WrittenAs::Name, len: 4 });
    }
    if starts_with_ignore_case(text, "info:hdl/") {
        return Some(Lead { form: WrittenAs::Info, len: 9 });
    }
    if !starts_with_ignore_case(text, "doi") {
        return None;
    }
    let rest = text.get(3..)?;
    let len = match rest.chars().next()? {
        '：' => 3 + '：'.len_utf8(),
        c if c.is_whitespace() => 3,
        _ if rest.starts_with("10.") => 3,
        _ => return None,
    };
    Some(Lead { form: WrittenAs::Doi, len })
}

struct Address {
    lead: Lead,
    scheme: bool,
    port: bool,
}

/// The address of a proxy at the beginning of `text`. An address of another host is refused; other text is
/// none at all.
fn address(text: &str) -> Result<Option<Address>, Error> {
    let unknown = |at| Err(Error::new(ErrorKind::UnknownForm, at));
    let (scheme_len, default_port) = if starts_with_ignore_case(text, "https://") {
        (8, Some(":443"))
    } else if starts_with_ignore_case(text, "http://") {
        (7, Some(":80"))
    } else if starts_with_ignore_case(text, "urn:") {
        return Err(other_urn(text));
    } else if has_other_scheme(text) {
        return unknown(0);
    } else {
        (0, None)
    };
    let after_scheme = text.get(scheme_len..).unwrap_or_default();
    let authority_len = after_scheme
        .bytes()
        .position(|byte| matches!(byte, b'/' | b'?' | b'#'))
        .unwrap_or(after_scheme.len());
    let authority = after_scheme.get(..authority_len).unwrap_or_default();
    let (host, port) = match default_port.and_then(|port| authority.strip_suffix(port)) {
        Some(host) => (host, true),
        None => (authority, false),
    };
    let known =
        HOSTS.into_iter().find(|(known, _)| host.len() == known.len() && host.eq_ignore_ascii_case(known));
    match known {
        Some((_, form)) if default_port.is_some() || after_scheme.len() > authority_len => {
            let lead = Lead { form, len: scheme_len + authority_len };
            Ok(Some(Address { lead, scheme: default_port.is_some(), port }))
        }
        None if default_port.is_some() => unknown(scheme_len),
        _ => Ok(None),
    }
}

/// A URN of another namespace, or of none.
fn other_urn(text: &str) -> Error {
    let namespace = text.split(':').nth(1).unwrap_or_default();
    let is_namespace =
        namespace.len() >= 2 && namespace.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if is_namespace { Error::new(ErrorKind::UnknownForm, 4) } else { Error::new(ErrorKind::BadUrn, 4) }
}

/// True for `ftp://…` and its like.
fn has_other_scheme(text: &str) -> bool {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "+-.".contains(c));
    rest.len() < text.len() && rest.starts_with("://")
}

fn starts_with_ignore_case(text: &str, lead: &str) -> bool {
    text.as_bytes().get(..lead.len()).is_some_and(|start| start.eq_ignore_ascii_case(lead.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_bytes_at_a_time_are_judged_like_each_alone() {
        for byte in 0..=255u8 {
            for len in [1, 7, 8, 9, 15, 16, 17, 33] {
                for at in 0..len {
                    let mut bytes = alloc::vec![b'a'; len];
                    bytes[at] = byte;
                    let found = survey(&bytes);
                    assert_eq!(found.printable, matches!(byte, b' '..=b'~'));
                    assert_eq!(found.percent, byte == b'%');
                    assert_eq!(found.query_or_fragment, b"?#".contains(&byte));
                }
            }
        }
    }
}

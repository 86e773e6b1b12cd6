//! `10320/loc`: alternative locations and their selection.

use alloc::vec::Vec;

use super::links::Link;
use super::xml::{self, XmlElement};
use crate::error::{DecodeError, DecodeErrorKind};

/// Data of a `10320/loc` value: alternative locations and the selection methods, in XML.
///
/// ```
/// use tendot_proto::record::Locations;
///
/// let locations = Locations::from_bytes(
///     br#"<locations chooseby="country,weighted">
///         <location href="https://a.example.org/" country="gb" weight="0"/>
///         <location href="https://b.example.org/" cr_type="MR-LIST_NAMES"/></locations>"#,
/// )?;
/// assert!(locations.selection_methods().eq(["country", "weighted"]));
/// let [british, other] = &locations.locations[..] else { panic!() };
/// assert_eq!((british.href(), british.country(), british.weight()), (Some("https://a.example.org/"), Some("gb"), 0.0));
/// assert_eq!((other.weight(), other.attribute("cr_type")), (1.0, Some("MR-LIST_NAMES")));
///
/// assert!(Locations::from_bytes(b"<locations><location></locations>").is_err());
/// # Ok::<(), tendot_proto::DecodeError>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Locations<'a> {
    source: &'a str,
    root: XmlElement<'a>,
    /// Locations in order.
    pub locations: Vec<Location<'a>>,
    /// Other elements, for example `include`.
    pub other_elements: Vec<XmlElement<'a>>,
}

impl<'a> Locations<'a> {
    /// Maximum depth; the format needs two levels.
    const MAX_XML_DEPTH: usize = 4;

    /// Maximum number of locations.
    pub const MAX_LOCATIONS: usize = 256;

    /// Handle.Net's default selection methods.
    pub const DEFAULT_SELECTION_METHODS: &'static str = "locatt,address,country,score,weighted";

    /// Decodes the data of a value.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let tree = xml::parse_bounded(bytes, "10320/loc", Self::MAX_XML_DEPTH)?;
        let (locations, other_elements): (Vec<_>, Vec<_>) =
            tree.children.into_iter().partition(|child| matches!(child.tag, "location" | "loc_template"));
        if locations.len() > Self::MAX_LOCATIONS {
            let kind = DecodeErrorKind::TooManyItems { count: locations.len(), max: Self::MAX_LOCATIONS };
            return Err(DecodeError::new("10320/loc", 0, kind));
        }
        let locations = locations.into_iter().map(Location).collect();
        Ok(Self { source: tree.source, root: tree.root, locations, other_elements })
    }

    /// XML source.
    pub const fn as_str(&self) -> &'a str {
        self.source
    }

    /// Attribute of the root element: `nshdl`, `include`, `overridePrefix`, `suppressNsHeaders` or any other.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.root.attribute(name)
    }

    /// Handles whose locations are added to these: those of `include` and `includeNamespace`, attributes or elements.
    pub fn included_handles(&self) -> impl Iterator<Item = &str> {
        let attributes = ["include", "includeNamespace"].into_iter().filter_map(|name| self.attribute(name));
        let elements =
            self.other_elements.iter().filter(|other| matches!(other.tag, "include" | "includeNamespace"));
        attributes.chain(elements.map(|element| &*element.text)).flat_map(split_handles)
    }

    /// Handles whose locations replace those of the prefix: `nshdl`.
    pub fn prefix_location_handles(&self) -> impl Iterator<Item = &str> {
        self.attribute("nshdl").into_iter().flat_map(split_handles)
    }

    /// Selection methods, applied in order until one location is left.
    pub fn selection_methods(&self) -> impl Iterator<Item = &str> {
        let methods = self.attribute("chooseby").or_else(|| self.attribute("choose_by"));
        methods
            .unwrap_or(Self::DEFAULT_SELECTION_METHODS)
            .split(',')
            .map(str::trim)
            .filter(|method| !method.is_empty())
    }

    /// Redirect status, if a valid one is given.
    pub fn http_status(&self) -> Option<u16> {
        redirect_status(&self.root)
    }

    /// Whether `URL` values are excluded.
    pub fn excludes_url_values(&self) -> bool {
        attribute_flag(&self.root, "no_legacy")
    }

    /// Whether the locations of the prefix are excluded.
    pub fn excludes_prefix_locations(&self) -> bool {
        attribute_flag(&self.root, "no_nslocs")
    }

    /// Weight of `URL` values among the locations, if given.
    pub fn url_weight(&self) -> Option<f64> {
        self.attribute("urlWeight").map(parse_weight)
    }

    /// Weight of values of `URL` subtypes, if given.
    pub fn url_subtype_weight(&self) -> Option<f64> {
        self.attribute("urlSubtypeWeight").map(parse_weight)
    }
}

/// Location of a `10320/loc` value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Location<'a>(XmlElement<'a>);

impl<'a> Location<'a> {
    /// Maximum weight, so that sums do not overflow.
    pub const MAX_WEIGHT: f64 = 1e9;

    /// Attribute by name.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.0.attribute(name)
    }

    /// All attributes in order.
    pub fn attributes(&self) -> impl Iterator<Item = (&'a str, &str)> {
        self.0.attributes.iter().map(|(name, value)| (*name, &**value))
    }

    /// Id of the location.
    pub fn id(&self) -> Option<&str> {
        self.attribute("id")
    }

    /// URL of the location.
    pub fn href(&self) -> Option<&str> {
        self.attribute("href")
    }

    /// URL template: `{hdl}` is the handle as a URL component, `{hdl:path}` as a path.
    pub fn href_template(&self) -> Option<&str> {
        self.attribute("href_template")
    }

    /// Relative probability of selection: 1 by default; 0 if negative, not a number, or above [`Location::MAX_WEIGHT`].
    pub fn weight(&self) -> f64 {
        self.attribute("weight").map_or(1.0, parse_weight)
    }

    /// Quality of the location; the best are selected first.
    pub fn score(&self) -> Option<f64> {
        self.attribute("score")?.trim().parse().ok().filter(|score: &f64| score.is_finite())
    }

    /// Country of the clients to redirect there (ISO 3166-1, two letters).
    pub fn country(&self) -> Option<&str> {
        self.attribute("country")
    }

    /// Networks of the clients to redirect there, for example `192.0.2.0/24`.
    pub fn client_networks(&self) -> impl Iterator<Item = &str> {
        let list = self.attribute("addresses").unwrap_or_default();
        list.split(',').map(str::trim).filter(|network| !network.is_empty())
    }

    /// Clients to redirect there: `conneg`, `browser` or `no_conneg`.
    pub fn http_role(&self) -> Option<&str> {
        self.attribute("http_role")
    }

    /// Redirect status, if a valid one is given.
    pub fn http_status(&self) -> Option<u16> {
        redirect_status(&self.0)
    }

    /// Media type of the location: `ctype` or `media-type`.
    pub fn media_type(&self) -> Option<&str> {
        self.attribute("ctype").or_else(|| self.attribute("media-type"))
    }

    /// Language of the location.
    pub fn language(&self) -> Option<&str> {
        self.attribute("language")
    }

    /// Role of the location for the resource.
    pub fn role(&self) -> Option<&str> {
        self.attribute("role")
    }

    /// The location as a typed link of the response, if it is one.
    pub fn link(&self) -> Option<Link<'_, 'a>> {
        Link::from_element(&self.0)
    }
}

/// Handles in a list, separated by commas or white space.
fn split_handles(list: &str) -> impl Iterator<Item = &str> {
    list.split([',', ' ', '\n', '\t']).filter(|handle| !handle.is_empty())
}

/// Redirect status of HTTP.
fn redirect_status(element: &XmlElement<'_>) -> Option<u16> {
    let status = element.attribute("http_sc")?.trim().parse().ok()?;
    matches!(status, 301 | 302 | 303 | 307 | 308).then_some(status)
}

fn attribute_flag(element: &XmlElement<'_>, name: &str) -> bool {
    element.attribute(name).is_some_and(|text| {
        let text = text.trim();
        !(text.is_empty() || text == "0" || ["false", "no"].iter().any(|no| text.eq_ignore_ascii_case(no)))
    })
}

fn parse_weight(text: &str) -> f64 {
    let weight = text.trim().parse().unwrap_or_default();
    if (0.0..=Location::MAX_WEIGHT).contains(&weight) { weight } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use std::format;

    use super::*;

    #[test]
    fn weights() {
        check("1", 1.0);
        check(" 0.5 ", 0.5);
        check("0", 0.0);
        check("-1", 0.0);
        check("NaN", 0.0);
        check("inf", 0.0);
        check("1e308", 0.0);
        check("1e9", 1e9);
        check("heavy", 0.0);
        check("", 0.0);
    }

    #[track_caller]
    fn check(text: &str, weight: f64) {
        let xml = format!("<locations><location weight='{text}'/></locations>");
        assert_eq!(
            Locations::from_bytes(xml.as_bytes()).unwrap().locations[0].weight().to_bits(),
            weight.to_bits()
        );
    }

    #[test]
    fn parses_locations() {
        let xml = "<locations http_sc='303' no_nslocs='true' no_legacy='no' urlWeight='2'><include>10.1/x</include>\
             <loc_template href_template='https://x/{hdl}' http_role='conneg' http_sc='200' ctype='text/turtle'/>\
             <location href='https://x/?a=1&amp;b=2' rel='cite-as' addresses='192.0.2.0/24, 2001:db8::/32' score='2'/>\
             </locations>";
        let locations = Locations::from_bytes(xml.as_bytes()).unwrap();
        assert!(locations.selection_methods().eq(Locations::DEFAULT_SELECTION_METHODS.split(',')));
        assert_eq!(
            (locations.http_status(), locations.url_weight(), locations.url_subtype_weight()),
            (Some(303), Some(2.0), None)
        );
        assert!(locations.excludes_prefix_locations() && !locations.excludes_url_values());
        assert_eq!(
            (locations.other_elements[0].tag, &*locations.other_elements[0].text),
            ("include", "10.1/x")
        );
        let [first, second] = &locations.locations[..] else { panic!("{locations:?}") };
        assert_eq!((first.http_role(), first.http_status()), (Some("conneg"), None));
        assert_eq!((first.media_type(), first.link().is_none()), (Some("text/turtle"), true));
        assert_eq!(second.href(), Some("https://x/?a=1&b=2"));
        assert!(second.client_networks().eq(["192.0.2.0/24", "2001:db8::/32"]));
        assert_eq!((second.score(), second.link().unwrap().rel()), (Some(2.0), "cite-as"));
        assert_eq!(locations.as_str(), xml);
    }

    #[test]
    fn location_limit() {
        let xml = |count| format!("<locations>{}</locations>", "<location/>".repeat(count));
        assert!(Locations::from_bytes(xml(256).as_bytes()).is_ok());
        assert!(Locations::from_bytes(xml(257).as_bytes()).is_err());
        assert!(Locations::from_bytes(xml(10_000).as_bytes()).is_err());
    }
}

//! Examples of the standards, with their clauses, as doc tests.
//!
//! # ANSI/NISO Z39.84-2005
//!
//! Section 4: comparison ignores the case of `a` to `z`.
//!
//! ```
//! # use tendot_names::*;
//! assert_eq!(Doi::new("10.123/ABC")?, Doi::new("10.123/AbC")?);
//! # Ok::<(), Error>(())
//! ```
//!
//! Section 4.3: a suffix must not start with one character and a slash.
//!
//! ```
//! # use tendot_names::*;
//! let error = Doi::with_rules("10.1000/x/y", SyntaxRules::Z3984).unwrap_err();
//! assert_eq!(error.kind(), ErrorKind::ReservedSuffix);
//! ```
//!
//! Appendix C: three DOIs.
//!
//! ```
//! # use tendot_names::*;
//! for (doi, suffix) in [
//!     (
//!         "10.1002/(SICI)1097-4571(199806)49:8<693::AID-ASI4>3.0.CO:2-0",
//!         "(SICI)1097-4571(199806)49:8<693::AID-ASI4>3.0.CO:2-0",
//!     ),
//!     ("10.1001/PUBS.JAMA(278)3,JOC7055-ABSY:", "PUBS.JAMA(278)3,JOC7055-ABSY:"),
//!     ("10.1006/rwei.1999.0001", "rwei.1999.0001"),
//! ] {
//!     assert_eq!(Doi::with_rules(doi, SyntaxRules::Z3984)?.suffix(), suffix);
//! }
//! # Ok::<(), Error>(())
//! ```
//!
//! Appendix E: DOIs in URLs. In a URL `#` is written `%23`; a bare `#` starts the fragment.
//!
//! ```
//! # use tendot_names::*;
//! let parse = |text| Parser::strict().parse(text).map(|parsed| parsed.identifier().as_str().to_owned());
//! assert_eq!(parse("http://dx.doi.org/10.123/456")?, "10.123/456");
//! assert_eq!(parse("http://dx.doi.org/10.1000/456%23789")?, "10.1000/456#789");
//! assert_eq!(parse("http://dx.doi.org/10.1000/456#789")?, "10.1000/456");
//! assert_eq!(parse("http://dx.doi.org/10.1006/rwei.1999%22.0001")?, "10.1006/rwei.1999\".0001");
//!
//! // "nihongo": 65E5 672C 8A9E, in UTF-8 E6 97 A5 E6 9C AC E8 AA 9E
//! let doi = Doi::new("10.1000/\u{65E5}\u{672C}\u{8A9E}")?;
//! assert_eq!(doi.url().to_string(), "https://doi.org/10.1000/%E6%97%A5%E6%9C%AC%E8%AA%9E");
//! # Ok::<(), Error>(())
//! ```
//!
//! Appendix E, tables 1 and 2: characters encoded in a URL.
//!
//! ```
//! # use tendot_names::*;
//! let doi = Doi::new("10.1000/%\"# <>{}^[]`|\\")?;
//! let minimal = doi.format(OutputForm::UrlMinimal).unwrap().to_string();
//! assert_eq!(minimal, "https://doi.org/10.1000/%25%22%23%20<>{}^[]`|\\");
//! let readable = doi.format(OutputForm::Url).unwrap().to_string();
//! assert_eq!(readable, "https://doi.org/10.1000/%25%22%23%20%3C%3E%7B%7D%5E%5B%5D%60%7C%5C");
//! # Ok::<(), Error>(())
//! ```
//!
//! # The 2002 draft
//!
//! Section 2.3, (a) to (d). In (c) the suffix is all text after the first slash; the draft prints only a part of it.
//!
//! ```
//! # use tendot_names::*;
//! for (uri, prefix, suffix) in [
//!     ("doi:alpha-beta/182.342-24", "alpha-beta", "182.342-24"),
//!     ("doi:10.abc/ab/cd/ef", "10.abc", "ab/cd/ef"),
//!     ("doi:1.23/2002/january/21/4690", "1.23", "2002/january/21/4690"),
//! ] {
//!     let parsed = Parser::strict().rules(SyntaxRules::Minimal2002).parse(uri)?;
//!     let doi = parsed.doi().unwrap();
//!     assert_eq!((doi.prefix(), doi.suffix()), (prefix, suffix));
//! }
//! # Ok::<(), Error>(())
//! ```
//!
//! Section 2.3, (e) and (f): DOIs in requests to other services are extracted, not parsed. Extraction accepts registered
//! prefixes only, so a registered one replaces those of the draft.
//!
//! ```
//! # use tendot_names::*;
//! for request in [
//!     "http://my.resolver.inc/resolve?id=doi%3A10.1000%2Fmsws",
//!     "rtsp://service.net/query?doi%3A10.1000%2Fmsws",
//! ] {
//!     assert_eq!(find_iter(request.as_bytes()).next().unwrap().doi.as_str(), "10.1000/msws");
//! }
//! ```
//!
//! # The 2003 draft
//!
//! Five input forms and their canonical form.
//!
//! ```
//! # use tendot_names::*;
//! for uri in [
//!     "DOI:dk/P%C3%A6dagogi%2037(2),%20562",
//!     "doi:DK/P%C3%A6dagogi%2037(2),%20562",
//!     "doi:dk/P%c3%a6dagogi%2037(2),%20562",
//!     "doi:dk/p%c3%a6dagogi%2037(2),%20562",
//!     "doi:dk%2FP%C3%A6dagogi%2037%282%29%2C%20562",
//! ] {
//!     let parsed = Parser::strict().rules(SyntaxRules::Minimal2002).parse(uri)?;
//!     let canonical = parsed.doi().unwrap().format(OutputForm::Uri2003).unwrap().to_string();
//!     assert_eq!(canonical, "doi:DK/P%C3%A6DAGOGI%2037(2),%20562");
//! }
//! # Ok::<(), Error>(())
//! ```
//!
//! # The URN registration of 2020
//!
//! Syntax: prefix and suffix. Lexical equivalence: four representations of one DOI, and the EIDR namespace.
//!
//! ```
//! # use tendot_names::*;
//! let doi = Doi::new("10.1000/182")?;
//! assert_eq!((doi.prefix(), doi.suffix()), ("10.1000", "182"));
//!
//! for text in [
//!     "urn:doi:10.1000/456%23789",
//!     "https://doi.org/10.1000/456%23789",
//!     "doi:10.1000/456#789",
//!     "10.1000/456#789",
//!     "urn:doi:10.1000/456%23789?+resolver?=query#part",
//! ] {
//!     assert_eq!(text.parse::<DoiBuf>()?.as_str(), "10.1000/456#789");
//! }
//!
//! let eidr: DoiBuf = "urn:eidr:10.5240:7791-8534-2C23-9030-8610-5".parse()?;
//! assert_eq!(eidr, "urn:doi:10.5240/7791-8534-2C23-9030-8610-5".parse()?);
//! # Ok::<(), Error>(())
//! ```
//!
//! # The 2024 draft
//!
//! Section 1, example 2, and section 2, examples 1 and 2: URIs. Section 2, notes 1 to 3: equivalence. Section 3:
//! URL of the record API.
//!
//! ```
//! # use tendot_names::*;
//! for (doi, uri) in [
//!     ("10.1103/PhysRevLett.59.381", "doi:10.1103/PhysRevLett.59.381"),
//!     ("10.5594/SMPTE.ST2067-21.2020", "doi:10.5594/SMPTE.ST2067-21.2020"),
//!     (
//!         "10.26321/Á.GUTIÉRREZ.ZARZA.02.2018.03",
//!         "doi:10.26321/%C3%81.GUTI%C3%89RREZ.ZARZA.02.2018.03",
//!     ),
//! ] {
//!     assert_eq!(Doi::new(doi)?.uri().to_string(), uri);
//!     assert_eq!(uri.parse::<DoiBuf>()?.as_str(), doi);
//! }
//!
//! let different = |a, b| Doi::new(a).ok() != Doi::new(b).ok();
//! assert!(different("10.26321/\u{C1}", "10.26321/A\u{301}"));
//! assert!(different("10.1000/a-b", "10.1000/a\u{2212}b"));
//! assert!(different("10.1000/a-b", "10.1000/a\u{2013}b"));
//! assert!(different("10.26321/Á", "10.26321/á"));
//!
//! assert_eq!("https://doi.org/api/handles/10.1000/182".parse::<DoiBuf>()?.as_str(), "10.1000/182");
//! # Ok::<(), Error>(())
//! ```

//! Tests with fixed and generated metadata documents.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use crate::metadata::codec::reader::{DocumentSyntax, MetadataElement, MetadataReader};
use crate::metadata::kernel::Referent;
use crate::metadata::{
    KernelMetadata, MetadataFault, MetadataFaultCode, MetadataFormat, RegistryFields, SystemMetadata,
};

/// Byte source for generated test documents.
#[derive(Default)]
pub(super) struct ArbitraryInput {
    bytes: Vec<u8>,
    position: usize,
    /// If not 0, bytes are random, because the previous ones did not satisfy a rule.
    noise: u32,
}

impl ArbitraryInput {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, ..Self::default() }
    }

    pub(super) fn next(&mut self) -> u8 {
        if self.noise != 0 {
            self.noise = self.noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            return (self.noise >> 24) as u8;
        }
        self.position += 1;
        self.bytes.get(self.position - 1).copied().unwrap_or(0)
    }

    pub(super) fn of<'t, T>(&mut self, list: &'t [T]) -> &'t T {
        &list[usize::from(self.next()) % list.len()]
    }

    /// An element that satisfies a rule: this one, or another.
    pub(super) fn satisfying<T: MetadataElement>(
        &mut self,
        element: T,
        rule: fn(&T, &mut MetadataReader),
    ) -> T {
        let mut reader = MetadataReader::new(DocumentSyntax::Json);
        rule(&element, &mut reader);
        reader.finish(Some(element)).unwrap_or_else(|_| {
            self.noise = self.noise.max(1);
            T::arbitrary(self)
        })
    }

    pub(super) fn text(&mut self) -> String {
        let parts = [
            "a",
            "é",
            "&<>\"'",
            " \t",
            "\r\n",
            "\n",
            "]]>",
            "\u{1F600}",
            "{}\\%$",
            "\u{FFFD}",
            "<!--",
            "&#13;",
        ];
        let count = self.next() % 8;
        let inner: String = (0..count).map(|_| *self.of(&parts)).collect();
        format!("x{inner}y")
    }

    pub(super) fn required<T: MetadataElement>(&mut self) -> T {
        T::arbitrary(self)
    }

    pub(super) fn optional<T: MetadataElement>(&mut self) -> Option<T> {
        self.next().is_multiple_of(2).then(|| T::arbitrary(self))
    }

    pub(super) fn list<T: MetadataElement>(&mut self) -> Vec<T> {
        (0..self.next() % 4).map(|_| T::arbitrary(self)).collect()
    }

    pub(super) fn non_empty<T: MetadataElement>(&mut self) -> Vec<T> {
        (0..1 + self.next() % 3).map(|_| T::arbitrary(self)).collect()
    }
}

/// Example from the contract.
const EXAMPLE: &str = r#"{"primaryReferentType":"Creation","referentCreation":{"name":[{"value":"Self-organized criticality","type":"Title","primaryLanguage":"en"}],"structuralType":"Digital","mode":["Visual"],"character":["Language"],"type":["Article"],"principalAgent":[{"name":{"value":"Bak, Per","type":"Name"},"role":"Author"}]}}"#;

const REGISTRY_FIELDS: RegistryFields<'_> =
    RegistryFields { name: "10.70000/AB<&>1", agency: "TEST", issue_date: "2026-11-16", issue_number: 3 };

fn arbitrary_kernel(bytes: Vec<u8>) -> KernelMetadata {
    let mut input = ArbitraryInput::new(bytes);
    let referent = match input.next() % 4 {
        1 => Referent::Party(Box::new(input.required())),
        2 => Referent::Place(input.required()),
        _ => Referent::Creation(Box::new(input.required())),
    };
    let extensions = input.list();
    KernelMetadata { referent, extensions }
}

proptest! {
    #[test]
    fn json_round_trip(bytes in vec(any::<u8>(), 0..600)) {
        let kernel = arbitrary_kernel(bytes);
        prop_assert_eq!(KernelMetadata::from_json(kernel.to_json().as_bytes()), Ok(kernel.clone()));
        let printed = MetadataFormat::KernelJson.render(&kernel, &REGISTRY_FIELDS, None);
        prop_assert_eq!(KernelMetadata::from_json_for(printed.as_bytes(), "10.70000/ab<&>1"), Ok(kernel.clone()));
        let as_member: (KernelMetadata,) = serde_json::from_str(&serde_json::to_string(&[&kernel]).unwrap()).unwrap();
        prop_assert_eq!(as_member.0, kernel);
    }

    #[test]
    fn xml_round_trip(bytes in vec(any::<u8>(), 0..600)) {
        let kernel = arbitrary_kernel(bytes);
        let printed = MetadataFormat::KernelXml.render(&kernel, &REGISTRY_FIELDS, None);
        prop_assert_eq!(KernelMetadata::from_xml_for(&printed, REGISTRY_FIELDS.name), Ok(kernel), "{}", printed);
    }

    #[test]
    fn system_metadata_round_trip(bytes in vec(any::<u8>(), 0..600)) {
        let system = SystemMetadata::from(&arbitrary_kernel(bytes));
        let printed = system.to_json(&REGISTRY_FIELDS);
        prop_assert_eq!(SystemMetadata::from_json(printed.as_bytes()), Ok(system.clone()));
        let kernel = KernelMetadata::from_json_for(printed.as_bytes(), REGISTRY_FIELDS.name).unwrap();
        prop_assert_eq!(SystemMetadata::from(&kernel), system);
        prop_assert_eq!(KernelMetadata::from_json(kernel.to_json().as_bytes()), Ok(kernel));
    }

    #[test]
    fn every_format_is_well_formed(bytes in vec(any::<u8>(), 0..600), name in ".{1,20}", url in option::of(".{1,20}")) {
        let kernel = arbitrary_kernel(bytes);
        let fields = RegistryFields { name: &name, ..REGISTRY_FIELDS };
        for format in MetadataFormat::ALL {
            let written = format.render(&kernel, &fields, url.as_deref());
            match format {
                MetadataFormat::KernelXml => prop_assert!(roxmltree::Document::parse(&written).is_ok(), "{}", written),
                MetadataFormat::BibTeX => prop_assert_eq!(braces(&written), Some(0), "{}", written),
                MetadataFormat::Ris => prop_assert!(is_ris(&written), "{}", written),
                _ => prop_assert!(serde_json::from_str::<serde_json::Value>(&written).is_ok(), "{}", written),
            }
        }
    }

    #[test]
    fn any_text_is_rejected_or_parsed(text in "[ -~]{0,40}", start in 0..EXAMPLE.len(), removed in 0..20_usize) {
        let text = format!("{}{text}{}", &EXAMPLE[..start], &EXAMPLE[(start + removed).min(EXAMPLE.len())..]);
        if let Err(faults) = KernelMetadata::from_json(text.as_bytes()) {
            prop_assert!(!faults.is_empty());
        }
    }
}

#[test]
fn example_round_trip() {
    let kernel = KernelMetadata::from_json(EXAMPLE.as_bytes()).unwrap();
    assert_eq!(kernel.to_json(), EXAMPLE);
    assert_eq!(kernel.title(), "Self-organized criticality");
}

/// The example with one text replaced.
fn edit(from: &str, to: &str) -> String {
    EXAMPLE.replacen(from, to, 1)
}

/// Checks the faults of a JSON document.
#[track_caller]
fn check(text: String, expected: &[&str]) {
    let faults = KernelMetadata::from_json(text.as_bytes()).map(drop).unwrap_err();
    assert_eq!(format_faults(&faults), expected, "{text}");
}

#[test]
fn faults_of_json_syntax() {
    check("".into(), &[" invalid-json invalid JSON: EOF while parsing a value at line 1 column 0"]);
    check(format!("{EXAMPLE} x"), &[" invalid-json invalid JSON: trailing characters at line 1 column 311"]);
    check("[1]".into(), &[" wrong-type expected an object, found an array"]);
    check("null".into(), &[" wrong-type expected an object, found null"]);
    check("{}".into(), &["/primaryReferentType missing missing `primaryReferentType`"]);
    check("[".repeat(25), &[" invalid-json invalid JSON: nested deeper than 24 levels at line 1 column 25"]);
    check("\u{FEFF}{}".into(), &[" invalid-json invalid JSON: expected value at line 1 column 1"]);
    check(
        edit("Self", "\\ud800"),
        &[" invalid-json invalid JSON: unexpected end of hex escape at line 1 column 79"],
    );
    check(
        edit("[\"Visual\"]", "[1e400]"),
        &[" invalid-json invalid JSON: number out of range at line 1 column 180"],
    );
    check(" ".repeat((1 << 20) + 1), &[" too-long document of 1048577 bytes (maximum 1048576)"]);
}

#[test]
fn faults_of_json_values() {
    check(
        edit("Creation\"", "Event\""),
        &["/primaryReferentType value-not-allowed value `Event` is not allowed [Creation Party Place]"],
    );
    check(
        edit("Creation\"", "Party\""),
        &[
            "/referentCreation value-not-allowed does not match primaryReferentType `Party`",
            "/referentParty missing missing `referentParty`",
        ],
    );
    check(
        edit("\"Digital\"", "\"digital\""),
        &[
            "/referentCreation/structuralType value-not-allowed value `digital` is not allowed [Abstraction Digital Performance Physical Restricted]",
        ],
    );
    check(
        edit("\"mode\":[\"Visual\"],", ""),
        &["/referentCreation/mode missing at least one `mode` is required"],
    );
    check(edit("\"Visual\"", ""), &["/referentCreation/mode missing at least one `mode` is required"]);
    check(
        edit("[\"Visual\"]", "\"Visual\""),
        &["/referentCreation/mode wrong-type expected an array, found a string"],
    );
    check(
        edit("[\"Visual\"]", "[\"Audio\",null,-1,1.5,true]"),
        &[
            "/referentCreation/mode/1 wrong-type expected a string, found null",
            "/referentCreation/mode/2 wrong-type expected a string, found a negative number",
            "/referentCreation/mode/3 wrong-type expected a string, found a fractional number",
            "/referentCreation/mode/4 wrong-type expected a string, found a boolean",
        ],
    );
    check(
        edit("\"Visual\"", "\"Visual\",".repeat(11).trim_end_matches(',')),
        &["/referentCreation/mode too-many 11 items (maximum 10)"],
    );
    check(
        edit("\"Article\"", "\"article\""),
        &["/referentCreation/type/0 value-not-allowed `article` must be spelled `Article`"],
    );
    check(
        edit("\"Article\"", "\"An article\""),
        &["/referentCreation/type/0 value-not-allowed value `An article` is not allowed"],
    );
    check(
        edit("\"en\"", "\"english language\""),
        &[
            "/referentCreation/name/0/primaryLanguage invalid-language invalid language tag `english language`; for example `en` or `pt-BR`",
        ],
    );
    check(edit("Self-organized criticality", " \\t "), &["/referentCreation/name/0/value empty empty text"]);
    check(
        edit("Self-organized criticality", "a\\u0000b"),
        &["/referentCreation/name/0/value invalid-character character U+0000 is not allowed in XML"],
    );
    check(
        edit("Self-organized criticality", "a\u{FFFF}b"),
        &["/referentCreation/name/0/value invalid-character character U+FFFF is not allowed in XML"],
    );
    check(
        edit("Self-organized criticality", &"x".repeat(4_097)),
        &["/referentCreation/name/0/value too-long 4097 bytes (maximum 4096)"],
    );
}

#[test]
fn faults_of_json_members() {
    check(
        edit("\"mode\"", "\"modes\""),
        &[
            "/referentCreation/mode missing at least one `mode` is required",
            "/referentCreation/modes unknown-element unknown element `modes` [name identifier structuralType mode character type principalAgent linkedCreation language languageOfReferentContent creationDate creationPlace extensions]",
        ],
    );
    check(
        edit("\"mode\"", "\"a/b~c\":1,\"mode\""),
        &[
            "/referentCreation/a~1b~0c unknown-element unknown element `a/b~c` [name identifier structuralType mode character type principalAgent linkedCreation language languageOfReferentContent creationDate creationPlace extensions]",
        ],
    );
    check(
        edit("\"mode\"", "\"mode\":[\"Audio\"],\"mode\""),
        &["/referentCreation/mode duplicate duplicate key `mode`"],
    );
    check(
        edit("\"name\":{\"value\":\"Bak, Per\",\"type\":\"Name\"},", ""),
        &["/referentCreation/principalAgent/0/name missing missing `name` or `identifier`"],
    );
    check(
        edit("{\"name\":{\"value\":\"Bak, Per\",\"type\":\"Name\"},\"role\":\"Author\"}", "\"Bak\""),
        &["/referentCreation/principalAgent/0 wrong-type expected an object, found a string"],
    );
}

/// Faults within members of the creation.
#[test]
fn faults_of_creation() {
    let add = |member: &str| edit("\"mode\"", &format!("{member},\"mode\""));
    check(
        add(r#""creationDate":{"date":"2026-02-29"}"#),
        &[
            "/referentCreation/creationDate/date invalid-date invalid date `2026-02-29`; expected YYYY, YYYY-MM, YYYY-MM-DD or a date and time",
        ],
    );
    check(
        add(r#""identifier":[{"type":"ISSN"}]"#),
        &["/referentCreation/identifier/0/nonUriValue missing missing `nonUriValue` or `uri`"],
    );
    check(
        add(r#""identifier":[{"type":"ISSN","value":"1","nonUriValue":"2"}]"#),
        &[
            "/referentCreation/identifier/0/value value-not-allowed deprecated `value` cannot be combined with `nonUriValue` or `uri`",
        ],
    );
    check(
        add(r#""identifier":[{"type":"ISSN","value":"1","validNamespace":"2"}]"#),
        &[
            "/referentCreation/identifier/0/validNamespace value-not-allowed `validNamespace` requires type `ProprietaryIdentifier`, not `ISSN`",
        ],
    );
    check(
        add(
            r#""identifier":[{"type":"URI","uri":[{"value":"no scheme"},{"value":"x:y","doesContentNegotiation":"true"}]}]"#,
        ),
        &[
            "/referentCreation/identifier/0/uri/0/value invalid-uri invalid URI `no scheme`",
            "/referentCreation/identifier/0/uri/1/doesContentNegotiation wrong-type expected a boolean, found a string",
        ],
    );
    check(
        add(r#""linkedCreation":[{}]"#),
        &[
            "/referentCreation/linkedCreation/0/name missing missing `name` or `identifier`",
            "/referentCreation/linkedCreation/0/referentCreationRole missing missing `referentCreationRole` or `linkedCreationRole`",
        ],
    );
    let faults = KernelMetadata::from_json(add(r#""creationPlace":[{"name":"x","placeIdentifier":[{"nonUriValue":"1","type":"t"}],"countryCode":"UK"}]"#).as_bytes()).unwrap_err();
    assert_eq!(
        (faults[0].pointer.as_str(), faults[0].allowed.len()),
        ("/referentCreation/creationPlace/0/countryCode", 249 + 16)
    );
}

/// Fields that the registry supplies are validated.
#[test]
fn faults_of_registry_fields() {
    let with_field = |member: &str| edit("{", &format!("{{{member},"));
    check(
        with_field(r#""issueDate":"today""#),
        &["/issueDate invalid-date invalid date `today`; expected YYYY-MM-DD"],
    );
    check(
        with_field(r#""issueNumber":"1""#),
        &["/issueNumber wrong-type expected an integer up to 4294967295, found a string"],
    );
    assert!(KernelMetadata::from_json(with_field(r#""referentDoiName":"10.1/2""#).as_bytes()).is_ok());
    let faults =
        KernelMetadata::from_json_for(with_field(r#""referentDoiName":"10.1/2""#).as_bytes(), "10.1/3")
            .unwrap_err();
    assert_eq!(
        format_faults(&faults),
        ["/referentDoiName name-mismatch metadata is for `10.1/2`, expected `10.1/3`"]
    );
}

#[test]
fn faults_are_limited() {
    let modes = "\"x\",".repeat(9) + "\"x\"";
    let text = EXAMPLE
        .replace("\"Visual\"", &modes)
        .replace("\"Language\"", &modes)
        .replace("\"Article\"", &"\"-?\",".repeat(9))
        .replace("\"-?\",]", "\"-?\"]");
    assert_eq!(KernelMetadata::from_json(text.as_bytes()).unwrap_err().len(), 20);
}

#[test]
fn faults_of_xml() {
    let printed = MetadataFormat::KernelXml.render(
        &KernelMetadata::from_json(EXAMPLE.as_bytes()).unwrap(),
        &REGISTRY_FIELDS,
        None,
    );
    let edit = |from: &str, to: &str| {
        assert!(printed.contains(from), "{printed}");
        printed.replacen(from, to, 1)
    };
    let check = |text: &str, expected: &[&str]| {
        let faults = KernelMetadata::from_xml(text).map(drop).unwrap_err();
        assert_eq!(format_faults(&faults), expected, "{text}");
    };
    check("", &[" invalid-xml invalid XML: the document does not have a root node"]);
    check("<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", &[" dtd-not-allowed DTD not allowed"]);
    check("<a>&b;</a>", &[" invalid-xml invalid XML: unknown entity reference 'b' at 1:4"]);
    check(&"<a>".repeat(13), &[" invalid-xml XML limit exceeded at byte 36: 13 (maximum 12)"]);
    check(
        "<kernelMetadata/>",
        &[
            " unknown-element expected element `kernelMetadata` in namespace `http://www.doi.org/2010/DOISchema`, found `kernelMetadata`",
        ],
    );
    check(
        &edit(
            "</issueNumber>",
            "</issueNumber><include xmlns='http://www.w3.org/2001/XInclude' href='/etc/passwd'/>",
        ),
        &["/kernelMetadata/*[1] value-not-allowed elements of XInclude are not allowed"],
    );
    check(
        &edit("<mode>Visual</mode>", "<mode>Visual</mode><mode>Visible</mode>"),
        &[
            "/kernelMetadata/referentCreation/mode[2] value-not-allowed value `Visible` is not allowed [Audio Olfactory Restricted Tangible Tasteable Visual]",
        ],
    );
    check(
        &edit("<mode>Visual</mode>", "<mode><b/></mode>"),
        &["/kernelMetadata/referentCreation/mode[1] wrong-type expected a string, found an object"],
    );
    check(
        &edit("<mode>Visual</mode>", "text<mode>Visual</mode>"),
        &["/kernelMetadata/referentCreation wrong-type expected elements, found text"],
    );
    check(
        &edit("<role>Author</role>", "<role>Author</role><role>Author</role>"),
        &["/kernelMetadata/referentCreation/principalAgent[1]/role too-many `role` must not be repeated"],
    );
    check(
        &edit("primaryLanguage=\"en\"", "primaryLanguage=\"\""),
        &["/kernelMetadata/referentCreation/name[1]/@primaryLanguage empty empty text"],
    );
    check(
        &edit("primaryLanguage=", "language="),
        &[
            "/kernelMetadata/referentCreation/name[1]/@language unknown-element unknown element `language` [value subnameValue type primaryLanguage]",
        ],
    );
    check(
        &edit("<type>Title</type>", "<type xml:lang='en'>Title</type>"),
        &[
            "/kernelMetadata/referentCreation/name[1]/type/@Q{http://www.w3.org/XML/1998/namespace}lang unknown-element unknown element `Q{http://www.w3.org/XML/1998/namespace}lang` [value subnameValue type primaryLanguage]",
        ],
    );
    check(
        &edit("<issueNumber>3", "<issueNumber>-3"),
        &["/kernelMetadata/issueNumber wrong-type expected an integer up to 4294967295, found a string"],
    );
    check(
        &format!("{printed}{}", " ".repeat(1 << 19)),
        &[&format!(" too-long document of {} bytes (maximum 524288)", printed.len() + (1 << 19))],
    );

    // Any order, any namespace prefix, comments and CDATA sections.
    let other = edit("<mode>Visual</mode>\n", "")
        .replace("</referentCreation>", "<mode><!-- a -->Vis<![CDATA[ual]]></mode></referentCreation>");
    assert_eq!(KernelMetadata::from_xml(&other).unwrap().to_json(), EXAMPLE);
    let other = printed
        .replace("xmlns=", "xmlns:k=")
        .replace("</", "</k:")
        .replace("<", "<k:")
        .replace("<k:/k:", "</k:")
        .replace("<k:?", "<?");
    assert_eq!(KernelMetadata::from_xml(&other).unwrap().to_json(), EXAMPLE);
    let other = edit(
        "<kernelMetadata ",
        "<kernelMetadata xmlns:xsi='http://www.w3.org/2001/XMLSchema-instance' xsi:schemaLocation='a b' ",
    );
    assert_eq!(KernelMetadata::from_xml(&other).unwrap().to_json(), EXAMPLE);
}

#[test]
fn documents_of_maximum_size() {
    let agent = r#"{"name":{"value":"Bak, Per","type":"Name"},"role":"Author"}"#;
    let agents = |count: usize| EXAMPLE.replacen(agent, &vec![agent; count].join(","), 1);
    let kernel = KernelMetadata::from_json(agents(10_000).as_bytes()).unwrap();
    assert_eq!(kernel.to_json(), agents(10_000));
    assert_eq!(
        KernelMetadata::from_json(agents(10_001).as_bytes()).unwrap_err()[0].code,
        MetadataFaultCode::TooMany
    );
    let five = KernelMetadata::from_json(agents(2_500).as_bytes()).unwrap();
    assert_eq!(
        KernelMetadata::from_xml(&MetadataFormat::KernelXml.render(&five, &REGISTRY_FIELDS, None)),
        Ok(five)
    );

    let check = |text: String, expected: &str| {
        let faults = KernelMetadata::from_json(text.as_bytes()).unwrap_err();
        assert!(faults[0].message.contains(expected), "{}", faults[0]);
    };
    check(format!("[{}", "{},".repeat(200_000)), "more than 131072 values");
    check(format!("{{{}", "\"\":0,".repeat(140_000)), "more than 131072 values");
}

#[test]
fn dates() {
    let read = |text: &str| {
        let date = format!(r#""creationDate":{{"date":"{text}"}},"mode""#);
        KernelMetadata::from_json(EXAMPLE.replacen("\"mode\"", &date, 1).as_bytes()).is_ok()
    };
    for text in [
        "1999",
        "-0044",
        "1999-12",
        "2000-02-29",
        "1999-12-31T23:59:59",
        "1999-12-31T00:00:00.123Z",
        "1999Z",
        "1999-05-14:00",
    ] {
        assert!(read(text), "{text}");
    }
    for text in [
        "99",
        "0000",
        "1999-13",
        "1999-1",
        "1900-02-29",
        "1999-12-32",
        "1999-12-31T24:00:00",
        "1999-12-31T23:59",
        "1999T00:00:00",
        "1999-12-31T00:00:00.",
        "1999+15:00",
        "+1999",
        "１９９９",
        "1999-12-31-01",
        "12.05.1999",
    ] {
        assert!(!read(text), "{text}");
    }
}

/// Open braces at the end, as BibTeX counts them; `None` if too many are closed.
fn braces(text: &str) -> Option<u32> {
    text.chars().try_fold(0_u32, |open, found| match found {
        '{' => Some(open + 1),
        '}' => open.checked_sub(1),
        _ => Some(open),
    })
}

/// Exactly one record, and every line has a tag.
fn is_ris(text: &str) -> bool {
    let lines: Vec<_> = text.split_terminator("\r\n").collect();
    let has_tag = |line: &&str| line.get(2..6) == Some("  - ") && !line.contains(['\r', '\n']);
    let count = |tag: &str| lines.iter().filter(|line| line.starts_with(tag)).count();
    lines.iter().all(has_tag)
        && lines[0].starts_with("TY")
        && count("TY") == 1
        && lines.last() == Some(&"ER  - ")
}

fn format_faults(faults: &[MetadataFault]) -> Vec<String> {
    let format_fault = |fault: &MetadataFault| {
        let allowed = if fault.allowed.is_empty() || fault.message.contains("rticle") {
            String::new()
        } else {
            format!(" [{}]", fault.allowed.join(" "))
        };
        format!("{} {} {}{allowed}", fault.pointer, fault.code.as_str(), fault.message)
    };
    faults.iter().map(format_fault).collect()
}

/// Elements of other namespaces survive XML, JSON and System Metadata; foreign elements elsewhere are refused.
#[test]
fn extensions() {
    let xml = MetadataFormat::KernelXml.render(
        &KernelMetadata::from_json(EXAMPLE.as_bytes()).unwrap(),
        &REGISTRY_FIELDS,
        None,
    );
    let fund = "<f:funding xmlns:f='https://example.org/fund' f:no='7' xml:lang='en'>\n  <f:body>EU &amp; more</f:body>\n</f:funding>";
    let text = "<note xmlns='urn:x:note'>see <b>here</b> now</note>";
    let xml = xml
        .replace("</kernelMetadata>", &format!("{fund}</kernelMetadata>"))
        .replace("</referentCreation>", &format!("{text}</referentCreation>"));
    let kernel = KernelMetadata::from_xml(&xml).unwrap();
    let json = kernel.to_json();
    assert!(json.ends_with(concat!(
        r#""extensions":[{"namespace":"urn:x:note","name":"note","content":["see ",{"name":"b","content":"here"}," now"]}]},"#,
        r#""extensions":[{"namespace":"https://example.org/fund","name":"funding","attributes":{"#,
        r#""Q{https://example.org/fund}no":"7","Q{http://www.w3.org/XML/1998/namespace}lang":"en"},"#,
        r#""content":[{"name":"body","content":"EU & more"}]}]}"#,
    )), "{json}");
    assert_eq!(KernelMetadata::from_json(json.as_bytes()).as_ref(), Ok(&kernel));
    let written = MetadataFormat::KernelXml.render(&kernel, &REGISTRY_FIELDS, None);
    assert!(
        written.contains(
            "<ext2:funding ext2:no=\"7\" xml:lang=\"en\"><ext2:body>EU &amp; more</ext2:body></ext2:funding>"
        ),
        "{written}"
    );
    assert_eq!(KernelMetadata::from_xml(&written).as_ref(), Ok(&kernel));
    let system = MetadataFormat::SystemJson.render(&kernel, &REGISTRY_FIELDS, None);
    let names: Vec<_> =
        kernel.extensions().into_iter().map(|extension| (extension.name, extension.text)).collect();
    assert_eq!(names, [("funding".into(), "EU & more".into()), ("note".into(), "see here now".into())]);
    let read = KernelMetadata::from_json(system.as_bytes()).unwrap();
    assert_eq!(read.extensions(), kernel.extensions());

    let faults = |extensions: &str| {
        let json = EXAMPLE.strip_suffix('}').unwrap().to_owned() + &format!(",\"extensions\":{extensions}}}");
        KernelMetadata::from_json(json.as_bytes())
            .map_or_else(|faults| format_faults(&faults).join("; "), |_| String::new())
    };
    let element = |content: &str| format!(r#"[{{"namespace":"urn:x","name":"a","content":{content}}}]"#);
    assert_eq!(faults(&element("\"\"")), "");
    assert_eq!(faults("{}"), "/extensions wrong-type expected an array, found an object");
    assert_eq!(faults("[{}]"), "/extensions/0 missing missing `namespace` of an extension");
    assert_eq!(faults(r#"[{"namespace":"urn:x"}]"#), "/extensions/0 missing missing `name` of an extension");
    assert_eq!(
        faults(r#"[{"namespace":"urn:x","name":"a b"}]"#),
        "/extensions/0 value-not-allowed invalid XML name `a b`"
    );
    assert_eq!(
        faults(r#"[{"namespace":"urn:x","name":"a","x":1}]"#),
        "/extensions/0 unknown-element unknown member `x` of an extension"
    );
    assert_eq!(
        faults(r#"[{"namespace":"http://www.doi.org/2010/DOISchema","name":"a"}]"#),
        "/extensions/0 value-not-allowed an extension must be in another namespace than the kernel"
    );
    assert_eq!(
        faults(&element("1")),
        "/extensions/0 wrong-type expected a string or an array for `content`, found an integer"
    );
    assert_eq!(
        faults(&element("\"\\u0001\"")),
        "/extensions/0 invalid-character character U+0001 is not allowed in XML"
    );
    let nested =
        (0..8).fold("\"x\"".to_owned(), |content, _| format!(r#"[{{"name":"b","content":{content}}}]"#));
    assert_eq!(faults(&element(&nested)), "/extensions/0 too-many extension nested deeper than 8 elements");
    let wide = format!("[{}]", vec![r#"{"name":"b"}"#; 1_000].join(","));
    assert_eq!(faults(&element(&wide)), "/extensions/0 too-many more than 1000 elements in an extension");
    assert_eq!(
        faults(&element(&format!("\"{}\"", "x".repeat(1 << 16)))),
        "/extensions too-long 65542 bytes of extensions (maximum 65536)"
    );
    let many = format!("[{}]", vec![r#"{"namespace":"urn:x","name":"a"}"#; 101].join(","));
    assert_eq!(faults(&many), "/extensions too-many 101 items (maximum 100)");
    let namespaces: Vec<_> =
        (0..17).map(|number| format!(r#"{{"namespace":"urn:{number}","name":"a"}}"#)).collect();
    assert_eq!(
        faults(&format!("[{}]", namespaces.join(","))),
        "/extensions too-many 17 namespaces in extensions (maximum 16)"
    );
    // Elements of other namespaces are extensions of the document and its referent, not of other elements.
    let misplaced = xml.replace("<value>Self", "<x xmlns='urn:x'/><value>Self");
    let found = KernelMetadata::from_xml(&misplaced).map(drop).unwrap_err();
    assert!(
        found[0]
            .to_string()
            .starts_with("/kernelMetadata/referentCreation/name[1]/Q{urn:x}x: unknown element"),
        "{}",
        found[0]
    );
}

//! Metadata formats: the output of every format equals its snapshot file. pybtex, bibtexparser and rispy can read the files of
//! their formats.

use std::path::Path;

use tendot_registry::metadata::{KernelMetadata, MetadataFormat, RegistryFields, SystemMetadata};

const REGISTRY_FIELDS: RegistryFields<'_> =
    RegistryFields { name: "10.70000/A{b}%_<c>", agency: "TEST", issue_date: "2026-11-16", issue_number: 2 };
const URL: &str = "https://example.org/a_b?c=%7Bd%7D&e#f";

#[test]
fn all_formats() {
    for document in ["article", "party", "place"] {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/metadata");
        let input = std::fs::read(directory.join(format!("{document}.json"))).unwrap();
        let kernel =
            KernelMetadata::from_json(&input).unwrap_or_else(|faults| panic!("{document}: {faults:?}"));
        let as_json: serde_json::Value = serde_json::from_slice(&input).unwrap();
        assert_eq!(serde_json::from_str::<serde_json::Value>(&kernel.to_json()).unwrap(), as_json);
        for format in MetadataFormat::ALL {
            let rendered = format.render(&kernel, &REGISTRY_FIELDS, Some(URL));
            let (extension, is_json) = match format {
                MetadataFormat::KernelJson => ("kernel.json", true),
                MetadataFormat::KernelXml => ("xml", false),
                MetadataFormat::SystemJson => ("system.json", true),
                MetadataFormat::CslJson => ("csl.json", true),
                MetadataFormat::BibTeX => ("bib", false),
                MetadataFormat::Ris => ("ris", false),
                MetadataFormat::SchemaOrg => ("schemaorg.json", true),
                MetadataFormat::DataCiteJson => ("datacite.json", true),
            };
            let pretty = || {
                let value: serde_json::Value = serde_json::from_str(&rendered).unwrap();
                serde_json::to_string_pretty(&value).unwrap() + "\n"
            };
            let rendered = if is_json { pretty() } else { rendered.clone() };
            let file = directory.join(format!("{document}.{extension}"));
            if std::env::var_os("TENDOT_TEST_UPDATE_SNAPSHOTS").is_some() {
                std::fs::write(&file, &rendered).unwrap();
            }
            let expected = std::fs::read_to_string(&file).unwrap_or_default();
            assert_eq!(rendered, expected, "{}", file.display());
        }
        let xml = MetadataFormat::KernelXml.render(&kernel, &REGISTRY_FIELDS, None);
        assert_eq!(KernelMetadata::from_xml_for(&xml, REGISTRY_FIELDS.name), Ok(kernel));
    }
}

#[test]
fn system_metadata_round_trip() {
    let text = r#"{"doiName":"10.70000/1","referentType":"CreativeWork","referentSubType":"Film",
        "referentName":[{"value":"Nosferatu","type":"Title"}],
        "relatedIdentifiers":[{"identifier":{"nonUriValue":"10.70000/2","type":"DOI"},"relatedRole":"Clip"}],
        "basicMetadata":{"principalAgent":[{"name":{"value":"Murnau, F. W.","type":"Name"},"role":"Director"}],
            "creationDate":{"date":"1922"}}}"#;
    let kernel = KernelMetadata::from_json(text.as_bytes()).unwrap();
    assert_eq!(kernel, SystemMetadata::from_json(text.as_bytes()).unwrap().into());
    let stored = concat!(
        r#"{"primaryReferentType":"Creation","referentCreation":{"name":[{"value":"Nosferatu","type":"Title"}],"#,
        r#""structuralType":"Restricted","mode":["Restricted"],"character":["Restricted"],"type":["Film"],"#,
        r#""principalAgent":[{"name":{"value":"Murnau, F. W.","type":"Name"},"role":"Director"}],"#,
        r#""linkedCreation":[{"identifier":[{"nonUriValue":"10.70000/2","type":"DOI"}],"linkedCreationRole":"Clip"}],"#,
        r#""creationDate":{"date":"1922"}}}"#
    );
    assert_eq!(kernel.to_json(), stored);
    let check = |from: &str, to: &str, expected: &str| {
        let faults =
            KernelMetadata::from_json_for(text.replacen(from, to, 1).as_bytes(), "10.70000/1").unwrap_err();
        assert_eq!(faults[0].to_string(), expected);
        assert_eq!(faults.len(), 1);
    };
    check("CreativeWork", "Event", "/referentType: value `Event` is not allowed");
    check("10.70000/1", "10.70000/3", "/doiName: metadata is for `10.70000/3`, expected `10.70000/1`");
    check("\"principalAgent\"", "\"x\":[],\"principalAgent\"", "/basicMetadata/x: unknown element `x`");
    check(
        ",\"relatedRole\":\"Clip\"",
        "",
        "/relatedIdentifiers/0/referentRole: missing `referentRole` or `relatedRole`",
    );
    check("\"doiName\"", "\"mode\":[],\"doiName\"", "/mode: unknown element `mode`");
}

#[test]
fn media_types() {
    for format in MetadataFormat::ALL {
        for media_type in format.media_types() {
            assert_eq!(MetadataFormat::from_media_type(media_type), Some(format));
            assert_eq!(
                MetadataFormat::from_media_type(&format!("{} ; q=1", media_type.to_uppercase())),
                Some(format)
            );
        }
    }
    for other in ["", "*/*", "application/*", "application/json+x", "text/html", "application/jsonx"] {
        assert_eq!(MetadataFormat::from_media_type(other), None, "{other}");
    }
}

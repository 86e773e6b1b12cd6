//! Kernel metadata in XML: what is accepted has the same content in every format that can be read back.

use tendot_registry::metadata::{KernelMetadata, MetadataFormat, RegistryFields};

pub(crate) fn check(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let kernel = match KernelMetadata::from_xml(text) {
        Ok(kernel) => kernel,
        Err(faults) => return assert!(!faults.is_empty(), "rejected without a reason"),
    };
    let json = kernel.to_json();
    let from_json = KernelMetadata::from_json(json.as_bytes());
    assert_eq!(from_json.as_ref(), Ok(&kernel), "{json}");
    let fields =
        RegistryFields { name: "10.5555/ONE", agency: "A", issue_date: "2026-11-16", issue_number: 1 };
    for format in MetadataFormat::ALL {
        let rendered = format.render(&kernel, &fields, Some("https://example.org/"));
        if format == MetadataFormat::KernelXml {
            assert_eq!(KernelMetadata::from_xml(&rendered).as_ref(), Ok(&kernel), "{rendered}");
        }
    }
}

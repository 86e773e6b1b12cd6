//! Serialization of a million records as JSON: Tendot from wire values, and `serde_json` with a derived struct of prepared
//! fields. Prints records per second.

use std::error::Error;
use std::hint::black_box;

use crate::measure::{median, seconds};
use serde::Serialize;
use tendot_proto::HandleValue;
use tendot_proto::record::HandleRecord;

const RECORDS: usize = 1_000_000;

#[derive(Serialize)]
struct Document {
    handle: String,
    values: Vec<DocumentValue>,
}

#[derive(Serialize)]
struct DocumentValue {
    index: u32,
    #[serde(rename = "type")]
    value_type: String,
    data: DocumentData,
    ttl: u32,
    timestamp: String,
}

#[derive(Serialize)]
#[serde(tag = "format", content = "value", rename_all = "lowercase")]
enum DocumentData {
    String(String),
    Admin(DocumentAdmin),
}

#[derive(Serialize)]
struct DocumentAdmin {
    handle: String,
    index: u32,
    permissions: String,
}

pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    let mut administrator = b"\x0f\xff\0\0\0\x0c0.NA/10.5555".to_vec();
    administrator.extend(300_u32.to_be_bytes());
    // 1,000 different records, 1,000 times each.
    let records: Vec<HandleRecord<'_>> = (0..1000)
        .map(|number| HandleRecord {
            handle: format!("10.5555/{number:012}").into_bytes().into(),
            values: vec![
                HandleValue {
                    timestamp: 1_704_164_645 + number,
                    ..HandleValue::new(1, "URL", format!("https://example.org/articles/{number}"))
                },
                HandleValue {
                    timestamp: 1_704_164_645 + number,
                    ..HandleValue::with_data(100, "HS_ADMIN", administrator.clone())
                },
            ],
        })
        .collect();
    let documents: Vec<Document> = (0..1000)
        .map(|number| {
            let timestamp =
                jiff::Timestamp::from_second(1_704_164_645 + i64::from(number)).expect("a date").to_string();
            let data = DocumentData::String(format!("https://example.org/articles/{number}"));
            let admin = DocumentAdmin {
                handle: "0.NA/10.5555".into(),
                index: 300,
                permissions: "111111111111".into(),
            };
            let value = |index, value_type: &str, data| DocumentValue {
                index,
                value_type: value_type.into(),
                data,
                ttl: 86400,
                timestamp: timestamp.clone(),
            };
            Document {
                handle: format!("10.5555/{number:012}"),
                values: vec![value(1, "URL", data), value(100, "HS_ADMIN", DocumentData::Admin(admin))],
            }
        })
        .collect();
    for (record, document) in records.iter().zip(&documents) {
        assert_eq!(serde_json::to_string(record)?, serde_json::to_string(document)?);
    }
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut out = Vec::with_capacity(4096);
    for _ in 0..5 {
        ours.push(write(&records, &mut out));
        theirs.push(write(&documents, &mut out));
    }
    println!("serde_json {:.0} {RECORDS}", RECORDS as f64 / median(theirs));
    println!("tendot {:.0} {RECORDS}", RECORDS as f64 / median(ours));
    Ok(())
}

fn write(items: &[impl Serialize], out: &mut Vec<u8>) -> f64 {
    let (time, ()) = seconds(|| {
        for item in items.iter().cycle().take(RECORDS) {
            out.clear();
            serde_json::to_writer(&mut *out, black_box(item)).expect("it did before");
            black_box(&out);
        }
    });
    time
}

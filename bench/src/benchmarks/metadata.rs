//! Parsing of kernel metadata, against parsing the same bytes into a JSON tree. Prints nanoseconds and their ratio.

use std::hint::black_box;

use crate::measure::{median, seconds};
use tendot_registry::metadata::KernelMetadata;

const ROUNDS: u32 = 21;
const ITERATIONS: u32 = 20_000;

/// Typical metadata: title, three authors, publisher, date.
const TEXT: &str = r#"{"primaryReferentType":"Creation","referentCreation":{"name":[{"value":"Self-organized criticality: An explanation of the 1/f noise","type":"Title","primaryLanguage":"en"}],"structuralType":"Digital","mode":["Visual"],"character":["Language"],"type":["JournalArticle"],"principalAgent":[{"name":{"value":"Bak, Per","type":"Name"},"role":"Author"},{"name":{"value":"Tang, Chao","type":"Name"},"role":"Author"},{"name":{"value":"Wiesenfeld, Kurt","type":"Name"},"role":"Author"},{"name":{"value":"American Physical Society","type":"Name"},"role":"Publisher"}],"creationDate":{"date":"1987-07-27"}}}"#;

pub(crate) fn run() {
    let (mut kernel, mut tree, mut write) = (Vec::new(), Vec::new(), Vec::new());
    let read = KernelMetadata::from_json(TEXT.as_bytes()).expect("metadata");
    for _ in 0..ROUNDS {
        kernel.push(each(|| drop(black_box(KernelMetadata::from_json(black_box(TEXT).as_bytes())))));
        tree.push(each(|| {
            drop(black_box(serde_json::from_slice::<serde_json::Value>(black_box(TEXT).as_bytes())))
        }));
        write.push(each(|| drop(black_box(black_box(&read).to_json()))));
    }
    let ratios = kernel.iter().zip(&tree).map(|(kernel, tree)| kernel / tree).collect();
    println!("bytes {}", TEXT.len());
    println!("read-nanoseconds {:.0}", median(kernel));
    println!("tree-nanoseconds {:.0}", median(tree));
    println!("read-ratio {:.2}", median(ratios));
    println!("write-nanoseconds {:.0}", median(write));
}

fn each(run: impl Fn()) -> f64 {
    let (time, ()) = seconds(|| (0..ITERATIONS).for_each(|_| run()));
    time * 1e9 / f64::from(ITERATIONS)
}

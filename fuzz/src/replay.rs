//! Every target passes on its seeds, its saved corpus and mutations of them.

use std::panic::catch_unwind;

use tendot_testing::{SeededRng, fuzz_inputs, hex, repetitions};

use crate::{TARGETS, target};

macro_rules! replay_tests {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                replay(stringify!($name));
            }
        )*

        #[test]
        fn every_target_is_replayed() {
            let names = TARGETS.map(|(name, _)| name);
            assert_eq!(names, [$(stringify!($name)),*]);
            assert_eq!(names, fuzz_inputs::TARGETS);
            let has_corpus = |name: &&str| !fuzz_inputs::corpus(name).is_empty();
            assert!(names.iter().all(has_corpus), "save a corpus with `cargo xtask fuzz`");
        }
    };
}

replay_tests! {
    name_parse name_format extract message message_body value_data record_json reassembly auth lookup replication
    http_head http_query http_credentials batch_body kernel_xml
}

fn replay(name: &str) {
    let target = target(name).unwrap();
    let inputs = fuzz_inputs::inputs(name);
    let mutations = repetitions("TENDOT_TEST_FUZZ_MUTATIONS", 2, 8);
    let mut rng = SeededRng::new(10);
    for input in &inputs {
        run(target, input);
        for _ in 0..mutations {
            let other = &inputs[rng.below(inputs.len())];
            run(target, &mutate(input, other, &mut rng));
        }
    }
}

fn run(target: fn(&[u8]), input: &[u8]) {
    assert!(catch_unwind(|| target(input)).is_ok(), "failed on the input {}", hex::encode(input));
}

/// Flips a bit, cuts, repeats a part, or joins the input with another one.
fn mutate(input: &[u8], other: &[u8], rng: &mut SeededRng) -> Vec<u8> {
    let mut bytes = input.to_vec();
    let offset = rng.below(bytes.len());
    match rng.below(5) {
        0 if !bytes.is_empty() => bytes[offset] ^= 1 << rng.below(8),
        1 if !bytes.is_empty() => bytes[offset] = *rng.pick(&[0, 1, 0x7f, 0x80, 0xff]),
        2 => bytes.truncate(offset),
        3 => bytes.extend_from_within(offset..),
        _ => {
            bytes.truncate(offset);
            bytes.extend_from_slice(&other[rng.below(other.len())..]);
        }
    }
    bytes
}

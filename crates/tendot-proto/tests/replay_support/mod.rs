//! A server and a client that are put together of the crate's parts, with nothing between them but a script.

#![allow(unreachable_pub, reason = "it is a part of a test")]

pub mod client;
pub mod script;
pub mod server;

use tendot_proto::Work;
use tendot_proto::auth::PrivateKey;
use tendot_proto::crypto::{AwsLc, Random};

/// The same unguessable bytes in every run.
pub struct Fixed(pub u64);

impl Random for Fixed {
    fn fill(&mut self, out: &mut [u8]) {
        for byte in out {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (self.0 >> 56) as u8;
        }
    }
}

pub fn private_key(file: &str) -> PrivateKey {
    let folder =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/vectors/handle-net");
    let bytes = std::fs::read(folder.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    PrivateKey::from_file(&bytes, None, &AwsLc, &mut { Work::REQUEST }).unwrap()
}

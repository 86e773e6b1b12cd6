//! What a client does that is known by a key: sessions, and signatures in headers.

#![allow(dead_code, reason = "each file of tests uses its own part")]

use data_encoding::BASE64;
use serde_json::Value as Json;
use tendot_proto::Work;
use tendot_proto::auth::PrivateKey;
use tendot_proto::crypto::{AwsLc, Crypto as _, Hash, SigningKey};

use super::service::Service;

/// The secret of `301:10.5555/ADMIN`.
pub(crate) const SECRET: &str = "opensesame";

/// A session as a client knows it.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) nonce: String,
}

impl Session {
    pub(crate) fn new(service: Service) -> Self {
        let found = service.ask("POST", "/api/sessions", &[], "");
        assert_eq!(found.status, 201, "{}", found.body);
        Self::of(&serde_json::from_str(&found.body).unwrap())
    }

    pub(crate) fn of(json: &Json) -> Self {
        let text = |name: &str| json[name].as_str().unwrap().to_owned();
        Self { id: text("sessionId"), nonce: text("nonce") }
    }

    /// Names the session.
    pub(crate) fn header(&self) -> String {
        format!("Authorization: Handle sessionId=\"{}\"", self.id)
    }

    fn signed(&self, cnonce: &str) -> Vec<u8> {
        [&self.nonce, cnonce].map(|nonce| BASE64.decode(nonce.as_bytes()).unwrap()).concat()
    }

    /// What the key of `300:0.NA/10.5555` makes of both nonces.
    pub(crate) fn sign(&self, cnonce: &str) -> String {
        BASE64.encode(&administrator().sign(Hash::Sha256, &self.signed(cnonce)).unwrap())
    }

    /// What a secret makes of them, by HMAC-SHA256.
    pub(crate) fn mac(&self, cnonce: &str, secret: &str) -> String {
        BASE64.encode(&AwsLc.hmac(Hash::Sha256, secret.as_bytes(), &[&self.signed(cnonce)]).unwrap())
    }

    /// Says who somebody is, and proves it.
    pub(crate) fn answer(&self, cnonce: &str, id: &str, kind: &str, alg: &str, signature: &str) -> String {
        format!(
            "{}, cnonce=\"{cnonce}\", id=\"{id}\", type=\"{kind}\", alg=\"{alg}\", signature=\"{signature}\"",
            self.header()
        )
    }

    pub(crate) fn by_key(&self, cnonce: &str) -> String {
        self.answer(cnonce, "300:0.NA/10.5555", "HS_PUBKEY", "SHA256", &self.sign(cnonce))
    }

    pub(crate) fn by_secret(&self, cnonce: &str, secret: &str) -> String {
        self.answer(cnonce, "301:10.5555/ADMIN", "HS_SECKEY", "HMAC-SHA256", &self.mac(cnonce, secret))
    }
}

pub(crate) fn private_key() -> PrivateKey {
    let file = include_bytes!("../../../../conformance/vectors/handle-net/admpriv.bin");
    PrivateKey::from_file(file, None, &AwsLc, &mut { Work::REQUEST }).unwrap()
}

fn administrator() -> Box<dyn SigningKey> {
    private_key().signing_key(&AwsLc).unwrap()
}

/// Says a name and a password.
pub(crate) fn basic(user: &str, password: &str) -> String {
    format!("Authorization: Basic {}", BASE64.encode(format!("{user}:{password}").as_bytes()))
}

//! Credentials of a client of Handle.Net's HTTP API: sessions, signatures and passwords in the `Authorization` header.

use data_encoding::BASE64;
use serde_json::Value as Json;
use tendot_proto::crypto::{AwsLcProvider, CryptoProvider as _, HashAlgorithm};
use tendot_testing::handle_keys::private_key;

use super::records_server::RecordsServer;

/// The secret key of `301:10.5555/ADMIN`.
pub(crate) const SECRET: &str = "opensesame";

/// Client side of a session.
#[derive(Clone, Debug)]
pub(crate) struct HttpSession {
    pub(crate) id: String,
    pub(crate) nonce: String,
}

impl HttpSession {
    /// Creates a session at the server.
    pub(crate) fn create(server: &RecordsServer) -> Self {
        let response = server.request("POST", "/api/sessions", &[], "");
        assert_eq!(response.status, 201, "{}", response.text());
        Self::from_json(&response.json())
    }

    pub(crate) fn from_json(json: &Json) -> Self {
        let text = |name: &str| json[name].as_str().unwrap().to_owned();
        Self { id: text("sessionId"), nonce: text("nonce") }
    }

    /// The header that names the session.
    pub(crate) fn header(&self) -> String {
        format!("Authorization: Handle sessionId=\"{}\"", self.id)
    }

    fn signed_bytes(&self, cnonce: &str) -> Vec<u8> {
        [&self.nonce, cnonce].map(|nonce| BASE64.decode(nonce.as_bytes()).unwrap()).concat()
    }

    /// The signature of both nonces by the key of `300:0.NA/10.5555`.
    pub(crate) fn sign(&self, cnonce: &str) -> String {
        let key = private_key("admpriv.bin").signing_key(&AwsLcProvider).unwrap();
        BASE64.encode(&key.sign(HashAlgorithm::Sha256, &self.signed_bytes(cnonce)).unwrap())
    }

    /// The HMAC-SHA256 of both nonces.
    pub(crate) fn mac(&self, cnonce: &str, secret: &str) -> String {
        BASE64.encode(
            &AwsLcProvider
                .hmac(HashAlgorithm::Sha256, secret.as_bytes(), &[&self.signed_bytes(cnonce)])
                .unwrap(),
        )
    }

    /// The header with an identity and a proof.
    pub(crate) fn proof(&self, cnonce: &str, id: &str, key_type: &str, alg: &str, signature: &str) -> String {
        format!(
            "{}, cnonce=\"{cnonce}\", id=\"{id}\", type=\"{key_type}\", alg=\"{alg}\", signature=\"{signature}\"",
            self.header()
        )
    }

    /// The header that proves `300:0.NA/10.5555` by its key.
    pub(crate) fn key_proof(&self, cnonce: &str) -> String {
        self.proof(cnonce, "300:0.NA/10.5555", "HS_PUBKEY", "SHA256", &self.sign(cnonce))
    }

    /// The header that proves `301:10.5555/ADMIN` by a secret.
    pub(crate) fn secret_proof(&self, cnonce: &str, secret: &str) -> String {
        self.proof(cnonce, "301:10.5555/ADMIN", "HS_SECKEY", "HMAC-SHA256", &self.mac(cnonce, secret))
    }
}

/// The header of HTTP Basic authentication.
pub(crate) fn basic(user: &str, password: &str) -> String {
    format!("Authorization: Basic {}", BASE64.encode(format!("{user}:{password}").as_bytes()))
}

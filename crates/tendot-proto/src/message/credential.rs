//! Credential section of a message.

use crate::error::DecodeError;
use crate::wire::{WireReader, WireWriter};

/// Message credential: signature or MAC (RFC 3652, 2.2.4).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Credential<'a> {
    /// Version and options; always 0 in practice.
    pub version_and_options: u32,
    /// Handle of the signer; always empty in practice.
    pub signer: &'a [u8],
    /// Message counter of the session; in RFC 3652 the index of the signer.
    pub counter: u32,
    /// [`Credential::TYPE_SIGNED`] or [`Credential::TYPE_MAC`].
    pub credential_type: &'a [u8],
    /// Hash algorithm of the signature, or MAC algorithm.
    pub algorithm: &'a [u8],
    /// Signature or MAC.
    pub signature: &'a [u8],
}

impl<'a> Credential<'a> {
    /// Signature by the key of a server.
    pub const TYPE_SIGNED: &'static [u8] = b"HS_SIGNED";
    /// Legacy name of [`Credential::TYPE_SIGNED`].
    pub const TYPE_SIGNED_LEGACY: &'static [u8] = b"HS_DSAPUBKEY";
    /// MAC by the key of a session.
    pub const TYPE_MAC: &'static [u8] = b"HS_MAC";

    /// Decodes the bytes between the length of the credential and the end of the message.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        Self::decode(WireReader::new(bytes))
    }

    pub(crate) fn decode(mut reader: WireReader<'a>) -> Result<Self, DecodeError> {
        let version_and_options = reader.u32("credential options")?;
        let signer = reader.bytes("credential signer")?;
        let counter = reader.u32("session counter")?;
        let credential_type = reader.bytes("credential type")?;
        let mut signed_info = reader.sub("signed info")?;
        reader.expect_end("credential")?;
        let algorithm = signed_info.bytes("signature algorithm")?;
        let signature = signed_info.bytes("signature")?;
        signed_info.expect_end("signed info")?;
        Ok(Self { version_and_options, signer, counter, credential_type, algorithm, signature })
    }

    pub(crate) fn encode(&self, writer: &mut WireWriter<'_>) {
        writer.sub(|writer| {
            writer.u32(self.version_and_options);
            writer.bytes(self.signer);
            writer.u32(self.counter);
            writer.bytes(self.credential_type);
            writer.sub(|writer| {
                writer.bytes(self.algorithm);
                writer.bytes(self.signature);
            });
        });
    }
}

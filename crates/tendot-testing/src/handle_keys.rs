//! Keys of the recorded Handle.Net server, in `conformance/vectors/handle-net`.

use tendot_proto::Budget;
use tendot_proto::auth::PrivateKey;
use tendot_proto::crypto::AwsLcProvider;
use tendot_proto::record::PublicKey;

use crate::conformance;

/// A private key: `privkey.bin` of the server, `admpriv.bin` of its administrator `300:0.NA/10.5555`.
pub fn private_key(file: &str) -> PrivateKey {
    PrivateKey::from_file_bytes(&handle_net_file(file), None, &AwsLcProvider, &mut { Budget::PER_REQUEST })
        .unwrap()
}

/// A public key: `pubkey.bin` of the server, `admpub.bin` of its administrator.
pub fn public_key(file: &str) -> PublicKey<'static> {
    PublicKey::from_bytes(&handle_net_file(file)).unwrap().into_owned()
}

/// The content of a file of the recorded server.
pub fn handle_net_file(file: &str) -> Vec<u8> {
    let path = conformance("vectors/handle-net").join(file);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Context of one cryptographic operation, with the default policy or this one, and a new budget.
#[macro_export]
macro_rules! auth_context {
    () => {
        $crate::auth_context!(::tendot_proto::auth::AuthPolicy::default())
    };
    ($policy:expr) => {
        &mut ::tendot_proto::auth::AuthContext::new(
            &::tendot_proto::crypto::AwsLcProvider,
            $policy,
            &mut ::tendot_proto::Budget::PER_REQUEST.clone(),
        )
    };
}

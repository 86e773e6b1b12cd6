/// The provider that is used unless another is given: aws-lc-rs, with crypto-bigint and dsa for what it lacks.
#[derive(Clone, Copy, Debug, Default)]
pub struct AwsLc;

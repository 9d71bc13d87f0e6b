//! The encryption of an object, as answers name it.

use super::headers::{
    AES256, AWS_KMS, BUCKET_KEY, CUSTOMER_ALGORITHM, CUSTOMER_MD5, KMS_KEY, MODE,
};

/// The mode of an object's encryption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EncryptionMode {
    /// SSE-S3: under a key of the volume.
    S3,
    /// SSE-KMS: under a key of the key management service.
    Kms,
    /// SSE-C: under a key of the client.
    Customer,
}

/// The encryption of an object, in the answer to each request that writes or reads it, and to each
/// step of its multipart upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppliedEncryption<'a> {
    /// SSE-S3.
    S3,
    /// SSE-KMS, with the name of the key.
    Kms(&'a str),
    /// SSE-C, with the MD5 of the client's key in base64, as the request has it.
    Customer(&'a str),
}

impl<'a> AppliedEncryption<'a> {
    /// Returns the headers of the answer: lower-case names and their values.
    pub fn headers(self) -> Vec<(&'static str, &'a str)> {
        match self {
            AppliedEncryption::S3 => vec![(MODE, AES256)],
            AppliedEncryption::Kms(key) => {
                vec![(MODE, AWS_KMS), (KMS_KEY, key), (BUCKET_KEY, "true")]
            }
            AppliedEncryption::Customer(md5) => {
                vec![(CUSTOMER_ALGORITHM, AES256), (CUSTOMER_MD5, md5)]
            }
        }
    }
}

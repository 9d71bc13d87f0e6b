//! The default encryption of a bucket: the document of `PutBucketEncryption`.

use super::headers::{AES256, AWS_KMS};
use crate::xml::{Element, Writer, XmlLimits, is_writable, malformed};
use crate::{Code, Fault};

/// The root element of the document.
const ROOT: &str = "ServerSideEncryptionConfiguration";
/// The element with the default of new objects.
const DEFAULT: &str = "ApplyServerSideEncryptionByDefault";

/// The longest id of a key, in bytes. S3 has the same limit.
const KMS_KEY_BYTES_MAX: usize = 2048;

/// The encryption configuration of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketEncryption {
    /// The encryption of new objects whose request names none; `None` if the document has none.
    pub default: Option<DefaultEncryption>,
    /// True if one data key may serve several objects, as the client set it. It has no effect,
    /// because a data key always does.
    pub bucket_key: bool,
    /// True if the bucket refuses writes with keys of clients (SSE-C), false if it accepts them;
    /// `None` if the document does not say, which means the same as false.
    pub blocks_customer_keys: Option<bool>,
}

/// The encryption of new objects whose request names none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DefaultEncryption {
    /// SSE-S3.
    S3,
    /// SSE-KMS with the key of this id. `None` for the default key of the gateway.
    Kms(Option<String>),
}

impl BucketEncryption {
    /// Parses the document of `PutBucketEncryption`.
    ///
    /// Fails with `MalformedXML`; with `InvalidArgument` for the id of a key without SSE-KMS; with
    /// `NotImplemented` for `aws:kms:dsse`. The key need not exist, as in S3.
    pub fn parse(body: &[u8]) -> Result<BucketEncryption, Fault> {
        let root = Element::parse(body, ROOT, XmlLimits::SMALL)?;
        root.refuse_unknown(&["Rule"])?;
        // S3 accepts exactly one rule.
        let rule = root.child("Rule")?.ok_or_else(|| malformed("Rule is missing"))?;
        rule.refuse_unknown(&[DEFAULT, "BucketKeyEnabled", "BlockedEncryptionTypes"])?;
        let bucket_key = match rule.value("BucketKeyEnabled")? {
            None | Some("false") => false,
            Some("true") => true,
            Some(_) => return Err(malformed("BucketKeyEnabled is neither true nor false")),
        };
        let default = rule.child(DEFAULT)?.map(DefaultEncryption::parse).transpose()?;
        let blocked =
            rule.child("BlockedEncryptionTypes")?.map(blocks_customer_keys).transpose()?;
        if default.is_none() && blocked.is_none() {
            return Err(malformed("Rule contains no setting"));
        }
        Ok(BucketEncryption { default, bucket_key, blocks_customer_keys: blocked })
    }

    /// Returns the document of `GetBucketEncryption`. As in S3, it always has `BucketKeyEnabled`.
    pub fn to_xml(&self) -> String {
        let mut out = Writer::document();
        out.root(ROOT, |out| {
            out.element("Rule", |out| {
                if let Some(default) = &self.default {
                    out.element(DEFAULT, |out| default.write(out));
                }
                if let Some(blocks) = self.blocks_customer_keys {
                    out.element("BlockedEncryptionTypes", |out| {
                        out.text("EncryptionType", if blocks { "SSE-C" } else { "NONE" });
                    });
                }
                out.flag("BucketKeyEnabled", self.bucket_key);
            });
        });
        out.finish()
    }
}

impl DefaultEncryption {
    fn parse(element: &Element) -> Result<DefaultEncryption, Fault> {
        element.refuse_unknown(&["SSEAlgorithm", "KMSMasterKeyID"])?;
        let key = element.value("KMSMasterKeyID")?.filter(|key| !key.is_empty());
        if key.is_some_and(|key| key.len() > KMS_KEY_BYTES_MAX || !key.chars().all(is_writable)) {
            return Err(malformed("KMSMasterKeyID is not the id of a key"));
        }
        match (element.required("SSEAlgorithm")?, key) {
            (AES256, None) => Ok(DefaultEncryption::S3),
            (AES256, Some(_)) => Err(Fault::because(
                Code::InvalidArgument,
                "a KMSMasterKeyID is not applicable if the default sse algorithm is not aws:kms or \
                 aws:kms:dsse",
            )
            .with("ArgumentName", DEFAULT)),
            (AWS_KMS, key) => Ok(DefaultEncryption::Kms(key.map(str::to_owned))),
            ("aws:kms:dsse", _) => Err(Fault::unserved_header("aws:kms:dsse")),
            _ => Err(malformed("SSEAlgorithm is unknown")),
        }
    }

    fn write(&self, out: &mut Writer) {
        match self {
            DefaultEncryption::S3 => out.text("SSEAlgorithm", AES256),
            DefaultEncryption::Kms(key) => {
                out.text("SSEAlgorithm", AWS_KMS);
                out.optional("KMSMasterKeyID", key.as_deref());
            }
        }
    }
}

/// Parses the types of encryption that writes must not use. Returns true for keys of clients, which
/// are the only type that S3 can block.
fn blocks_customer_keys(element: &Element) -> Result<bool, Fault> {
    element.refuse_unknown(&["EncryptionType"])?;
    match element.value("EncryptionType")? {
        Some("SSE-C") => Ok(true),
        Some("NONE") => Ok(false),
        Some(_) | None => Err(malformed("EncryptionType is neither NONE nor SSE-C")),
    }
}

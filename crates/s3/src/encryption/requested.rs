//! The encryption that a request names for a new object, or for a part of a multipart upload.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::applied::EncryptionMode;
use super::customer_key::CustomerKey;
use super::fault::incompatible;
use super::headers::{
    AES256, AWS_KMS, BUCKET_KEY, CustomerHeaders, KMS_CONTEXT, KMS_KEY, MODE, invalid,
    refuse_unknown,
};
use crate::fields::Fields;
use crate::{Code, Fault};

/// The encryption that the headers of a request, or the fields of a form, name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestedEncryption {
    /// SSE-S3: under a key of the volume.
    S3,
    /// SSE-KMS: under a key of the key management service. The text is the key's id as the client
    /// sent it; `None` if it sent none, so the default of the bucket or of the gateway counts.
    Kms(Option<String>),
    /// SSE-C: under this key of the client.
    Customer(Arc<CustomerKey>),
}

impl RequestedEncryption {
    /// Parses the headers of a request that makes an object or a part. Returns `None` if the
    /// request names no encryption, so the default of the bucket counts.
    ///
    /// The header that turns bucket keys on or off is checked and has no effect: one data key
    /// always serves several objects, and the answer says so.
    ///
    /// Fails with `InvalidArgument` or `InvalidEncryptionAlgorithmError`; with `NotImplemented` for
    /// `aws:kms:dsse`, for an encryption context, and for an unknown header of encryption.
    pub fn parse(fields: Fields<'_>) -> Result<Option<RequestedEncryption>, Fault> {
        RequestedEncryption::read(fields, false)
    }

    /// Parses the headers of a request that copies from another object. They may have the key of
    /// the client for the source, too: see [`CustomerKey::of_copy_source`]. Fails as
    /// [`RequestedEncryption::parse`].
    pub fn parse_for_copy(fields: Fields<'_>) -> Result<Option<RequestedEncryption>, Fault> {
        RequestedEncryption::read(fields, true)
    }

    fn read(fields: Fields<'_>, is_copy: bool) -> Result<Option<RequestedEncryption>, Fault> {
        refuse_unknown(fields, is_copy)?;
        let mode = fields.get(MODE)?;
        // S3 checks this first, so a wrong cipher of the client's key has this fault, too.
        if CustomerHeaders::OBJECT.any(fields)
            && let Some(mode) = mode
        {
            return Err(incompatible(mode));
        }
        check_bucket_key(fields)?;
        let kms_key = fields.get(KMS_KEY)?;
        let requested = match mode {
            None => {
                if let Some(key) = kms_key {
                    return Err(without_kms(key));
                }
                CustomerKey::parse(fields, CustomerHeaders::OBJECT)?
                    .map(RequestedEncryption::Customer)
            }
            Some(AES256) => match kms_key {
                None => Some(RequestedEncryption::S3),
                Some(key) => return Err(without_kms(key)),
            },
            Some(AWS_KMS) => {
                let key = kms_key.filter(|key| !key.is_empty());
                Some(RequestedEncryption::Kms(key.map(str::to_owned)))
            }
            // Two layers of encryption.
            Some("aws:kms:dsse") => return Err(Fault::unserved_header(MODE)),
            Some(other) => {
                return Err(invalid("The encryption method specified is not supported", other));
            }
        };
        check_context(fields, requested.as_ref())?;
        Ok(requested)
    }

    /// Returns the mode.
    pub fn mode(&self) -> EncryptionMode {
        match self {
            RequestedEncryption::S3 => EncryptionMode::S3,
            RequestedEncryption::Kms(_) => EncryptionMode::Kms,
            RequestedEncryption::Customer(_) => EncryptionMode::Customer,
        }
    }

    /// Checks the headers of a step of a multipart upload, which are `requested`. `upload` is the
    /// mode with which the upload began. A part must have the client's key again if `needs_key`;
    /// the completion may leave it out. A step need not repeat another mode, and a repeated mode
    /// must be the same. The id of its key is not compared, because the upload has the key.
    ///
    /// Fails with `InvalidRequest`. The caller compares the key of the client: see
    /// [`other_customer_key`](super::other_customer_key).
    pub fn check_step(
        requested: Option<&RequestedEncryption>,
        upload: Option<EncryptionMode>,
        needs_key: bool,
    ) -> Result<(), Fault> {
        let fits = match requested {
            None => upload != Some(EncryptionMode::Customer) || !needs_key,
            Some(requested) => upload == Some(requested.mode()),
        };
        if fits {
            return Ok(());
        }
        let why = "The multipart upload initiate requested encryption. Subsequent part requests \
                   must include the appropriate encryption parameters.";
        Err(Fault::because(Code::InvalidRequest, why))
    }
}

/// Returns the fault of a key's id in a request that does not name SSE-KMS.
fn without_kms(key: &str) -> Fault {
    let why = "Server Side Encryption with AWS KMS managed key requires HTTP header \
               x-amz-server-side-encryption : aws:kms";
    invalid(why, key)
}

fn check_bucket_key(fields: Fields<'_>) -> Result<(), Fault> {
    match fields.get(BUCKET_KEY)? {
        None => Ok(()),
        Some(text) if ["true", "false"].iter().any(|flag| text.eq_ignore_ascii_case(flag)) => {
            Ok(())
        }
        Some(text) => Err(invalid("The value of the header must be true or false.", text)),
    }
}

/// Refuses an encryption context. The key management service would have to authenticate it with
/// each object, and one data key serves many objects.
fn check_context(fields: Fields<'_>, requested: Option<&RequestedEncryption>) -> Result<(), Fault> {
    let Some(text) = fields.get(KMS_CONTEXT)? else { return Ok(()) };
    if !matches!(requested, Some(RequestedEncryption::Kms(_))) {
        return Err(without_kms(text));
    }
    let json = STANDARD.decode(text).ok();
    let context =
        json.and_then(|json| serde_json::from_slice::<BTreeMap<String, String>>(&json).ok());
    match context {
        Some(_) => Err(Fault::unserved_header(KMS_CONTEXT)),
        None => Err(invalid(
            "The header 'x-amz-server-side-encryption-context' shall be Base64-encoded UTF-8 \
             string holding JSON which represents a string-string map",
            text,
        )),
    }
}

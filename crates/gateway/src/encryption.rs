//! Server-side encryption: the mode of a new object, and the checks of requests about an existing
//! one.
//!
//! For example, a PUT without a header of encryption gets the default of its bucket, and each answer
//! about the object names the mode that its record has.
//!
//! The module knows no keys. The volume takes the current key of a mode when the content is written.

use record::Encryption;
use s3::encryption::{
    AppliedEncryption, CustomerKey, EncryptionMode, RequestedEncryption, check_read,
    unknown_kms_key,
};
use s3::{Code, Fault};
use volume::Object;

use crate::call::Call;

/// Returns the mode of a new object or upload: that of the request, or else the default of the
/// bucket. `None` if both name none.
///
/// Fails with `NotImplemented` for a key of the client, and with `KMS.NotFoundException` if the
/// request names no key of the key management service, and there is no default.
pub(crate) fn of_new_object(
    call: &Call<'_>,
    requested: Option<&RequestedEncryption>,
) -> Result<Option<Encryption>, Fault> {
    let default = call.rules()?.settings.default_encryption.as_ref();
    match requested {
        None => Ok(default.cloned()),
        Some(RequestedEncryption::S3) => Ok(Some(Encryption::S3)),
        Some(RequestedEncryption::Kms(Some(key))) => Ok(Some(Encryption::Kms(key.clone()))),
        Some(RequestedEncryption::Kms(None)) => match default {
            Some(Encryption::Kms(key)) => Ok(Some(Encryption::Kms(key.clone()))),
            None | Some(Encryption::S3 | Encryption::Customer(_)) => {
                default_kms_key(call).map(|key| Some(Encryption::Kms(key)))
            }
        },
        Some(RequestedEncryption::Customer(_)) => Err(Code::NotImplemented.into()),
    }
}

/// Returns the key of the key management service that counts if neither the request nor the bucket
/// names one.
pub(crate) fn default_kms_key(call: &Call<'_>) -> Result<String, Fault> {
    call.settings.kms_default.clone().ok_or_else(|| unknown_kms_key("aws/s3"))
}

/// Returns the mode as requests name it.
pub(crate) fn mode(encryption: &Encryption) -> EncryptionMode {
    match encryption {
        Encryption::S3 => EncryptionMode::S3,
        Encryption::Kms(_) => EncryptionMode::Kms,
        Encryption::Customer(_) => EncryptionMode::Customer,
    }
}

/// Returns the headers of an answer about an object in this mode. `None` for a key of the client,
/// whose headers come from the request.
pub(crate) fn applied(encryption: &Encryption) -> Option<AppliedEncryption<'_>> {
    match encryption {
        Encryption::S3 => Some(AppliedEncryption::S3),
        Encryption::Kms(key) => Some(AppliedEncryption::Kms(key)),
        Encryption::Customer(_) => None,
    }
}

/// Checks that a request which reads an object has a key of the client if and only if the object
/// needs one.
///
/// Fails with `InvalidRequest`; with `NotImplemented` for an object that needs one.
pub(crate) fn check_source(object: &Object, key: Option<&CustomerKey>) -> Result<(), Fault> {
    let needs_key =
        matches!(object.file().encryption.as_ref().map(mode), Some(EncryptionMode::Customer));
    check_read(needs_key, key)?;
    if needs_key { Err(Code::NotImplemented.into()) } else { Ok(()) }
}

/// Checks the encryption that a step of a multipart upload names. A part must repeat the key of the
/// client, if the upload has one; the completion need not.
///
/// Fails with `InvalidRequest`.
pub(crate) fn check_step(
    requested: Option<&RequestedEncryption>,
    upload: Option<&Encryption>,
    is_part: bool,
) -> Result<(), Fault> {
    RequestedEncryption::check_step(requested, upload.map(mode), is_part)
}

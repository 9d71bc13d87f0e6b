//! Server-side encryption: the mode of a new object, and the checks of requests about an existing
//! one.
//!
//! For example, a PUT without a header of encryption gets the default of its bucket, and each
//! answer about the object names the mode that its record has.
//!
//! The module knows no keys. The volume takes the current key of a mode when the content is
//! written.

use std::sync::Arc;

use identity::ClientAddress;
use record::Encryption;
use s3::encryption::{
    AppliedEncryption, CustomerKey, EncryptionMode, RequestedEncryption, check_read,
    insecure_customer_key, other_customer_key, unknown_kms_key, wrong_customer_key,
};
use s3::{Code, Fault};
use volume::{Object, ObjectEncryptionKey, ObjectMode};

use crate::call::Call;
use crate::translate;

/// Returns the mode of a new object or upload: that of the request, or else the default of the
/// bucket. A request with a key of the client gets a new object key.
///
/// Fails with `KMS.NotFoundException` if the request names no key of the key management service,
/// and there is no default; with `AccessDenied` for a key of the client if the bucket blocks such
/// keys, and with `InvalidArgument` for one without TLS.
pub(crate) fn of_new_object(
    call: &Call<'_>,
    requested: Option<&RequestedEncryption>,
) -> Result<ObjectMode, Fault> {
    new_mode(call, requested, None)
}

/// As [`of_new_object`], for a copy of `source`, which was unlocked if it needs a key of the
/// client. If both have keys of clients, the copy gets the object key of its source, so no byte
/// moves.
pub(crate) fn of_copy(
    call: &Call<'_>,
    requested: Option<&RequestedEncryption>,
    source: &Object,
) -> Result<ObjectMode, Fault> {
    new_mode(call, requested, source.key())
}

fn new_mode(
    call: &Call<'_>,
    requested: Option<&RequestedEncryption>,
    of_source: Option<&Arc<ObjectEncryptionKey>>,
) -> Result<ObjectMode, Fault> {
    let rules = call.rules()?;
    let default = rules.settings.default_encryption.as_ref();
    let encryption = match requested {
        Some(RequestedEncryption::Customer(_)) if rules.blocks_customer_keys => {
            return Err(Code::AccessDenied.into());
        }
        None => default.cloned(),
        Some(RequestedEncryption::S3) => Some(Encryption::S3),
        Some(RequestedEncryption::Kms(Some(key))) => Some(Encryption::Kms(key.clone())),
        Some(RequestedEncryption::Kms(None)) => match default {
            Some(Encryption::Kms(key)) => Some(Encryption::Kms(key.clone())),
            None | Some(Encryption::S3 | Encryption::Customer(_)) => {
                Some(Encryption::Kms(default_kms_key(call)?))
            }
        },
        Some(RequestedEncryption::Customer(key)) => {
            check_transport(call)?;
            let mode = match of_source {
                Some(source) => ObjectMode::sealed(Arc::clone(source), key.expose()),
                None => ObjectMode::of_customer(key.expose()),
            };
            return mode.map_err(translate::fault);
        }
    };
    // A bucket has no default with a key of a client.
    ObjectMode::without_key(encryption).map_err(|_| Code::InternalError.into())
}

/// Fails with `InvalidArgument` if a key of the client came without TLS. A client on this machine
/// and the option `sse_c_over_http` are exceptions.
fn check_transport(call: &Call<'_>) -> Result<(), Fault> {
    let is_protected = |client: ClientAddress| client.tls.is_some() || client.is_local;
    if call.settings.sse_c_over_http || call.sender.origin.client.is_some_and(is_protected) {
        Ok(())
    } else {
        Err(insecure_customer_key())
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

/// Returns the headers of an answer about an object in this mode. `md5` is the MD5 of the client's
/// key in base64, if the request has the key; the headers of SSE-C repeat it. Returns `None` for
/// SSE-C without `md5`.
pub(crate) fn applied<'a>(
    encryption: &'a Encryption,
    md5: Option<&'a str>,
) -> Option<AppliedEncryption<'a>> {
    match encryption {
        Encryption::S3 => Some(AppliedEncryption::S3),
        Encryption::Kms(key) => Some(AppliedEncryption::Kms(key)),
        Encryption::Customer(_) => md5.map(AppliedEncryption::Customer),
    }
}

/// Returns the key of the client that a request has for a new object or a part.
pub(crate) fn customer_key(requested: Option<&RequestedEncryption>) -> Option<&Arc<CustomerKey>> {
    match requested {
        Some(RequestedEncryption::Customer(key)) => Some(key),
        Some(RequestedEncryption::S3 | RequestedEncryption::Kms(_)) | None => None,
    }
}

/// Unlocks an object that a request reads or copies. The request has a key of the client if and
/// only if the object needs one.
///
/// Fails with `InvalidRequest` for a missing or needless key, and with `InvalidArgument` for
/// another key than that of the object, or for one without TLS.
pub(crate) fn unlock(
    call: &Call<'_>,
    object: &mut Object,
    key: Option<&CustomerKey>,
) -> Result<(), Fault> {
    if key.is_some() {
        check_transport(call)?;
    }
    check_read(object.needs_customer_key(), key)?;
    object.unlock(key.map(CustomerKey::expose)).map_err(|_| wrong_customer_key())
}

/// Checks the encryption that an append to an existing object names. The object keeps its mode, and
/// nothing can be appended under a key of the client.
///
/// Fails with `InvalidRequest` if the request names another mode.
pub(crate) fn check_append(
    requested: Option<&RequestedEncryption>,
    object: &Object,
) -> Result<(), Fault> {
    check_read(object.needs_customer_key(), None)?;
    let own = object.file().encryption.as_ref().map(mode);
    if requested.is_none_or(|requested| Some(requested.mode()) == own) {
        return Ok(());
    }
    let why = "The object keeps its encryption. An append cannot name another one.";
    Err(Fault::because(Code::InvalidRequest, why))
}

/// Returns the mode in which a part is written. The request repeats the key of the client with
/// which the upload began, if it has one.
///
/// Fails with `InvalidRequest` for a missing or another key, or another mode, and with
/// `InvalidArgument` for a key of the client without TLS.
pub(crate) fn of_part(
    call: &Call<'_>,
    requested: Option<&RequestedEncryption>,
    upload: Option<&Encryption>,
) -> Result<ObjectMode, Fault> {
    RequestedEncryption::check_step(requested, upload.map(mode), true)?;
    opened_step(call, requested, upload)
}

/// Checks the encryption that the completion of an upload names. It need not repeat the key of the
/// client. Fails as [`of_part`].
pub(crate) fn check_completion(
    call: &Call<'_>,
    requested: Option<&RequestedEncryption>,
    upload: Option<&Encryption>,
) -> Result<(), Fault> {
    RequestedEncryption::check_step(requested, upload.map(mode), false)?;
    match customer_key(requested) {
        Some(_) => opened_step(call, requested, upload).map(drop),
        None => Ok(()),
    }
}

/// Returns true if a request may see the checksums of an upload's parts: if the upload has no key
/// of the client, or the request has it.
///
/// Fails with `InvalidRequest` for another key than that of the upload, and with `InvalidArgument`
/// for one without TLS.
pub(crate) fn opens_upload(
    call: &Call<'_>,
    key: Option<&CustomerKey>,
    upload: Option<&Encryption>,
) -> Result<bool, Fault> {
    match (upload, key) {
        (Some(Encryption::Customer(_)), None) => Ok(false),
        (Some(Encryption::Customer(_)), Some(key)) => {
            check_transport(call)?;
            let opened = ObjectMode::opened(upload, Some(key.expose()));
            opened.map(|_| true).map_err(|_| other_customer_key())
        }
        (None | Some(Encryption::S3 | Encryption::Kms(_)), _) => Ok(true),
    }
}

fn opened_step(
    call: &Call<'_>,
    requested: Option<&RequestedEncryption>,
    upload: Option<&Encryption>,
) -> Result<ObjectMode, Fault> {
    let key = customer_key(requested);
    if key.is_some() {
        check_transport(call)?;
    }
    let opened = ObjectMode::opened(upload, key.map(|key| key.expose()));
    opened.map_err(|_| other_customer_key())
}

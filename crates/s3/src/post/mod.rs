//! Uploads from browsers: `multipart/form-data` with the fields of an upload, followed by its file.
//!
//! The steps: [`boundary`] parses the request's `Content-Type`. [`FormReader`] parses the body as
//! it arrives: it returns complete fields, then the file in slices, and it buffers only fields,
//! whose size is limited. When the file begins, [`Form`] collects the fields.
//! `auth::FormCredentials` verifies the signature of the [`PostPolicy`] and that the policy allows
//! the fields, and `request::PostObject` is the resulting upload. Fields after the file are
//! ignored.
//!
//! For example, a form with `key=up/${filename}`, a policy and a signature stores the file
//! `cat.jpg` as `up/cat.jpg`.
//!
//! The module authenticates no sender. It uses only the body of the HTTP request, because the
//! form's signature does not cover the headers.

mod condition;
mod delimiter;
mod form;
mod length;
mod part;
mod policy;
mod reader;
mod refusal;
mod success;
#[cfg(test)]
mod tests;

pub use form::{FIELD_BYTES_MAX, Form};
pub use length::LengthRange;
pub use part::FilePart;
pub use policy::PostPolicy;
pub(crate) use policy::expired;
pub use reader::{FIELDS_MAX, FormEvent, FormReader, PRE_FILE_BYTES_MAX, boundary};
pub use success::SuccessAction;

use crate::{Code, Fault};

/// Returns the fault of a body that violates RFC 7578.
fn malformed() -> Fault {
    Fault::because(
        Code::MalformedPOSTRequest,
        "The body of your POST request is not well-formed multipart/form-data.",
    )
}

/// Returns the fault of a form without a required field.
pub(crate) fn missing(name: &'static str) -> Fault {
    Fault::because(
        Code::InvalidArgument,
        format!(
            "Bucket POST must contain a field named '{name}'.  If it is specified, please check \
             the order of the fields."
        ),
    )
    .with("ArgumentName", name)
    .with("ArgumentValue", "")
}

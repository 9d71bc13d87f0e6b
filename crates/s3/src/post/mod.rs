//! Uploads from browsers: `multipart/form-data` with the fields of an upload and then its file.
//!
//! It goes in steps. [`boundary`] reads the request's `Content-Type`. [`FormReader`] takes the body
//! as it arrives: the fields before the file come out whole, then the file in slices, and it keeps
//! nothing but the fields, which are few and short. Once the file begins, [`Form`] holds what they
//! say, `auth::FormCredentials` verifies who has signed that, and that the [`PostPolicy`] which was
//! signed allows it, and `request::PostObject` is what is to be done. Fields after the file are ignored.
//!
//! Here nobody is authenticated, and nothing of the HTTP request but its body is looked at: its
//! headers are not covered by what a form's signature vouches for.

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

/// The fault of a body that is not as RFC 7578 has it.
fn malformed() -> Fault {
    Fault::because(
        Code::MalformedPOSTRequest,
        "The body of your POST request is not well-formed multipart/form-data.",
    )
}

/// The fault of a form that lacks a field.
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

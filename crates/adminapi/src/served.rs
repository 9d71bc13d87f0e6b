//! The facts about a request for the access log.
//!
//! The view of the request notes each fact as soon as it knows it, in [`RequestNotes`], an
//! extension of the request. So the log has them also if the client disconnects. For example, if
//! the client of `DELETE /users/anna` disconnects before the response, the line still has the
//! sender, because the API noted it after the authentication.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use gateway::Served;
use http::{Method, StatusCode, Uri};
use identity::Identity;

/// The limit of requests of S3 that one request notes. A form deletes fewer objects.
pub const S3_CALLS_NOTED_MAX: usize = 1_024;

/// The proof that a sender has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderProof {
    /// A signature of SigV4 in a header.
    Signature,
    /// A bearer token.
    Token,
    /// The ticket of a login to the console.
    Login,
}

/// A request of S3 that the gateway carried out for a request of the API or the console.
#[derive(Debug)]
pub struct S3Noted {
    /// The method.
    pub method: Method,
    /// The path and query.
    pub uri: Uri,
    /// The status of the response.
    pub status: StatusCode,
    /// The facts that the gateway knows.
    pub served: Served,
}

/// The facts about a request that only its view knows.
#[derive(Debug, Default)]
pub struct ApiServed {
    /// The name of the endpoint or of the page; empty if the request has none.
    pub operation: &'static str,
    /// The action of a form of the console.
    pub action: Option<String>,
    /// The authenticated sender; `None` if the authentication failed or is not needed.
    pub requester: Option<Arc<Identity>>,
    /// The proof of the sender; `None` if the authentication failed.
    pub proof: Option<SenderProof>,
    /// The access key that a failed login names.
    pub claimed_key: Option<String>,
    /// The bucket that the request names. It may not exist.
    pub bucket: Option<String>,
    /// The object key that the request names.
    pub key: Option<String>,
    /// Names of other resources, such as `("user", "anna")`.
    pub resources: Vec<(&'static str, String)>,
    /// The error code, if the response is an error.
    pub code: Option<Cow<'static, str>>,
    /// Requests of S3 that the request led to: changes, and reads of objects. At most
    /// [`S3_CALLS_NOTED_MAX`].
    pub s3: Vec<S3Noted>,
}

impl ApiServed {
    /// Sets the name of a resource. `kind` is the name of the parameter in the path, such as
    /// `user`.
    pub fn set_resource(&mut self, kind: &'static str, name: &str) {
        if kind == "bucket" {
            self.bucket = Some(name.to_owned());
        } else {
            self.resources.push((kind, name.to_owned()));
        }
    }
}

/// The facts about one request, which its view fills while it handles the request.
#[derive(Clone, Debug, Default)]
pub struct RequestNotes(Arc<Mutex<ApiServed>>);

impl RequestNotes {
    /// Notes a fact.
    pub fn note(&self, fact: impl FnOnce(&mut ApiServed)) {
        fact(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Returns the facts so far, and forgets them.
    pub fn take(&self) -> ApiServed {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests;

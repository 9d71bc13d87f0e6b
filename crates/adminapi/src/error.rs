//! Errors of the API, in one form for all resources.
//!
//! For example, a change of a bucket by a user without the permission fails with the status 403 and
//! `{"code": "AccessDenied", "message": "…", "detail": null, "request_id": "…"}`. Errors of S3
//! operations, which the API carries out for a client, keep their S3 code.

use std::borrow::Cow;

use admin::{AdminError, JobError};
use http::StatusCode;
use s3::{Code, Fault};
use serde::Serialize;
use utoipa::ToSchema;

/// The document of an error.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ErrorDocument {
    /// The error code, for programs.
    pub code: String,
    /// The reason, as a sentence.
    pub message: String,
    /// More about the reason, if there is more.
    pub detail: Option<String>,
    /// The id of the request, by which operators find it in logs.
    pub request_id: String,
}

/// The reason why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// The HTTP status.
    pub status: StatusCode,
    /// The error code, for programs.
    pub code: Cow<'static, str>,
    /// The reason, as a sentence.
    pub message: String,
    /// More about the reason.
    pub detail: Option<String>,
}

impl ApiError {
    /// Returns an error with this status, code and message.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> ApiError {
        ApiError { status, code: Cow::Borrowed(code), message: message.into(), detail: None }
    }

    /// Adds more about the reason.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> ApiError {
        self.detail = Some(detail.into());
        self
    }

    /// Returns the error of a request that is malformed. `why` is a sentence.
    pub fn bad_request(why: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, "BadRequest", why)
    }

    /// Returns the error of a request without valid credentials.
    pub fn unauthenticated(why: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::UNAUTHORIZED, "Unauthenticated", why)
    }

    /// Returns the error of a sender without the permission for `action`.
    pub fn denied(action: &str) -> ApiError {
        let message = format!("You are not allowed to perform the action {action}.");
        ApiError::new(StatusCode::FORBIDDEN, "AccessDenied", message)
    }

    /// Returns the error of a missing resource, for example `the user "anna"`.
    pub fn not_found(resource: impl std::fmt::Display) -> ApiError {
        let message = format!("There is no {resource}.");
        ApiError::new(StatusCode::NOT_FOUND, "NotFound", message)
    }

    /// Returns the error of a change whose `If-Match` names another state of the resource.
    pub fn changed() -> ApiError {
        let message =
            "Another request changed the resource. Read it again, then repeat the change.";
        ApiError::new(StatusCode::PRECONDITION_FAILED, "Changed", message)
    }

    /// Returns the document of this error for a request.
    pub fn document(&self, request_id: &str) -> ErrorDocument {
        ErrorDocument {
            code: self.code.clone().into_owned(),
            message: self.message.clone(),
            detail: self.detail.clone(),
            request_id: request_id.to_owned(),
        }
    }
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)?;
        self.detail.as_ref().map_or(Ok(()), |detail| write!(f, " {detail}"))
    }
}

impl std::error::Error for ApiError {}

impl From<Fault> for ApiError {
    fn from(fault: Fault) -> ApiError {
        ApiError {
            status: fault.status(),
            code: Cow::Borrowed(fault.code.as_str()),
            message: fault.message.into_owned(),
            detail: fault.detail.map(Cow::into_owned),
        }
    }
}

impl From<Code> for ApiError {
    fn from(code: Code) -> ApiError {
        Fault::new(code).into()
    }
}

impl From<AdminError> for ApiError {
    fn from(error: AdminError) -> ApiError {
        let (status, code) = kind(&error);
        if status.is_server_error() {
            tracing::warn!(%error, "a request to the administration API failed");
            // The text can name hosts and tables of a store, so only the log has it.
            return ApiError::new(status, code, server_sentence(status));
        }
        ApiError::new(status, code, sentence(&error.to_string()))
    }
}

/// Returns the sentence of a failure that is not the client's.
fn server_sentence(status: StatusCode) -> &'static str {
    if status == StatusCode::SERVICE_UNAVAILABLE {
        "The metadata store does not answer. Nothing was changed. Try again."
    } else {
        "The request failed. The log of the gateway has the reason beside the id of the request."
    }
}

/// Returns a fragment as a sentence.
fn sentence(fragment: &str) -> String {
    let mut chars = fragment.chars();
    let first = chars.next().map(char::to_uppercase);
    let mut text: String = first.into_iter().flatten().chain(chars).collect();
    if !text.ends_with(['.', '!', '?']) {
        text.push('.');
    }
    text
}

/// Returns the status and the code of an administrative error.
fn kind(error: &AdminError) -> (StatusCode, &'static str) {
    match error {
        AdminError::Name(_) | AdminError::BucketName(_) => (StatusCode::BAD_REQUEST, "InvalidName"),
        AdminError::Document(_) => (StatusCode::BAD_REQUEST, "InvalidPolicy"),
        AdminError::Job(JobError::NoSuchJob) => (StatusCode::NOT_FOUND, "NoSuchJob"),
        AdminError::Job(JobError::TooMany) => (StatusCode::CONFLICT, "TooManyJobs"),
        AdminError::Job(JobError::Runs(_)) => (StatusCode::CONFLICT, "JobRuns"),
        AdminError::Job(JobError::HasEnded | JobError::IsRunning) => {
            (StatusCode::CONFLICT, "InvalidState")
        }
        AdminError::NoSuchUser => (StatusCode::NOT_FOUND, "NoSuchUser"),
        AdminError::NoSuchGroup => (StatusCode::NOT_FOUND, "NoSuchGroup"),
        AdminError::NoSuchMember(_) => (StatusCode::NOT_FOUND, "NoSuchMember"),
        AdminError::NotUser(_) => (StatusCode::CONFLICT, "NotUser"),
        AdminError::IsUser => (StatusCode::CONFLICT, "IsUser"),
        AdminError::TooMany(..) => (StatusCode::CONFLICT, "TooMany"),
        AdminError::Changed => (StatusCode::PRECONDITION_FAILED, "Changed"),
        AdminError::NoSuchAccount(_) => (StatusCode::NOT_FOUND, "NoSuchAccount"),
        AdminError::NoSuchPolicy(_) => (StatusCode::NOT_FOUND, "NoSuchPolicy"),
        AdminError::NoSuchBucket => (StatusCode::NOT_FOUND, "NoSuchBucket"),
        AdminError::NoSuchNode => (StatusCode::NOT_FOUND, "NoSuchNode"),
        AdminError::NotInTrash => (StatusCode::NOT_FOUND, "NotInTrash"),
        AdminError::NoVolume => (StatusCode::NOT_FOUND, "NoVolume"),
        AdminError::UserExists
        | AdminError::AccountExists
        | AdminError::GroupExists
        | AdminError::BucketExists => (StatusCode::CONFLICT, "Exists"),
        AdminError::AccountIsBuiltIn | AdminError::PolicyIsBuiltIn | AdminError::NameIsBuiltIn => {
            (StatusCode::CONFLICT, "BuiltIn")
        }
        AdminError::AccountHasUsers(_)
        | AdminError::AccountHasBuckets(_)
        | AdminError::GroupHasMembers(_)
        | AdminError::PolicyInUse(_)
        | AdminError::PolicyOfGroups(_) => (StatusCode::CONFLICT, "InUse"),
        AdminError::KeepsVersions
        | AdminError::HasNoTrash
        | AdminError::TrashLeft
        | AdminError::ForkTargetChanged => (StatusCode::CONFLICT, "InvalidState"),
        AdminError::Contended | AdminError::Late | AdminError::PolicyChanged(_) => {
            (StatusCode::CONFLICT, "Contended")
        }
        AdminError::Interrupted => (StatusCode::CONFLICT, "Interrupted"),
        AdminError::Unread(_) | AdminError::Unchanged(_) => {
            (StatusCode::SERVICE_UNAVAILABLE, "Unavailable")
        }
        AdminError::Unknown(_) => (StatusCode::INTERNAL_SERVER_ERROR, "OutcomeUnknown"),
        AdminError::Corrupt(_)
        | AdminError::Volume(_)
        | AdminError::Fs(_)
        | AdminError::Ring(_)
        | AdminError::Random(_) => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
    }
}

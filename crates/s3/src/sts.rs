//! STS: requests for temporary credentials, and its responses.
//!
//! Its protocol is not that of S3: parameters come as a form or in the query, and documents have
//! shapes and a namespace of their own (AWS Security Token Service API reference).

use time::OffsetDateTime;

use crate::request::Query;
use crate::xml::Writer;
use crate::{Code, Fault};

/// The namespace of its documents.
const NAMESPACE: &str = "https://sts.amazonaws.com/doc/2011-06-15/";

/// The longest body of a request, in bytes.
pub const STS_BYTES_MAX: usize = 64 << 10;

/// How long a session may last, in seconds, and for how long it does unless the request says.
pub const SESSION_SECONDS_MIN: u32 = 900;
/// See [`SESSION_SECONDS_MIN`]. A week, as MinIO has it; AWS ends sessions after 12 hours.
pub const SESSION_SECONDS_MAX: u32 = 7 * 24 * 60 * 60;
/// See [`SESSION_SECONDS_MIN`].
pub const SESSION_SECONDS_DEFAULT: u32 = 3_600;

/// The longest that a session of a web identity may last, in seconds, as AWS has it.
pub const WEB_SESSION_SECONDS_MAX: u32 = 12 * 60 * 60;

/// The longest token of a web identity, in bytes, as AWS has it.
pub const WEB_IDENTITY_TOKEN_BYTES_MAX: usize = 20_000;

/// The longest policy of a session, in bytes: its token has to go into a header.
pub const SESSION_POLICY_BYTES_MAX: usize = 6 << 10;

const WITH_WEB_IDENTITY: &str = "AssumeRoleWithWebIdentity";

/// The first of the policies by name that AWS limits sessions with.
const POLICY_ARNS: &str = "PolicyArns.member.1.arn";

/// What is asked of STS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StsRequest {
    /// Temporary credentials of the sender, with no more rights than its own.
    AssumeRole(AssumeRole),
    /// Temporary credentials of whom another party vouches for. Such a request is not signed.
    AssumeRoleWithWebIdentity(AssumeRoleWithWebIdentity),
    /// Who the sender is.
    GetCallerIdentity,
}

/// What a session is begun with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssumeRole {
    /// The session's name: 2 to 64 letters, digits, and `+ = , . @ - _`.
    pub session: String,
    /// How long the credentials are valid.
    pub seconds: u32,
    /// A policy that limits the session, in JSON.
    pub policy: Option<String>,
}

/// What a session of a web identity is begun with.
#[derive(Clone, PartialEq, Eq)]
pub struct AssumeRoleWithWebIdentity {
    /// What the other party says, signed by it.
    pub token: String,
    /// The ARN of the role that is asked for. MinIO's clients may name none.
    pub role: Option<String>,
    /// What the session is to be.
    pub session: AssumeRole,
}

/// Whoever has the token can be its holder, so it is never printed.
impl std::fmt::Debug for AssumeRoleWithWebIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AssumeRoleWithWebIdentity")
            .field("role", &self.role)
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

impl StsRequest {
    /// Whether a request with these parameters needs no signature.
    pub fn is_unsigned(parameters: &Query) -> bool {
        matches!(parameters.get("Action"), Ok(Some(WITH_WEB_IDENTITY)))
    }

    /// Reads the parameters of a request, which are all in the query or all in the body.
    ///
    /// Faults: `MissingAction`, `InvalidAction`, `ValidationError`, and `InvalidArgument` for one
    /// that is given twice.
    pub fn parse(parameters: &Query) -> Result<StsRequest, Fault> {
        match parameters.get("Action")? {
            None | Some("") => Err(Code::MissingAction.into()),
            Some("AssumeRole") => {
                AssumeRole::parse(parameters, SESSION_SECONDS_MAX).map(StsRequest::AssumeRole)
            }
            Some(WITH_WEB_IDENTITY) => AssumeRoleWithWebIdentity::parse(parameters)
                .map(StsRequest::AssumeRoleWithWebIdentity),
            Some("GetCallerIdentity") => Ok(StsRequest::GetCallerIdentity),
            Some(other) => {
                let shown: String = other.chars().take(100).collect();
                Err(Fault::because(
                    Code::InvalidAction,
                    format!("Could not find operation {shown} for version 2011-06-15"),
                ))
            }
        }
    }
}

impl AssumeRole {
    fn parse(parameters: &Query, seconds_max: u32) -> Result<AssumeRole, Fault> {
        if parameters.has(POLICY_ARNS) {
            // A limit that is not kept would give more than was asked for.
            return Err(invalid(
                "Value at 'policyArns' failed to satisfy constraint: Member must be \
                                null, for only 'policy' limits a session here",
            ));
        }
        let seconds = match parameters.get("DurationSeconds")? {
            None | Some("") => SESSION_SECONDS_DEFAULT,
            Some(text) => text
                .parse()
                .ok()
                .filter(|seconds| (SESSION_SECONDS_MIN..=seconds_max).contains(seconds))
                .ok_or_else(|| {
                    invalid(&format!(
                        "Value '{}' at 'durationSeconds' failed to satisfy constraint: Member must \
                         have value between {SESSION_SECONDS_MIN} and {seconds_max}",
                        text.chars().take(40).collect::<String>()
                    ))
                })?,
        };
        // MinIO's clients name none.
        let session = parameters.get("RoleSessionName")?.filter(|name| !name.is_empty());
        let session = session.unwrap_or("session").to_owned();
        let legal = |char: char| char.is_ascii_alphanumeric() || "+=,.@-_".contains(char);
        if !(2..=64).contains(&session.len()) || !session.chars().all(legal) {
            return Err(invalid(
                "Value at 'roleSessionName' failed to satisfy constraint: Member must satisfy \
                 regular expression pattern: [\\w+=,.@-]{2,64}",
            ));
        }
        let policy = parameters.get("Policy")?.filter(|policy| !policy.is_empty());
        if policy.is_some_and(|policy| policy.len() > SESSION_POLICY_BYTES_MAX) {
            return Err(Code::PackedPolicyTooLarge.into());
        }
        Ok(AssumeRole { session, seconds, policy: policy.map(str::to_owned) })
    }
}

impl AssumeRoleWithWebIdentity {
    fn parse(parameters: &Query) -> Result<AssumeRoleWithWebIdentity, Fault> {
        let token = parameters.get("WebIdentityToken")?.filter(|token| !token.is_empty());
        let token = token.ok_or_else(|| {
            invalid(
                "Value null at 'webIdentityToken' failed to satisfy constraint: Member must not be \
                 null",
            )
        })?;
        if token.len() > WEB_IDENTITY_TOKEN_BYTES_MAX {
            return Err(invalid(&format!(
                "Value at 'webIdentityToken' failed to satisfy constraint: Member must have length \
                 less than or equal to {WEB_IDENTITY_TOKEN_BYTES_MAX}"
            )));
        }
        let role = parameters.get("RoleArn")?.filter(|role| !role.is_empty());
        let session = AssumeRole::parse(parameters, WEB_SESSION_SECONDS_MAX)?;
        Ok(AssumeRoleWithWebIdentity {
            token: token.to_owned(),
            role: role.map(str::to_owned),
            session,
        })
    }
}

fn invalid(what: &str) -> Fault {
    Fault::because(Code::ValidationError, format!("1 validation error detected: {what}"))
}

/// Temporary credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionCredentials {
    /// The access key.
    pub access_key: String,
    /// Its secret.
    pub secret: String,
    /// What is to be sent with every request that they sign.
    pub token: String,
    /// Until when they are valid.
    pub expires: OffsetDateTime,
}

impl std::fmt::Debug for SessionCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionCredentials")
            .field("access_key", &self.access_key)
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

/// The response to `AssumeRole`. `arn` and `id` are those of the session.
pub fn assumed_role(
    credentials: &SessionCredentials,
    arn: &str,
    id: &str,
    request_id: &str,
) -> String {
    response("AssumeRole", request_id, |out| write_session(out, credentials, arn, id))
}

/// Whom a session of a web identity belongs to.
#[derive(Clone, Copy, Debug)]
pub struct WebIdentityUser<'a> {
    /// The user, in the words of the other party.
    pub subject: &'a str,
    /// Whom the token was meant for.
    pub audience: &'a str,
    /// The other party.
    pub provider: &'a str,
}

/// The response to `AssumeRoleWithWebIdentity`. `arn` and `id` are those of the session.
pub fn assumed_role_with_web_identity(
    credentials: &SessionCredentials,
    (arn, id): (&str, &str),
    user: WebIdentityUser<'_>,
    request_id: &str,
) -> String {
    response(WITH_WEB_IDENTITY, request_id, |out| {
        out.text("SubjectFromWebIdentityToken", user.subject);
        out.text("Audience", user.audience);
        write_session(out, credentials, arn, id);
        out.text("Provider", user.provider);
    })
}

fn write_session(out: &mut Writer, credentials: &SessionCredentials, arn: &str, id: &str) {
    out.element("AssumedRoleUser", |out| {
        out.text("AssumedRoleId", id);
        out.text("Arn", arn);
    });
    out.element("Credentials", |out| {
        out.text("AccessKeyId", &credentials.access_key);
        out.text("SecretAccessKey", &credentials.secret);
        out.text("SessionToken", &credentials.token);
        out.time("Expiration", credentials.expires);
    });
}

/// The response to `GetCallerIdentity`.
pub fn caller_identity(arn: &str, id: &str, account: &str, request_id: &str) -> String {
    response("GetCallerIdentity", request_id, |out| {
        out.text("Arn", arn);
        out.text("UserId", id);
        out.text("Account", account);
    })
}

fn response(action: &str, request_id: &str, result: impl FnOnce(&mut Writer)) -> String {
    let mut out = Writer::document();
    out.root_in(&format!("{action}Response"), NAMESPACE, |out| {
        out.element(&format!("{action}Result"), result);
        out.element("ResponseMetadata", |out| out.text("RequestId", request_id));
    });
    out.finish()
}

/// The document of a refusal. What S3 calls otherwise gets the name that STS has for it.
pub fn refusal(fault: &Fault, request_id: &str) -> String {
    let (code, message) = match fault.code {
        Code::InvalidAccessKeyId => {
            ("InvalidClientTokenId", "The security token included in the request is invalid.")
        }
        Code::InvalidToken => {
            ("InvalidClientTokenId", "The security token included in the request is invalid")
        }
        Code::ExpiredToken => {
            ("ExpiredToken", "The security token included in the request is expired")
        }
        Code::MalformedPolicy => ("MalformedPolicyDocument", fault.message.as_ref()),
        other => (other.as_str(), fault.message.as_ref()),
    };
    let fault_type = if fault.status().is_server_error() { "Receiver" } else { "Sender" };
    let mut out = Writer::document();
    out.root_in("ErrorResponse", NAMESPACE, |out| {
        out.element("Error", |out| {
            out.text("Type", fault_type);
            out.text("Code", code);
            out.text("Message", message);
            out.optional("Detail", fault.detail.as_deref());
        });
        out.text("RequestId", request_id);
    });
    out.finish()
}

#[cfg(test)]
mod tests;

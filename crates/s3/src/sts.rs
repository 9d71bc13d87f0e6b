//! STS: requests for temporary credentials, and their responses.
//!
//! STS has another protocol than S3: its parameters are in a form or in the query, and its
//! documents have their own structure and namespace (AWS Security Token Service API reference). For
//! example, `Action=AssumeRole&DurationSeconds=900` requests credentials for 15 minutes.
//!
//! The module does not issue credentials and does not verify tokens.

use time::OffsetDateTime;

use crate::request::Query;
use crate::xml::Writer;
use crate::{Code, Fault};

/// The XML namespace of the response documents of STS.
const NAMESPACE: &str = "https://sts.amazonaws.com/doc/2011-06-15/";

/// The maximum size of the body of an STS request in bytes.
pub const STS_BYTES_MAX: usize = 64 << 10;

/// The minimum lifetime in seconds of a session, that is, of temporary credentials.
pub const SESSION_SECONDS_MIN: u32 = 900;
/// The maximum lifetime in seconds of a session, that is, of temporary credentials: a week, as in
/// MinIO. AWS ends sessions after 12 hours.
pub const SESSION_SECONDS_MAX: u32 = 7 * 24 * 60 * 60;
/// The lifetime in seconds of a session, that is, of temporary credentials, if the request sets
/// none.
pub const SESSION_SECONDS_DEFAULT: u32 = 3_600;

/// The maximum lifetime in seconds of a session that was created with the token of an OpenID
/// issuer, as in AWS.
pub const WEB_SESSION_SECONDS_MAX: u32 = 12 * 60 * 60;

/// The maximum length in bytes of a token that an OpenID issuer signed, as in AWS.
pub const WEB_IDENTITY_TOKEN_BYTES_MAX: usize = 20_000;

/// The maximum length in bytes of a session policy, that is, of a policy that limits temporary
/// credentials. The session token contains the policy and must fit into a header.
pub const SESSION_POLICY_BYTES_MAX: usize = 6 << 10;

const WITH_WEB_IDENTITY: &str = "AssumeRoleWithWebIdentity";

/// The parameter of the first managed policy with which AWS limits a session.
const POLICY_ARNS: &str = "PolicyArns.member.1.arn";

/// A request to STS, the service that issues temporary credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StsRequest {
    /// Requests temporary credentials for the sender, with no more permissions than its own.
    AssumeRole(AssumeRole),
    /// Requests temporary credentials for a user that an OpenID issuer has authenticated. Such a
    /// request is not signed.
    AssumeRoleWithWebIdentity(AssumeRoleWithWebIdentity),
    /// Requests the identity of the sender: its account, ARN and id.
    GetCallerIdentity,
}

/// The parameters of a new session, that is, of temporary credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssumeRole {
    /// The name of the session: 2 to 64 letters, digits, and `+ = , . @ - _`.
    pub session: String,
    /// The lifetime of the credentials in seconds.
    pub seconds: u32,
    /// A policy in JSON that limits the permissions of the session; `None` for all permissions of
    /// the sender or role.
    pub policy: Option<String>,
}

/// The parameters of a new session, that is, of temporary credentials, for a user that an OpenID
/// issuer has authenticated.
#[derive(Clone, PartialEq, Eq)]
pub struct AssumeRoleWithWebIdentity {
    /// The token with which the OpenID issuer authenticates the user.
    pub token: String,
    /// The ARN of the requested role. MinIO's clients may omit it.
    pub role: Option<String>,
    /// The parameters of the session.
    pub session: AssumeRole,
}

/// Omits the token, because each holder of the token can use it.
impl std::fmt::Debug for AssumeRoleWithWebIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AssumeRoleWithWebIdentity")
            .field("role", &self.role)
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

impl StsRequest {
    /// Returns true if a request with these parameters needs no signature.
    pub fn is_unsigned(parameters: &Query) -> bool {
        matches!(parameters.get("Action"), Ok(Some(WITH_WEB_IDENTITY)))
    }

    /// Parses the parameters of a request, which are all in the query or all in the body.
    ///
    /// Fails with `MissingAction`, `InvalidAction` or `ValidationError`; or with `InvalidArgument`
    /// for a repeated parameter.
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
            // If the limit were ignored, the session would have more permissions than requested.
            return Err(invalid(
                "Value at 'policyArns' failed to satisfy constraint: Member must be \
                                null, because only 'policy' can limit a session here",
            ));
        }
        // An empty value counts as absent.
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
        // MinIO's clients send no session name.
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
        // The length is checked before the token is parsed or verified.
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

/// Temporary credentials: the access key, the secret key and the token of a session.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionCredentials {
    /// The access key of the temporary credentials.
    pub access_key: String,
    /// The secret key of the temporary credentials.
    pub secret: String,
    /// The session token, which each signed request must contain.
    pub token: String,
    /// The time at which the credentials expire.
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

/// Returns the response to `AssumeRole`. `arn` and `id` belong to the session.
pub fn assumed_role(
    credentials: &SessionCredentials,
    arn: &str,
    id: &str,
    request_id: &str,
) -> String {
    response("AssumeRole", request_id, |out| write_session(out, credentials, arn, id))
}

/// The user that the token of an OpenID issuer names, as the response to
/// `AssumeRoleWithWebIdentity` shows it.
#[derive(Clone, Copy, Debug)]
pub struct WebIdentityUser<'a> {
    /// The user, as the issuer names it.
    pub subject: &'a str,
    /// The audience of the token, that is, the name under which the issuer knows this service.
    pub audience: &'a str,
    /// The OpenID issuer that signed the token.
    pub provider: &'a str,
}

/// Returns the response to `AssumeRoleWithWebIdentity`. `arn` and `id` belong to the session.
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

/// Returns the response to `GetCallerIdentity`.
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

/// Returns the STS error document of a fault. Errors whose S3 code differs from the STS code get
/// the STS code.
pub fn refusal(fault: &Fault, request_id: &str) -> String {
    #[expect(clippy::wildcard_enum_match_arm, reason = "all other codes have S3's name here, too")]
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

//! Temporary credentials.
//!
//! No record holds a session. All its facts are in the session token, which is sealed under the
//! master key and bound to its access key. So each gateway of the volume can read the token, and no
//! client can forge or change one.
//!
//! The permissions are looked up at each request, so they follow the records. For example, if a
//! user is disabled or removed, its sessions end. A web identity has no user: its sessions end when
//! its role is removed, or when one of the policies that give it permissions is removed.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use policy::{Policy, PolicyKind};
use s3::sts::SessionCredentials;
use s3::{Code, Fault};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::secret::{MasterKey, Secret};
use super::snapshot::{Access, Identity, Session};
use super::web::{WebIdentity, WebRole};

/// The number of random characters in a session's access key, after the prefix of AWS.
const ACCESS_KEY_RANDOM_CHARS: usize = 16;

/// The number of characters in a session's secret.
const SECRET_CHARS: usize = 40;

/// The limit of all headers of a request together, in bytes, as the edge enforces it.
const HEADERS_BYTES_MAX: usize = 8 << 10;

/// The allowance, in bytes, for the other headers of a request: signature, host, client and
/// operation.
const OTHER_HEADERS_BYTES: usize = 2 << 10;

/// The limit of a token, in bytes. Each request of the session sends it as a header, so it leaves
/// room for the largest user metadata and all other headers.
const TOKEN_BYTES_MAX: usize =
    HEADERS_BYTES_MAX - s3::Metadata::USER_BYTES_MAX - OTHER_HEADERS_BYTES;

/// The limit of a session policy in AWS, in bytes. A token with such a policy always fits.
const AWS_POLICY_BYTES_MAX: usize = 2 << 10;

/// Bytes of a user's token without its policy, before Base64: the secret, a user name of up to 128
/// characters, a hash, a session name of up to 64 characters, times, and the seal.
const SEALED_BYTES_WITHOUT_POLICY: usize = 512;

const _: () =
    assert!((AWS_POLICY_BYTES_MAX + SEALED_BYTES_WITHOUT_POLICY) / 3 * 4 <= TOKEN_BYTES_MAX);

/// The number of characters of a policy name that a refusal repeats. No policy has a longer name.
const SHOWN_CHARS_MAX: usize = 64;

/// Separates the JSON of a token from its policy. JSON never contains this character.
const POLICY_FOLLOWS: char = '\0';

/// The JSON part of a session token before its encryption. The session policy follows it.
#[derive(Deserialize, Serialize)]
struct Sealed {
    secret: String,
    #[serde(flatten)]
    holder: SessionOwner,
    name: String,
    /// The session policy, in tokens of earlier releases.
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<String>,
    began: i64,
    expires: i64,
}

/// The owner of a session, that is, of temporary credentials: a user or a web identity.
#[derive(Deserialize, Serialize)]
#[serde(untagged)]
enum SessionOwner {
    User {
        /// The access key with which the session began: that of a user, or a further key.
        user: String,
        /// A hash of the user's secret. The session ends when the user gets another secret.
        proof: String,
    },
    Web {
        web: WebIdentity,
    },
}

/// The parameters of a new session, that is, of temporary credentials that a client requests from
/// STS.
#[derive(Clone, Debug)]
pub(crate) struct NewSession<'a> {
    pub(crate) name: &'a str,
    pub(crate) policy: Option<&'a str>,
    pub(crate) began: OffsetDateTime,
    pub(crate) expires: OffsetDateTime,
}

impl Access {
    /// Creates temporary credentials for a user.
    ///
    /// Faults: `PackedPolicyTooLarge`; `InternalError` if the machine gives no random bytes.
    pub(crate) fn begin_session(
        &self,
        user: &Identity,
        new: &NewSession<'_>,
    ) -> Result<SessionCredentials, Fault> {
        self.begin(SessionOwner::User { user: user.signing_key.clone(), proof: user.proof() }, new)
    }

    /// Creates temporary credentials for a web identity. Faults: as [`Access::begin_session`].
    pub(crate) fn begin_web_session(
        &self,
        web: WebIdentity,
        new: &NewSession<'_>,
    ) -> Result<SessionCredentials, Fault> {
        self.begin(SessionOwner::Web { web }, new)
    }

    fn begin(
        &self,
        holder: SessionOwner,
        new: &NewSession<'_>,
    ) -> Result<SessionCredentials, Fault> {
        let access_key = format!("ASIA{}", random_text(BASE32, ACCESS_KEY_RANDOM_CHARS)?);
        let secret = random_text(BASE64, SECRET_CHARS)?;
        let sealed = Sealed {
            secret: secret.clone(),
            holder,
            name: new.name.to_owned(),
            policy: None,
            began: new.began.unix_timestamp(),
            expires: new.expires.unix_timestamp(),
        };
        let mut text = serde_json::to_string(&sealed).map_err(|_| Code::InternalError)?;
        if let Some(policy) = new.policy {
            // The policy follows the JSON, because escapes for its quotes could double its length.
            text.push(POLICY_FOLLOWS);
            text.push_str(policy);
        }
        let mut nonce = [0; MasterKey::NONCE_BYTES];
        fill(&mut nonce)?;
        let token = STANDARD.encode(self.seal(&seal_name(&access_key), &Secret::new(text), nonce));
        // A longer token would not fit into the headers of S3 requests with large metadata.
        if token.len() > TOKEN_BYTES_MAX {
            let fault = Fault::from(Code::PackedPolicyTooLarge);
            return Err(match &sealed.holder {
                SessionOwner::User { .. } => fault,
                // Without this sentence, an operator would look for a session policy.
                SessionOwner::Web { .. } => fault.detail(format!(
                    "The session token would have {} bytes, and {TOKEN_BYTES_MAX} at most. It contains \
                     the claims that the role keeps, the policies that the token names, and the \
                     session policy.",
                    token.len()
                )),
            });
        }
        Ok(SessionCredentials { access_key, secret, token, expires: new.expires })
    }

    /// Returns the identity of a session, with the current permissions of its user or role.
    ///
    /// Faults: `InvalidToken` if the token does not belong to the access key, if the user is gone,
    /// disabled, expired or has another secret, or if no role admits the web identity any more;
    /// `AccessDenied` if a policy of a web identity is gone; `ExpiredToken`.
    pub(crate) fn session(
        &self,
        access_key: &str,
        token: &str,
        now: OffsetDateTime,
    ) -> Result<Arc<Identity>, Fault> {
        let invalid = || Fault::from(Code::InvalidToken);
        // Longer tokens are never created, so no work is spent on them.
        let bytes = Some(token).filter(|token| token.len() <= TOKEN_BYTES_MAX);
        let bytes = bytes.and_then(|token| STANDARD.decode(token).ok()).ok_or_else(invalid)?;
        let text = self.open(&seal_name(access_key), &bytes).map_err(|_| invalid())?;
        let (text, policy) = match text.expose().split_once(POLICY_FOLLOWS) {
            Some((text, policy)) => (text, Some(policy)),
            None => (text.expose(), None),
        };
        let sealed: Sealed = serde_json::from_str(text).map_err(|_| invalid())?;
        // The seal proves that the expiration is genuine, so it is checked after the seal.
        if now.unix_timestamp() >= sealed.expires {
            return Err(Code::ExpiredToken.into());
        }
        let policy = policy.or(sealed.policy.as_deref());
        let policy = policy.map(|text| Policy::parse(text, PolicyKind::Session));
        let policy = policy.transpose().map_err(|_| invalid())?.map(Arc::new);
        let time = |seconds| OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| invalid());
        let (began, ends) = (time(sealed.began)?, Some(time(sealed.expires)?));
        let (name, secret) = (sealed.name, Secret::new(sealed.secret));
        let session = |role, proof, web| {
            Some(Session { role, name, policy, began, ends, proof, web, of_token: false })
        };
        match sealed.holder {
            SessionOwner::User { user, proof: proved } => {
                // The proof fails if the user was removed and another user with this name was
                // added.
                let user = self.lookup(&user, now).filter(|user| user.proof() == proved);
                let user = user.ok_or_else(invalid)?;
                let session = session(user.access_key.clone(), Some(proved), None);
                Ok(Arc::new(Identity { secret, session, ..(*user).clone() }))
            }
            SessionOwner::Web { web } => {
                let roles = self.web_roles();
                let role = roles.iter().find(|role| role.still_admits(&web));
                let role = role.ok_or_else(invalid)?;
                let policies = self.web_policies(role, &web.policies)?;
                let WebRole { account, uid, gid, umask, .. } = *role;
                let access_key = access_key.to_owned();
                let session = session(role.name.clone(), None, Some(web));
                let root = false;
                let identity = Identity {
                    signing_key: access_key.clone(),
                    access_key,
                    secret,
                    account,
                    uid,
                    gid,
                    umask,
                    root,
                    policies,
                    session,
                    expires: None,
                    last_use: None,
                };
                Ok(Arc::new(identity))
            }
        }
    }

    /// Returns the policies of a role and of one of its users. Fails with `AccessDenied` if the
    /// role gives no permissions now, if one of the policies is missing, or if one depends on a
    /// claim that sessions do not keep.
    pub(crate) fn web_policies(
        &self,
        role: &WebRole,
        claimed: &[String],
    ) -> Result<Vec<Arc<Policy>>, Fault> {
        let denied = |why: String| Fault::new(Code::AccessDenied).detail(why);
        // Policies could not distinguish the sessions of the role from those of the user. A further
        // key has the principal of its user, so it may have the name.
        if self.usable(&role.name).is_some_and(|known| known.access_key == role.name) {
            return Err(denied(format!("The role {:?} has the name of a user.", role.name)));
        }
        if !self.has_account(role.account) {
            return Err(denied(format!("There is no account {}.", role.account)));
        }
        let shown = |name: &str| -> String { name.chars().take(SHOWN_CHARS_MAX).collect() };
        let policies = self.policies(role.policies.iter().chain(claimed));
        let policies = policies
            .map_err(|name| denied(format!("There is no usable policy {:?}.", shown(name))))?;
        if let Some(claim) = role.claim_not_kept(&policies) {
            return Err(denied(format!(
                "A policy asks for the claim {:?}, which the role does not keep.",
                shown(claim)
            )));
        }
        Ok(policies)
    }
}

/// Returns the name to which the encryption of a session token is bound. It contains the access key
/// of the session. No access key has this form, so a user's sealed secret is never accepted as a
/// token.
fn seal_name(access_key: &str) -> String {
    format!("session/{access_key}")
}

const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Returns random characters of an alphabet. Its length divides 256, so that all characters are
/// equally likely.
fn random_text<const N: usize>(alphabet: &[u8; N], chars: usize) -> Result<String, Fault> {
    const { assert!(256_usize.is_multiple_of(N), "some characters would be likelier") };
    let mut bytes = vec![0; chars];
    fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| char::from(alphabet[usize::from(*byte) % N])).collect())
}

fn fill(bytes: &mut [u8]) -> Result<(), Fault> {
    getrandom::fill(bytes).map_err(|error| {
        tracing::error!(%error, "cannot create temporary credentials: the machine gives no random bytes");
        Code::InternalError.into()
    })
}

#[cfg(test)]
mod tests;

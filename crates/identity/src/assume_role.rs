//! Begins sessions: for a user that has signed the request, and for the holder of a token of an
//! OpenID issuer.
//!
//! The holder of a token is unknown until the token is verified. A refusal therefore contains only
//! facts that the sender has already or needs in order to correct the request. For example, a
//! refusal does not name the claim that a role requires.

use std::time::Duration;

use openid::{ClaimTexts, Claims, TokenError, UnverifiedToken};
use policy::{Policy, PolicyKind};
use s3::sts::{AssumeRole, AssumeRoleWithWebIdentity, SessionCredentials};
use s3::{Code, Fault};
use time::OffsetDateTime;

use crate::access::{Access, CLAIMED_POLICIES_MAX, Identity, NewSession, WebIdentity, WebRole};

const NOT_AUTHORIZED: &str = "Not authorized to perform sts:AssumeRoleWithWebIdentity";

/// The number of characters of an issuer's URL that a refusal repeats.
const SHOWN_CHARS_MAX: usize = 200;

/// A session of the holder of a token.
#[derive(Debug)]
pub struct WebSession {
    /// The access key, the secret and the session token.
    pub credentials: SessionCredentials,
    /// The role that gives the session its permissions.
    pub role: WebRole,
    /// The claims of the token that the issuer signed.
    pub claims: Claims,
}

impl Access {
    /// Returns temporary credentials for a user. The session has the permissions of the user within
    /// the session policy.
    ///
    /// Faults: `AccessDenied` if `user` is itself a session; `MalformedPolicy`;
    /// `PackedPolicyTooLarge`; `InternalError` if the machine gives no random bytes.
    pub fn assume_role(
        &self,
        user: &Identity,
        requested: &AssumeRole,
        now: OffsetDateTime,
    ) -> Result<SessionCredentials, Fault> {
        // Otherwise a session could renew itself beyond its expiration.
        if user.session.is_some() {
            let why = "Temporary credentials cannot be used to obtain others.";
            return Err(Fault::new(Code::AccessDenied).detail(why));
        }
        check_session_policy(requested.policy.as_deref())?;
        let expires = now + Duration::from_secs(u64::from(requested.seconds));
        let (name, policy) = (requested.session.as_str(), requested.policy.as_deref());
        self.begin_session(user, &NewSession { name, policy, began: now, expires })
    }

    /// Returns temporary credentials for the holder of a token of an OpenID issuer. May have to
    /// fetch the issuer's keys.
    ///
    /// Faults: `AccessDenied` if no role admits the token; `InvalidIdentityToken`,
    /// `ExpiredTokenException` and `IDPRejectedClaim` for the token; `IDPCommunicationError` if the
    /// issuer does not answer; and those of [`Access::assume_role`].
    pub async fn assume_role_with_web_identity(
        &self,
        requested: &AssumeRoleWithWebIdentity,
        now: OffsetDateTime,
    ) -> Result<WebSession, Fault> {
        let token = UnverifiedToken::parse(&requested.token).map_err(refused)?;
        // The role is chosen by unverified claims. The issuer of this role then verifies the token.
        let roles = self.web_roles();
        let role = choose(&roles, requested.role.as_deref(), &token)?;
        check_session_policy(requested.session.policy.as_deref())?;
        let claims = role.issuer.verify(&token, &role.audiences, now).await.map_err(refused)?;
        let web = identity(role, &claims)?;
        // Unusable policies are an error now, not at the first S3 request.
        self.web_policies(role, &web.policies)?;

        let wanted = now + Duration::from_secs(u64::from(requested.session.seconds));
        // The session must not outlive the token that proves the identity.
        let expires = wanted.min(claims.expires_at());
        let (name, policy) =
            (requested.session.session.as_str(), requested.session.policy.as_deref());
        let new = NewSession { name, policy, began: now, expires };
        let credentials = self.begin_web_session(web, &new)?;
        Ok(WebSession { credentials, role: role.clone(), claims })
    }
}

/// Fails with `MalformedPolicy` if a session policy cannot be parsed.
fn check_session_policy(policy: Option<&str>) -> Result<(), Fault> {
    let parsed = policy.map(|policy| Policy::parse_new(policy, PolicyKind::Session));
    match parsed.transpose() {
        Ok(_) => Ok(()),
        Err(error) => Err(Fault::because(Code::MalformedPolicy, error.to_string())),
    }
}

/// Returns the role for a request: the named role, or else the first role whose issuer and audience
/// match the token.
fn choose<'a>(
    roles: &'a [WebRole],
    arn: Option<&str>,
    token: &UnverifiedToken<'_>,
) -> Result<&'a WebRole, Fault> {
    let of_issuer = |role: &&WebRole| token.issuer() == Some(role.issuer.url());
    if let Some(arn) = arn {
        let named = roles.iter().find(|role| role.arn() == arn);
        let named = named.ok_or_else(|| Fault::because(Code::AccessDenied, NOT_AUTHORIZED))?;
        return Some(named).filter(of_issuer).ok_or_else(|| unknown_issuer(token));
    }
    let mut of_this = roles.iter().filter(of_issuer).peekable();
    if of_this.peek().is_none() {
        return Err(unknown_issuer(token));
    }
    of_this.find(|role| token.is_for(&role.audiences)).ok_or_else(|| refused(TokenError::Audience))
}

fn unknown_issuer(token: &UnverifiedToken<'_>) -> Fault {
    let issuer = token.issuer().unwrap_or_default().chars().take(SHOWN_CHARS_MAX);
    let issuer: String = issuer.filter(|char| !char.is_control()).collect();
    let why = format!("No OpenIDConnect provider found in your account for {issuer}");
    Fault::because(Code::InvalidIdentityToken, why)
}

/// Returns the web identity in a verified token. Fails if the role does not admit it.
pub(crate) fn identity(role: &WebRole, claims: &Claims) -> Result<WebIdentity, Fault> {
    // The required claims come first: a user outside the role must not learn more about the role.
    let required = required(role, claims)?;
    let mut kept = Vec::with_capacity(role.claims.len());
    for name in &role.claims {
        kept.push((name.clone(), texts(claims, name)?.unwrap_or_default()));
    }
    Ok(WebIdentity {
        role: role.name.clone(),
        account: role.account.to_string(),
        issuer: role.issuer.url().to_owned(),
        audience: claims.audience().to_owned(),
        subject: claims.subject().to_owned(),
        required,
        policy_claim: role.policy_claim.clone(),
        policies: claimed_policies(role, claims)?,
        claims: kept,
    })
}

/// Returns the claims that the role requires, each with the matching value. A refusal does not name
/// the missing claim: if the issuer serves the public, any user gets this far.
fn required(role: &WebRole, claims: &Claims) -> Result<Vec<(String, String)>, Fault> {
    let one = |(claim, values): (&String, &Vec<String>)| {
        let value = claims.first_match(claim, values).cloned().ok_or_else(|| {
            tracing::debug!(
                role = role.name,
                claim,
                "a web identity token lacks a claim that its role requires"
            );
            Fault::because(Code::AccessDenied, NOT_AUTHORIZED)
        })?;
        Ok((claim.clone(), value))
    };
    role.require.iter().map(one).collect()
}

/// Returns the policies that a token names: a list of names, or names separated by commas. Fails if
/// there are none and the role has no policies of its own.
fn claimed_policies(role: &WebRole, claims: &Claims) -> Result<Vec<String>, Fault> {
    let Some(name) = &role.policy_claim else { return Ok(Vec::new()) };
    let texts = texts(claims, name)?.unwrap_or_default();
    let names = texts.iter().flat_map(|text| text.split(',')).map(str::trim);
    let names: Vec<String> = names.filter(|name| !name.is_empty()).map(str::to_owned).collect();
    if names.len() > CLAIMED_POLICIES_MAX {
        let why = format!("The claim {name:?} names more than {CLAIMED_POLICIES_MAX} policies.");
        return Err(Fault::new(Code::IDPRejectedClaim).detail(why));
    }
    if names.is_empty() && role.policies.is_empty() {
        let why = format!("The claim {name:?} names no policy.");
        return Err(Fault::because(Code::AccessDenied, NOT_AUTHORIZED).detail(why));
    }
    Ok(names)
}

fn texts(claims: &Claims, name: &str) -> Result<Option<Vec<String>>, Fault> {
    match claims.texts(name) {
        ClaimTexts::Absent => Ok(None),
        ClaimTexts::Texts(texts) => Ok(Some(texts)),
        ClaimTexts::Malformed => {
            let why = format!("The claim {name:?} is neither a value nor a list of values.");
            Err(Fault::new(Code::IDPRejectedClaim).detail(why))
        }
    }
}

/// Returns the STS fault for a token that failed verification.
pub(crate) fn refused(error: TokenError) -> Fault {
    let invalid = |why: &'static str| Fault::because(Code::InvalidIdentityToken, why);
    match error {
        TokenError::Audience => invalid("Incorrect token audience"),
        TokenError::Malformed => invalid("The ID Token provided is not a valid JWT."),
        TokenError::Claim(name) => Fault::because(
            Code::InvalidIdentityToken,
            format!("Missing or malformed claim in the token: {name}"),
        ),
        TokenError::NotYet => invalid("The token is not valid yet"),
        TokenError::Signature => invalid("The signature of the token is not valid"),
        TokenError::UnknownKey => invalid(
            "Couldn't retrieve verification key from your identity provider, please reference \
             AssumeRoleWithWebIdentity documentation for requirements",
        ),
        TokenError::Expired { now, expired } => Fault::because(
            Code::ExpiredTokenException,
            format!(
                "Token expired: current date/time {now} must be before the expiration date/time \
                 {expired}"
            ),
        ),
        TokenError::Unreachable | TokenError::Busy => {
            Fault::new(Code::IDPCommunicationError).detail(error.to_string())
        }
        TokenError::TooLong | TokenError::Algorithm | TokenError::Issuer => {
            Fault::new(Code::InvalidIdentityToken).detail(error.to_string())
        }
    }
}

#[cfg(test)]
mod tests;

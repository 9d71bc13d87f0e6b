//! Web identities: users of an OpenID issuer, who have no permanent access key.
//!
//! An operator defines a *web role* for the users of an issuer. Its permissions are policies, by
//! name: some for all users of the role, some named in a claim of the user's token. The sealed
//! session token holds the user's identity, and no record does.
//!
//! For example, a role admits service accounts of a cluster, gives all of them the policy
//! `read-only`, and adds the policies in the claim `ashlar_policies`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use openid::{CodeClient, Issuer};
use policy::{ConditionKey, Policy, Values};
use record::AccountId;
use serde::{Deserialize, Serialize};

/// The limit of policies that the token of a web identity may name.
pub(crate) const CLAIMED_POLICIES_MAX: usize = 32;

/// Claims that each session keeps, in addition to those of its role.
const CLAIMS_ALWAYS: [&str; 3] = ["sub", "aud", "iss"];

/// A web role: the permissions of the users of an issuer.
#[derive(Clone, Debug)]
pub struct WebRole {
    /// The role's name, unique in its account.
    pub name: String,
    /// The account that its sessions belong to.
    pub account: AccountId,
    /// The issuer that signs the users' tokens.
    pub issuer: Arc<Issuer>,
    /// The accepted audiences. A token must have one of these.
    pub audiences: Vec<String>,
    /// Further claims that tokens must have, each with its accepted values.
    pub require: BTreeMap<String, Vec<String>>,
    /// The policies that all users of the role have.
    pub policies: Vec<String>,
    /// The claim that names further policies of the user.
    pub policy_claim: Option<String>,
    /// The claims that conditions may use as `jwt:NAME`, in addition to `sub`, `aud` and `iss`.
    pub claims: Vec<String>,
    /// The user id that owns files of the role's users.
    pub uid: u32,
    /// The group id that owns files of the role's users.
    pub gid: u32,
    /// The umask of these files: mode bits that they do not get.
    pub umask: u32,
    /// The login of the role's users with a browser; `None` if they cannot log in so.
    pub login: Option<WebLogin>,
}

/// The login of a role's users with a browser, at the page of the issuer.
#[derive(Clone, Debug)]
pub struct WebLogin {
    /// This service as a client of the issuer. Its id is one of the role's audiences.
    pub client: CodeClient,
    /// The name of the issuer on the page of the login.
    pub label: String,
    /// The longest login. It ends at the latest after [`crate::LOGIN_MAX`].
    pub session: Duration,
}

impl WebRole {
    /// Returns the ARN by which requests name the role.
    pub(crate) fn arn(&self) -> String {
        format!("arn:aws:iam::{}:role/{}", self.account, self.name)
    }

    /// Returns true if this is the role that a web identity was given, and the role would still
    /// admit it.
    pub(crate) fn still_admits(&self, web: &WebIdentity) -> bool {
        self.name == web.role
            && self.account.to_string() == web.account
            && self.issuer.url() == web.issuer
            && self.audiences.contains(&web.audience)
            && self.policy_claim == web.policy_claim
            && self.require.iter().all(|(claim, values)| {
                web.required.iter().any(|(had, value)| had == claim && values.contains(value))
            })
            // A claim that the session has not kept would look like a claim that the token did not
            // have.
            && self.claims.iter().all(|claim| web.claims.iter().any(|(kept, _)| kept == claim))
    }

    /// Returns a claim on which one of these policies depends and which sessions of the role do not
    /// keep. For the policy the claim would be absent, so a Deny statement would not match.
    pub(crate) fn claim_not_kept<'a>(&self, policies: &'a [Arc<Policy>]) -> Option<&'a str> {
        let kept = |claim: &str| {
            CLAIMS_ALWAYS.contains(&claim) || self.claims.iter().any(|kept| kept == claim)
        };
        policies.iter().flat_map(|policy| policy.keys()).find_map(|key| {
            let ConditionKey::Jwt(claim) = key else { return None };
            (!kept(claim)).then_some(claim.as_str())
        })
    }
}

/// A user of an issuer, as the session token holds it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct WebIdentity {
    pub(crate) role: String,
    pub(crate) account: String,
    pub(crate) issuer: String,
    pub(crate) audience: String,
    pub(crate) subject: String,
    /// The claims that the role required, each with the value that matched.
    pub(crate) required: Vec<(String, String)>,
    /// The claim that named the user's policies, at the start of the session.
    pub(crate) policy_claim: Option<String>,
    /// The names of the policies that this claim of the user's token named.
    pub(crate) policies: Vec<String>,
    /// Further claims for conditions. A claim that the token did not have has no values.
    pub(crate) claims: Vec<(String, Vec<String>)>,
}

impl WebIdentity {
    /// Returns the URL of the issuer.
    pub(crate) fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Returns the name of the user at the issuer.
    pub(crate) fn subject(&self) -> &str {
        &self.subject
    }

    /// Returns the values of the condition key `jwt:NAME`: those of the claim `name` in the user's
    /// token.
    pub(crate) fn claim(&self, name: &str) -> Values<'_> {
        match name {
            "sub" => Values::from_borrowed(Some(&self.subject)),
            "aud" => Values::from_borrowed(Some(&self.audience)),
            "iss" => Values::from_borrowed(Some(&self.issuer)),
            _ => match self.claims.iter().find(|(known, _)| known == name) {
                None => Values::Absent,
                Some((_, texts)) => match texts.as_slice() {
                    [] => Values::Absent,
                    [text] => Values::from_borrowed(Some(text)),
                    texts => Values::Many(texts.iter().map(Into::into).collect()),
                },
            },
        }
    }

    /// Returns the value of `aws:FederatedProvider`: the ARN of the issuer in the form of AWS.
    pub(crate) fn provider_arn(&self) -> String {
        let issuer = self.issuer.split_once("://").map_or(&*self.issuer, |(_, rest)| rest);
        format!("arn:aws:iam::{}:oidc-provider/{issuer}", self.account)
    }
}

#[cfg(test)]
mod tests;

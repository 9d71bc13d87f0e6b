//! Web identities: users of an OpenID issuer, who have no access key here.
//!
//! An operator gives the users of an issuer a *web role*. What they may do there is policies by name,
//! some for all of them, some by what the issuer says of each; and who they are is in the sealed
//! token of their session, and nowhere else.

use std::collections::BTreeMap;
use std::sync::Arc;

use openid::Issuer;
use policy::{ConditionKey, Policy, Values};
use record::AccountId;
use serde::{Deserialize, Serialize};

/// Policies that the token of a web identity may name.
pub(crate) const CLAIMED_POLICIES_MAX: usize = 32;

/// Claims that every session has, whatever its role keeps.
const CLAIMS_ALWAYS: [&str; 3] = ["sub", "aud", "iss"];

/// What the users of an issuer get.
#[derive(Clone, Debug)]
pub struct WebRole {
    /// The role's name, unique in its account.
    pub name: String,
    /// The account that its sessions belong to.
    pub account: AccountId,
    /// Who vouches for its users.
    pub issuer: Arc<Issuer>,
    /// Whom tokens must be meant for: one of these.
    pub audiences: Vec<String>,
    /// What tokens must say besides: claims, each with the values of which it must have one.
    pub require: BTreeMap<String, Vec<String>>,
    /// The policies that all of its users have.
    pub policies: Vec<String>,
    /// The claim that names policies of the user.
    pub policy_claim: Option<String>,
    /// Claims that conditions of policies may ask for as `jwt:NAME`, besides `sub`, `aud` and `iss`.
    pub claims: Vec<String>,
    /// The user id of files that its users create.
    pub uid: u32,
    /// The group id of files that its users create.
    pub gid: u32,
    /// Permissions that these are not created with.
    pub umask: u32,
}

impl WebRole {
    /// Its ARN, as requests name it.
    pub(crate) fn arn(&self) -> String {
        format!("arn:aws:iam::{}:role/{}", self.account, self.name)
    }

    /// Whether it is the role that a web identity was given, and still would be.
    pub(crate) fn is_of(&self, web: &WebIdentity) -> bool {
        self.name == web.role
            && self.account.to_string() == web.account
            && self.issuer.url() == web.issuer
            && self.audiences.contains(&web.audience)
            && self.policy_claim == web.policy_claim
            && self.require.iter().all(|(claim, values)| {
                web.required.iter().any(|(had, value)| had == claim && values.contains(value))
            })
            // What has not been kept would be taken for a claim that its token did not have.
            && self.claims.iter().all(|claim| web.claims.iter().any(|(kept, _)| kept == claim))
    }

    /// A claim that one of these policies asks for and that sessions of the role do not have. To a
    /// policy it is absent then, whatever the token has said, so that a Deny would deny nothing.
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

/// A user of an issuer, as the token of its session holds it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct WebIdentity {
    pub(crate) role: String,
    pub(crate) account: String,
    pub(crate) issuer: String,
    pub(crate) audience: String,
    pub(crate) subject: String,
    /// The claims that its role required, each with the value that let it in.
    pub(crate) required: Vec<(String, String)>,
    /// The claim that named policies then.
    pub(crate) policy_claim: Option<String>,
    /// The policies that the issuer has named.
    pub(crate) policies: Vec<String>,
    /// What conditions may ask for besides; without values if the token did not have it.
    pub(crate) claims: Vec<(String, Vec<String>)>,
}

impl WebIdentity {
    /// What `jwt:NAME` says.
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

    /// What `aws:FederatedProvider` says: the ARN that AWS gives to an issuer.
    pub(crate) fn provider_arn(&self) -> String {
        let issuer = self.issuer.split_once("://").map_or(&*self.issuer, |(_, rest)| rest);
        format!("arn:aws:iam::{}:oidc-provider/{issuer}", self.account)
    }
}

#[cfg(test)]
mod tests;

//! OpenID issuers, and what their users get.
//!
//! One has too many settings for flags of its own, so it is a table of TOML, in the file as on the
//! command line.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use gateway::access::UMASK_DEFAULT;
use record::AccountId;
use serde::{Deserialize, Serialize};

use super::umask::Umask;
use crate::problem::Problem;

/// The claim that names a user's policies, unless it is said: MinIO's name for it.
const POLICY_CLAIM_DEFAULT: &str = "policy";

/// The user and group of files, as of an access key.
const OWNER_DEFAULT: u32 = 1_000;

/// Characters of a role's name.
const ROLE_CHARS_MAX: usize = 64;

/// Claims that a role may require. The session's token holds each.
const REQUIRED_CLAIMS_MAX: usize = 16;

/// Values of which such a claim must have one.
const REQUIRED_VALUES_MAX: usize = 256;

/// An issuer and the role that its users get, as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OpenIdRole {
    pub(crate) role: String,
    pub(crate) issuer: String,
    pub(crate) audience: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) require: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    pub(crate) policies: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) policy_claim: Option<String>,
    #[serde(default)]
    pub(crate) claims: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) account: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) gid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) umask: Option<Umask>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ca_file: Option<PathBuf>,
    #[serde(default)]
    pub(crate) allow_http: bool,
}

impl FromStr for OpenIdRole {
    type Err = String;

    /// Reads an inline table: `{ role = "…", issuer = "…", audience = ["…"] }`.
    fn from_str(text: &str) -> Result<OpenIdRole, String> {
        #[derive(Deserialize)]
        struct One {
            it: OpenIdRole,
        }
        let one: Result<One, toml::de::Error> = toml::from_str(&format!("it = {text}"));
        one.map(|one| one.it).map_err(|error| error.message().replace('\n', " "))
    }
}

impl OpenIdRole {
    /// The claim that names policies. Where all users have the same ones, none does unless it is
    /// said.
    pub(crate) fn policy_claim(&self) -> Option<String> {
        let default = || self.policies.is_empty().then(|| POLICY_CLAIM_DEFAULT.to_owned());
        self.policy_claim.clone().or_else(default)
    }

    /// The number of the account that it is in; the first one unless it is said.
    pub(crate) fn account(&self) -> Option<AccountId> {
        self.account.as_ref().map_or(Some(AccountId::MAIN), |number| number.parse().ok())
    }

    /// User, group and umask of files.
    pub(crate) fn owner(&self) -> (u32, u32, u32) {
        let umask = self.umask.map_or(UMASK_DEFAULT, |Umask(bits)| bits);
        (self.uid.unwrap_or(OWNER_DEFAULT), self.gid.unwrap_or(OWNER_DEFAULT), umask)
    }

    fn check(&self) -> Result<(), String> {
        let legal = |char: char| char.is_ascii_alphanumeric() || "+=,.@-_".contains(char);
        if !(1..=ROLE_CHARS_MAX).contains(&self.role.len()) || !self.role.chars().all(legal) {
            return Err(format!(
                "a role has 1 to {ROLE_CHARS_MAX} letters, digits and + = , . @ - _, unlike {:?}",
                self.role
            ));
        }
        if self.audience.is_empty() || self.audience.iter().any(String::is_empty) {
            return Err("without an audience, tokens for anybody would do".to_owned());
        }
        self.check_required()?;
        if self.policy_claim.as_ref().is_some_and(String::is_empty) {
            return Err("policy_claim is empty".to_owned());
        }
        if self.account().is_none() {
            return Err("account is no number of 12 digits".to_owned());
        }
        Ok(())
    }

    fn check_required(&self) -> Result<(), String> {
        if self.require.len() > REQUIRED_CLAIMS_MAX {
            return Err(format!("require names more than {REQUIRED_CLAIMS_MAX} claims"));
        }
        for (claim, values) in &self.require {
            if claim.is_empty() {
                return Err("a claim that require names is empty".to_owned());
            }
            if values.is_empty() || values.iter().any(String::is_empty) {
                return Err(format!("require has no value for {claim:?}, or an empty one"));
            }
            if values.len() > REQUIRED_VALUES_MAX {
                return Err(format!(
                    "require has more than {REQUIRED_VALUES_MAX} values for {claim:?}"
                ));
            }
        }
        Ok(())
    }
}

/// Refuses roles that cannot work.
pub(crate) fn check(roles: &[OpenIdRole]) -> Result<(), Problem> {
    for (at, role) in roles.iter().enumerate() {
        let same =
            |other: &&OpenIdRole| (&other.role, other.account()) == (&role.role, role.account());
        let checked = match roles[..at].iter().find(same) {
            Some(_) => Err(format!("two of them are the role {:?}", role.role)),
            None => role.check(),
        };
        checked.map_err(|wrong| Problem::new("use the option openid", wrong))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;

//! OpenID issuers, and the roles of their users.
//!
//! An issuer has too many settings for a flag each, so it is one TOML table, also on the command
//! line. For example: `{ role = "staff", issuer = "https://idp.example.com", audience = ["ashlar"]
//! }`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use identity::UMASK_DEFAULT;
use record::AccountId;
use serde::{Deserialize, Serialize};

use super::umask::Umask;
use problem::Problem;

/// The default claim with a user's policies; the same as MinIO's.
const POLICY_CLAIM_DEFAULT: &str = "policy";

/// The default user and group of new files; the same as those of an access key.
const OWNER_DEFAULT: u32 = 1_000;

/// The limit of characters of a role's name.
const ROLE_CHARS_MAX: usize = 64;

/// The limit of claims that a role requires. The session token contains each of them.
const REQUIRED_CLAIMS_MAX: usize = 16;

/// The limit of accepted values of a required claim.
const REQUIRED_VALUES_MAX: usize = 256;

/// An issuer and the role of its users, as the operator writes them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OpenIdRole {
    /// The name of the role, 1 to 64 characters.
    pub(crate) role: String,
    /// The URL of the issuer.
    pub(crate) issuer: String,
    /// The accepted audiences of tokens, at least one.
    pub(crate) audience: Vec<String>,
    /// Claims that a token must have, each with its accepted values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) require: BTreeMap<String, Vec<String>>,
    /// Policies of all users of the role.
    #[serde(default)]
    pub(crate) policies: Vec<String>,
    /// The claim with the policies of a user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) policy_claim: Option<String>,
    /// Claims that policies can use as condition keys.
    #[serde(default)]
    pub(crate) claims: Vec<String>,
    /// The number of the role's account, 12 digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) account: Option<String>,
    /// The user of new files. `None` is the default of an access key; so it is for `gid` and
    /// `umask`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) gid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) umask: Option<Umask>,
    /// A file of certificates in PEM to trust for the issuer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ca_file: Option<PathBuf>,
    /// True: the issuer may have an `http://` URL.
    #[serde(default)]
    pub(crate) allow_http: bool,
}

impl FromStr for OpenIdRole {
    type Err = String;

    /// Parses an inline table: `{ role = "…", issuer = "…", audience = ["…"] }`.
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
    /// Returns the claim with the policies of a user. Without `policy_claim`, that is `policy`, or
    /// `None` if the role has fixed policies.
    pub(crate) fn policy_claim(&self) -> Option<String> {
        let default = || self.policies.is_empty().then(|| POLICY_CLAIM_DEFAULT.to_owned());
        self.policy_claim.clone().or_else(default)
    }

    /// Returns the account of the role, by default the first one. Returns `None` if it is not a
    /// number of an account.
    pub(crate) fn account(&self) -> Option<AccountId> {
        self.account.as_ref().map_or(Some(AccountId::MAIN), |number| number.parse().ok())
    }

    /// Returns the user, group and umask of new files.
    pub(crate) fn owner(&self) -> (u32, u32, u32) {
        let umask = self.umask.map_or(UMASK_DEFAULT, |Umask(bits)| bits);
        (self.uid.unwrap_or(OWNER_DEFAULT), self.gid.unwrap_or(OWNER_DEFAULT), umask)
    }

    /// Fails if a field has an invalid value.
    fn check(&self) -> Result<(), String> {
        let legal = |char: char| char.is_ascii_alphanumeric() || "+=,.@-_".contains(char);
        if !(1..=ROLE_CHARS_MAX).contains(&self.role.len()) || !self.role.chars().all(legal) {
            return Err(format!(
                "the role {:?} must have 1 to {ROLE_CHARS_MAX} letters, digits and + = , . @ - _",
                self.role
            ));
        }
        if self.audience.is_empty() || self.audience.iter().any(String::is_empty) {
            return Err(
                "audience is empty, so tokens for any application would be accepted".to_owned()
            );
        }
        self.check_required()?;
        if self.policy_claim.as_ref().is_some_and(String::is_empty) {
            return Err("policy_claim is empty".to_owned());
        }
        if self.account().is_none() {
            return Err("account is not a number of 12 digits".to_owned());
        }
        Ok(())
    }

    /// Fails if a required claim has no name, no value, or too many values.
    fn check_required(&self) -> Result<(), String> {
        if self.require.len() > REQUIRED_CLAIMS_MAX {
            return Err(format!("require names more than {REQUIRED_CLAIMS_MAX} claims"));
        }
        for (claim, values) in &self.require {
            if claim.is_empty() {
                return Err("the name of a claim in require is empty".to_owned());
            }
            if values.is_empty() || values.iter().any(String::is_empty) {
                return Err(format!("require has no value, or an empty one, for {claim:?}"));
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

/// Fails if a role is invalid, or two roles of an account have the same name.
pub(crate) fn check(roles: &[OpenIdRole]) -> Result<(), Problem> {
    for (at, role) in roles.iter().enumerate() {
        // Clients name a role by its account and its name, so both together must be unique.
        let same =
            |other: &&OpenIdRole| (&other.role, other.account()) == (&role.role, role.account());
        let checked = match roles[..at].iter().find(same) {
            Some(_) => Err(format!("two tables have the role {:?}", role.role)),
            None => role.check(),
        };
        checked.map_err(|wrong| Problem::new("use the option openid", wrong))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;

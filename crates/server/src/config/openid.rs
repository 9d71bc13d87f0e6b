//! OpenID issuers, and the roles of their users.
//!
//! An issuer has too many settings for a flag each, so it is one TOML table, also on the command
//! line. For example: `{ role = "staff", issuer = "https://idp.example.com", audience = ["ashlar"]
//! }`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use identity::{LOGIN_MAX, UMASK_DEFAULT};
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

/// The path of the console to which issuers send browsers back.
const REDIRECT_PATH: &str = "/login/callback";

/// The shortest limit of a login, in seconds.
const SESSION_SECONDS_MIN: u64 = 60;

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
    /// The login to the console at the issuer. `None`: users of the role cannot log in there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) login: Option<OpenIdLogin>,
}

/// The login to the console at an issuer, as the operator writes it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OpenIdLogin {
    /// The id of the console as a client of the issuer; one of the role's audiences.
    pub(crate) client_id: String,
    /// A file with the secret of the client; `None` for a client without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_secret_file: Option<PathBuf>,
    /// The URL of the console to which the issuer sends the browser back.
    pub(crate) redirect_url: String,
    /// The name of the issuer on the page of the login; the role's name if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) label: Option<String>,
    /// Scopes to ask for, in addition to `openid`.
    #[serde(default)]
    pub(crate) scopes: Vec<String>,
    /// The longest login in seconds. `None` for the limit of all logins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_seconds: Option<u64>,
}

impl OpenIdLogin {
    /// Returns the longest login.
    pub(crate) fn session(&self) -> Duration {
        self.max_seconds.map_or(LOGIN_MAX, Duration::from_secs)
    }

    /// Fails if a field has an invalid value. `audiences` are those of the role.
    fn check(&self, audiences: &[String]) -> Result<(), String> {
        if !audiences.contains(&self.client_id) {
            return Err(format!(
                "client_id {:?} is not in audience, so the tokens of the login would be refused",
                self.client_id
            ));
        }
        let url = url::Url::parse(&self.redirect_url);
        let is_ours = |url: &url::Url| {
            let is_plain = url.query().is_none() && url.fragment().is_none();
            matches!(url.scheme(), "https" | "http") && url.path() == REDIRECT_PATH && is_plain
        };
        if !url.is_ok_and(|url| is_ours(&url)) {
            return Err(format!(
                "redirect_url {:?} must be the URL of the console with the path {REDIRECT_PATH}",
                self.redirect_url
            ));
        }
        if self.label.as_ref().is_some_and(|label| label.trim().is_empty()) {
            return Err("label is empty".to_owned());
        }
        let is_scope =
            |scope: &String| !scope.is_empty() && scope.bytes().all(|byte| byte.is_ascii_graphic());
        if !self.scopes.iter().all(is_scope) {
            return Err("a scope is empty, or has a space".to_owned());
        }
        let range = SESSION_SECONDS_MIN..=LOGIN_MAX.as_secs();
        if !range.contains(&self.session().as_secs()) {
            return Err(format!("max_seconds must be {} to {}", range.start(), range.end()));
        }
        Ok(())
    }
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
        if let Some(login) = &self.login {
            let checked = login.check(&self.audience);
            checked.map_err(|wrong| format!("login of the role {:?}: {wrong}", self.role))?;
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

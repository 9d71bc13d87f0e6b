//! The roles of OpenID users, from the setting `openid`.

use std::path::PathBuf;
use std::sync::Arc;

use identity::{CodeClient, WebLogin, WebRole};
use openid::{Issuer, IssuerSettings};
use record::AccountId;
use runtime::Tasks;

use crate::config::{OpenIdLogin, OpenIdRole};
use crate::private;
use problem::Problem;

/// Returns the roles of the settings, each with its issuer. Roles with the same issuer URL,
/// certificates and `allow_http` share one issuer, and so its cached keys.
pub(crate) fn from_settings(settings: &[OpenIdRole]) -> Result<Vec<WebRole>, Problem> {
    let tasks = Tasks::new();
    let mut known: Vec<(&OpenIdRole, Arc<Issuer>)> = Vec::new();
    let mut roles = Vec::with_capacity(settings.len());
    for role in settings {
        let identity = |role: &OpenIdRole| -> (String, Option<PathBuf>, bool) {
            (role.issuer.clone(), role.ca_file.clone(), role.allow_http)
        };
        // One issuer for equal settings, so that its keys are fetched and cached once.
        let same = known.iter().find(|(other, _)| identity(other) == identity(role));
        let issuer = match same {
            Some((_, issuer)) => Arc::clone(issuer),
            None => {
                let issuer = Arc::new(issuer(role, tasks.clone())?);
                known.push((role, Arc::clone(&issuer)));
                issuer
            }
        };
        let (uid, gid, umask) = role.owner();
        roles.push(WebRole {
            name: role.role.clone(),
            account: role.account().unwrap_or(AccountId::MAIN),
            issuer,
            audiences: role.audience.clone(),
            require: role.require.clone(),
            policies: role.policies.clone(),
            policy_claim: role.policy_claim(),
            claims: role.claims.clone(),
            uid,
            gid,
            umask,
            login: role.login.as_ref().map(|login| self::login(role, login)).transpose()?,
        });
    }
    Ok(roles)
}

/// Returns the login of a role. Fails if the secret of its client cannot be read.
fn login(role: &OpenIdRole, login: &OpenIdLogin) -> Result<WebLogin, Problem> {
    let secret = login.client_secret_file.as_ref().map(|path| {
        private::given(path)?;
        let doing = || format!("read the secret of an OpenID client in {}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| Problem::new(doing(), error))?;
        // Editors add a line end, which is no part of the secret.
        match text.trim() {
            "" => Err(Problem::new(doing(), "the file is empty")),
            secret => Ok(secret.to_owned()),
        }
    });
    let client = CodeClient {
        id: login.client_id.clone(),
        secret: secret.transpose()?,
        redirect_url: login.redirect_url.clone(),
        scopes: login.scopes.clone(),
    };
    let label = login.label.clone().unwrap_or_else(|| role.role.clone());
    Ok(WebLogin { client, label, session: login.session() })
}

/// Returns the issuer of a role. Fails if its certificates cannot be read or its URL is invalid.
fn issuer(role: &OpenIdRole, tasks: Tasks) -> Result<Issuer, Problem> {
    let authorities = role.ca_file.as_ref().map(|path| {
        let doing = || format!("read the certificates in {}", path.display());
        std::fs::read(path).map_err(|error| Problem::new(doing(), error))
    });
    let settings = IssuerSettings {
        url: role.issuer.clone(),
        authorities: authorities.transpose()?,
        allow_http: role.allow_http,
    };
    let issuer = Issuer::new(settings, tasks);
    issuer.map_err(|error| Problem::new(format!("use the OpenID issuer {:?}", role.issuer), error))
}

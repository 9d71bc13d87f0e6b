//! The roles of OpenID users, from the setting `openid`.

use std::path::PathBuf;
use std::sync::Arc;

use identity::WebRole;
use openid::{Issuer, IssuerSettings};
use record::AccountId;
use runtime::Tasks;

use crate::config::OpenIdRole;
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
        });
    }
    Ok(roles)
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

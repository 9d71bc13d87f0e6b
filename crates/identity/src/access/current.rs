//! The rights of a sender now, for work that lasts longer than one request.
//!
//! A request is decided with the identity that it was authenticated with. Work that goes on for
//! minutes asks again before each step. For example, an archive of 10,000 objects ends after the
//! object during which an operator disables its sender, and leaves out the objects that a changed
//! policy denies from then on.

use std::sync::Arc;

use time::OffsetDateTime;

use super::snapshot::{Access, Identity};

impl Access {
    /// Returns an identity with the policies that it has now. Returns `None` if its key, its
    /// session, its token, its user or its role has ended meanwhile, or if its key has another
    /// secret.
    pub fn current(&self, of: &Identity, now: OffsetDateTime) -> Option<Arc<Identity>> {
        let Some(session) = &of.session else {
            return self.lookup(&of.signing_key, now).filter(|known| known.secret == of.secret);
        };
        if session.of_token {
            let known = Arc::clone(&self.known().tokens.get(&of.signing_key)?.identity);
            return Some(known).filter(|known| known.is_current(now) && known.secret == of.secret);
        }
        if session.ends.is_some_and(|ends| now >= ends) {
            return None;
        }
        if let Some(web) = &session.web {
            let roles = self.web_roles();
            let role = roles.iter().find(|role| role.still_admits(web))?;
            let policies = self.web_policies(role, &web.policies).ok()?;
            return Some(Arc::new(Identity { policies, ..of.clone() }));
        }
        // The key with which the session began.
        let known = self.lookup(&of.signing_key, now)?;
        let is_same = session.proof.as_ref() == Some(&known.proof());
        let (secret, session) = (of.secret.clone(), of.session.clone());
        is_same.then(|| Arc::new(Identity { secret, session, ..(*known).clone() }))
    }
}

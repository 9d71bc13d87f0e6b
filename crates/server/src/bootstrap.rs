//! Declared buckets, users, groups and policies, which a start of the gateway puts in force.
//!
//! The sources are the setting `buckets` and the file of the setting `bootstrap`. For example,
//! `--buckets "photos,site:download"` creates two buckets and lets each client read the objects of
//! `site`.
//!
//! The invariant: a setting that is declared is in force when the gateway becomes ready, and a
//! setting that is not declared stays as it is. An object that agrees with its declaration is not
//! written, so a start without a change writes nothing; each write has a line in the log. Nothing
//! is ever removed. A declared bucket that belongs to another account is left as it is, with an
//! error in the log. Each change runs through the administration API in the name of the operator,
//! so it passes the checks of S3.
//!
//! [`Declared::read`] checks the form before the volume is opened. [`Declared::apply`] checks the
//! rest, for example the rules of a policy, and stops at the first mistake.

mod apply;
mod buckets;
mod document;
mod operator;
mod shorthand;
mod source;
mod users;

use adminapi::AdminApi;
use problem::Problem;

use crate::config::ServeSettings;
use document::Document;

/// The declarations of all sources.
#[derive(Debug, Default)]
pub(crate) struct Declared {
    document: Document,
    /// The buckets of the setting `buckets`.
    buckets: Vec<document::Bucket>,
}

impl Declared {
    /// Reads the declarations of the settings, and the secrets that they name. Fails if a file
    /// cannot be read, or if a declaration has a wrong form.
    pub(crate) fn read(serve: &ServeSettings) -> Result<Declared, Problem> {
        let document = match &serve.bootstrap {
            Some(path) => source::read(path)?,
            None => Document::default(),
        };
        let buckets = shorthand::buckets(&serve.buckets)?;
        Ok(Declared { document, buckets })
    }

    /// Puts the declarations in force, in the order policies, users, groups, buckets. `root` is the
    /// access key of the operator. Fails at the first one that is refused.
    pub(crate) async fn apply(&self, api: &AdminApi, root: &str) -> Result<(), Problem> {
        let Document { policies, users, groups, buckets } = &self.document;
        let buckets: Vec<_> = buckets.iter().chain(&self.buckets).collect();
        if policies.is_empty() && users.is_empty() && groups.is_empty() && buckets.is_empty() {
            return Ok(());
        }
        let applied = apply::all(api, root, (policies, users, groups, &buckets)).await?;
        tracing::info!(
            policies = policies.len(),
            users = users.len(),
            groups = groups.len(),
            buckets = buckets.len() - applied.left_out,
            changes = applied.changes,
            "the declared policies, users, groups and buckets are in force"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests;

//! Buckets in one word each: the name, and optionally the access of clients without credentials.
//!
//! For example, `site:download` is the bucket `site` whose objects each client can read. The words
//! for the access are those of `mc anonymous set`.

use adminapi::resources::public::AnonymousAccess;
use problem::{Cause, Problem};
use s3::BucketName;

use super::document::{Bucket, Placed};

/// Returns the buckets of the setting `buckets`. Fails for a wrong name or access.
pub(super) fn buckets(words: &[String]) -> Result<Vec<Bucket>, Problem> {
    words.iter().map(|word| bucket(word)).collect()
}

fn bucket(word: &str) -> Result<Bucket, Problem> {
    let problem = |wrong: &dyn std::fmt::Display| {
        Problem::new(format!("create the bucket {word:?} of --buckets (ASHLAR_BUCKETS)"), wrong)
            .remedy("write a,b:public; after the colon stands private, download, upload or public")
            .because(Cause::Settings)
    };
    let (name, access) = match word.split_once(':') {
        Some((name, access)) => (name.trim(), Some(access.trim())),
        None => (word.trim(), None),
    };
    BucketName::parse(name).map_err(|fault| problem(&fault.message))?;
    let access = access.map(|access| {
        let known = AnonymousAccess::SETTABLE.into_iter().find(|known| known.name() == access);
        match (known, access) {
            (Some(known), _) => Ok(known),
            // The word of `mc`.
            (None, "none") => Ok(AnonymousAccess::Private),
            (None, _) => Err(problem(&format!("{access:?} is not an access"))),
        }
    });
    let place = format!("{word:?} of --buckets (ASHLAR_BUCKETS)");
    let name = Placed { place, value: name.to_owned() };
    Ok(Bucket { public: access.transpose()?, ..Bucket::named(name) })
}

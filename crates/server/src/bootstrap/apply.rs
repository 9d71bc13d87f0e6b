//! The application of declarations, one after the other.
//!
//! Two gateways that start at once write the same values. If one of them loses a race, for example
//! because the other one has just created the user, it reads the state again and compares anew.

use std::cell::Cell;

use adminapi::{Actor, AdminApi, IfMatch};
use http::HeaderMap;
use identity::{Authenticated, RequestOrigin};
use problem::{Cause, Problem};
use s3::auth::Verified;

use super::document::{Bucket, Group, NamedPolicy, Placed, User};
use super::operator::{Operator, Refusal};
use super::{buckets, users};

/// The limit of attempts for one declaration. Each attempt after the first one follows a change by
/// another process.
const ATTEMPTS_MAX: u32 = 8;

/// The id of the requests to the gateway of this process.
const REQUEST_ID: &str = "bootstrap";

/// The result of an application.
#[derive(Clone, Copy, Debug)]
pub(super) struct Applied {
    /// The number of writes.
    pub(super) changes: usize,
    /// The number of declared buckets that are not in force.
    pub(super) left_out: usize,
}

/// Applies all declarations in the name of the operator with the access key `root`.
pub(super) async fn all(
    api: &AdminApi,
    root: &str,
    (policies, users, groups, buckets): (&[NamedPolicy], &[User], &[Group], &[&Bucket]),
) -> Result<Applied, Problem> {
    let now = rules::time(api.volume().now());
    let identity = api.access().lookup(root, now);
    let verified = Verified::without_signature(root, now);
    let authenticated = Authenticated { verified, identity };
    let headers = HeaderMap::new();
    let origin = RequestOrigin { headers: &headers, client: None, now };
    let actor = Actor::new(api.access(), api.volume(), &authenticated, origin, REQUEST_ID);
    let actor = actor.map_err(|error| Problem::new("act as the operator", error))?;
    let operator = Operator {
        api,
        actor: &actor,
        any: IfMatch::default(),
        changes: Cell::new(0),
        left_out: Cell::new(0),
    };
    let operator = &operator;
    for policy in policies {
        let attempt = async || users::put_policy(operator, policy).await;
        attempts("policy", &policy.name, attempt).await?;
    }
    for user in users {
        attempts("user", &user.name, async || users::put_user(operator, user).await).await?;
    }
    for group in groups {
        attempts("group", &group.name, async || users::put_group(operator, group).await).await?;
    }
    for bucket in buckets {
        attempts("bucket", &bucket.name, async || buckets::put(operator, bucket).await).await?;
    }
    Ok(Applied { changes: operator.changes.get(), left_out: operator.left_out.get() })
}

/// Applies one declaration, and repeats it while other processes make changes at the same time.
async fn attempts(
    kind: &str,
    name: &Placed<String>,
    attempt: impl AsyncFn() -> Result<(), Refusal>,
) -> Result<(), Problem> {
    let mut left = ATTEMPTS_MAX;
    loop {
        left -= 1;
        match attempt().await {
            Ok(()) => return Ok(()),
            // Another gateway has written the same object. The next attempt sees its state.
            Err(refusal) if left > 0 && refusal.is_race() => {}
            Err(refusal) => return Err(problem(kind, name, refusal)),
        }
    }
}

/// Returns the problem of a declaration that is refused.
fn problem(kind: &str, name: &Placed<String>, refusal: Refusal) -> Problem {
    let Refusal { part, place, error } = refusal;
    let place = place.as_ref().unwrap_or(&name.place);
    let doing = format!("put {part} of the {kind} {:?} in force ({place})", name.value);
    let problem = Problem::new(doing, &error);
    if error.status.is_server_error() {
        return problem.remedy("its log has the reason; start again").because(Cause::Unavailable);
    }
    problem.remedy("correct the declaration, and start again").because(Cause::Settings)
}

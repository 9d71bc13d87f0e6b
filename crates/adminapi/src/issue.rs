//! The limits of credentials that a sender makes for itself or for others.
//!
//! A sender whose own credentials end could otherwise continue with others that do not end. So keys
//! and secrets that it makes end no later than its own key, and temporary credentials and tokens
//! make none. For example, a contractor whose key ends on Friday gives a colleague a key that ends
//! on Friday, too.

use record::Timestamp;

use crate::{Actor, ApiError};

/// Fails with `AccessDenied` if the sender has temporary credentials or a token, which may make no
/// permanent credentials: they would have rights beyond its session policy or its actions, and
/// outlive its revocation.
pub(crate) fn check_permanent(actor: &Actor<'_>) -> Result<(), ApiError> {
    if actor.is_temporary() {
        let why = "Temporary credentials and tokens make no users, keys, secrets or tokens.";
        return Err(refused(why));
    }
    Ok(())
}

/// Fails with `AccessDenied` if the sender learns or sets the secret of credentials that end later
/// than its own, or not at all.
pub(crate) fn check_end(actor: &Actor<'_>, expires: Option<Timestamp>) -> Result<(), ApiError> {
    check_permanent(actor)?;
    match end(actor) {
        Some(end) if expires.is_none_or(|expires| expires > end) => Err(longer()),
        Some(_) | None => Ok(()),
    }
}

/// Fails with `AccessDenied` if the sender moves the end of a key of another user beyond its own
/// end. It may always bring an end forward.
pub(crate) fn check_moved_end(
    actor: &Actor<'_>,
    now: Option<Timestamp>,
    wanted: Option<Timestamp>,
) -> Result<(), ApiError> {
    if is_shorter(now, wanted) { Ok(()) } else { check_end(actor, wanted) }
}

/// Returns the expiry of a key or token that the sender creates. If the sender's own key expires,
/// the new one does not outlive it: an operator that sets an end sets it for all that the key
/// makes.
pub(crate) fn capped(
    actor: &Actor<'_>,
    wanted: Option<Timestamp>,
) -> Result<Option<Timestamp>, ApiError> {
    match (end(actor), wanted) {
        (Some(end), None) => Ok(Some(end)),
        (Some(end), Some(wanted)) if wanted > end => Err(longer()),
        (Some(_) | None, wanted) => Ok(wanted),
    }
}

/// Fails with `AccessDenied` if a change of one's own key would lift or delay its end.
pub(crate) fn check_shorter(
    now: Option<Timestamp>,
    wanted: Option<Timestamp>,
) -> Result<(), ApiError> {
    if is_shorter(now, wanted) { Ok(()) } else { Err(longer()) }
}

/// Returns the error of a sender that would extend its own credentials.
pub(crate) fn longer() -> ApiError {
    refused(
        "You cannot change the end of your own access key, or make or keep credentials that end later \
         than it. Ask an operator.",
    )
}

/// Returns true if a key ends no later than before.
fn is_shorter(now: Option<Timestamp>, wanted: Option<Timestamp>) -> bool {
    now.is_none_or(|now| wanted.is_some_and(|wanted| wanted <= now))
}

/// Returns the time at which the sender's credentials end; `None` if they do not end.
fn end(actor: &Actor<'_>) -> Option<Timestamp> {
    let end = actor.identity().expires()?;
    Some(Timestamp(i64::try_from(end.unix_timestamp_nanos()).unwrap_or(i64::MAX)))
}

pub(crate) fn refused(why: &str) -> ApiError {
    ApiError::new(http::StatusCode::FORBIDDEN, "AccessDenied", why)
}

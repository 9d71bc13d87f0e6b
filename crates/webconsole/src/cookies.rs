//! The cookie of a login.
//!
//! Under TLS its name has the prefix `__Host-`: browsers then accept it from this host alone, for all
//! paths, over TLS. For example, a page of another subdomain cannot set it.

use http::HeaderMap;
use http::header::{COOKIE, HeaderValue, SET_COOKIE};

const NAME: &str = "ashlar-login";
const SECURE_NAME: &str = "__Host-ashlar-login";

/// Returns the ticket in the cookies of a request. Under TLS only the cookie with the prefix counts:
/// the other one could come from a page without TLS.
pub(crate) fn ticket(headers: &HeaderMap, is_secure: bool) -> Option<&str> {
    let wanted = if is_secure { SECURE_NAME } else { NAME };
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = cookies.flat_map(|line| line.split(';')).filter_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        Some((name, value))
    });
    let mut found = pairs.filter(|(name, value)| *name == wanted && !value.is_empty());
    let first = found.next().map(|(_, value)| value);
    // A page at another port of this host can set a second cookie of the name, for a longer path.
    first.filter(|_| found.next().is_none())
}

/// Sets the cookie of a login. It ends with the browser; the ticket has its own end.
pub(crate) fn set(headers: &mut HeaderMap, ticket: &str, is_secure: bool) {
    let (name, secure) = if is_secure { (SECURE_NAME, "; Secure") } else { (NAME, "") };
    let cookie = format!("{name}={ticket}; Path=/; HttpOnly; SameSite=Strict{secure}");
    // A ticket is Base64, which each header can hold.
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        headers.append(SET_COOKIE, cookie);
    }
}

/// Removes the cookie of a login.
pub(crate) fn remove(headers: &mut HeaderMap) {
    for (name, secure) in [(NAME, ""), (SECURE_NAME, "; Secure")] {
        let cookie = format!("{name}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict{secure}");
        if let Ok(cookie) = HeaderValue::from_str(&cookie) {
            headers.append(SET_COOKIE, cookie);
        }
    }
}

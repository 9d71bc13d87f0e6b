//! The cookies of a login, and of a login at an OpenID issuer that has begun.
//!
//! The browser returns from the issuer's site, so the cookie of the attempt is `SameSite=Lax`; that
//! of the login is `SameSite=Strict`.
//!
//! Under TLS their names have the prefix `__Host-`: browsers then accept them from this host alone,
//! for all paths, over TLS. For example, a page of another subdomain cannot set one.

use http::HeaderMap;
use http::header::{COOKIE, HeaderValue, SET_COOKIE};

/// A cookie of the console.
#[derive(Clone, Copy, Debug)]
struct Kind {
    name: &'static str,
    /// The name under TLS.
    secure_name: &'static str,
    attributes: &'static str,
}

const LOGIN: Kind = Kind {
    name: "ashlar-login",
    secure_name: "__Host-ashlar-login",
    attributes: "Path=/; HttpOnly; SameSite=Strict",
};

const ATTEMPT: Kind = Kind {
    name: "ashlar-openid",
    secure_name: "__Host-ashlar-openid",
    attributes: "Path=/; HttpOnly; SameSite=Lax",
};

/// Returns the ticket in the cookies of a request.
pub(crate) fn ticket(headers: &HeaderMap, is_secure: bool) -> Option<&str> {
    LOGIN.value(headers, is_secure)
}

/// Sets the cookie of a login. It ends with the browser; the ticket has its own end.
pub(crate) fn set(headers: &mut HeaderMap, ticket: &str, is_secure: bool) {
    LOGIN.set(headers, ticket, is_secure);
}

/// Removes the cookie of a login.
pub(crate) fn remove(headers: &mut HeaderMap) {
    LOGIN.remove(headers);
}

/// Returns the attempt in the cookies of a request.
pub(crate) fn attempt(headers: &HeaderMap, is_secure: bool) -> Option<&str> {
    ATTEMPT.value(headers, is_secure)
}

/// Sets the cookie of an attempt. It ends with the browser; the attempt has its own end.
pub(crate) fn set_attempt(headers: &mut HeaderMap, attempt: &str, is_secure: bool) {
    ATTEMPT.set(headers, attempt, is_secure);
}

/// Removes the cookie of an attempt.
pub(crate) fn remove_attempt(headers: &mut HeaderMap) {
    ATTEMPT.remove(headers);
}

impl Kind {
    /// Returns the value in the cookies of a request. Under TLS only the cookie with the prefix
    /// counts: the other one could come from a page without TLS.
    fn value(self, headers: &HeaderMap, is_secure: bool) -> Option<&str> {
        let wanted = if is_secure { self.secure_name } else { self.name };
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs = cookies.flat_map(|line| line.split(';')).filter_map(|pair| {
            let (name, value) = pair.trim().split_once('=')?;
            Some((name, value))
        });
        let mut found = pairs.filter(|(name, value)| *name == wanted && !value.is_empty());
        let first = found.next().map(|(_, value)| value);
        // A page at another port of this host can set a second cookie of the name, for a longer
        // path.
        first.filter(|_| found.next().is_none())
    }

    fn set(self, headers: &mut HeaderMap, value: &str, is_secure: bool) {
        let (name, secure) =
            if is_secure { (self.secure_name, "; Secure") } else { (self.name, "") };
        let cookie = format!("{name}={value}; {}{secure}", self.attributes);
        // A value is Base64, which each header can hold.
        if let Ok(cookie) = HeaderValue::from_str(&cookie) {
            headers.append(SET_COOKIE, cookie);
        }
    }

    fn remove(self, headers: &mut HeaderMap) {
        for (name, secure) in [(self.name, ""), (self.secure_name, "; Secure")] {
            let cookie = format!("{name}=; Max-Age=0; {}{secure}", self.attributes);
            if let Ok(cookie) = HeaderValue::from_str(&cookie) {
                headers.append(SET_COOKIE, cookie);
            }
        }
    }
}

#[cfg(test)]
mod tests;

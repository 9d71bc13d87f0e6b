//! The URL of the console, to which browsers are redirected from the S3 endpoint.
//!
//! For example, `https://console.example.com/` is one, and `console.example.com` is not, because a
//! browser would read it as a path of the S3 endpoint.

use problem::Problem;
use url::Url;

/// Fails if a text is not the URL of a console.
pub(super) fn check(text: &str) -> Result<(), Problem> {
    let url = Url::parse(text);
    let is_site = |url: &Url| {
        let has_user = !url.username().is_empty() || url.password().is_some();
        matches!(url.scheme(), "https" | "http") && url.has_host() && !has_user
    };
    if url.is_ok_and(|url| is_site(&url)) {
        return Ok(());
    }
    let wrong = format!("{text:?} is not an http or https URL without a user");
    Err(Problem::new("use the option console_url", wrong))
}

#[cfg(test)]
mod tests;

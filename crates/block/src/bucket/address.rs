//! The address of a bucket, determined once by the SDK's own rules.
//!
//! So the bucket is in the path or in the host name for the same endpoints, regions and names as in
//! the SDK's requests. For example, on AWS the bucket `stones` is in the host
//! `stones.s3.eu-west-1.amazonaws.com`, and with `path_style` on MinIO in the path. Every part of
//! an address is encoded as it is sent.

use aws_sdk_s3::config::endpoint::{DefaultResolver, Params, ResolveEndpoint};
use futures::FutureExt;
use http::{HeaderValue, Uri};
use sigv4::uri::escape_path;

use super::options::BucketOptions;

/// The address of a bucket, split into the parts that connections, requests and signatures need.
#[derive(Debug)]
pub(super) struct Address {
    /// Scheme, host and port, for connections.
    pub(super) endpoint: Uri,
    /// The `Host` header of requests, with the port unless it is the scheme's default.
    pub(super) host: HeaderValue,
    /// The path before the names of blocks. It begins and ends with a slash.
    root: String,
    /// The region for which requests are signed.
    pub(super) region: String,
    /// The service for which requests are signed.
    pub(super) service: String,
}

impl Address {
    /// Determines the address of a bucket with these options. `prefix` is empty or ends with a
    /// slash.
    ///
    /// # Errors
    /// Fails with a sentence for the operator if the options give no address.
    pub(super) fn find(options: &BucketOptions, prefix: &str) -> Result<Address, String> {
        let asked = Params::builder()
            .bucket(&options.bucket)
            .region(&options.region)
            .set_endpoint(options.endpoint.clone())
            .force_path_style(options.path_style)
            .build()
            .map_err(|error| error.to_string())?;
        let resolver = DefaultResolver::new();
        // The resolver is asynchronous by type, but its rules are computed at once.
        let found = ResolveEndpoint::resolve_endpoint(&resolver, &asked).now_or_never();
        let found =
            found.ok_or("the address of the bucket cannot be determined from the options")?;
        let found = found.map_err(|error| error.to_string())?;
        let schemes = found.auth_schemes();
        let scheme = schemes.iter().find(|scheme| scheme.name() == "sigv4");
        if scheme.is_none() && !schemes.is_empty() {
            return Err("the bucket needs a signature other than AWS4-HMAC-SHA256".to_owned());
        }
        let signing = |property: &str, default: &str| {
            let property_value = scheme.and_then(|scheme| scheme.get(property)?.as_string());
            property_value.unwrap_or(default).to_owned()
        };
        let region = signing("signingRegion", &options.region);
        let service = signing("signingName", "s3");
        let url: Uri = found.url().parse().map_err(|error| format!("{}: {error}", found.url()))?;
        let (endpoint, host) = split_address(&url)?;
        let root = format!("{}/{}", url.path().trim_end_matches('/'), escape_path(prefix));
        Ok(Address { endpoint, host, root, region, service })
    }

    /// Returns the path of an object whose name consists of letters, digits and slashes.
    pub(super) fn path(&self, name: &str) -> String {
        debug_assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'/'));
        [&self.root, name].concat()
    }
}

/// Returns the address without its path, and the `Host` header for it.
fn split_address(url: &Uri) -> Result<(Uri, HeaderValue), String> {
    let (Some(scheme), Some(host)) = (url.scheme_str(), url.host()) else {
        return Err(format!("the address {url} has no scheme or no host"));
    };
    // The default port must be left out, as in the SDK's requests, or the signature would not
    // match.
    let usual = if scheme == "https" { 443 } else { 80 };
    let authority = match url.port_u16().filter(|port| *port != usual) {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    let endpoint = format!("{scheme}://{authority}/").parse();
    let endpoint = endpoint.map_err(|error| format!("{url}: {error}"))?;
    let host = HeaderValue::from_str(&authority).map_err(|error| format!("{url}: {error}"))?;
    Ok((endpoint, host))
}

#[cfg(test)]
mod tests;

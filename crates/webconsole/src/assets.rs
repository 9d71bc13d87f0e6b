//! The style sheet, the script and the icon. They are part of the program.
//!
//! The path of an asset contains a hash of its content, so browsers keep it and a new release has
//! another path. For example, `/assets/0123456789abcdef/console.css`.

use std::fmt::Write;

use bytes::Bytes;
use gateway::{HttpBody, InMemory};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Method, Response};
use http_body_util::{BodyExt, Full};
use sha2::{Digest, Sha256};

/// A file that the console serves to everyone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asset {
    name: &'static str,
    kind: &'static str,
    content: &'static [u8],
}

/// The style sheet.
pub(crate) const STYLE: Asset = Asset {
    name: "console.css",
    kind: "text/css; charset=utf-8",
    content: include_bytes!("../assets/console.css"),
};

/// The script, which uploads files and copies text.
pub(crate) const SCRIPT: Asset = Asset {
    name: "console.js",
    kind: "text/javascript; charset=utf-8",
    content: include_bytes!("../assets/console.js"),
};

/// The icon.
pub(crate) const ICON: Asset = Asset {
    name: "icon.svg",
    kind: "image/svg+xml",
    content: include_bytes!("../assets/icon.svg"),
};

const ALL: [Asset; 3] = [STYLE, SCRIPT, ICON];

/// The bytes of a hash in a path.
const HASH_BYTES: usize = 8;

impl Asset {
    /// Returns the path of the asset.
    pub(crate) fn path(self) -> String {
        let mut path = String::from("/assets/");
        for byte in &Sha256::digest(self.content)[..HASH_BYTES] {
            let _ = write!(path, "{byte:02x}");
        }
        let _ = write!(path, "/{}", self.name);
        path
    }

    /// Returns the response with the asset.
    pub(crate) fn respond(self, method: &Method) -> Response<HttpBody> {
        let content = if method == Method::HEAD { b"" } else { self.content };
        let body = Full::new(Bytes::from_static(content));
        let mut response = Response::new(body.map_err(|never| match never {}).boxed_unsync());
        response.extensions_mut().insert(InMemory);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.kind));
        let kept = HeaderValue::from_static("public, max-age=31536000, immutable");
        headers.insert(CACHE_CONTROL, kept);
        response
    }
}

/// Returns the asset of a path; `None` if the path has another hash or name.
pub(crate) fn find(path: &str) -> Option<Asset> {
    path.starts_with("/assets/").then_some(())?;
    ALL.into_iter().find(|asset| asset.path() == path)
}

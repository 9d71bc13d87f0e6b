//! Builds requests. A test can replace each part by a false one, before or after the signature.

use time::{Duration, OffsetDateTime};

use super::sign::{self, Signer};

/// The value of `x-amz-content-sha256`.
#[derive(Clone, Debug)]
enum Claim {
    /// The hash of the body.
    Hash,
    /// This text.
    Text(String),
    /// No header.
    Silence,
}

/// A request before it is signed.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// The path as sent, with its percent escapes.
    pub(crate) path: String,
    /// The query as sent, without the question mark.
    pub(crate) query: String,
    /// Headers that the signature covers.
    headers: Vec<(String, String)>,
    /// Headers that the signature does not cover.
    unsigned: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// The value of `Content-Length` if it is not the length of the body; an empty text leaves the
    /// header out.
    length: Option<String>,
    claim: Claim,
    skew: Duration,
    /// The service in the scope of the signature.
    service: &'static str,
}

/// A signed request as bytes, with the signer of its chunks.
#[derive(Clone, Debug)]
pub(crate) struct Sealed {
    /// The request line and the headers.
    pub(crate) head: Vec<u8>,
    pub(crate) body: Vec<u8>,
    pub(crate) signer: Signer,
    pub(crate) signature: String,
}

impl Sealed {
    /// Returns all bytes of the request.
    pub(crate) fn wire(mut self) -> Vec<u8> {
        self.head.append(&mut self.body);
        self.head
    }
}

/// The credentials of a signature, and the host for which it is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signature<'a> {
    pub(crate) host: &'a str,
    pub(crate) key: &'a str,
    pub(crate) secret: &'a str,
}

impl Request {
    /// A request for `target`, a path with or without a query.
    pub(crate) fn new(method: &str, target: &str) -> Request {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Request {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            headers: Vec::new(),
            unsigned: Vec::new(),
            body: Vec::new(),
            length: None,
            claim: Claim::Hash,
            skew: Duration::ZERO,
            service: "s3",
        }
    }

    /// The same request for another path.
    pub(crate) fn at(mut self, path: &str) -> Request {
        path.clone_into(&mut self.path);
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Request {
        self.body = body.into();
        self
    }

    /// Adds a signed header.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Request {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds a header that is not signed.
    pub(crate) fn unsigned(mut self, name: &str, value: &str) -> Request {
        self.unsigned.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sends this text as `x-amz-content-sha256` instead of the body's hash.
    pub(crate) fn claim(mut self, text: &str) -> Request {
        self.claim = Claim::Text(text.to_owned());
        self
    }

    /// Sends no `x-amz-content-sha256`.
    pub(crate) fn no_claim(mut self) -> Request {
        self.claim = Claim::Silence;
        self
    }

    /// Sends this text as `Content-Length`; an empty text leaves the header out.
    pub(crate) fn length(mut self, text: &str) -> Request {
        self.length = Some(text.to_owned());
        self
    }

    /// Signs for another service than S3.
    pub(crate) fn service(mut self, service: &'static str) -> Request {
        self.service = service;
        self
    }

    /// Signs with a clock that is wrong by `seconds`.
    pub(crate) fn skewed(mut self, seconds: i64) -> Request {
        self.skew = Duration::seconds(seconds);
        self
    }

    fn now(&self) -> OffsetDateTime {
        OffsetDateTime::now_utc() + self.skew
    }

    fn claimed(&self) -> Option<String> {
        match &self.claim {
            Claim::Hash => Some(sign::sha256(&self.body)),
            Claim::Text(text) => Some(text.clone()),
            Claim::Silence => None,
        }
    }

    fn canonical(&self, signed: &[(String, String)], query: &str, payload: &str) -> String {
        let mut signed: Vec<(String, &str)> =
            signed.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.trim())).collect();
        signed.sort();
        let names: Vec<&str> = signed.iter().map(|(name, _)| name.as_str()).collect();
        let mut headers = String::new();
        for (name, value) in &signed {
            headers.extend([name, ":", value, "\n"]);
        }
        let path = sign::escape(&sign::unescape(&self.path), true);
        // Only the signature of S3 escapes the path once.
        let path = if self.service == "s3" { path } else { path.replace('%', "%25") };
        let (method, names) = (&self.method, names.join(";"));
        let query = sign::canonical_query(query);
        format!("{method}\n{path}\n{query}\n{headers}\n{names}\n{payload}")
    }

    /// Returns the request as bytes, with the signature in its headers.
    pub(crate) fn sealed(&self, by: Signature<'_>) -> Sealed {
        let signer = Signer::of_service(by.secret, self.now(), self.service);
        let mut headers = vec![
            ("host".to_owned(), by.host.to_owned()),
            ("x-amz-date".to_owned(), signer.timestamp.clone()),
        ];
        let claimed = self.claimed();
        headers.extend(claimed.clone().map(|text| ("x-amz-content-sha256".to_owned(), text)));
        headers.extend(self.headers.iter().cloned());
        let payload = claimed.unwrap_or_default();
        let signature = signer.request(&self.canonical(&headers, &self.query, &payload));
        let mut names: Vec<String> =
            headers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
        names.sort();
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={}, Signature={signature}",
            by.key,
            signer.scope,
            names.join(";"),
        );
        headers.push(("authorization".to_owned(), authorization));
        let head = self.head(&self.query, &headers);
        Sealed { head, body: self.body.clone(), signer, signature }
    }

    /// Returns the request as bytes, with the signature in its URL. The URL expires after `expires`
    /// seconds.
    pub(crate) fn presigned(&self, by: Signature<'_>, expires: &str) -> Vec<u8> {
        let signer = Signer::new(by.secret, self.now());
        let mut headers = vec![("host".to_owned(), by.host.to_owned())];
        headers.extend(self.headers.iter().cloned());
        let mut names: Vec<String> =
            headers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
        names.sort();
        let credential = format!("{}/{}", by.key, signer.scope);
        let mut query = format!(
            "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={}&X-Amz-Date={}&X-Amz-Expires={}\
             &X-Amz-SignedHeaders={}",
            sign::escape(credential.as_bytes(), false),
            signer.timestamp,
            sign::escape(expires.as_bytes(), false),
            sign::escape(names.join(";").as_bytes(), false),
        );
        if !self.query.is_empty() {
            query = format!("{}&{query}", self.query);
        }
        let text = match &self.claim {
            Claim::Text(text) => text.clone(),
            Claim::Hash | Claim::Silence => "UNSIGNED-PAYLOAD".to_owned(),
        };
        let signature = signer.request(&self.canonical(&headers, &query, &text));
        if let Claim::Text(text) = &self.claim {
            headers.push(("x-amz-content-sha256".to_owned(), text.clone()));
        }
        query = format!("{query}&X-Amz-Signature={signature}");
        let mut wire = self.head(&query, &headers);
        wire.extend_from_slice(&self.body);
        wire
    }

    /// Returns the request as bytes, signed in its URL by Signature Version 2. `signed` is the part
    /// of the signed text between the expiry time and the path.
    pub(crate) fn presigned_2(&self, by: Signature<'_>, signed: &str) -> Vec<u8> {
        let expires = self.now().unix_timestamp() + 300;
        let text = format!("{}\n\n\n{expires}\n{signed}{}", self.method, self.path);
        let mac = sign::version_2(by.secret, &text);
        let mac = sign::escape(mac.as_bytes(), false);
        let mut query = format!("AWSAccessKeyId={}&Expires={expires}&Signature={mac}", by.key);
        if !self.query.is_empty() {
            query = format!("{}&{query}", self.query);
        }
        let mut wire = self.head(&query, &[("host".to_owned(), by.host.to_owned())]);
        wire.extend_from_slice(&self.body);
        wire
    }

    /// Returns the request as bytes, without a signature.
    pub(crate) fn anonymous(&self, host: &str) -> Vec<u8> {
        let mut headers = vec![("host".to_owned(), host.to_owned())];
        headers.extend(self.headers.iter().cloned());
        let mut wire = self.head(&self.query, &headers);
        wire.extend_from_slice(&self.body);
        wire
    }

    fn head(&self, query: &str, headers: &[(String, String)]) -> Vec<u8> {
        let question = if query.is_empty() { "" } else { "?" };
        let mut head = format!("{} {}{question}{query} HTTP/1.1\r\n", self.method, self.path);
        let truth = self.body.len().to_string();
        let length = match self.length.as_deref() {
            Some(text) => text,
            None if self.body.is_empty() && self.method != "PUT" && self.method != "POST" => "",
            None => &truth,
        };
        let length = Some(("content-length".to_owned(), length.to_owned()));
        let length = length.filter(|(_, value)| !value.is_empty());
        for (name, value) in headers.iter().chain(&self.unsigned).chain(length.as_ref()) {
            head.extend([name, ": ", value, "\r\n"]);
        }
        head.push_str("\r\n");
        head.into_bytes()
    }
}

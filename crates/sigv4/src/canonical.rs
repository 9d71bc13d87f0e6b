//! The canonical request: the unique text form of a request's method, path, query, signed headers
//! and body hash, over which SigV4 computes a signature.

/// The initial capacity of the buffer in bytes, which is enough for most canonical requests.
const CAPACITY: usize = 1024;

/// A complete canonical request: the unique text form of a request, whose hash SigV4 signs.
#[derive(Clone, Debug)]
pub struct CanonicalRequest {
    /// Header values can be any bytes, so this is not text.
    bytes: Vec<u8>,
    signed_headers: String,
}

impl CanonicalRequest {
    /// Begins a canonical request. `path` and `query` must be in canonical encoding: see
    /// [`uri`](crate::uri).
    pub fn builder(method: &str, path: &str, query: &str) -> CanonicalRequestBuilder {
        let mut bytes = Vec::with_capacity(CAPACITY);
        for line in [method, path, query] {
            bytes.extend_from_slice(line.as_bytes());
            bytes.push(b'\n');
        }
        CanonicalRequestBuilder { bytes, signed_headers: String::with_capacity(128) }
    }

    /// Returns the bytes whose hash is signed.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the names of the signed headers in the canonical request, separated by semicolons.
    pub fn signed_headers(&self) -> &str {
        &self.signed_headers
    }
}

/// An incomplete canonical request, to which the caller adds the signed headers.
#[derive(Clone, Debug)]
pub struct CanonicalRequestBuilder {
    bytes: Vec<u8>,
    signed_headers: String,
}

impl CanonicalRequestBuilder {
    /// Adds a signed header with one value. The caller adds names in lower case and in sorted
    /// order, as SigV4 requires.
    pub fn header(&mut self, name: &str, value: &[u8]) {
        self.header_values(name, [value]);
    }

    /// Adds a signed header with all its values, joined by commas. Returns false if there is no
    /// value; the canonical request then has the header with an empty value.
    pub fn header_values<'v>(
        &mut self,
        name: &str,
        values: impl IntoIterator<Item = &'v [u8]>,
    ) -> bool {
        if !self.signed_headers.is_empty() {
            self.signed_headers.push(';');
        }
        self.signed_headers.push_str(name);
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(b':');
        let mut any = false;
        for value in values {
            // A repeated header has its values joined by commas.
            if any {
                self.bytes.push(b',');
            }
            push_value(&mut self.bytes, value);
            any = true;
        }
        self.bytes.push(b'\n');
        any
    }

    /// Ends the canonical request. `payload_hash` is the SHA-256 of the body in hexadecimal, or a
    /// constant that replaces it, such as `UNSIGNED-PAYLOAD`.
    pub fn finish(self, payload_hash: &str) -> CanonicalRequest {
        let CanonicalRequestBuilder { mut bytes, signed_headers } = self;
        // An empty line ends the headers.
        bytes.push(b'\n');
        bytes.extend_from_slice(signed_headers.as_bytes());
        bytes.push(b'\n');
        bytes.extend_from_slice(payload_hash.as_bytes());
        CanonicalRequest { bytes, signed_headers }
    }
}

/// Appends a header value without surrounding white space, and with one space for each sequence of
/// spaces.
fn push_value(bytes: &mut Vec<u8>, value: &[u8]) {
    let value = value.trim_ascii();
    // Most values have no double space and are copied in one piece.
    if !value.windows(2).any(|two| two == b"  ") {
        return bytes.extend_from_slice(value);
    }
    let mut in_spaces = false;
    for &byte in value {
        if byte != b' ' || !in_spaces {
            bytes.push(byte);
        }
        in_spaces = byte == b' ';
    }
}

//! The canonical request: the bytes that a signature covers.

/// The initial capacity in bytes, which is enough for most canonical requests.
const CAPACITY: usize = 1024;

/// A complete canonical request.
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

    /// Returns the names of the headers in the request, separated by semicolons.
    pub fn signed_headers(&self) -> &str {
        &self.signed_headers
    }
}

/// A canonical request to which headers are added.
#[derive(Clone, Debug)]
pub struct CanonicalRequestBuilder {
    bytes: Vec<u8>,
    signed_headers: String,
}

impl CanonicalRequestBuilder {
    /// Adds a header with one value. The caller adds names in lower case and in sorted order.
    pub fn header(&mut self, name: &str, value: &[u8]) {
        self.header_values(name, [value]);
    }

    /// Adds a header with all its values. Returns false if there is no value; the header then has
    /// an empty value.
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

    /// Ends the request with the hash of its body, or with the replacement of the hash.
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

/// Appends a value without surrounding blanks, and with one space for each sequence of spaces.
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

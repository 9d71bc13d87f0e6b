//! MD5, behind a seam: it bounds the speed of an upload, so its engine may be exchanged.

use std::fmt;

use md5::{Digest as _, Md5 as Engine};

/// A running MD5.
#[derive(Clone, Default)]
pub(crate) struct Md5(Engine);

impl Md5 {
    pub(crate) fn new() -> Md5 {
        Md5::default()
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn finish(self) -> [u8; 16] {
        self.0.finalize().into()
    }
}

impl fmt::Debug for Md5 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Md5(…)")
    }
}

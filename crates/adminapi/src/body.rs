//! Bodies that are read into memory, within a limit.

use bytes::Bytes;
use gateway::HttpBody;
use http_body::Body;
use http_body_util::BodyExt;

/// The reason why a body was not read.
#[derive(Debug)]
pub(crate) enum Unread {
    /// The body has more bytes than the limit.
    TooLarge,
    /// The body ended with an error.
    Broken(gateway::BoxError),
}

/// Returns the bytes of a body, at most `bytes_max`.
pub(crate) async fn collect(mut body: HttpBody, bytes_max: usize) -> Result<Bytes, Unread> {
    // The length that the client declares, if it does. Nothing is read of a body that is too long.
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(Unread::TooLarge);
    }
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(Unread::Broken)?.into_data() else { continue };
        // The limit is checked before the copy, so an unknown sender cannot use more memory.
        if bytes.len() + data.len() > bytes_max {
            return Err(Unread::TooLarge);
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes.into())
}

//! Bodies that are read into memory, within a limit of bytes and of time.

use std::time::Duration;

use adminapi::ApiError;
use bytes::Bytes;
use gateway::HttpBody;
use http::StatusCode;
use http_body_util::BodyExt;

/// The limit of time for the arrival of a body.
const WAIT: Duration = Duration::from_secs(30);

/// Returns the bytes of a body. Fails with `TooLarge` and `RequestTimeout`.
pub(crate) async fn read(body: HttpBody, bytes_max: usize) -> Result<Bytes, ApiError> {
    let read = tokio::time::timeout(WAIT, collect(body, bytes_max)).await;
    read.map_err(|_late| ApiError::from(s3::Code::RequestTimeout))?
}

async fn collect(mut body: HttpBody, bytes_max: usize) -> Result<Bytes, ApiError> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_broken| ApiError::bad_request("The body ended early."))?;
        let Ok(data) = frame.into_data() else { continue };
        // The limit is checked before the copy.
        if bytes.len() + data.len() > bytes_max {
            let why = format!("The body has more than {bytes_max} bytes.");
            return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "TooLarge", why));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes.into())
}

use http_body::SizeHint;

use super::*;

/// A body with only a length.
struct Length(u64);

impl Body for Length {
    type Data = bytes::Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Self::Data>, Self::Error>>> {
        std::task::Poll::Ready(None)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0)
    }
}

fn answer(status: u16, header: Option<&str>, length: u64) -> Response<Length> {
    let mut answer = Response::builder().status(status);
    if let Some(header) = header {
        answer = answer.header(CONTENT_RANGE, header);
    }
    answer.body(Length(length)).expect("good parts")
}

const ASKED: Span = Span { first: 32, last: 131 };

#[test]
fn requested_range_is_accepted() {
    for (header, length) in [
        (Some("bytes 32-131/1000"), 100),
        (Some("bytes 32-131/132"), 100),
        (Some("bytes 32-131/*"), 100),
        (Some("bytes 32-99/100"), 68),
        (None, 5),
    ] {
        ASKED.check(&answer(206, header, length)).expect("the requested bytes");
    }
    Span { first: 0, last: 9 }.check(&answer(200, None, 5)).expect("all of it from its beginning");
}

#[test]
fn another_range_is_refused() {
    for (header, length) in [
        ("bytes 31-131/1000", 101),
        ("bytes 33-131/1000", 99),
        ("bytes 32-130/1000", 99),
        ("bytes 32-132/1000", 101),
        ("bytes 32-131/1000", 99),
        ("bytes 32-131/100", 100),
        ("bytes 131-32/1000", 100),
        ("bytes */1000", 100),
        ("bytes 32-131/-1", 100),
        ("bytes 0-18446744073709551615/*", 100),
        ("32-131/1000", 100),
        ("", 100),
    ] {
        ASKED.check(&answer(206, Some(header), length)).expect_err(header);
    }
    let error = ASKED.check(&answer(200, None, 100)).expect_err("all of the object");
    assert!(error.contains("bytes=32-131"), "{error}");
}

use tokio::time::timeout;

use super::*;

#[tokio::test(start_paused = true)]
async fn an_interrupted_wait_for_a_frame_keeps_its_start() {
    let never = futures::stream::pending::<Result<http_body::Frame<Bytes>, crate::BoxError>>();
    let body = http_body_util::StreamBody::new(never).boxed_unsync();
    let mut frames = Frames::new(body, Duration::from_secs(30));
    let began = Instant::now();
    let late = loop {
        if let Ok(frame) = timeout(Duration::from_secs(1), frames.next()).await {
            break frame.expect_err("nothing comes");
        }
    };
    assert_eq!(late.code, Code::RequestTimeout);
    assert!(began.elapsed() <= Duration::from_secs(30), "{:?}", began.elapsed());
}

use super::*;

#[derive(Debug)]
struct Counting;

impl Random for Counting {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), String> {
        bytes.iter_mut().zip(0..).for_each(|(byte, at)| *byte = at);
        Ok(())
    }
}

#[tokio::test]
async fn sealed_body_opens_with_the_same_secret_alone() {
    let sealing = Sealing::new(Arc::new(Counting));
    let (mine, other) = (Secret::new("mine"), Secret::new("other"));
    let body = sealing.seal(&mine, b"content".to_vec()).await.unwrap();
    assert_eq!(sealing.open(&mine, body.clone().into()).await.unwrap(), b"content");
    let refused = sealing.open(&other, body.into()).await.unwrap_err();
    assert_eq!(refused.code, "XMinioAdminConfigBadJSON");
}

#[tokio::test(start_paused = true)]
async fn body_waits_for_its_turn_no_longer_than_the_limit() {
    let sealing = Sealing::new(Arc::new(Counting));
    let turns = Arc::clone(&sealing.turns);
    let all = turns.acquire_many(u32::try_from(AT_ONCE_MAX).unwrap()).await.unwrap();
    let refused = sealing.open(&Secret::new("mine"), vec![0; 60].into()).await.unwrap_err();
    assert_eq!((refused.status, &*refused.code), (StatusCode::SERVICE_UNAVAILABLE, "SlowDown"));
    drop(all);
    let refused = sealing.open(&Secret::new("mine"), vec![3; 60].into()).await.unwrap_err();
    assert_eq!(refused.code, "XMinioAdminConfigBadJSON");
}

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
    let body = sealing.seal("anna", &mine, b"content".to_vec()).await.unwrap();
    assert_eq!(sealing.open("anna", &mine, body.clone().into()).await.unwrap(), b"content");
    let refused = sealing.open("anna", &other, body.into()).await.unwrap_err();
    assert_eq!(refused.code, "XMinioAdminConfigBadJSON");
}

#[tokio::test(start_paused = true)]
async fn body_waits_for_its_turn_no_longer_than_the_limit() {
    let sealing = Sealing::new(Arc::new(Counting));
    let turns = Arc::clone(&sealing.turns);
    let all = turns.acquire_many(u32::try_from(AT_ONCE_MAX).unwrap()).await.unwrap();
    let refused = sealing.open("anna", &Secret::new("mine"), vec![0; 60].into()).await.unwrap_err();
    assert_eq!((refused.status, &*refused.code), (StatusCode::SERVICE_UNAVAILABLE, "SlowDown"));
    drop(all);
    let refused = sealing.open("anna", &Secret::new("mine"), vec![3; 60].into()).await.unwrap_err();
    assert_eq!(refused.code, "XMinioAdminConfigBadJSON");
}

#[tokio::test(start_paused = true)]
async fn sender_with_many_requests_takes_one_turn() {
    let sealing = Sealing::new(Arc::new(Counting));
    let held = sealing.turn_of("anna").acquire_owned().await.unwrap();
    let secret = Secret::new("mine");
    let waiting = [(); 5].map(|()| sealing.open("anna", &secret, vec![0; 60].into()));
    let mut waiting = Box::pin(futures::future::join_all(waiting));
    assert!(futures::poll!(&mut waiting).is_pending());
    assert_eq!(sealing.turns.available_permits(), AT_ONCE_MAX, "those of other senders");
    sealing.seal("bert", &secret, b"content".to_vec()).await.unwrap();
    for refused in waiting.await {
        assert_eq!(refused.unwrap_err().code, "SlowDown");
    }
    drop(held);
    sealing.seal("carl", &secret, b"content".to_vec()).await.unwrap();
    assert_eq!(sealing.senders.lock().unwrap().keys().collect::<Vec<_>>(), ["carl"]);
}

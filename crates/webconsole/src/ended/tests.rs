use std::time::Duration;

use tokio::time::advance;

use super::{ENDED_MAX, EndedLogins};

#[tokio::test(start_paused = true)]
async fn an_ended_login_stays_ended_and_others_do_not_end() {
    let ended = EndedLogins::default();
    assert!(ended.end("one".to_owned()));
    assert!(!ended.end("one".to_owned()), "an attempt ends once");
    assert!(ended.has("one"));
    assert!(!ended.has("two"));
}

#[tokio::test(start_paused = true)]
async fn memory_has_a_limit_and_the_newest_logouts_stay() {
    let ended = EndedLogins::default();
    for number in 0..2 * ENDED_MAX {
        ended.end(number.to_string());
        advance(Duration::from_millis(1)).await;
    }
    assert!(ended.0.lock().unwrap().len() <= ENDED_MAX);
    assert!(ended.has(&(2 * ENDED_MAX - 1).to_string()));
}

use content::{SHARE_PARTS, Share};

use super::*;

const MIB: u64 = 1 << 20;

#[tokio::test(start_paused = true)]
async fn a_document_takes_memory_as_it_arrives() {
    let budget = ByteBudget::with_fixed_shares(32 * MIB);
    let holder = MemoryHolder::default();
    let mut memory = None;
    for (here, held) in [(1, 128 << 10), (64 << 10, 128 << 10), (66 << 10, 256 << 10)] {
        grow(&mut memory, here, 4 * MIB, (&budget, &holder)).await.expect("there is memory");
        assert_eq!(budget.in_use(), held, "{here} bytes of 4 MiB are here");
    }
    grow(&mut memory, 4 * MIB, 4 * MIB, (&budget, &holder)).await.expect("there is memory");
    assert_eq!(budget.in_use(), 8 * MIB);
    let mut short = None;
    grow(&mut short, 100, 100, (&budget, &holder)).await.expect("there is memory");
    assert_eq!(short.map(|permit| permit.bytes()), Some(1024), "no more than may come");
}

#[tokio::test(start_paused = true)]
async fn documents_of_one_access_key_leave_memory_for_those_of_others() {
    let budget = ByteBudget::with_fixed_shares(32 * MIB);
    let share = |key| MemoryHolder::new([Share { key, parts: SHARE_PARTS / 4 }]);
    let (greedy, modest) = (share(1), share(2));
    let mut held = Vec::new();
    let refused = loop {
        let mut memory = None;
        let grown = grow(&mut memory, MIB, MIB, (&budget, &greedy)).await;
        held.push(memory);
        if let Err(fault) = grown {
            break fault;
        }
    };
    assert_eq!((refused.code, held.len()), (Code::SlowDown, 5));
    let began = Instant::now();
    grow(&mut None, MIB, MIB, (&budget, &modest)).await.expect("its share is free");
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_frame_that_is_interrupted_goes_on_where_it_was() {
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

use std::pin::pin;
use std::task::Waker;

use super::*;

/// Returns the frames of a body, with its size hint and end state before each.
fn frames(body: Pieces) -> Vec<(u64, bool, Bytes)> {
    let mut body = pin!(body);
    let mut context = Context::from_waker(Waker::noop());
    let mut frames = Vec::new();
    loop {
        let (left, over) = (body.size_hint().exact().expect("known"), body.is_end_stream());
        match body.as_mut().poll_frame(&mut context) {
            Poll::Ready(Some(Ok(frame))) => {
                frames.push((left, over, frame.into_data().expect("no trailers")));
            }
            Poll::Ready(None) => {
                assert_eq!((left, over), (0, true));
                return frames;
            }
            Poll::Pending => panic!("all is in memory"),
        }
    }
}

#[test]
fn pieces_are_sent_in_order_without_a_copy() {
    let pieces = ["ab", "", "cde", "f"].map(Bytes::from);
    let places: Vec<*const u8> = [0, 2, 3].map(|piece: usize| pieces[piece].as_ptr()).into();
    let body = Pieces::from_iter(pieces);
    assert_eq!(body.length(), 6);
    let sent = frames(body);
    let said: Vec<(u64, bool)> = sent.iter().map(|(left, over, _)| (*left, *over)).collect();
    assert_eq!(said, [(6, false), (4, false), (1, false)]);
    let found: Vec<*const u8> = sent.iter().map(|(_, _, piece)| piece.as_ptr()).collect();
    assert_eq!(found, places);
}

#[test]
fn empty_body_has_ended_at_its_start() {
    assert!(frames(Pieces::default()).is_empty());
    assert!(frames(Pieces::from_iter([Bytes::new()])).is_empty());
}

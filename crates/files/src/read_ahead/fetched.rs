//! Content that is fetched before it is asked for.

use std::sync::Arc;

use bytes::Bytes;
use content::ContentError;
use futures::StreamExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use volume::ContentStream;

/// Bytes that wait for whoever reads them; one piece more may be about to.
pub(super) const FETCHED_BYTES_MAX: u32 = 4 << 20;

/// Pieces that wait, however short they are.
const FETCHED_PIECES_MAX: usize = 1_024;

/// A piece, and the room that it takes until it is asked for.
type Piece = (Result<Bytes, ContentError>, OwnedSemaphorePermit);

/// A stream of content that moves on by itself, as far as there is room for what it brings: between
/// two reads of a program the store goes on sending.
#[derive(Debug)]
pub(super) struct Fetched {
    pieces: mpsc::Receiver<Piece>,
    _fetching: AbortOnDropHandle<()>,
}

impl Fetched {
    /// Fetches in one of these tasks, which ends with what this answers.
    pub(super) fn begin(content: ContentStream, tasks: &TaskTracker) -> Fetched {
        let (sender, pieces) = mpsc::channel(FETCHED_PIECES_MAX);
        let fetching = tasks.spawn(fetch(content, sender));
        Fetched { pieces, _fetching: AbortOnDropHandle::new(fetching) }
    }

    /// What comes next; nothing at the end, or behind an error.
    pub(super) async fn next(&mut self) -> Option<Result<Bytes, ContentError>> {
        self.pieces.recv().await.map(|(piece, _room)| piece)
    }
}

async fn fetch(mut content: ContentStream, sender: mpsc::Sender<Piece>) {
    let room = Arc::new(Semaphore::new(FETCHED_BYTES_MAX as usize));
    while let Some(piece) = content.next().await {
        let bytes = piece.as_ref().map_or(0, Bytes::len);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(FETCHED_BYTES_MAX);
        let Ok(taken) = Arc::clone(&room).acquire_many_owned(bytes).await else { return };
        let failed = piece.is_err();
        if sender.send((piece, taken)).await.is_err() || failed {
            return;
        }
    }
}

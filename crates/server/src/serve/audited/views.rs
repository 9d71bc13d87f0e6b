//! The entries of the administration API and the console.
//!
//! A [`ViewLine`] is the line of one request. It is recorded when the response has been sent, or
//! when its last owner drops it: a client that disconnects has its line, too. For example, a change
//! runs in a task of its own; if its client is gone, the task drops the response, and the line has
//! the status of that response with `whole` false.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use adminapi::{ApiServed, RequestNotes, S3Noted, SenderProof};
use audit::{AuditEntry, EntryKind, TEXT_BYTES_MAX, redacted, shortened};
use edge::{OnEnd, RequestEnd};
use http::StatusCode;

use super::super::bucket_logs::LoggedBucket;
use super::{Audited, Begun, TARGET_BYTES_MAX, kind, of_key, unsent_code};

/// The line of one request to the API or the console. Its last owner records it, if that has not
/// happened before.
#[derive(Debug)]
pub(crate) struct ViewLine {
    audited: Arc<Audited>,
    pub(crate) begun: Begun,
    pub(crate) notes: RequestNotes,
    view: EntryKind,
    /// The status of the response; 0 while there is none.
    status: AtomicU16,
}

impl ViewLine {
    /// Returns the line of a request to a view.
    pub(crate) fn new(audited: &Arc<Audited>, begun: Begun, view: EntryKind) -> Arc<ViewLine> {
        let (audited, notes) = (Arc::clone(audited), RequestNotes::default());
        Arc::new(ViewLine { audited, begun, notes, view, status: AtomicU16::new(0) })
    }

    /// Returns the function that records the request when its response has ended.
    pub(crate) fn on_end(self: Arc<ViewLine>, status: StatusCode) -> OnEnd {
        self.status.store(status.as_u16(), Ordering::Relaxed);
        OnEnd::new(move |end| self.record(end))
    }

    /// Records no line for a request that no view has, such as a health check.
    pub(crate) fn forget_unhandled(&self) {
        if !self.begun.set_handled() {
            self.begun.recorded.store(true, Ordering::Relaxed);
        }
    }

    fn record(&self, end: &RequestEnd) {
        if self.begun.recorded.swap(true, Ordering::Relaxed) {
            return;
        }
        let served = self.notes.take();
        let is_logged = served.s3.iter().any(|noted| noted.served.logging.is_some());
        if self.audited.log.is_active() || is_logged {
            self.audited.record_view(self.view, &self.begun, served, end);
        }
    }
}

impl Drop for ViewLine {
    fn drop(&mut self) {
        let status = StatusCode::from_u16(self.status.load(Ordering::Relaxed)).ok();
        self.record(&self.begun.unsent(status));
    }
}

impl Audited {
    /// Records a request of a view, and the requests of S3 that it led to.
    fn record_view(&self, view: EntryKind, begun: &Begun, mut served: ApiServed, end: &RequestEnd) {
        if served.code.is_none() && !end.whole {
            served.code = unsent_code(end.status).map(Into::into);
        }
        let short = |text: String| shortened(text, TEXT_BYTES_MAX);
        let requester = served.requester.as_deref().map(|identity| self.requester(identity));
        let (signature, authentication) = match served.proof {
            None => (None, None),
            Some(SenderProof::Signature) => (Some("SigV4"), Some("AuthHeader")),
            Some(SenderProof::Token) => (None, Some("Token")),
            Some(SenderProof::Login) => (None, Some("Login")),
        };
        let resources = served.resources.into_iter().map(|(kind, name)| (kind, short(name)));
        let entry = AuditEntry {
            kind: kind(view, end.status),
            requester,
            operation: if served.operation.is_empty() { "Unserved" } else { served.operation },
            action: served.action.map(short),
            resources: resources.collect(),
            claimed_key: served.claimed_key.map(short),
            bucket: served.bucket.map(short),
            key: served.key.map(short),
            code: served.code,
            signature,
            authentication,
            ..self.of_connection(begun, end)
        };
        for mut noted in served.s3 {
            let deleted = noted.served.deleted.take();
            let logged = LoggedBucket::of(&mut noted.served);
            let inner = self.inner(&entry, noted);
            for deleted in deleted.iter().flat_map(|deleted| deleted.take()) {
                self.log_entry(logged.as_ref(), of_key(&inner, deleted));
            }
            self.log_entry(logged.as_ref(), inner);
        }
        self.log.record(entry);
    }

    /// Returns the entry of a request of S3 that a request of a view led to. It has the id, the
    /// address and the sender of that request.
    fn inner(&self, outer: &AuditEntry, noted: S3Noted) -> AuditEntry {
        let S3Noted { method, uri, status, served } = noted;
        let path = uri.path_and_query().map_or("/", |target| target.as_str());
        let owner = served.bucket_owner.and_then(|owner| self.access.canonical_id(owner));
        AuditEntry {
            kind: kind(EntryKind::S3, status),
            operation: served.operation,
            resource: served.log_resource,
            action: None,
            resources: Vec::new(),
            bucket_owner: owner.map(|id| id.to_string()),
            bucket: served.bucket,
            key: served.key,
            version_id: served.version_id.map(|version| shortened(version, TEXT_BYTES_MAX)),
            method: method.to_string(),
            target: shortened(redacted(path).into_owned(), TARGET_BYTES_MAX),
            status: status.as_u16(),
            code: served.code.map(Into::into),
            bytes_in: served.bytes_in,
            bytes_out: 0,
            ..outer.clone()
        }
    }
}

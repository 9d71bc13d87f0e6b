//! Requests that the kernel resends after a worker has failed.
//!
//! The journal of the mount's ledger has an entry for each request that changes names or
//! attributes. If the failed worker has executed a request, the next one finds the entry, and
//! replies without executing it again. Other requests are executed: a second execution makes no
//! difference. For example, after a crash between the commit of MKDIR and its reply, the program
//! gets success instead of `EEXIST`.

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use fuse::{Errno, FileOperation, Reply};
use record::Ino;
use volume::{Ledger, Note};

use super::{Answer, Call, errno};

/// Returns true if a second execution of the operation would have another result, for example
/// `EEXIST`.
pub(super) fn needs_journal(operation: &FileOperation<'_>) -> bool {
    match operation {
        FileOperation::MkNod { .. }
        | FileOperation::MkDir { .. }
        | FileOperation::Symlink { .. }
        | FileOperation::Link { .. }
        | FileOperation::Unlink { .. }
        | FileOperation::RmDir { .. }
        | FileOperation::Rename { .. }
        | FileOperation::Create { .. }
        | FileOperation::TmpFile { .. }
        | FileOperation::SetAttr(_)
        | FileOperation::SetXattr { .. }
        | FileOperation::RemoveXattr { .. } => true,
        FileOperation::Lookup { .. }
        | FileOperation::Forget { .. }
        | FileOperation::GetAttr { .. }
        | FileOperation::ReadLink
        | FileOperation::Open { .. }
        | FileOperation::Read { .. }
        | FileOperation::Write { .. }
        | FileOperation::StatFs
        | FileOperation::Release { .. }
        | FileOperation::FSync { .. }
        | FileOperation::GetXattr { .. }
        | FileOperation::ListXattr { .. }
        | FileOperation::Flush { .. }
        | FileOperation::Init
        | FileOperation::OpenDir { .. }
        | FileOperation::ReadDir { .. }
        | FileOperation::ReadDirPlus { .. }
        | FileOperation::ReleaseDir { .. }
        | FileOperation::FSyncDir { .. }
        | FileOperation::GetLk(_)
        | FileOperation::SetLk(_)
        | FileOperation::SetLkW(_)
        | FileOperation::Access { .. }
        | FileOperation::Interrupt { .. }
        | FileOperation::IoCtl { .. }
        | FileOperation::FAllocate { .. }
        | FileOperation::LSeek { .. }
        | FileOperation::CopyFileRange { .. }
        | FileOperation::StatX { .. }
        | FileOperation::SyncFs
        | FileOperation::Destroy
        | FileOperation::Unknown { .. } => false,
    }
}

impl Call {
    /// Executes the request, at most once over all workers of the mount if a second execution makes
    /// a difference, and replies. The journal in `ledger` has the requests that earlier workers
    /// executed; if it cannot be written, replies `EIO`. Without a ledger there is no other worker,
    /// and the request is simply executed.
    pub(super) async fn execute_once(mut self, ledger: Option<Arc<Ledger>>, reply: Reply) {
        let Some(ledger) = ledger else { return self.answer(reply).await };
        let request = self.request.original_unique();
        // Only a resent request can be in the journal, so all others save the lookup.
        let done = self.request.is_resent().then(|| ledger.take_executed(request)).flatten();
        if let Some((created, note)) = done {
            self.files = self.files.for_request(request, note);
            return self.answer_executed(created, reply).await;
        }
        let note = if needs_journal(&self.request.operation()) {
            match ledger.note(request).await {
                Ok(note) => note,
                Err(error) => {
                    tracing::error!(%error, "cannot write a request to the mount's journal; it fails with EIO");
                    return reply.error(Errno::EIO);
                }
            }
        } else {
            Note::none()
        };
        self.files = self.files.for_request(request, note);
        // The journal's entry is deleted with `note`, after the reply.
        self.answer(reply).await;
    }

    /// Replies to a request that an earlier worker of the mount has executed without a reply.
    /// `created` is the inode number of the node that it created.
    async fn answer_executed(self, created: Ino, reply: Reply) {
        tracing::debug!(request = ?self.request, "an earlier worker has executed this request; replying now");
        match self.outcome(created).await {
            Ok(answer) => answer.send(reply),
            Err(error) => reply.error(errno(error)),
        }
    }

    /// Returns the reply that the earlier worker would have sent.
    async fn outcome(&self, created: Ino) -> Result<Answer, rustix::io::Errno> {
        let (files, node) = (&self.files, self.node());
        Ok(match self.request.operation() {
            FileOperation::MkNod { name, .. }
            | FileOperation::MkDir { name, .. }
            | FileOperation::Symlink { name, .. }
            | FileOperation::Link { name, .. } => {
                let stat = files.created_node(created, node, name.as_bytes()).await?;
                Answer::Entry(self.entry(&stat))
            }
            FileOperation::Create { name, flags, .. } => {
                let opened = files.open_created(created).await?;
                let stat = files.created_node(created, node, name.as_bytes()).await?;
                let maps = self.map_flags(flags, opened.handle).await;
                Answer::Created(self.entry(&stat), opened.handle, maps)
            }
            FileOperation::TmpFile { flags, .. } => {
                let opened = files.open_created(created).await?;
                let maps = self.map_flags(flags, opened.handle).await;
                Answer::Created(self.entry(&opened.attributes), opened.handle, maps)
            }
            FileOperation::SetAttr(_) => {
                let stat = files.attributes(node).await?;
                Answer::Attributes(self.context.shown.attributes(&stat), self.timeout(&stat))
            }
            FileOperation::Unlink { .. }
            | FileOperation::RmDir { .. }
            | FileOperation::Rename { .. }
            | FileOperation::SetXattr { .. }
            | FileOperation::RemoveXattr { .. }
            // The journal has none of these: see `needs_journal`.
            | FileOperation::Lookup { .. }
            | FileOperation::Forget { .. }
            | FileOperation::GetAttr { .. }
            | FileOperation::ReadLink
            | FileOperation::Open { .. }
            | FileOperation::Read { .. }
            | FileOperation::Write { .. }
            | FileOperation::StatFs
            | FileOperation::Release { .. }
            | FileOperation::FSync { .. }
            | FileOperation::GetXattr { .. }
            | FileOperation::ListXattr { .. }
            | FileOperation::Flush { .. }
            | FileOperation::Init
            | FileOperation::OpenDir { .. }
            | FileOperation::ReadDir { .. }
            | FileOperation::ReadDirPlus { .. }
            | FileOperation::ReleaseDir { .. }
            | FileOperation::FSyncDir { .. }
            | FileOperation::GetLk(_)
            | FileOperation::SetLk(_)
            | FileOperation::SetLkW(_)
            | FileOperation::Access { .. }
            | FileOperation::Interrupt { .. }
            | FileOperation::IoCtl { .. }
            | FileOperation::FAllocate { .. }
            | FileOperation::LSeek { .. }
            | FileOperation::CopyFileRange { .. }
            | FileOperation::StatX { .. }
            | FileOperation::SyncFs
            | FileOperation::Destroy
            | FileOperation::Unknown { .. } => Answer::Ok,
        })
    }
}

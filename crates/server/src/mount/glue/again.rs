//! Requests whose server died before it answered: the kernel says them again to the next one.
//!
//! One that changed something is in the mount's journal, and is answered as it would have been.
//! Any other is carried out: either it was not, or it makes no difference.

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use fuse::{Errno, FileOperation, Reply};
use record::Ino;
use volume::{Ledger, Note};

use super::{Answer, Call, errno};

/// Whether a request changes what it finds, so that it would be answered otherwise the second time.
fn changes(operation: &FileOperation<'_>) -> bool {
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
    /// Answers the request, and sees to it that it is carried out once, whoever answers it.
    pub(super) async fn answer_once(mut self, ledger: Option<Arc<Ledger>>, reply: Reply) {
        let Some(ledger) = ledger else { return self.answer(reply).await };
        let request = self.request.original_unique();
        let done = self.request.is_resent().then(|| ledger.take_executed(request)).flatten();
        if let Some((made, note)) = done {
            self.files = self.files.for_request(request, note);
            return self.answer_again(made, reply).await;
        }
        let note = if changes(&self.request.operation()) {
            match ledger.note(request).await {
                Ok(note) => note,
                Err(error) => {
                    tracing::error!(%error, "a request cannot be entered into the journal");
                    return reply.error(Errno::EIO);
                }
            }
        } else {
            Note::none()
        };
        self.files = self.files.for_request(request, note);
        // The note goes with the call, once this has been answered.
        self.answer(reply).await;
    }

    /// Answers what a process before this one has carried out.
    async fn answer_again(self, made: Ino, reply: Reply) {
        tracing::debug!(request = ?self.request, "carried out before, and answered now");
        match self.outcome(made).await {
            Ok(answer) => answer.send(reply),
            Err(error) => reply.error(errno(error)),
        }
    }

    async fn outcome(&self, made: Ino) -> Result<Answer, rustix::io::Errno> {
        let (files, node) = (&self.files, self.node());
        Ok(match self.request.operation() {
            FileOperation::MkNod { name, .. }
            | FileOperation::MkDir { name, .. }
            | FileOperation::Symlink { name, .. }
            | FileOperation::Link { name, .. } => {
                let stat = files.created_node(made, node, name.as_bytes()).await?;
                Answer::Entry(self.entry(&stat))
            }
            FileOperation::Create { name, flags, .. } => {
                let opened = files.open_created(made).await?;
                let stat = files.created_node(made, node, name.as_bytes()).await?;
                let maps = self.map_flags(flags, opened.handle).await;
                Answer::Created(self.entry(&stat), opened.handle, maps)
            }
            FileOperation::TmpFile { flags, .. } => {
                let opened = files.open_created(made).await?;
                let maps = self.map_flags(flags, opened.handle).await;
                Answer::Created(self.entry(&opened.attributes), opened.handle, maps)
            }
            FileOperation::SetAttr(_) => {
                let stat = files.attributes(node).await?;
                Answer::Attributes(self.beside.shown.attributes(&stat), self.timeout(&stat))
            }
            FileOperation::Unlink { .. }
            | FileOperation::RmDir { .. }
            | FileOperation::Rename { .. }
            | FileOperation::SetXattr { .. }
            | FileOperation::RemoveXattr { .. }
            // The journal has none of these, because they change nothing.
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

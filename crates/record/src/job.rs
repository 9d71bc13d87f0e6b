//! Jobs: long work on a volume that an operator starts, such as a check or a fork.
//!
//! The record holds the progress, so each gateway of the volume shows it. For example, `fork` of
//! `photos` runs on one gateway, and the console of another one shows that 40,000 objects are done.
//! A job ends with the session in its record. If this session ends first, the job was interrupted.

use crate::Timestamp;
use crate::codec::{DecodeError, record};
use crate::id::Nonce;

/// The kind of work of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobKind {
    /// Compares the records with each other and with the blocks.
    Fsck,
    /// Deletes blocks without a reference, or counts them.
    Gc,
    /// Creates a bucket with the content of another one.
    Fork,
    /// Reads objects, so that the block cache of the gateway has them.
    Warmup,
    /// Writes the metadata to a file.
    Dump,
    /// Deletes a bucket with everything in it.
    DeleteBucket,
}

impl JobKind {
    /// All kinds.
    pub const ALL: [JobKind; 6] = [
        JobKind::Fsck,
        JobKind::Gc,
        JobKind::Fork,
        JobKind::Warmup,
        JobKind::Dump,
        JobKind::DeleteBucket,
    ];

    /// Returns the name of the kind, as APIs show it.
    pub const fn name(self) -> &'static str {
        match self {
            JobKind::Fsck => "fsck",
            JobKind::Gc => "gc",
            JobKind::Fork => "fork",
            JobKind::Warmup => "warmup",
            JobKind::Dump => "dump",
            JobKind::DeleteBucket => "delete-bucket",
        }
    }

    const fn code(self) -> u8 {
        match self {
            JobKind::Fsck => 0,
            JobKind::Gc => 1,
            JobKind::Fork => 2,
            JobKind::Warmup => 3,
            JobKind::Dump => 4,
            JobKind::DeleteBucket => 5,
        }
    }
}

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobState {
    /// The job runs.
    Running,
    /// An operator has asked the job to stop, and it still runs.
    Stopping,
    /// The job is complete.
    Done,
    /// The job ended with an error.
    Failed,
    /// The job ended before it was complete, because an operator or its gateway stopped it.
    Stopped,
}

impl JobState {
    /// All states.
    pub const ALL: [JobState; 5] = [
        JobState::Running,
        JobState::Stopping,
        JobState::Done,
        JobState::Failed,
        JobState::Stopped,
    ];

    /// Returns true if the job does not run any more.
    pub const fn has_ended(self) -> bool {
        match self {
            JobState::Running | JobState::Stopping => false,
            JobState::Done | JobState::Failed | JobState::Stopped => true,
        }
    }

    const fn code(self) -> u8 {
        match self {
            JobState::Running => 0,
            JobState::Stopping => 1,
            JobState::Done => 2,
            JobState::Failed => 3,
            JobState::Stopped => 4,
        }
    }
}

/// The record of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRecord {
    /// The kind of work.
    pub kind: JobKind,
    /// The arguments by name. For example, `source` is the bucket that a fork copies.
    pub arguments: Vec<(String, String)>,
    /// The name of the user who started the job; for a web identity, its issuer and subject.
    pub user: String,
    /// The session that does the work.
    pub session: Nonce,
    /// The host and process of the session.
    pub place: String,
    /// The time of the start.
    pub began: Timestamp,
    /// The time of the last change of this record.
    pub changed: Timestamp,
    /// The state.
    pub state: JobState,
    /// Counts of the finished work by name. For example, `objects`.
    pub progress: Vec<(String, u64)>,
    /// The result or the error, as a sentence. Empty while the job runs.
    pub message: String,
    /// Further lines of the result, such as the findings of a check.
    pub lines: Vec<String>,
    /// True if the result had more lines than the record holds.
    pub has_more_lines: bool,
}

record!(
    JobRecord,
    1,
    |this, to| {
        to.u8(this.kind.code()).varint(this.arguments.len() as u64);
        for (name, value) in &this.arguments {
            to.bytes(name.as_bytes()).bytes(value.as_bytes());
        }
        to.bytes(this.user.as_bytes())
            .fixed(&this.session.0)
            .bytes(this.place.as_bytes())
            .signed(this.began.0)
            .signed(this.changed.0)
            .u8(this.state.code())
            .varint(this.progress.len() as u64);
        for (name, count) in &this.progress {
            to.bytes(name.as_bytes()).varint(*count);
        }
        to.bytes(this.message.as_bytes()).varint(this.lines.len() as u64);
        for line in &this.lines {
            to.bytes(line.as_bytes());
        }
        to.u8(u8::from(this.has_more_lines));
    },
    |from| {
        let kind = from.u8("kind")?;
        let kind = JobKind::ALL.into_iter().find(|known| known.code() == kind);
        let kind = kind.ok_or(DecodeError::Field("kind"))?;
        // No capacity is reserved by numbers that may be damaged.
        let mut arguments = Vec::new();
        for _ in 0..from.varint("arguments")? {
            arguments.push((from.string("argument")?, from.string("argument")?));
        }
        let user = from.string("user")?;
        let session = Nonce(from.fixed("session")?);
        let place = from.string("place")?;
        let (began, changed) =
            (Timestamp(from.signed("began")?), Timestamp(from.signed("changed")?));
        let state = from.u8("state")?;
        let state = JobState::ALL.into_iter().find(|known| known.code() == state);
        let state = state.ok_or(DecodeError::Field("state"))?;
        let mut progress = Vec::new();
        for _ in 0..from.varint("progress")? {
            progress.push((from.string("progress")?, from.varint("progress")?));
        }
        let message = from.string("message")?;
        let mut lines = Vec::new();
        for _ in 0..from.varint("lines")? {
            lines.push(from.string("line")?);
        }
        let has_more_lines = match from.u8("more lines")? {
            0 => false,
            1 => true,
            _ => return Err(DecodeError::Field("more lines")),
        };
        JobRecord {
            kind,
            arguments,
            user,
            session,
            place,
            began,
            changed,
            state,
            progress,
            message,
            lines,
            has_more_lines,
        }
    }
);

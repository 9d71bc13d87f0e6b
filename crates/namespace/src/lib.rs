//! Every file-system operation as a pure planner.
//!
//! An [`Operation`] turns what is known into guards and writes. It never reads: it asks, and a
//! [`Run`] tells its driver what to read and what to commit. It does not know which database
//! answers, nor which view of the volume is asking. A planner's round trips are its asks.

mod access;
mod bucket;
mod error;
mod layout;
mod list;
mod object;
mod path;
mod remove;
mod run;
mod stage;
mod upload;
mod view;

pub use access::{ACCESS_RECORDS_MAX, ListPolicies, ListUsers, SetRecord};
pub use bucket::{
    BUCKETS_MAX, BucketChange, CreateBucket, DeleteBucket, FindBucket, FoundBucket, ListBuckets,
    SetBucket,
};
pub use error::{FsError, Halt};
pub use layout::{concatenate, cut, lay_out, pages_of, part_runs};
pub use list::{ListEntry, ListQuery, ListStart, Listing, WAVE_RANGES, Walk, WalkStep};
pub use object::{
    DIRECTORY_MODE, FILE_MODE, Found, INLINE_STAYS_MAX, Lookup, Overlap, Publish, Published,
    SetTags, TagMatch, WriteCondition, rests, self_contained,
};
pub use path::Path;
pub use remove::{Removal, Remove, Removed};
pub use run::{Env, Next, Operation, PASSES_MAX, Run, Step, recall};
pub use stage::{Assumption, Stage, Unstage};
pub use upload::{
    AbortUpload, CreateUpload, FindUpload, FoundPart, FoundUpload, ListParts, ListUploads,
    ListedUpload, PartsFound, PutPart, TRANSMISSIONS_MAX, UploadName, UploadsAfter, end_upload,
};
pub use view::{Followed, Hints, NoHints, View};

//! Deleting objects: many keys in few plans.
//!
//! Keys are sorted by directory, and neighbouring directories share a plan. So the directories
//! above them are looked up, guarded and, if they become empty, removed once. A plan has a bounded
//! size, so that every engine accepts it, and a bounded number of directories, so that a writer in
//! one of them delays few others. For example, `DeleteObjects` of 1,000 keys in one directory is
//! four plans.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use namespace::{
    Branch, DIRECTORIES_MAX, DIRECTORY_ITEMS, Exempt, FsError, NamedBucket, Path, REMOVAL_ITEMS,
    Removal, Remove, RemoveCondition, RemoveVersion, Removed, RemovedKey, RemovedVersion,
};
use record::VersionRef;
use session::CONTENTION_DEADLINE;
use store::Limits;
use tokio::time::Instant;

use crate::{Volume, VolumeError};

/// Most names that one plan removes.
const REMOVALS_PER_PLAN: usize = 250;

/// Most directories from which one plan removes names.
const DIRECTORIES_PER_PLAN: usize = 64;

/// Most guards and writes of a plan that deletes names, without those of the bucket and of the
/// committer.
const PLAN_ITEMS: usize = 4_128;

const _: () =
    assert!(PLAN_ITEMS + 64 <= Limits::LEAST.plan_items, "every engine accepts such a plan");
const _: () = assert!(
    DIRECTORY_ITEMS * DIRECTORIES_MAX + REMOVAL_ITEMS <= PLAN_ITEMS,
    "the deepest key fits into one plan with all its directories"
);

/// Most plans of one call that are in flight at a time. None of them depends on another.
const PLANS_AT_ONCE: usize = 8;

/// Time for which a plan that deletes several names waits for other writers. Then it is split in
/// two, so that a key that other clients keep changing delays no other key. A plan of one name
/// waits until the deadline.
const MULTI_KEY_PATIENCE: Duration = Duration::from_secs(2);

/// The results of several removals. Each has the index of its key in the request. An error is that
/// of the whole plan.
type Answers = Vec<(usize, Result<Removed, VolumeError>)>;

/// Names to remove, by the path of their directory. Each has the index of its key in the request.
type ByDirectory = BTreeMap<Vec<Vec<u8>>, Vec<(usize, Removal)>>;

/// The names that one plan removes, in the form in which the planner takes them.
#[derive(Debug, Default)]
struct PlanPart {
    branches: Vec<Branch>,
    /// The indices of the keys in the request, in the order of the branches and their removals.
    answers: Vec<usize>,
    items: usize,
}

impl Volume {
    /// Removes keys of a bucket, each if its condition holds. Returns the results in the order of
    /// `keys`. If one key cannot be removed, only its own result is an error.
    ///
    /// # Errors
    /// If no key can be removed, because of the bucket or the stores: the error of the first key.
    pub async fn delete(
        &self,
        bucket: impl Into<NamedBucket<'_>>,
        keys: Vec<(Vec<u8>, Option<RemoveCondition>)>,
    ) -> Result<Vec<Result<RemovedKey, VolumeError>>, VolumeError> {
        let bucket = bucket.into();
        let mut directories = ByDirectory::new();
        let mut answers: Vec<Option<Result<RemovedKey, VolumeError>>> = Vec::new();
        let mut first: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        let mut repeated = Vec::new();
        for (index, (key, condition)) in keys.into_iter().enumerate() {
            answers.push(None);
            let path = Path::new(bucket, &key);
            // A key that is listed twice would be guarded twice in one plan. The second result
            // follows from the first.
            if let Some(first) = first.get(&key) {
                repeated.push((index, *first));
                continue;
            }
            first.insert(key, index);
            let removal = Removal { name: path.name, condition };
            directories.entry(path.directories).or_default().push((index, removal));
        }
        // One deadline for the whole call: plans in sequence must not add up their waits.
        let deadline = Instant::now() + CONTENTION_DEADLINE;
        let removed = futures::stream::iter(sequences(directories))
            .map(|sequence| self.remove(bucket, sequence, deadline))
            .buffer_unordered(PLANS_AT_ONCE)
            .collect::<Vec<_>>()
            .await;
        let removed: Answers = removed.into_iter().flatten().collect();
        // If no key could be removed, the cause is most probably the bucket or a store, not the
        // keys.
        if removed.iter().all(|(_, removed)| removed.is_err())
            && let Some((_, Err(error))) = removed.first()
        {
            return Err(error.clone());
        }
        for (index, removed) in removed {
            answers[index] = Some(removed.and_then(|removed| removed.map_err(VolumeError::from)));
        }
        for (index, first) in repeated {
            // The first removal has removed the key, so for the second one it did not exist.
            let repeated_answer = answers[first].as_ref().map(|first| match first {
                Ok(removed) => Ok(RemovedKey { existed: false, ..*removed }),
                Err(error) => Err(error.clone()),
            });
            answers[index] = repeated_answer;
        }
        // One signal for all plans, since the reaper collects all orphans in one pass.
        self.session.wake_reaper();
        Ok(answers.into_iter().flatten().collect())
    }

    /// As [`Volume::delete_version`], without a bypass of retention. The version stays if `exempt`
    /// applies to it at the commit, for example because it has become the current version since the
    /// caller looked.
    pub async fn delete_version_sparing(
        &self,
        bucket: impl Into<NamedBucket<'_>>,
        key: &[u8],
        version: VersionRef,
        exempt: Exempt,
    ) -> Result<RemovedVersion, VolumeError> {
        self.remove_version(&Path::new(bucket, key), version, exempt, None).await
    }

    /// As [`Volume::delete_version_sparing`], if the version still has these S3 tags.
    ///
    /// # Errors
    /// `PreconditionFailed` if the version has other tags at the commit.
    pub async fn delete_version_with_tags(
        &self,
        bucket: impl Into<NamedBucket<'_>>,
        key: &[u8],
        version: VersionRef,
        exempt: Exempt,
        object_tags: &[(String, String)],
    ) -> Result<RemovedVersion, VolumeError> {
        let path = Path::new(bucket, key);
        self.remove_version(&path, version, exempt, Some(object_tags)).await
    }

    async fn remove_version(
        &self,
        path: &Path,
        version: VersionRef,
        exempt: Exempt,
        object_tags: Option<&[(String, String)]>,
    ) -> Result<RemovedVersion, VolumeError> {
        // If an older version becomes current, its directories may have to be created again.
        let fresh = self.session.allocate_inodes(path.directories.len()).await?;
        let fresh = &fresh;
        let operation =
            RemoveVersion { path, version, fresh, bypasses_governance: false, exempt, object_tags };
        let removed = self.session.run(&operation).await?;
        self.session.wake_reaper();
        Ok(removed)
    }

    async fn remove(
        &self,
        bucket: NamedBucket<'_>,
        sequence: Vec<PlanPart>,
        deadline: Instant,
    ) -> Answers {
        let mut answers = Answers::new();
        // A stack with the next plan on top, so that halves take the place of their plan.
        let mut parts: Vec<PlanPart> = sequence.into_iter().rev().collect();
        while let Some(part) = parts.pop() {
            let operation = Remove { bucket, branches: &part.branches };
            // A plan of many keys waits only briefly: one busy key must not delay the others.
            let wait_until = if part.answers.len() > 1 {
                deadline.min(Instant::now() + MULTI_KEY_PATIENCE)
            } else {
                deadline
            };
            match self.session.run_until(&operation, wait_until).await {
                Ok(removed) => {
                    let removed = removed.into_iter().map(Ok);
                    answers.extend(part.answers.into_iter().zip(removed));
                }
                // One of the keys may be the cause. The halves are tried apart, so that the other
                // keys are removed.
                Err(VolumeError::Fs(FsError::Contended) | VolumeError::Corrupt(_))
                    if part.answers.len() > 1 =>
                {
                    let (first, second) = part.halves();
                    parts.extend([second, first]);
                }
                // The error of the store concerns all keys of the plan. It is
                // unknown if one was removed.
                Err(error) => {
                    let failed = |index| (index, Err(error.clone()));
                    answers.extend(part.answers.into_iter().map(failed));
                }
            }
        }
        answers
    }
}

/// Groups the names to remove into plans. Plans below the same directory of the bucket form a
/// sequence and run one after the other, because each depends on the other names in the directories
/// that they share. Sequences run concurrently.
fn sequences(directories: ByDirectory) -> Vec<Vec<PlanPart>> {
    let mut sequences: Vec<Vec<PlanPart>> = Vec::new();
    let (mut sequence, mut part) = (Vec::new(), PlanPart::default());
    for (path, removals) in directories {
        for (index, removal) in removals {
            if !part.fits(&path) {
                // The next plan needs to wait for this one only if they share a directory.
                let goes_on = part.shares_top_directory(&path);
                sequence.push(std::mem::take(&mut part));
                if !goes_on {
                    sequences.push(std::mem::take(&mut sequence));
                }
            }
            part.push(&path, index, removal);
        }
    }
    if !part.answers.is_empty() {
        sequence.push(part);
        sequences.push(sequence);
    }
    sequences
}

impl PlanPart {
    /// Returns the guards and writes that a name in the directory `path` adds to the plan.
    fn items_of(&self, path: &[Vec<u8>]) -> usize {
        let last = self.branches.last().map_or(&[][..], |branch| &branch.directories);
        let shared = last.iter().zip(path).take_while(|(a, b)| a == b).count();
        DIRECTORY_ITEMS * (path.len() - shared) + REMOVAL_ITEMS
    }

    /// Returns true if a name in the directory `path` fits into the plan. The first one always
    /// does.
    fn fits(&self, path: &[Vec<u8>]) -> bool {
        let goes_on = self.branches.last().is_some_and(|last| last.directories == path);
        self.answers.is_empty()
            || (self.items + self.items_of(path) <= PLAN_ITEMS
                && self.answers.len() < REMOVALS_PER_PLAN
                && (goes_on || self.branches.len() < DIRECTORIES_PER_PLAN))
    }

    /// Returns true if the last directory of the plan and `path` are below the same directory of
    /// the bucket.
    fn shares_top_directory(&self, path: &[Vec<u8>]) -> bool {
        self.branches.last().is_some_and(|last| last.directories.first() == path.first())
    }

    /// Splits the plan into two that remove the same names, each about half of them.
    fn halves(self) -> (PlanPart, PlanPart) {
        let half = self.answers.len() / 2;
        let (mut first, mut second) = (PlanPart::default(), PlanPart::default());
        let mut answers = self.answers.into_iter();
        for Branch { directories, removals } in self.branches {
            for (removal, index) in removals.into_iter().zip(answers.by_ref()) {
                let part = if first.answers.len() < half { &mut first } else { &mut second };
                part.push(&directories, index, removal);
            }
        }
        (first, second)
    }

    fn push(&mut self, path: &[Vec<u8>], index: usize, removal: Removal) {
        self.items += self.items_of(path);
        self.answers.push(index);
        match self.branches.last_mut() {
            Some(last) if last.directories == path => last.removals.push(removal),
            _ => {
                let directories = path.to_vec();
                self.branches.push(Branch { directories, removals: vec![removal] });
            }
        }
    }
}

#[cfg(test)]
mod tests;

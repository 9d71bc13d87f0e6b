//! `ashlar bucket`: the settings of buckets, changed beside a gateway that is running.
//!
//! The planners are those of the namespace. They run without a session: a change that happened
//! twice is the same change, so none has to be proved. Gateways hear of it from the metadata
//! store, as they hear of each other's changes.

use std::slice;

use clap::{ArgAction, Subcommand};
use namespace::{BucketChange, Env, FindBucket, FsError, Next, NoHints, Operation, Run, SetBucket};
use record::{Nonce, Timestamp};
use store::{MetaStore, StoreErrorKind, Verdict};

use super::accounts::open_beside;
use super::say;
use crate::config::VolumeSettings;
use crate::problem::Problem;

#[derive(Debug, Subcommand)]
pub(crate) enum BucketCommand {
    /// Print a bucket's settings
    Show {
        /// Its name
        name: String,
    },
    /// Change a bucket's settings; what is in it stays as it is
    Set {
        /// Its name
        name: String,
        /// Whether the entity tag of what is uploaded from now on says nothing of its bytes, so
        /// that no MD5 is computed for it
        #[arg(long, value_name = "true|false", action = ArgAction::Set)]
        opaque_etags: bool,
    },
}

/// Runs a command.
pub(crate) async fn run(settings: VolumeSettings, command: BucketCommand) -> Result<(), Problem> {
    let (doing, name) = match &command {
        BucketCommand::Show { name } => (format!("show the bucket {name:?}"), name),
        BucketCommand::Set { name, .. } => (format!("change the bucket {name:?}"), name),
    };
    let problem = |wrong: String| Problem::new(doing.as_str(), wrong);
    let bucket = s3::BucketName::parse(name);
    let bucket = bucket.map_err(|fault| problem(fault.message.into_owned()))?;
    let store = open_beside(&settings, &doing).await?;
    let name = bucket.as_str().as_bytes();
    let done = match &command {
        BucketCommand::Show { .. } => show(&*store, name).await,
        BucketCommand::Set { opaque_etags, .. } => {
            let change = BucketChange::OpaqueTags(*opaque_etags);
            carry_out(&*store, &SetBucket { name, change }).await
        }
    };
    store.close().await;
    done.map_err(problem)
}

async fn show(store: &dyn MetaStore, name: &[u8]) -> Result<(), String> {
    let found = carry_out(store, &FindBucket { name }).await?;
    say(format_args!("bucket        {}", String::from_utf8_lossy(&found.name)));
    say(format_args!("owner         {}", found.settings.owner));
    say(format_args!("opaque ETags  {}", found.settings.opaque_tags));
    Ok(())
}

/// Carries out an operation that may happen twice, or says what is wrong.
async fn carry_out<O: Operation>(
    store: &dyn MetaStore,
    operation: &O,
) -> Result<O::Output, String> {
    // Neither is written by the operations of this command.
    let env = Env { now: Timestamp::default(), session: Nonce([0; Nonce::BYTES]) };
    let mut run = Run::new(operation, env, &NoHints);
    let mut doubtful = false;
    loop {
        match run.advance() {
            Next::Done(answer) => return answer.map_err(sentence),
            Next::Corrupt(key, error) => return Err(format!("the record {key:?}: {error}")),
            Next::Read(reads) => {
                let found = store.read(&reads).await.map_err(|error| error.to_string())?;
                run.learn(reads, found);
            }
            Next::Commit(plan, answer) => match store.commit(slice::from_ref(&plan)).await {
                Ok(verdicts) => match verdicts.as_slice() {
                    [Verdict::Committed] => return Ok(answer),
                    [Verdict::Refused { guard, found }] if *guard < plan.guards.len() => {
                        run.refused(&plan.guards[*guard], found.clone());
                    }
                    _ => return Err("the store gives no verdict".to_owned()),
                },
                Err(error) if error.kind() == StoreErrorKind::Unknown && !doubtful => {
                    doubtful = true;
                    run = Run::new(operation, env, &NoHints);
                }
                Err(error) => return Err(error.to_string()),
            },
        }
    }
}

fn sentence(error: FsError) -> String {
    match error {
        FsError::NoSuchBucket => "there is none of this name".to_owned(),
        error => error.to_string(),
    }
}

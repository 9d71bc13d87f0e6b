//! `ashlar bucket`: the settings of buckets, changed beside a gateway that is running.
//!
//! The planners are those of the namespace. A change that happened twice is the same change, so none
//! has to be proved. It is made in a session all the same, so that a gateway which was the only
//! one of its volume asks the metadata store again before it answers. Gateways hear of the change from the
//! store, as they hear of each other's.

use std::slice;

use clap::{ArgAction, Subcommand};
use namespace::{BucketChange, Env, FindBucket, FsError, Next, NoHints, Operation, Run, SetBucket};
use record::{Nonce, Timestamp};
use store::{MetaStore, StoreErrorKind, Verdict};
use volume::{Clock as _, SystemClock, Visit};

use super::accounts::open_beside;
use super::say;
use crate::config::VolumeSettings;
use crate::problem::Problem;
use crate::serve;

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
            change(&*store, &SetBucket { name, change: BucketChange::OpaqueTags(*opaque_etags) })
                .await
        }
    };
    store.close().await;
    done.map_err(problem)
}

async fn show(store: &dyn MetaStore, name: &[u8]) -> Result<(), String> {
    let found = carry_out(store, &FindBucket { name }, None).await?;
    say(format_args!("bucket        {}", String::from_utf8_lossy(&found.name)));
    say(format_args!("owner         {}", found.settings.owner));
    say(format_args!("opaque ETags  {}", found.settings.opaque_tags));
    Ok(())
}

/// Changes a bucket in a session of its own.
async fn change(store: &dyn MetaStore, operation: &SetBucket<'_>) -> Result<(), String> {
    let visit = volume::visit(store, &serve::place(), SystemClock.now()).await;
    let visit = visit.map_err(|error| error.to_string())?;
    let done = carry_out(store, operation, Some(&visit)).await;
    visit.leave(store).await;
    done
}

/// Carries out an operation that may happen twice, or says what is wrong.
async fn carry_out<O: Operation>(
    store: &dyn MetaStore,
    operation: &O,
    visit: Option<&Visit>,
) -> Result<O::Output, String> {
    // Neither is written by the operations of this command.
    let env = Env { now: Timestamp::default(), session: Nonce([0; Nonce::BYTES]) };
    let mut run = Run::new(operation, env);
    let mut doubtful = false;
    loop {
        match run.advance(&NoHints) {
            Next::Done(answer) => return answer.map_err(sentence),
            Next::Corrupt(key, error) => return Err(format!("the record {key:?}: {error}")),
            Next::Read(reads) => {
                let found = store.read(&reads).await.map_err(|error| error.to_string())?;
                run.learn(reads, found);
            }
            Next::Commit(mut plan, answer) => {
                let own_guards = plan.guards.len();
                plan.guards.extend(visit.map(Visit::guard));
                match store.commit(slice::from_ref(&plan)).await {
                    Ok(verdicts) => match verdicts.as_slice() {
                        [Verdict::Committed] => return Ok(answer),
                        [Verdict::Refused { guard, found }] if *guard < own_guards => {
                            run.refused(&plan.guards[*guard], found.clone());
                        }
                        [Verdict::Refused { .. }] => {
                            return Err("it took too long; try again".to_owned());
                        }
                        _ => return Err("the store gives no verdict".to_owned()),
                    },
                    Err(error) if error.kind() == StoreErrorKind::Unknown && !doubtful => {
                        doubtful = true;
                        run = Run::new(operation, env);
                    }
                    Err(error) => return Err(error.to_string()),
                }
            }
        }
    }
}

fn sentence(error: FsError) -> String {
    match error {
        FsError::NoSuchBucket => "there is none of this name".to_owned(),
        error => error.to_string(),
    }
}

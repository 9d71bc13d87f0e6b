//! The commands that administer a volume, over the metadata store or over the API of a gateway.
//!
//! The options decide: with `--endpoint`, a command uses the API and opens no store. For example,
//! `ashlar user list` reads the store of `--meta`, and `ashlar user list --endpoint URL` prints the
//! same list from a gateway. A command that exists in one of the two forms alone is refused in the
//! other one.

use clap::{Args, Subcommand};
use problem::Problem;

use crate::commands::{account, bucket, group, job, key, policy, remote, token, trash, user};
use crate::config::VolumeSettings;
use crate::endpoint::{Endpoint, EndpointOptions};
use crate::outcome::Outcome;

/// The commands that administer a volume.
#[derive(Debug, Subcommand)]
pub(crate) enum AdminCommand {
    /// Manage accounts
    Account(Administered<account::AccountCommand>),
    /// Manage users, their secrets and their policies
    User(Administered<user::UserCommand>),
    /// Manage the access keys of users
    Key(Administered<key::KeyCommand>),
    /// Manage groups of users
    Group(Administered<group::GroupCommand>),
    /// Manage bearer tokens for the API of administrators
    Token(Administered<token::TokenCommand>),
    /// Manage named policies
    Policy(Administered<policy::PolicyCommand>),
    /// Show and change the settings of buckets
    Bucket(Administered<bucket::BucketCommand>),
    /// List, restore and delete the content of bucket trashes
    Trash(Administered<trash::TrashCommand>),
    /// List, show, start and stop the jobs of gateways, such as checks and forks
    Job(Administered<job::JobCommand>),
}

impl AdminCommand {
    /// Returns the name of a command that works on the metadata store itself, and for which the API
    /// has no endpoint.
    pub(crate) fn needs_store(&self) -> Option<&'static str> {
        match self {
            AdminCommand::Bucket(of) => {
                of.command.needs_store().then_some("bucket show, set, clear and fork")
            }
            AdminCommand::Token(of) => of.command.needs_store().then_some("token add --user"),
            AdminCommand::Account(_)
            | AdminCommand::User(_)
            | AdminCommand::Key(_)
            | AdminCommand::Group(_)
            | AdminCommand::Policy(_)
            | AdminCommand::Trash(_)
            | AdminCommand::Job(_) => None,
        }
    }

    /// Returns the name of a command that only a gateway can carry out.
    pub(crate) fn needs_endpoint(&self) -> Option<&'static str> {
        match self {
            AdminCommand::Job(of) => of.command.needs_endpoint().then_some("job start"),
            AdminCommand::Account(_)
            | AdminCommand::User(_)
            | AdminCommand::Key(_)
            | AdminCommand::Group(_)
            | AdminCommand::Token(_)
            | AdminCommand::Policy(_)
            | AdminCommand::Bucket(_)
            | AdminCommand::Trash(_) => None,
        }
    }

    /// Returns the options of the API.
    pub(crate) fn endpoint(&self) -> &EndpointOptions {
        match self {
            AdminCommand::Account(of) => &of.endpoint,
            AdminCommand::User(of) => &of.endpoint,
            AdminCommand::Key(of) => &of.endpoint,
            AdminCommand::Group(of) => &of.endpoint,
            AdminCommand::Token(of) => &of.endpoint,
            AdminCommand::Policy(of) => &of.endpoint,
            AdminCommand::Bucket(of) => &of.endpoint,
            AdminCommand::Trash(of) => &of.endpoint,
            AdminCommand::Job(of) => &of.endpoint,
        }
    }

    /// Runs the command on a runtime, over the API that the options name, or over the metadata
    /// store.
    pub(crate) fn run(
        self,
        volume: VolumeSettings,
        runtime: &tokio::runtime::Runtime,
    ) -> Result<Outcome, Problem> {
        let at = (volume, runtime);
        match self {
            AdminCommand::Account(of) => of.run(at, account::run, remote::account),
            AdminCommand::User(of) => of.run(at, user::run, remote::user),
            AdminCommand::Key(of) => of.run(at, key::run, remote::key),
            AdminCommand::Group(of) => of.run(at, group::run, remote::group),
            AdminCommand::Token(of) => of.run(at, token::run, remote::token),
            AdminCommand::Policy(of) => of.run(at, policy::run, remote::policy),
            AdminCommand::Bucket(of) => of.run(at, bucket::run, remote::bucket),
            AdminCommand::Trash(of) => of.run(at, trash::run, remote::trash),
            AdminCommand::Job(of) => return of.run(at, job::run, remote::job),
        }?;
        Ok(Outcome::Success)
    }
}

// Without a documentation comment, because it would replace the help of each command.
#[derive(Debug, Args)]
pub(crate) struct Administered<C: Subcommand> {
    #[command(flatten)]
    endpoint: EndpointOptions,
    #[command(subcommand)]
    command: C,
}

impl<C: Subcommand> Administered<C> {
    /// Runs the command in the form that the options name.
    fn run<T>(
        self,
        (volume, runtime): (VolumeSettings, &tokio::runtime::Runtime),
        over_store: impl AsyncFnOnce(VolumeSettings, C) -> Result<T, Problem>,
        over_api: impl AsyncFnOnce(&Endpoint, C) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let endpoint = self.endpoint.settle()?;
        runtime.block_on(async {
            match endpoint {
                Some(endpoint) => over_api(&endpoint, self.command).await,
                None => over_store(volume, self.command).await,
            }
        })
    }
}

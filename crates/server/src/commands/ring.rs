//! `ashlar ring`: the ring keys of a volume, under which content is encrypted, and the change of
//! the master key.
//!
//! For example, `ashlar ring rotate` makes a new key for new content, and content that is encrypted
//! under the earlier keys stays readable.

mod retire;

use clap::Subcommand;
use identity::MasterKey;
use keystore::{KeyStore, ResealSecret, RingKind};
use kms::KmsKeyName;
use problem::Problem;
use record::{RingKeyState, RingNumber, RingWrapping};

use super::administration::Administration;
use crate::config::VolumeSettings;
use crate::credentials;
use crate::output::say;
use crate::table::{Cell, Printing, Table};

#[derive(Debug, Subcommand)]
pub(crate) enum RingCommand {
    /// List the ring keys, under which content is encrypted
    List {
        #[command(flatten)]
        printing: Printing,
    },
    /// Encrypt new content under a new key. Content under earlier keys stays as it is
    Rotate {
        /// The key of the KMS of which the ring key is rotated [default: the key of the volume]
        #[arg(long, value_name = "NAME")]
        kms_key: Option<KmsKeyName>,
    },
    /// Move all content under a key to the current keys, and remove the key. A run that was
    /// interrupted is continued by the next one. Gateways may be running
    Retire {
        /// The number of the key, as `ashlar ring list` prints it
        #[arg(value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
        number: u32,
    },
    /// Replace the master key: seal all ring keys and secrets under --master-key-file that
    /// --old-master-key-file has sealed. A run that was interrupted is continued
    Rewrap,
}

#[derive(Debug, Subcommand)]
pub(crate) enum VolumeCommand {
    /// Encrypt all new content of the volume, or only content for which clients ask
    Encrypt {
        /// Encrypt all new blocks and records with content
        #[arg(long, required_unless_present = "off", conflicts_with = "off")]
        on: bool,
        /// Encrypt only content for which clients or buckets ask
        #[arg(long)]
        off: bool,
    },
}

impl RingCommand {
    fn doing(&self) -> &'static str {
        match self {
            RingCommand::List { .. } => "list the ring keys",
            RingCommand::Rotate { .. } => "rotate the ring key",
            RingCommand::Retire { .. } => "retire the ring key",
            RingCommand::Rewrap => "replace the master key",
        }
    }
}

/// Runs an `ashlar ring` command.
pub(crate) async fn run(settings: VolumeSettings, command: RingCommand) -> Result<(), Problem> {
    let doing = command.doing();
    if let RingCommand::Retire { number } = command {
        return retire::run(settings, RingNumber(number), doing).await;
    }
    let administration = Administration::open(&settings, doing).await?;
    let done = within(&settings, administration.ring(), command).await;
    administration.close().await;
    done
}

/// Runs an `ashlar volume` command.
pub(crate) async fn change(
    settings: VolumeSettings,
    command: &VolumeCommand,
) -> Result<(), Problem> {
    let VolumeCommand::Encrypt { on, off: _ } = command;
    let (everything, doing) = (*on, "change the encryption of the volume");
    let administration = Administration::open(&settings, doing).await?;
    let done = administration.ring().set_everything(everything).await;
    administration.close().await;
    done.map_err(|error| Problem::new(doing, error))
}

async fn within(
    settings: &VolumeSettings,
    ring: &KeyStore,
    command: RingCommand,
) -> Result<(), Problem> {
    let doing = command.doing();
    let problem = |error| Problem::new(doing, error);
    match command {
        RingCommand::List { printing } => {
            print(ring, printing);
        }
        RingCommand::Rotate { kms_key } => {
            let kind = kms_key.map_or(RingKind::Volume, RingKind::Kms);
            let number = ring.rotate(&kind).await.map_err(problem)?;
            say(format_args!("ring key {number} is in use for new content"));
        }
        // It needs the blocks, too: see `run`.
        RingCommand::Retire { .. } => {}
        RingCommand::Rewrap => {
            let Some(master) = credentials::known_master_key(settings)? else {
                return Err(Problem::new(doing, "there is no master key")
                    .remedy("give the new key with --master-key-file"));
            };
            let done = ring.rewrap(&Secrets(master)).await.map_err(problem)?;
            say(format_args!(
                "{} ring keys and secrets are sealed under the master key {}: restart all processes \
                 without --old-master-key-file",
                done.sealed_again, done.under
            ));
        }
    }
    Ok(())
}

fn print(ring: &KeyStore, printing: Printing) {
    let mut table = Table::new(&["number", "kind", "wrapped_by", "made", "state"]);
    for entry in ring.entries() {
        let (kind, by) = match &entry.wrapping {
            RingWrapping::Master(fingerprint) => ("volume", format!("master key {fingerprint}")),
            RingWrapping::Kms(name) => ("kms", name.clone()),
        };
        let state = match (entry.is_current, entry.state) {
            (true, _) => "current",
            (false, RingKeyState::Usable) => "earlier",
            (false, RingKeyState::Retired) => "retired",
            (false, RingKeyState::Closed) => "closed",
        };
        table.add(vec![
            Cell::Count(u64::from(entry.number.0)),
            Cell::Text(kind.to_owned()),
            Cell::Text(by),
            Cell::Time(entry.made),
            Cell::Text(state.to_owned()),
        ]);
    }
    table.print(printing);
}

/// Seals users' secrets under the new master key.
struct Secrets(MasterKey);

impl ResealSecret for Secrets {
    fn reseal(&self, access_key: &str, sealed: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let mut nonce = [0; MasterKey::NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(|error| error.to_string())?;
        self.0.reseal(access_key, sealed, nonce).map_err(|error| error.to_string())
    }
}

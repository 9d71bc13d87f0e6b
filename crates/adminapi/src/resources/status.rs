//! The state of this process and of its stores.
//!
//! For example, if the block store is full, the status has a warning with the sentence that says
//! which store is full and what to do.

use serde::Serialize;
use utoipa::ToSchema;
use volume::{Health, StoreState};

use crate::{Actor, AdminApi, ApiError};
use policy::AdminAction;

/// The answer of a process that is alive.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct Liveness {
    /// Always true.
    pub alive: bool,
}

/// The version of the program.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Version)]
pub struct VersionJson {
    /// The version of the program.
    pub version: String,
    /// The commit from which the program was built; empty if the build does not know it.
    pub commit: String,
    /// The versions of the API that the process serves.
    pub api: Vec<String>,
}

/// The state of this process and of its stores.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Status)]
pub struct StatusJson {
    /// The version of the program.
    pub version: String,
    /// The seconds since the start of this process.
    pub uptime_seconds: u64,
    /// The volume.
    pub volume: VolumeState,
    /// The metadata store.
    pub metadata: StoreStatus,
    /// The block store.
    pub blocks: StoreStatus,
    /// The problems that an operator should know, the worst first.
    pub warnings: Vec<Warning>,
}

/// The volume of this process.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct VolumeState {
    /// The id of the volume, in hexadecimal.
    pub id: String,
    /// The number of the format of its records.
    pub format: u32,
    /// The size of a block in bytes.
    pub block_bytes: u32,
    /// The state of this process's session: `ok`, or the reason why it ended.
    pub session: String,
}

/// The state of a store.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct StoreStatus {
    /// The place of the store, without secrets.
    pub place: String,
    /// `ok`, `full` or `failing`.
    pub state: StoreCondition,
    /// The reason, if the state is not `ok`.
    pub reason: Option<String>,
    /// The crash that acknowledged changes survive: `strict` or `relaxed`. `null` for blocks.
    pub durability: Option<String>,
}

/// The condition of a store.
#[derive(Clone, Copy, Debug, Serialize, ToSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum StoreCondition {
    /// The store answers.
    Ok,
    /// The store answers and has no space: writes fail.
    Full,
    /// The store does not answer.
    Failing,
}

/// A problem, with the remedy.
#[derive(Clone, Debug, Serialize, ToSchema, PartialEq, Eq)]
pub struct Warning {
    /// The severity.
    pub severity: Severity,
    /// The problem, as a sentence.
    pub problem: String,
    /// The remedy, as a sentence.
    pub remedy: String,
}

/// The severity of a warning.
#[derive(Clone, Copy, Debug, Serialize, ToSchema, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Requests fail.
    Error,
    /// Requests succeed, and an operator should act.
    Warning,
}

/// The configuration in force.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Config {
    /// Each setting with its value in force. Secrets are left out.
    pub settings: serde_json::Value,
}

impl AdminApi {
    /// Returns the version of the program.
    pub fn version(&self) -> VersionJson {
        VersionJson {
            version: self.facts.version.clone(),
            commit: self.facts.commit.clone(),
            api: vec!["v1".to_owned()],
        }
    }

    /// Returns the state of this process and of its stores. Checks both stores.
    ///
    /// # Errors
    /// `AccessDenied` without `admin:ServerInfo`.
    pub async fn status(&self, actor: &Actor<'_>) -> Result<StatusJson, ApiError> {
        actor.require(AdminAction::ServerInfo)?;
        let Health { store, blocks, session } = self.volume.check().await;
        let record = self.volume.record();
        let durability = (self.facts.durability)();
        let metadata = store_status(&self.facts.metadata_place, &store, Some(durability));
        let blocks = store_status(&self.facts.blocks_place, &blocks, None);
        let session = session.err().unwrap_or_else(|| "ok".to_owned());
        let mut warnings = store_warnings("metadata store", &metadata);
        warnings.extend(store_warnings("block store", &blocks));
        warnings.extend(self.blocks.warnings().into_iter().map(|problem| Warning {
            severity: Severity::Warning,
            problem,
            remedy: "See the section about the block store in docs/OPERATING.md.".to_owned(),
        }));
        if session != "ok" {
            warnings.push(Warning {
                severity: Severity::Error,
                problem: format!("The session of this gateway has ended: {session}."),
                remedy: "Start the gateway again.".to_owned(),
            });
        }
        warnings.sort_by_key(|warning| warning.severity);
        Ok(StatusJson {
            version: self.facts.version.clone(),
            uptime_seconds: self.started.elapsed().as_secs(),
            volume: VolumeState {
                id: hex::encode(record.id),
                format: record.format,
                block_bytes: record.block_bytes,
                session,
            },
            metadata,
            blocks,
            warnings,
        })
    }

    /// Returns the configuration in force.
    ///
    /// # Errors
    /// `AccessDenied` without `admin:ExportConfig`.
    pub fn config(&self, actor: &Actor<'_>) -> Result<Config, ApiError> {
        actor.require(AdminAction::ExportConfig)?;
        Ok(Config { settings: self.facts.settings.clone() })
    }
}

fn store_status(place: &str, state: &StoreState, durability: Option<String>) -> StoreStatus {
    let (state, reason) = match state {
        StoreState::Well => (StoreCondition::Ok, None),
        StoreState::Full(why) => (StoreCondition::Full, Some(why.clone())),
        StoreState::Failing(why) => (StoreCondition::Failing, Some(why.clone())),
    };
    StoreStatus { place: place.to_owned(), state, reason, durability }
}

/// Returns the warnings about a store. `name` is its name in sentences.
fn store_warnings(name: &str, status: &StoreStatus) -> Vec<Warning> {
    let reason = status.reason.as_deref().unwrap_or_default();
    let mut warnings = Vec::new();
    match status.state {
        StoreCondition::Ok => {}
        StoreCondition::Full => warnings.push(Warning {
            severity: Severity::Error,
            problem: format!("The {name} is full: {reason}. Writes fail, reads continue."),
            remedy: "Add space, or delete objects and wait for the reaper.".to_owned(),
        }),
        StoreCondition::Failing => warnings.push(Warning {
            severity: Severity::Error,
            problem: format!("The {name} does not answer: {reason}."),
            remedy: format!("Check that {} runs and is reachable from here.", status.place),
        }),
    }
    if status.durability.as_deref() == Some("relaxed") {
        warnings.push(Warning {
            severity: Severity::Warning,
            problem: "Acknowledged changes can be lost in a crash of the metadata store's machine."
                .to_owned(),
            remedy: "docs/METADATA.md has the settings of each database that prevent this."
                .to_owned(),
        });
    }
    warnings
}

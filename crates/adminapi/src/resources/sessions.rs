//! The gateways and mounts that have the volume open.
//!
//! For example, a mount on the host `web-3` is a session with the place `web-3:4711`.

use admin::OpenSession;
use policy::AdminAction;
use record::SessionFacts;
use serde::Serialize;
use utoipa::ToSchema;

use super::times;
use crate::page::{ListPage, PageQuery};
use crate::{Actor, AdminApi, ApiError};

/// A process that has the volume open.
#[derive(Clone, Debug, Serialize, ToSchema, PartialEq, Eq)]
#[schema(as = Session)]
pub struct SessionJson {
    /// The unique name of the session, in hexadecimal.
    pub id: String,
    /// The host and the process id.
    pub place: String,
    /// The time at which the session began, by its own clock.
    pub began: String,
    /// The place from which it answers reads, for example `leased (2 peers)`.
    pub reads_from_memory: String,
    /// The addresses at which other sessions reach it.
    pub reach: Vec<String>,
    /// The kind of process: `gateway`, `mount` or `command`.
    pub kind: String,
    /// The version of the program; empty for a command.
    pub version: String,
    /// The addresses at which it serves clients.
    pub addresses: Vec<String>,
    /// The folder on which it mounts the volume; empty if it mounts nothing.
    pub folder: String,
    /// The directory of the volume that the mount shows; empty for the whole volume.
    pub subdirectory: String,
}

impl AdminApi {
    /// Returns a page of the open sessions, in order of id.
    ///
    /// # Errors
    /// `AccessDenied` without `admin:ListSessions`.
    pub async fn sessions(
        &self,
        actor: &Actor<'_>,
        query: &PageQuery,
    ) -> Result<ListPage<SessionJson>, ApiError> {
        actor.require(AdminAction::ListSessions)?;
        let sessions = self.admin.status().await?.sessions.into_iter().map(shown);
        let mut sessions: Vec<SessionJson> = sessions.collect();
        sessions.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(query.range()?.of(sessions, |session| &session.id, |session| session))
    }
}

fn shown(open: OpenSession) -> SessionJson {
    let OpenSession { nonce, place, began, reads, reach, facts } = open;
    let SessionFacts { kind, version, addresses, folder, subdirectory } = facts;
    SessionJson {
        id: nonce.to_string(),
        place,
        began: times::text(began),
        reads_from_memory: reads,
        reach,
        kind: kind.name().to_owned(),
        version,
        addresses,
        folder,
        subdirectory,
    }
}

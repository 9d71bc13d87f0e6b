//! The gateways and mounts that have the volume open.
//!
//! For example, a mount on the host `web-3` is a session with the place `web-3:4711`.

use admin::OpenSession;
use policy::AdminAction;
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
    let OpenSession { nonce, place, began, reads, reach } = open;
    let (id, began) = (nonce.to_string(), times::text(began));
    SessionJson { id, place, began, reads_from_memory: reads, reach }
}

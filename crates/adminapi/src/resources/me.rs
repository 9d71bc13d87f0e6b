//! The sender itself.
//!
//! For example, a console shows the menu entries for which [`Me::actions`] has the action.

use policy::AdminAction;
use serde::Serialize;
use utoipa::ToSchema;

use crate::{Actor, AdminApi};

/// The sender of the request.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Me {
    /// The user's access key. For a web identity, the access key of its session.
    pub access_key: String,
    /// The user id as policies see it in `aws:userid`.
    pub user_id: String,
    /// The number of the account, 12 digits.
    pub account: String,
    /// True for the operator's own key.
    pub root: bool,
    /// The administrative actions that the sender may do, on the volume or on all buckets.
    pub actions: Vec<String>,
}

impl AdminApi {
    /// Returns the sender.
    pub fn me(&self, actor: &Actor<'_>) -> Me {
        let identity = actor.identity();
        let allowed = AdminAction::ALL.iter().filter(|action| actor.may(**action, None));
        Me {
            access_key: identity.access_key.clone(),
            user_id: identity.user_id(),
            account: identity.account.to_string(),
            root: identity.root,
            actions: allowed.map(|action| action.name().to_owned()).collect(),
        }
    }
}

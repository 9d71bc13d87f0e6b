//! A request of a person who is logged in, with the parts that pages need.

use adminapi::{Actor, AdminApi, ApiError};
use http::StatusCode;
use http::request::Parts;
use identity::Login;
use policy::AdminAction;
use serde::de::DeserializeOwned;

use crate::state::ConsoleState;

/// A request of a person who is logged in.
#[derive(Debug)]
pub(crate) struct Visit<'a> {
    pub(crate) state: &'a ConsoleState,
    pub(crate) actor: Actor<'a>,
    login: &'a Login,
    /// The head of the request.
    pub(crate) head: &'a Parts,
    /// The token that each form of this login has.
    pub(crate) form_token: String,
}

impl<'a> Visit<'a> {
    pub(crate) fn new(
        state: &'a ConsoleState,
        actor: Actor<'a>,
        login: &'a Login,
        head: &'a Parts,
    ) -> Visit<'a> {
        let form_token = state.api.access().form_token(login);
        Visit { state, actor, login, head, form_token }
    }

    pub(crate) fn api(&self) -> &'a AdminApi {
        &self.state.api
    }

    /// Fails with `WrongForm` if a form has another token than this login.
    pub(crate) fn check_token(&self, token: &str) -> Result<(), ApiError> {
        if self.state.api.access().is_form_token(self.login, token) {
            return Ok(());
        }
        let message =
            "The form belongs to another login. Open the page again and repeat the change.";
        Err(ApiError::new(StatusCode::FORBIDDEN, "WrongForm", message))
    }

    /// Returns true if the person may do an administrative action on the volume.
    pub(crate) fn may(&self, action: AdminAction) -> bool {
        self.actor.may(action, None)
    }

    /// Returns the parameters of the query. Unknown parameters are ignored.
    pub(crate) fn query<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        let query = self.head.uri.query().unwrap_or_default();
        serde_urlencoded::from_str(query)
            .map_err(|_| ApiError::bad_request("The query of the page is malformed."))
    }
}

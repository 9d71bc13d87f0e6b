//! `ashlar token` over the API. A sender makes tokens for itself alone.

use admin::AccessKey;
use http::Method;
use problem::Problem;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{KeyDocument, Nothing, access_keys, text};
use crate::commands::issued::{self, Issued};
use crate::commands::token::{self, TokenCommand};
use crate::endpoint::{Endpoint, EndpointError};
use crate::operator;

/// A new token.
#[derive(Deserialize)]
struct IssuedToken {
    name: String,
    token: String,
}

/// Runs an `ashlar token` command.
pub(crate) async fn run(endpoint: &Endpoint, command: TokenCommand) -> Result<(), Problem> {
    let doing = command.doing();
    match command {
        TokenCommand::List { printing } => {
            let tokens: Result<Vec<KeyDocument>, _> = endpoint.list(&["tokens"], "").await;
            let tokens = access_keys(tokens.map_err(|error| error.problem(doing))?)?;
            token::table(tokens).print(printing);
            Ok(())
        }
        TokenCommand::Add { action, user: _, description, expires, printing } => {
            let body = json!({
                "actions": action,
                "description": description,
                "expires": expires.at(operator::now()).map(text),
            });
            let added = async {
                let issued: IssuedToken =
                    endpoint.call(Method::POST, &["tokens"], &[], Some(body)).await?;
                // The response has no more than the text.
                let all: Vec<KeyDocument> = endpoint.list(&["tokens"], "").await?;
                Ok((all.into_iter().find(|token| token.access_key == issued.name), issued))
            };
            let (found, issued) =
                added.await.map_err(|error: EndpointError| error.problem(doing))?;
            let found: Option<AccessKey> = found.map(KeyDocument::access_key).transpose()?;
            let user = found.as_ref().and_then(|token| token.parent.as_deref());
            let expires = found.as_ref().and_then(|token| token.expires);
            let key = Issued { access_key: &issued.name, user, expires };
            issued::print(key, ("token", "token", Some(&issued.token)), printing);
            Ok(())
        }
        TokenCommand::Remove { token } => {
            let removed: Result<Nothing, _> =
                endpoint.call(Method::DELETE, &["tokens", &token], &[], None).await;
            removed.map(|_: Value| ()).map_err(|error| error.problem(doing))
        }
    }
}

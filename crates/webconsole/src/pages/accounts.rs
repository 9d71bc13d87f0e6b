//! Accounts.

use adminapi::ApiError;
use adminapi::page::PageQuery;
use maud::html;
use policy::AdminAction;

use crate::forms::Form;
use crate::layout::{self, Section};
use crate::reply::Reply;
use crate::visit::Visit;

/// The limit of accounts on the page.
const SHOWN_MAX: u32 = 1_000;

/// Shows the page.
pub(crate) async fn list(visit: &Visit<'_>) -> Result<Reply, ApiError> {
    let query = PageQuery { limit: Some(SHOWN_MAX), ..PageQuery::default() };
    let accounts = visit.api().accounts(&visit.actor, &query).await?;
    let may_delete = visit.may(AdminAction::DeleteAccount);
    let content = html! {
        div.scroll tabindex="0" role="region" aria-label="Accounts" {
            table {
                thead {
                    tr {
                        th scope="col" { "Name" }
                        th scope="col" { "Number" }
                        th scope="col" { "Canonical id" }
                        th scope="col" { span.hidden { "Actions" } }
                    }
                }
                tbody {
                    @for account in &accounts.items {
                        tr {
                            th scope="row" { (account.name) }
                            td { code { (account.number) } }
                            td { code.long { (account.canonical_id) } }
                            td {
                                @if may_delete && !account.built_in {
                                    form.inline method="post" action="/accounts" {
                                        (layout::token(visit))
                                        input type="hidden" name="name" value=(account.name);
                                        button.quiet type="submit" name="action" value="remove" data-confirm="Remove this account?" { "Remove" }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
        @if visit.may(AdminAction::CreateAccount) {
            details.make {
                summary { "Make an account" }
                form.stack method="post" action="/accounts" {
                    (layout::token(visit))
                    label for="name" { "Name" }
                    input #name name="name" required maxlength="64";
                    button type="submit" name="action" value="make" { "Make the account" }
                }
            }
        }
    };
    Ok(layout::show(visit, "Accounts", Section::Accounts, &content))
}

/// Makes or removes an account.
pub(crate) async fn change(visit: &Visit<'_>, form: &Form) -> Result<Reply, ApiError> {
    let name = form.text("name");
    match form.text("action") {
        "make" => {
            visit.api().put_account(&visit.actor, name).await?;
            Ok(Reply::redirect("/accounts?done=account-made"))
        }
        "remove" => {
            visit.api().delete_account(&visit.actor, name).await?;
            Ok(Reply::redirect("/accounts?done=account-removed"))
        }
        _ => Err(ApiError::bad_request("The form has no such action.")),
    }
}

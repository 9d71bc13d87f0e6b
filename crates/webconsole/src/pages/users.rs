//! Users: the list, and the form that makes one.

use adminapi::ApiError;
use adminapi::page::PageQuery;
use adminapi::resources::users::{NewUserJson, UserJson};
use maud::{Markup, html};
use policy::AdminAction;
use serde::Deserialize;

use super::issued;
use crate::forms::Form;
use crate::layout::{self, Section};
use crate::paths::escape;
use crate::reply::Reply;
use crate::visit::Visit;

/// The parameters of the list.
#[derive(Debug, Default, Deserialize)]
struct Query {
    page: Option<String>,
    prefix: Option<String>,
}

/// Shows a page of users.
pub(crate) async fn list(visit: &Visit<'_>) -> Result<Reply, ApiError> {
    let Query { page, prefix } = visit.query()?;
    let prefix = prefix.unwrap_or_default();
    let wanted = Some(prefix.clone()).filter(|prefix| !prefix.is_empty());
    let query = PageQuery { page, limit: None, prefix: wanted };
    let users = visit.api().users(&visit.actor, &query).await?;
    let base = format!("/users?prefix={}", escape(&prefix));
    let content = html! {
        form.search method="get" action="/users" role="search" {
            label for="prefix" { "Name begins with" }
            input #prefix name="prefix" type="search" value=(prefix);
            button type="submit" { "Search" }
        }
        @if users.items.is_empty() {
            p.empty { "There are no such users." }
        } @else {
            div.scroll tabindex="0" role="region" aria-label="Users" {
                table {
                    thead {
                        tr {
                            th scope="col" { "Name" }
                            th scope="col" { "State" }
                            th scope="col" { "Policies" }
                            th scope="col" { "Groups" }
                            th.number scope="col" { "Keys" }
                            th scope="col" { "Last used" }
                        }
                    }
                    tbody { @for user in &users.items { (row(user)) } }
                }
            }
        }
        (layout::pager(&base, query.page.as_deref(), users.next.as_deref()))
        @if visit.may(AdminAction::CreateUser) { (make_form(visit)) }
    };
    Ok(layout::show(visit, "Users", Section::Users, &content))
}

fn row(user: &UserJson) -> Markup {
    html! {
        tr {
            th scope="row" { a href={ "/users/" (escape(&user.name)) } { (user.name) } }
            td {
                @if user.enabled { span.badge.good { "enabled" } }
                @else { span.badge.bad { "disabled" } }
            }
            td { (user.policies.join(", ")) }
            td { (user.groups.join(", ")) }
            td.number { (1 + user.keys.len()) }
            td { @match &user.last_used { Some(at) => (layout::time(at)), None => "never" } }
        }
    }
}

fn make_form(visit: &Visit<'_>) -> Markup {
    html! {
        details.make {
            summary { "Make a user" }
            form.stack method="post" action="/users" {
                (layout::token(visit))
                label for="name" { "Name, which is also the access key" }
                input #name name="name" required minlength="3" maxlength="128" autocomplete="off";
                label for="secret" { "Secret (empty for a random one)" }
                input #secret name="secret" type="password" autocomplete="new-password";
                @if visit.may(AdminAction::AttachUserOrGroupPolicy) {
                    label for="policies" { "Policies, separated by commas" }
                    input #policies name="policies";
                }
                button type="submit" { "Make the user" }
            }
        }
    }
}

/// Returns the names in a field, which commas or spaces separate.
pub(crate) fn names(text: &str) -> Vec<String> {
    let names = text.split([',', ' ']).map(str::trim).filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

/// Makes a user, and shows its secret once.
pub(crate) async fn make(visit: &Visit<'_>, form: &Form) -> Result<Reply, ApiError> {
    let secret = Some(form.exact("secret").to_owned()).filter(|secret| !secret.is_empty());
    let policies = names(form.text("policies"));
    let new = NewUserJson { secret, policies, ..NewUserJson::default() };
    let name = form.text("name");
    let made = visit.api().put_user(&visit.actor, name, &new).await?;
    let back = format!("/users/{}", escape(name));
    Ok(issued::show(visit, "The user was created", &made, &back))
}

//! The frame of all pages: head, menu, title and content.
//!
//! The menu has the entries that the person may use. For example, a user without administrative
//! actions sees only `Buckets` and `My access`.

use adminapi::ApiError;
use http::StatusCode;
use maud::{DOCTYPE, Markup, html};
use policy::AdminAction;

use crate::assets::{ICON, SCRIPT, STYLE};
use crate::forms::{Form, SEEN_FIELD, TEXT_FIELDS, TOKEN_FIELD};
use crate::reply::Reply;
use crate::visit::Visit;

/// An entry of the menu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    /// No entry of the menu.
    None,
    Overview,
    Buckets,
    Users,
    Groups,
    Policies,
    Accounts,
    Gateways,
    Jobs,
    Trace,
    Me,
}

/// The menu: each entry with its path, its name and the action that it needs.
const MENU: [(Section, &str, &str, Option<AdminAction>); 10] = [
    (Section::Overview, "/", "Overview", Some(AdminAction::ServerInfo)),
    (Section::Buckets, "/buckets", "Buckets", None),
    (Section::Users, "/users", "Users", Some(AdminAction::ListUsers)),
    (Section::Groups, "/groups", "Groups", Some(AdminAction::ListGroups)),
    (Section::Policies, "/policies", "Policies", Some(AdminAction::GetPolicy)),
    (Section::Accounts, "/accounts", "Accounts", Some(AdminAction::ListAccounts)),
    (Section::Gateways, "/gateways", "Gateways and mounts", Some(AdminAction::ListSessions)),
    (Section::Jobs, "/jobs", "Jobs", Some(AdminAction::ListJobs)),
    (Section::Trace, "/trace", "Live requests", Some(AdminAction::ServerTrace)),
    (Section::Me, "/me", "My access", None),
];

/// Returns the head of a page. If `next` is given, the browser goes on to this path by itself.
fn head(title: &str, next: Option<&str>) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            @if let Some(next) = next {
                meta http-equiv="refresh" content={ "0; url=" (next) };
            }
            title { (title) " · Ashlar" }
            link rel="icon" href=(ICON.path()) type="image/svg+xml";
            link rel="stylesheet" href=(STYLE.path());
            script src=(SCRIPT.path()) defer {}
        }
    }
}

/// Returns a page of a person who is logged in.
pub(crate) fn show(visit: &Visit<'_>, title: &str, section: Section, content: &Markup) -> Reply {
    Reply::page(StatusCode::OK, page(visit, title, section, content))
}

/// Returns the page of an error of a person who is logged in.
pub(crate) fn problem_of(visit: &Visit<'_>, error: &ApiError) -> Reply {
    Reply::page(error.status, page(visit, "Problem", Section::None, &notice(error)))
}

fn page(visit: &Visit<'_>, title: &str, section: Section, content: &Markup) -> Markup {
    let entries =
        MENU.iter().filter(|(_, _, _, action)| action.is_none_or(|action| visit.may(action)));
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(title, None))
            body {
                a.skip href="#content" { "Skip to the content" }
                header.bar {
                    a.brand href="/" { img src=(ICON.path()) alt="" width="24" height="24"; "Ashlar" }
                    form.who method="post" action="/logout" {
                        (token(visit))
                        span title="The access key of this login" { (visit.actor.identity().access_key) }
                        button.quiet type="submit" { "Log out" }
                    }
                }
                div.frame {
                    nav.menu aria-label="Main" {
                        ul {
                            @for (entry, path, name, _) in entries {
                                li {
                                    a href=(path) aria-current=[(*entry == section).then_some("page")] {
                                        (name)
                                    }
                                }
                            }
                        }
                        p.version { "Version " (visit.api().version().version) }
                    }
                    main #content tabindex="-1" {
                        h1 { (title) }
                        @if let Some(done) = done(visit) {
                            p.done role="status" { (done) }
                        }
                        (content)
                    }
                }
            }
        }
    }
}

/// Returns a page for a person who is not logged in.
pub(crate) fn bare(title: &str, content: &Markup) -> Markup {
    bare_before(title, None, content)
}

/// Returns the page after a login at another site. The browser goes on to `next` by itself: a
/// redirect would count as a request of the other site, which has no cookie of the login.
pub(crate) fn leading_to(next: &str) -> Markup {
    let content = html! { p { a href=(next) { "Go on" } } };
    bare_before("You are logged in", Some(next), &content)
}

fn bare_before(title: &str, next: Option<&str>, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(title, next))
            body.bare {
                main #content {
                    p.brand { img src=(ICON.path()) alt="" width="32" height="32"; "Ashlar" }
                    h1 { (title) }
                    (content)
                }
            }
        }
    }
}

/// Returns the page of an error outside of a login.
pub(crate) fn problem(error: &ApiError) -> Markup {
    bare("Problem", &html! { (notice(error)) p { a href="/" { "Go to the first page" } } })
}

/// Returns the text of an error.
pub(crate) fn notice(error: &ApiError) -> Markup {
    html! {
        div.problem role="alert" {
            p { strong { (error.message) } }
            @if let Some(detail) = &error.detail { p { (detail) } }
            p.code { (error.code) }
        }
    }
}

/// Returns the hidden field that each form has.
pub(crate) fn token(visit: &Visit<'_>) -> Markup {
    html! { input type="hidden" name=(TOKEN_FIELD) value=(visit.form_token); }
}

/// Returns the hidden field with the entity tag of the state that a form shows. If another request
/// changes this state before the form is sent, the change is refused.
pub(crate) fn seen(tag: &str) -> Markup {
    html! { @if !tag.is_empty() { input type="hidden" name=(SEEN_FIELD) value=(tag); } }
}

/// Returns the page of a change that was refused, with the text that the person wrote. Without it
/// the text would be lost when another request has changed the state meanwhile.
pub(crate) fn refused(visit: &Visit<'_>, error: &ApiError, form: &Form) -> Reply {
    let texts = TEXT_FIELDS.iter().map(|name| form.exact(name));
    let texts: Vec<&str> = texts.filter(|text| !text.is_empty()).collect();
    let content = html! {
        (notice(error))
        @for text in texts {
            h2 { "Your text, which was not saved" }
            pre.preview tabindex="0" { (text) }
        }
        p { a href=(visit.head.uri.path()) { "Open the page again" } }
    };
    Reply::page(error.status, page(visit, "Problem", Section::None, &content))
}

/// The sentences after a change, by the name in the query. No text of a request is shown.
const DONE: [(&str, &str); 22] = [
    ("bucket-made", "The bucket was created."),
    ("bucket-deleted", "The bucket was deleted."),
    ("saved", "The change was saved."),
    ("removed", "The setting was removed."),
    ("deleted", "The selected objects were deleted."),
    ("folder-made", "The folder was created."),
    ("restored", "The object was restored."),
    ("emptied", "The selected items were removed from the trash permanently."),
    ("user-made", "The user was created."),
    ("user-removed", "The user was removed."),
    ("user-enabled", "The user was enabled."),
    ("user-disabled", "The user was disabled."),
    ("key-removed", "The access key was removed."),
    ("key-enabled", "The access key was enabled."),
    ("key-disabled", "The access key was disabled."),
    ("group-made", "The group was saved."),
    ("group-removed", "The group was removed."),
    ("policy-saved", "The policy was saved."),
    ("policy-removed", "The policy was removed."),
    ("account-made", "The account was created."),
    ("account-removed", "The account was removed."),
    ("forked", "The bucket was forked."),
];

fn done(visit: &Visit<'_>) -> Option<&'static str> {
    let query = visit.head.uri.query()?;
    let name = query.split('&').find_map(|pair| pair.strip_prefix("done="))?;
    DONE.iter().find(|(known, _)| *known == name).map(|(_, sentence)| *sentence)
}

/// Returns the links to the first and the next page of a list. `base` is the path with its query,
/// up to the parameters of the page.
pub(crate) fn pager(base: &str, page: Option<&str>, next: Option<&str>) -> Markup {
    let joint = if base.contains('?') { '&' } else { '?' };
    html! {
        @if page.is_some() || next.is_some() {
            nav.pager aria-label="Pages" {
                @if page.is_some() { a href=(base) { "First page" } }
                @if let Some(next) = next {
                    a href={ (base) (joint) "page=" (crate::paths::escape(next)) } { "Next page" }
                }
            }
        }
    }
}

/// Returns a number of bytes for people: `1.5 MiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    bytesize::ByteSize(bytes).display().iec().to_string()
}

/// Returns a time for people, `2026-01-02 03:04:05` in UTC, in an element with the exact time.
pub(crate) fn time(at: &str) -> Markup {
    let shown = at.replace('T', " ").replace('Z', "");
    html! { time datetime=(at) { (shown) } }
}

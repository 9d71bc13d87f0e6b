//! The routes of the console.
//!
//! A page has a path of names, for example `/buckets/photos/objects`; keys of objects are in the
//! query, because they may have any characters. Forms post to the path of their page.

use adminapi::ApiError;
use gateway::HttpBody;
use http::StatusCode;
use http::request::Parts;
use percent_encoding::percent_decode_str;
use policy::AdminAction;

use crate::forms::Form;
use crate::paths::escape;
use crate::reply::Reply;
use crate::visit::Visit;
use crate::{login, objects, pages, share};

/// Returns the decoded names of a path. Fails with `NotFound` for a path that is no UTF-8.
fn names(head: &Parts) -> Result<Vec<String>, ApiError> {
    let names = head.uri.path().split('/').filter(|name| !name.is_empty()).map(|name| {
        let name = percent_decode_str(name).decode_utf8();
        name.map(std::borrow::Cow::into_owned).map_err(|_| no_page())
    });
    names.collect()
}

fn no_page() -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, "NotFound", "There is no such page.")
}

/// Returns the page of a GET.
pub(crate) async fn get(visit: &Visit<'_>, head: &Parts) -> Result<Reply, ApiError> {
    let names = names(head)?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    match names.as_slice() {
        // A person without the overview begins with the buckets.
        [] if visit.may(AdminAction::ServerInfo) => pages::overview::show(visit).await,
        [] => Ok(Reply::redirect("/buckets")),
        ["buckets"] => pages::buckets::list(visit).await,
        ["buckets", bucket] => Ok(Reply::redirect(&format!("/buckets/{}/objects", escape(bucket)))),
        ["buckets", bucket, "objects"] => pages::browser::show(visit, bucket).await,
        ["buckets", bucket, "object"] => pages::object::show(visit, bucket).await,
        ["buckets", bucket, "download"] => objects::download(visit, bucket).await,
        ["buckets", bucket, "parts"] => objects::parts(visit, bucket).await,
        ["buckets", bucket, "access"] => pages::bucket_access::show(visit, bucket).await,
        ["buckets", bucket, "lifecycle"] => pages::bucket_lifecycle::show(visit, bucket).await,
        ["buckets", bucket, "versions"] => pages::bucket_versions::show(visit, bucket).await,
        ["buckets", bucket, "trash"] => pages::bucket_trash::show(visit, bucket).await,
        ["buckets", bucket, "settings"] => pages::bucket_settings::show(visit, bucket).await,
        ["users"] => pages::users::list(visit).await,
        ["users", user] => pages::user::show(visit, user).await,
        ["groups"] => pages::groups::list(visit).await,
        ["groups", group] => pages::groups::show(visit, group).await,
        ["policies"] => pages::policies::list(visit).await,
        ["policies", policy] => pages::policies::show(visit, policy).await,
        ["simulator"] => pages::simulation::show(visit),
        ["accounts"] => pages::accounts::list(visit).await,
        ["gateways"] => pages::gateways::list(visit).await,
        ["me"] => pages::me::show(visit).await,
        _ => Err(no_page()),
    }
}

/// Carries out a form. Its token was checked.
pub(crate) async fn post(visit: &Visit<'_>, head: &Parts, form: &Form) -> Result<Reply, ApiError> {
    let names = names(head)?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    match names.as_slice() {
        ["logout"] => Ok(login::end(visit)),
        ["buckets"] => pages::buckets::make(visit, form).await,
        ["buckets", bucket, "objects"] => pages::browser::change(visit, bucket, form).await,
        ["buckets", bucket, "object"] => pages::object::change(visit, bucket, form).await,
        ["buckets", bucket, "share"] => share::show(visit, bucket, form),
        ["buckets", bucket, "access"] => pages::bucket_access::change(visit, bucket, form).await,
        ["buckets", bucket, "lifecycle"] => {
            pages::bucket_lifecycle::change(visit, bucket, form).await
        }
        ["buckets", bucket, "versions"] => {
            pages::bucket_versions::change(visit, bucket, form).await
        }
        ["buckets", bucket, "trash"] => pages::bucket_trash::change(visit, bucket, form).await,
        ["buckets", bucket, "settings"] => {
            pages::bucket_settings::change(visit, bucket, form).await
        }
        ["users"] => pages::users::make(visit, form).await,
        ["users", user] => pages::user::change(visit, user, form).await,
        ["groups"] => pages::groups::make(visit, form).await,
        ["groups", group] => pages::groups::change(visit, group, form).await,
        ["me"] => pages::me::change(visit, form).await,
        ["policies"] => pages::policies::make(visit, form).await,
        ["policies", policy] => pages::policies::change(visit, policy, form).await,
        ["simulator"] => pages::simulation::answer(visit, form).await,
        ["accounts"] => pages::accounts::change(visit, form).await,
        _ => Err(no_page()),
    }
}

/// Carries out a request of the script, which uploads files. Its token was checked.
pub(crate) async fn script(
    visit: &Visit<'_>,
    head: &Parts,
    body: HttpBody,
) -> Result<Reply, ApiError> {
    let names = names(head)?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    match names.as_slice() {
        ["buckets", bucket, "uploads"] => objects::begin_upload(visit, bucket).await,
        ["buckets", bucket, "part"] => objects::put_part(visit, bucket, body).await,
        ["buckets", bucket, "complete"] => objects::complete_upload(visit, bucket, body).await,
        ["buckets", bucket, "abort"] => objects::abort_upload(visit, bucket).await,
        ["buckets", bucket, "content"] => objects::put(visit, bucket, body).await,
        _ => Err(no_page()),
    }
}

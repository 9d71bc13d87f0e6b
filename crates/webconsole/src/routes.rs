//! The routes of the console.
//!
//! A page has a path of names, for example `/buckets/photos/objects`; keys of objects are in the
//! query, because they may have any characters. Forms post to the path of their page.

use adminapi::{ApiError, ApiServed};
use gateway::HttpBody;
use http::StatusCode;
use percent_encoding::percent_decode_str;
use policy::AdminAction;

use crate::forms::Form;
use crate::paths::escape;
use crate::reply::Reply;
use crate::visit::Visit;
use crate::{login, objects, pages, share};

macro_rules! pages {
    ($($name:ident = $path:literal;)*) => {
        /// A page, or another path, of a person who is logged in.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Page { $($name,)* }

        impl Page {
            /// All pages. A path with fixed names comes before a path that has a parameter there.
            const ALL: &[Page] = &[$(Page::$name,)*];

            /// Returns the name in the access log.
            pub(crate) const fn name(self) -> &'static str {
                match self { $(Page::$name => concat!("Console", stringify!($name)),)* }
            }

            /// Returns the path, with the names of its parameters in braces.
            const fn path(self) -> &'static str {
                match self { $(Page::$name => $path,)* }
            }
        }
    };
}

pages! {
    Overview = "/";
    Logout = "/logout";
    Buckets = "/buckets";
    Bucket = "/buckets/{bucket}";
    BucketObjects = "/buckets/{bucket}/objects";
    BucketObject = "/buckets/{bucket}/object";
    BucketDownload = "/buckets/{bucket}/download";
    BucketZip = "/buckets/{bucket}/zip";
    BucketParts = "/buckets/{bucket}/parts";
    BucketShare = "/buckets/{bucket}/share";
    BucketAccess = "/buckets/{bucket}/access";
    BucketLifecycle = "/buckets/{bucket}/lifecycle";
    BucketVersions = "/buckets/{bucket}/versions";
    BucketTrash = "/buckets/{bucket}/trash";
    BucketSettings = "/buckets/{bucket}/settings";
    UploadBegin = "/buckets/{bucket}/uploads";
    UploadPart = "/buckets/{bucket}/part";
    UploadComplete = "/buckets/{bucket}/complete";
    UploadAbort = "/buckets/{bucket}/abort";
    UploadContent = "/buckets/{bucket}/content";
    Users = "/users";
    User = "/users/{user}";
    Groups = "/groups";
    Group = "/groups/{group}";
    Policies = "/policies";
    Policy = "/policies/{policy}";
    Simulator = "/simulator";
    Accounts = "/accounts";
    Gateways = "/gateways";
    Jobs = "/jobs";
    Job = "/jobs/{job}";
    Trace = "/trace";
    Events = "/events";
    Me = "/me";
}

/// A page with the name in its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) page: Page,
    /// The kind of the name, such as `bucket`, and the decoded name; `None` if the path has none.
    name: Option<(&'static str, String)>,
}

impl Route {
    /// Returns the page of a path. Fails with `NotFound` for an unknown path, and for a path that
    /// is no UTF-8.
    pub(crate) fn parse(path: &str) -> Result<Route, ApiError> {
        let given: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
        let mut found = Page::ALL.iter().filter_map(|page| Some((*page, page.matching(&given)?)));
        let (page, name) = found.next().ok_or_else(no_page)?;
        let Some((kind, text)) = name else { return Ok(Route { page, name: None }) };
        let text = percent_decode_str(text).decode_utf8().map_err(|_| no_page())?;
        Ok(Route { page, name: Some((kind, text.into_owned())) })
    }

    /// Returns the name in the path; empty if the path has none.
    fn named(&self) -> &str {
        self.name.as_ref().map_or("", |(_, name)| name)
    }

    /// Notes the page and the name in its path for the access log.
    pub(crate) fn note(&self, served: &mut ApiServed) {
        served.operation = self.page.name();
        served.resources.clear();
        if let Some((kind, name)) = &self.name {
            served.set_resource(kind, name);
        }
    }
}

impl Page {
    /// Returns the parameter of the path and its text in `given`, if the path has these names.
    #[expect(clippy::option_option, reason = "a page without a parameter is found, too")]
    fn matching<'a>(self, given: &[&'a str]) -> Option<Option<(&'static str, &'a str)>> {
        let wanted: Vec<&str> = self.path().split('/').filter(|name| !name.is_empty()).collect();
        if wanted.len() != given.len() {
            return None;
        }
        let mut parameter = None;
        for (wanted, given) in wanted.into_iter().zip(given) {
            match wanted.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
                Some(kind) => parameter = Some((kind, *given)),
                None if wanted == *given => {}
                None => return None,
            }
        }
        Some(parameter)
    }
}

fn no_page() -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, "NotFound", "There is no such page.")
}

/// Returns the page of a GET.
pub(crate) async fn get(visit: &Visit<'_>, route: &Route) -> Result<Reply, ApiError> {
    let name = route.named();
    match route.page {
        // A person without the overview begins with the buckets.
        Page::Overview if visit.may(AdminAction::ServerInfo) => pages::overview::show(visit).await,
        Page::Overview => Ok(Reply::redirect("/buckets")),
        Page::Buckets => pages::buckets::list(visit).await,
        Page::Bucket => Ok(Reply::redirect(&format!("/buckets/{}/objects", escape(name)))),
        Page::BucketObjects => pages::browser::show(visit, name).await,
        Page::BucketObject => pages::object::show(visit, name).await,
        Page::BucketDownload => objects::download(visit, name).await,
        Page::BucketZip => objects::zip(visit, name).await,
        Page::BucketParts => objects::parts(visit, name).await,
        Page::BucketAccess => pages::bucket_access::show(visit, name).await,
        Page::BucketLifecycle => pages::bucket_lifecycle::show(visit, name).await,
        Page::BucketVersions => pages::bucket_versions::show(visit, name).await,
        Page::BucketTrash => pages::bucket_trash::show(visit, name).await,
        Page::BucketSettings => pages::bucket_settings::show(visit, name).await,
        Page::Users => pages::users::list(visit).await,
        Page::User => pages::user::show(visit, name).await,
        Page::Groups => pages::groups::list(visit).await,
        Page::Group => pages::groups::show(visit, name).await,
        Page::Policies => pages::policies::list(visit).await,
        Page::Policy => pages::policies::show(visit, name).await,
        Page::Simulator => pages::simulation::show(visit),
        Page::Accounts => pages::accounts::list(visit).await,
        Page::Gateways => pages::gateways::list(visit).await,
        Page::Jobs => pages::jobs::list(visit).await,
        Page::Job => pages::jobs::show(visit, name).await,
        Page::Trace => Ok(pages::trace::show(visit)),
        Page::Events => pages::trace::events(visit),
        Page::Me => pages::me::show(visit).await,
        Page::Logout
        | Page::BucketShare
        | Page::UploadBegin
        | Page::UploadPart
        | Page::UploadComplete
        | Page::UploadAbort
        | Page::UploadContent => Err(no_page()),
    }
}

/// Carries out a form. Its token was checked.
pub(crate) async fn post(visit: &Visit<'_>, route: &Route, form: &Form) -> Result<Reply, ApiError> {
    let name = route.named();
    match route.page {
        Page::Logout => Ok(login::end(visit)),
        Page::Buckets => pages::buckets::make(visit, form).await,
        Page::BucketObjects => pages::browser::change(visit, name, form).await,
        Page::BucketObject => pages::object::change(visit, name, form).await,
        Page::BucketShare => share::show(visit, name, form),
        Page::BucketAccess => pages::bucket_access::change(visit, name, form).await,
        Page::BucketLifecycle => pages::bucket_lifecycle::change(visit, name, form).await,
        Page::BucketVersions => pages::bucket_versions::change(visit, name, form).await,
        Page::BucketTrash => pages::bucket_trash::change(visit, name, form).await,
        Page::BucketSettings => pages::bucket_settings::change(visit, name, form).await,
        Page::Users => pages::users::make(visit, form).await,
        Page::User => pages::user::change(visit, name, form).await,
        Page::Groups => pages::groups::make(visit, form).await,
        Page::Group => pages::groups::change(visit, name, form).await,
        Page::Jobs => pages::jobs::make(visit, form).await,
        Page::Job => pages::jobs::change(visit, name, form).await,
        Page::Me => pages::me::change(visit, form).await,
        Page::Policies => pages::policies::make(visit, form).await,
        Page::Policy => pages::policies::change(visit, name, form).await,
        Page::Simulator => pages::simulation::answer(visit, form).await,
        Page::Accounts => pages::accounts::change(visit, form).await,
        Page::Overview
        | Page::Bucket
        | Page::BucketDownload
        | Page::BucketZip
        | Page::BucketParts
        | Page::UploadBegin
        | Page::UploadPart
        | Page::UploadComplete
        | Page::UploadAbort
        | Page::UploadContent
        | Page::Gateways
        | Page::Trace
        | Page::Events => Err(no_page()),
    }
}

/// Carries out a request of the script, which uploads files. Its token was checked.
pub(crate) async fn script(
    visit: &Visit<'_>,
    route: &Route,
    body: HttpBody,
) -> Result<Reply, ApiError> {
    let bucket = route.named();
    match route.page {
        Page::UploadBegin => objects::begin_upload(visit, bucket).await,
        Page::UploadPart => objects::put_part(visit, bucket, body).await,
        Page::UploadComplete => objects::complete_upload(visit, bucket, body).await,
        Page::UploadAbort => objects::abort_upload(visit, bucket).await,
        Page::UploadContent => objects::put(visit, bucket, body).await,
        Page::Overview
        | Page::Logout
        | Page::Buckets
        | Page::Bucket
        | Page::BucketObjects
        | Page::BucketObject
        | Page::BucketDownload
        | Page::BucketZip
        | Page::BucketParts
        | Page::BucketShare
        | Page::BucketAccess
        | Page::BucketLifecycle
        | Page::BucketVersions
        | Page::BucketTrash
        | Page::BucketSettings
        | Page::Users
        | Page::User
        | Page::Groups
        | Page::Group
        | Page::Policies
        | Page::Policy
        | Page::Simulator
        | Page::Accounts
        | Page::Gateways
        | Page::Jobs
        | Page::Job
        | Page::Trace
        | Page::Events
        | Page::Me => Err(no_page()),
    }
}

#[cfg(test)]
mod tests;

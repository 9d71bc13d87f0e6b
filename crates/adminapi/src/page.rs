//! Lists in pages.
//!
//! A list has at most `limit` items, and the token `next` if more follow. The token is the name of
//! the last item. For example, `GET /users?limit=2` answers with two users and a token, and
//! `GET /users?limit=2&page=TOKEN` with the two users after them.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use utoipa::openapi::{ArrayBuilder, ObjectBuilder, Ref, RefOr, Schema};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use crate::ApiError;

/// The number of items of a page without `limit`.
pub const LIMIT_DEFAULT: u32 = 100;

/// The largest `limit`.
pub const LIMIT_MAX: u32 = 1_000;

/// The parameters of a list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// The token `next` of the page before. The first page without it.
    pub page: Option<String>,
    /// The largest number of items, 1 to 1000. 100 without it.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// Only items whose name begins with this text.
    pub prefix: Option<String>,
}

/// A page of a list.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct ListPage<T> {
    /// The items, in order of name.
    pub items: Vec<T>,
    /// The token of the next page; `null` at the end of the list.
    pub next: Option<String>,
}

impl<T: ToSchema> PartialSchema for ListPage<T> {
    fn schema() -> RefOr<Schema> {
        let item = Ref::from_schema_name(T::name());
        let items =
            ArrayBuilder::new().items(item).description(Some("The items, in order of name."));
        let next = Option::<String>::schema();
        let page = ObjectBuilder::new().property("items", items).property("next", next);
        page.required("items").required("next").into()
    }
}

impl<T: ToSchema> ToSchema for ListPage<T> {
    fn name() -> Cow<'static, str> {
        format!("{}Page", T::name()).into()
    }

    /// The schema of a page names that of its items.
    fn schemas(all: &mut Vec<(String, RefOr<Schema>)>) {
        all.push((T::name().into_owned(), T::schema()));
        T::schemas(all);
    }
}

/// The position and size of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageRange {
    /// The name of the last item of the page before.
    pub(crate) after: Option<String>,
    pub(crate) limit: usize,
    pub(crate) prefix: String,
}

impl PageQuery {
    /// Returns the position and size of the page. Fails with `BadRequest` for a token that no page
    /// has returned, or a limit out of range.
    pub(crate) fn range(&self) -> Result<PageRange, ApiError> {
        let limit = self.limit.unwrap_or(LIMIT_DEFAULT);
        if !(1..=LIMIT_MAX).contains(&limit) {
            let why = format!("The limit is a number from 1 to {LIMIT_MAX}.");
            return Err(ApiError::bad_request(why));
        }
        let after = self.page.as_ref().map(|token| {
            let bytes = URL_SAFE_NO_PAD.decode(token).ok();
            let name = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
            name.ok_or_else(|| ApiError::bad_request("The page is not the token of a page."))
        });
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let prefix = self.prefix.clone().unwrap_or_default();
        Ok(PageRange { after: after.transpose()?, limit, prefix })
    }
}

/// Returns the token of the page after the item `name`.
pub(crate) fn token(name: &str) -> String {
    URL_SAFE_NO_PAD.encode(name)
}

impl PageRange {
    /// Returns the page of a list that is completely in memory. `all` is in order of `name`.
    pub(crate) fn of<S, T>(
        &self,
        all: impl IntoIterator<Item = S>,
        name: impl Fn(&S) -> &str,
        value: impl Fn(S) -> T,
    ) -> ListPage<T> {
        let mut wanted = all.into_iter().filter(|item| {
            let name = name(item);
            name.starts_with(&self.prefix) && self.after.as_deref().is_none_or(|after| name > after)
        });
        let mut items = Vec::new();
        let mut last = None;
        for item in wanted.by_ref().take(self.limit) {
            last = Some(token(name(&item)));
            items.push(value(item));
        }
        // Another item exists, so a page with it exists.
        let next = last.filter(|_| wanted.next().is_some());
        ListPage { items, next }
    }
}

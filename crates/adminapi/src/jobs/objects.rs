//! Requests of jobs to the gateway of this process, in the name of the user who started the job.
//!
//! Each request passes the permission checks of S3. For example, the deletion of a bucket by a user
//! who may not delete some of its objects fails at these objects.

use bytes::Bytes;
use gateway::HttpBody;
use http::{HeaderMap, Response};
use identity::RequestOrigin;
use percent_encoding::percent_decode_str;
use s3::xml::{Element, XmlLimits};

use super::parts::{JobParts, JobSender};
use crate::s3_call::{self, S3Call, S3Reply};
use crate::{Actor, ApiError};

/// The id of all requests of jobs in the access log.
const REQUEST_ID: &str = "job";

/// The limits of a page of a list.
pub(crate) const PAGE: XmlLimits = XmlLimits { bytes: 8 << 20, elements: 100_000 };

impl JobParts {
    /// Sends a request, and returns the whole response.
    pub(crate) async fn s3(
        &self,
        sender: &JobSender,
        call: &S3Call<'_>,
        body: Bytes,
    ) -> Result<S3Reply, ApiError> {
        let headers = HeaderMap::new();
        let actor = self.actor(sender, &headers)?;
        s3_call::send(&self.gateway, &actor, call, body).await
    }

    /// Sends a request, and returns the response as it arrives.
    pub(crate) async fn stream_s3(
        &self,
        sender: &JobSender,
        call: &S3Call<'_>,
        body: HttpBody,
    ) -> Result<Response<HttpBody>, ApiError> {
        let headers = HeaderMap::new();
        let actor = self.actor(sender, &headers)?;
        s3_call::stream(&self.gateway, &actor, call, body).await
    }

    fn actor<'a>(
        &'a self,
        sender: &'a JobSender,
        headers: &'a HeaderMap,
    ) -> Result<Actor<'a>, ApiError> {
        let now = rules::time(self.volume.now());
        let origin = RequestOrigin { headers, client: sender.client, now };
        Actor::new(&self.access, self.volume.volume(), &sender.authenticated, origin, REQUEST_ID)
    }
}

/// Returns the text of a child of an element; empty if there is none.
pub(crate) fn text(element: &Element, name: &str) -> String {
    element.value(name).ok().flatten().unwrap_or_default().to_owned()
}

/// Returns the children of an element with this name.
pub(crate) fn all<'a>(
    element: &'a Element,
    name: &'static str,
) -> impl Iterator<Item = &'a Element> {
    element.children().iter().filter(move |child| child.name() == name)
}

/// Returns the text of a child that a list with `encoding-type=url` has encoded.
pub(crate) fn decoded(element: &Element, name: &str) -> String {
    let encoded = text(element, name).replace('+', " ");
    percent_decode_str(&encoded).decode_utf8_lossy().into_owned()
}

/// Returns true if a list has a further page.
pub(crate) fn is_truncated(list: &Element) -> bool {
    text(list, "IsTruncated") == "true"
}

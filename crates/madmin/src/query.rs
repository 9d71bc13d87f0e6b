//! The parameters of a call.

use adminapi::ApiError;

use crate::error;

/// The parameters of a query, decoded, in order.
#[derive(Debug)]
pub(crate) struct CallQuery(Vec<(String, String)>);

impl CallQuery {
    /// Parses a query. Text that is no UTF-8 is replaced, so it names nothing.
    pub(crate) fn parse(query: &str) -> CallQuery {
        CallQuery(serde_urlencoded::from_str(query).unwrap_or_default())
    }

    /// Returns the first value of a parameter; `None` if it is absent or empty.
    pub(crate) fn maybe(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str());
        found.filter(|value| !value.is_empty())
    }

    /// Returns the first value of a parameter. Fails with `XMinioAdminInvalidArgument` if it is
    /// absent or empty.
    pub(crate) fn one(&self, name: &str) -> Result<&str, ApiError> {
        self.maybe(name)
            .ok_or_else(|| error::invalid(format!("The query needs the parameter {name}.")))
    }

    /// Returns all values of a parameter.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(of, _)| of == name).map(|(_, value)| value.as_str())
    }

    /// Returns true if a parameter is `true`.
    pub(crate) fn is_true(&self, name: &str) -> bool {
        self.maybe(name) == Some("true")
    }
}

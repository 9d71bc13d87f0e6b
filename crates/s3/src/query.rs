//! The query string, decoded once.

use std::borrow::Cow;

use crate::{Code, Fault};

/// The maximum number of parameters in a query string.
const PARAMETERS_MAX: usize = 256;

/// The parameters of a query string, in order, decoded once. A `+` is a space. For example,
/// `prefix=a+b&acl` has the parameters `prefix` with the value `a b` and `acl` without a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    parameters: Vec<Parameter>,
}

/// A parameter. `?acl` and `?acl=` are equal in S3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) value: String,
}

impl Query {
    /// Parses a raw query string, without its question mark.
    ///
    /// Fails with `InvalidURI` if it does not decode to UTF-8 or has more than 256 parameters.
    pub fn parse(raw: &str) -> Result<Query, Fault> {
        let mut parameters = Vec::new();
        for pair in raw.split('&').filter(|pair| !pair.is_empty()) {
            // Lookups scan all parameters, so their number is limited.
            if parameters.len() == PARAMETERS_MAX {
                return Err(invalid("The query has too many parameters."));
            }
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            parameters.push(Parameter { name: decode(name)?, value: decode(value)? });
        }
        Ok(Query { parameters })
    }

    /// Returns the decoded value of a parameter; `None` if it is absent. Fails with
    /// `InvalidArgument` if it is repeated.
    pub fn get(&self, name: &str) -> Result<Option<&str>, Fault> {
        let mut found = self.parameters.iter().filter(|parameter| parameter.name == name);
        let first = found.next();
        if found.next().is_some() {
            return Err(Fault::because(
                Code::InvalidArgument,
                "A query parameter is given more than once.",
            )
            .with("ArgumentName", name));
        }
        Ok(first.map(|parameter| parameter.value.as_str()))
    }

    /// Returns true if the parameter is present, with or without a value.
    pub fn has(&self, name: &str) -> bool {
        self.parameters.iter().any(|parameter| parameter.name == name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Parameter> {
        self.parameters.iter()
    }
}

fn decode(raw: &str) -> Result<String, Fault> {
    // `+` is replaced before decoding, so that `%2B` remains a plus.
    let spaced = if raw.contains('+') { raw.replace('+', " ").into() } else { Cow::Borrowed(raw) };
    crate::name::decode_once(&spaced)
        .map(Cow::into_owned)
        .map_err(|_| invalid("The query does not decode to UTF-8 text."))
}

fn invalid(why: &'static str) -> Fault {
    Fault::new(Code::InvalidURI).detail(why)
}

//! Options with a fixed set of choices, such as `--log-format json` or `--coherence pushed`.
//!
//! Each is a type with one variant for each word of the option, so no code meets an unknown word.
//! For example, `--admin-listen off` becomes [`ListenAt::Off`].

use audit::LineFormat;
use serde::Serialize;
use volume::Coherence;

/// The format of log lines.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, serde::Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// Text for people
    #[default]
    Text,
    /// One JSON object per line, for programs
    Json,
}

/// The format of lines of the access log.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, serde::Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AccessLogFormat {
    /// One JSON object per line
    #[default]
    Json,
    /// The server access log of S3
    S3,
}

impl From<AccessLogFormat> for LineFormat {
    fn from(format: AccessLogFormat) -> LineFormat {
        match format {
            AccessLogFormat::Json => LineFormat::Json,
            AccessLogFormat::S3 => LineFormat::S3,
        }
    }
}

/// The kernel's cache of names and attributes on a mount while other processes have the volume
/// open.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, serde::Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CoherenceClass {
    /// Cache nothing: programs see changes of other processes at once
    #[default]
    Strict,
    /// Cache for a second at most; the mount invalidates changed entries before, when it learns of
    /// them
    Pushed,
}

impl From<CoherenceClass> for Coherence {
    fn from(class: CoherenceClass) -> Coherence {
        match class {
            CoherenceClass::Strict => Coherence::Strict,
            CoherenceClass::Pushed => Coherence::Pushed,
        }
    }
}

/// The crashes that an acknowledged change must survive.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, serde::Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DurabilityClass {
    /// A crash of the metadata store's machine
    #[default]
    Strict,
    /// Only the crashes that the database's settings cover
    Relaxed,
}

/// The object ownership of new buckets, with S3's names.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, serde::Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "PascalCase")]
#[clap(rename_all = "PascalCase")]
pub(crate) enum OwnershipClass {
    /// The bucket's owner owns all objects, and access control lists are disabled
    #[default]
    BucketOwnerEnforced,
    /// The bucket's owner owns objects whose writer grants it full control; the writer owns the
    /// others
    BucketOwnerPreferred,
    /// The writer of an object owns it
    ObjectWriter,
}

/// The address of a listener for operators: of metrics and status, or of the console.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListenAt {
    /// The default address, or a free port if that port is in use, so that a second gateway on the
    /// same machine starts without settings.
    Default,
    /// No listener.
    Off,
    /// This address. The start fails if it is in use.
    At(String),
}

impl ListenAt {
    /// Returns the address of an option. An empty text is the default.
    pub(super) fn parse(option: Option<&str>) -> ListenAt {
        match option.filter(|text| !text.is_empty()) {
            None => ListenAt::Default,
            Some("off") => ListenAt::Off,
            Some(address) => ListenAt::At(address.to_owned()),
        }
    }

    /// Returns the text of the option; `None` for the default.
    pub(super) fn text(&self) -> Option<String> {
        match self {
            ListenAt::Default => None,
            ListenAt::Off => Some("off".to_owned()),
            ListenAt::At(address) => Some(address.clone()),
        }
    }
}

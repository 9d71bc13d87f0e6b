//! The kinds of configurations of a bucket, in one table.
//!
//! A row is all that the stored form of a new kind needs: fsck checks it and `ashlar bucket clear`
//! removes it by its row. This module does not know the effect of a configuration. For example, the
//! policy is a document here, and `rules` parses it.

use store::Key;

use crate::bucket::BucketConfig;
use crate::codec::DecodeError;
use crate::lifecycle_pass::LifecyclePass;

/// Makes the kinds of configurations from a table. A row has the number of the kind in keys, the
/// form of its bytes, and the word with which operators remove a configuration that may lock out
/// every client.
macro_rules! bucket_configs {
    ($($(#[doc = $doc:literal])+ $kind:ident = $number:literal $form:tt $($word:literal)?;)+) => {
        /// The kind of a configuration. A bucket has at most one of each kind.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum BucketConfigKind {
            $($(#[doc = $doc])+ $kind = $number,)+
        }

        impl BucketConfigKind {
            /// Every kind, in the order of the table.
            pub const ALL: &[BucketConfigKind] = &[$(BucketConfigKind::$kind,)+];

            /// Returns the word with which operators remove a configuration of this kind; `None` if
            /// they cannot.
            pub const fn clear_word(self) -> Option<&'static str> {
                match self {
                    $(BucketConfigKind::$kind => word!($($word)?),)+
                }
            }

            /// Checks the bytes of a configuration of this kind. Those of documents are not parsed,
            /// because only the view that stored them knows their form.
            ///
            /// # Errors
            /// If the bytes are not in the form of the kind.
            pub fn check(self, config: &BucketConfig) -> Result<(), DecodeError> {
                match self {
                    $(BucketConfigKind::$kind => form!($form, config),)+
                }
            }
        }
    };
}

/// Returns the word of a row.
macro_rules! word {
    () => {
        None
    };
    ($word:literal) => {
        Some($word)
    };
}

/// Checks bytes against the form of a kind: a document of a view, or a function that reads them.
macro_rules! form {
    (document, $config:ident) => {{
        let _: &BucketConfig = $config;
        Ok(())
    }};
    (($read:path), $config:ident) => {
        $read($config).map(drop)
    };
}

bucket_configs! {
    /// Tags of the bucket: see [`BucketConfig::of_tags`].
    Tags = 1 (BucketConfig::tags);
    /// The bucket policy: a JSON document.
    Policy = 2 document "policy";
    /// The cross-origin rules for browsers: an XML document.
    Cors = 3 document "cors";
    /// The access control list: see [`BucketConfig::of_acl`].
    Acl = 4 (BucketConfig::acl) "acl";
    /// The object lock configuration: an XML document.
    ObjectLock = 5 document;
    /// The lifecycle rules: an XML document.
    Lifecycle = 6 document;
    /// The progress of the pass that applies the lifecycle rules: see [`LifecyclePass`].
    LifecyclePass = 7 (LifecyclePass::of_config);
    /// The number of days for which the trash keeps deleted and replaced objects: see
    /// [`BucketConfig::of_trash_days`].
    Trash = 8 (BucketConfig::trash_days);
    /// The bucket that gets the access log of this one: an XML document.
    Logging = 9 document;
    /// The encryption of new objects whose request has none: an XML document.
    Encryption = 10 document "encryption";
}

impl BucketConfigKind {
    /// Returns the kind of a configuration with this key.
    ///
    /// # Errors
    /// `Format` if a newer release wrote it, and `Field` if this is not the key of a configuration.
    pub fn of(key: &Key) -> Result<BucketConfigKind, DecodeError> {
        let [number] = *key.suffix() else { return Err(DecodeError::Field("kind")) };
        let known = BucketConfigKind::ALL.iter().find(|kind| **kind as u8 == number);
        known.copied().ok_or(DecodeError::Format(number))
    }
}

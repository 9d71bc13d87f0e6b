//! Mount options.
//!
//! Invariant: text made of well-formed options cannot be read as other options. For example, a
//! comma in the source is escaped, and a subtype with a comma is refused.

use std::fmt::Write as _;

/// The options of a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of mount(8)")]
pub struct MountOptions {
    /// The source that `mount` and `df` show, for example the name of the volume. Not empty,
    /// without NUL.
    pub source: String,
    /// The subtype: the file system shows as `fuse.SUBTYPE`. Letters, digits and `-`.
    pub subtype: String,
    /// True for a read-only mount.
    pub read_only: bool,
    /// True if users other than the mounting one may access the mount.
    pub allow_other: bool,
    /// True if the kernel checks permissions by mode, owner and group. Otherwise the file system
    /// must check them.
    pub default_permissions: bool,
    /// True if set-user-ID and set-group-ID bits take effect. Needs root.
    pub allow_suid: bool,
    /// True if device files act as devices. Needs root.
    pub allow_devices: bool,
    /// The largest READ request that the kernel sends, in bytes; `None` for the kernel's default.
    pub read_bytes_max: Option<u32>,
}

impl MountOptions {
    /// Returns options for a file system of this type: writable, permissions checked by the kernel,
    /// for the mounting user only, without devices and set-user-ID.
    pub fn new(source: impl Into<String>, subtype: impl Into<String>) -> MountOptions {
        MountOptions {
            source: source.into(),
            subtype: subtype.into(),
            read_only: false,
            allow_other: false,
            default_permissions: true,
            allow_suid: false,
            allow_devices: false,
            read_bytes_max: None,
        }
    }

    /// Returns the options that mount(2) and `fusermount3` share, as text; each option has a comma
    /// in front.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (wanted, option) in
            [(self.allow_other, ",allow_other"), (self.default_permissions, ",default_permissions")]
        {
            text.push_str(if wanted { option } else { "" });
        }
        if let Some(bytes) = self.read_bytes_max {
            write!(text, ",max_read={bytes}").expect("a string takes all that is written");
        }
        text
    }

    /// Returns true if source and subtype are not empty and have only characters that can be passed
    /// to the kernel.
    pub(super) fn is_well_formed(&self) -> bool {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !self.subtype.is_empty()
            && self.subtype.bytes().all(plain)
            && !self.source.is_empty()
            && !self.source.contains('\0')
    }
}

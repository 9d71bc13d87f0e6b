//! Every option, declared once for its flag, its variable and its field in the file.

#![expect(clippy::doc_markdown, reason = "the texts are shown on terminals, as they are")]

use std::path::PathBuf;

use super::{
    CoherenceClass, Delay, DurabilityClass, Grace, LogFormat, Network, OpenIdRole, Owner,
    OwnershipClass, Size, Umask,
};

/// Reads a switch that is often set by a variable: `true`, `yes`, `on` and `1`, and their opposites.
fn boolish() -> clap::builder::BoolishValueParser {
    clap::builder::BoolishValueParser::new()
}

/// Declares groups of options for the command line, and one file that holds them all.
macro_rules! options {
    ($(
        $(#[doc = $group_doc:literal])*
        group $group:ident {
            $(
                $(#[doc = $doc:literal])*
                $(#[arg($($arg:tt)*)])?
                $name:ident: $type:ty = $variable:literal,
            )*
        }
    )*) => {
        $(
            $(#[doc = $group_doc])*
            #[derive(Clone, Debug, Default, PartialEq, clap::Args)]
            pub(crate) struct $group {
                $(
                    $(#[doc = $doc])*
                    #[arg(long, env = $variable, hide_env_values = true $(, $($arg)*)?)]
                    pub(crate) $name: Option<$type>,
                )*
            }

            impl $group {
                /// These options, and those of `weaker` where these are not set.
                pub(crate) fn or(self, weaker: $group) -> $group {
                    $group { $($name: self.$name.or(weaker.$name),)* }
                }

                /// What a file says about these options.
                pub(crate) fn from_file(file: &File) -> $group {
                    $group { $($name: file.$name.clone(),)* }
                }
            }
        )*

        /// The configuration file.
        #[derive(Clone, Debug, Default, PartialEq, serde::Deserialize, serde::Serialize)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct File {
            $($(
                $(#[doc = $doc])*
                #[serde(skip_serializing_if = "Option::is_none")]
                pub(crate) $name: Option<$type>,
            )*)*
        }

        /// Every option: its field in the file and its variable.
        #[cfg(test)]
        pub(crate) const ALL: &[(&str, &str)] = &[$($((stringify!($name), $variable),)*)*];
    };
}

options! {
    /// Where a volume lives, and how to speak about it.
    group Common {
        /// Where the metadata lives: sqlite:PATH, postgres://USER@HOST:PORT/DATABASE,
        /// mysql://USER@HOST:PORT/DATABASE, redis://HOST:PORT/?prefix=NAME, or memory:
        /// [default: sqlite:DATA_DIR/meta.db]
        #[arg(value_name = "URL", global = true)]
        meta: String = "ASHLAR_META",
        /// What an acknowledged change must survive: strict, a crash of the database's machine; or
        /// relaxed, what the database's own settings promise [default: strict]
        #[arg(value_name = "CLASS", global = true)]
        metadata_durability: DurabilityClass = "ASHLAR_METADATA_DURABILITY",
        /// How long a block is kept after the commit that freed it, longer than the metadata store
        /// may forget: a time such as 10s, or auto for 1m where the store's durability is relaxed
        /// and 0s elsewhere. Set it where a replica may take over before it has heard of every
        /// commit [default: auto]
        #[arg(value_name = "TIME", global = true)]
        deletion_grace: Grace = "ASHLAR_DELETION_GRACE",
        /// Where blocks live: file:PATH, memory:, or
        /// s3://BUCKET/PREFIX?endpoint=http://HOST:PORT&region=REGION [default: file:DATA_DIR/blocks]
        #[arg(value_name = "URL", global = true)]
        blocks: String = "ASHLAR_BLOCKS",
        /// What the gateway keeps on this machine [default: ashlar-data]
        #[arg(value_name = "DIR", global = true)]
        data_dir: PathBuf = "ASHLAR_DATA_DIR",
        /// The key under which users' secrets rest; made at the first start
        /// [default: DATA_DIR/master.key]
        #[arg(value_name = "FILE", global = true)]
        master_key_file: PathBuf = "ASHLAR_MASTER_KEY_FILE",
        /// What is logged: error, warn, info, debug, trace, or filters such as info,access=debug
        /// [default: info]
        #[arg(value_name = "LEVEL", global = true)]
        log: String = "ASHLAR_LOG",
        /// How log lines are written [default: text]
        #[arg(value_name = "FORMAT", global = true)]
        log_format: LogFormat = "ASHLAR_LOG_FORMAT",
    }

    /// How a process has a volume open.
    group Opening {
        /// The size of a block; fixed when a volume is made [default: 16MiB]
        #[arg(value_name = "SIZE")]
        block_bytes: Size = "ASHLAR_BLOCK_BYTES",
        /// The most that bodies in flight may hold in memory [default: 128MiB]
        #[arg(value_name = "SIZE")]
        memory_budget: Size = "ASHLAR_MEMORY_BUDGET",
        /// Bytes of small uploads that may be staged in the metadata store until they are put into
        /// blocks, of clients that send one at a time; 0 for none [default: 32MiB]
        #[arg(value_name = "SIZE")]
        staged_inline_bytes: Size = "ASHLAR_STAGED_INLINE_BYTES",
        /// Memory for the metadata of objects that a gateway remembers; 0 for none [default: 128MiB]
        #[arg(value_name = "SIZE")]
        record_cache_bytes: Size = "ASHLAR_RECORD_CACHE_BYTES",
        /// Whether a gateway that is the only one of its volume answers from that memory without
        /// asking the metadata store [default: true]
        #[arg(value_name = "BOOL")]
        authoritative_reads: bool = "ASHLAR_AUTHORITATIVE_READS",
        /// Memory for blocks that were read or just written; 0 for none
        /// [default: a sixteenth of what there is, 128MiB to 1GiB]
        #[arg(value_name = "SIZE")]
        cache_memory: Size = "ASHLAR_CACHE_MEMORY",
        /// The folder for blocks that left that memory; for this gateway alone
        /// [default: DATA_DIR/cache]
        #[arg(value_name = "DIR")]
        cache_dir: PathBuf = "ASHLAR_CACHE_DIR",
        /// What may lie in that folder, 64MiB or more; 0 for nothing [default: 0]
        #[arg(value_name = "SIZE")]
        cache_disk: Size = "ASHLAR_CACHE_DISK",
        /// Whether a place of blocks that lacks the mark of the volume is accepted and marked anew: for
        /// one start after the blocks were restored without it [default: false]
        #[arg(value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = boolish())]
        adopt_blocks: bool = "ASHLAR_ADOPT_BLOCKS",
    }

    /// How a volume is shown as files.
    group Mounting {
        /// Whether nothing may be changed through the mount [default: false]
        #[arg(value_name = "BOOL", visible_alias = "read-only", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
        mount_read_only: bool = "ASHLAR_MOUNT_READ_ONLY",
        /// The directory that is mounted, as BUCKET/PATH [default: the volume]
        #[arg(value_name = "BUCKET/PATH", visible_alias = "subdir")]
        mount_subdir: String = "ASHLAR_MOUNT_SUBDIR",
        /// Whether other users than the one who mounts may use the mount [default: false]
        #[arg(value_name = "BOOL", visible_alias = "allow-other", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
        mount_allow_other: bool = "ASHLAR_MOUNT_ALLOW_OTHER",
        /// The user that all files on the mount are shown as belonging to, and that owns the files made
        /// there: a number, or own for each file's own user [default: the user who mounts; own for root]
        #[arg(value_name = "NUMBER", visible_alias = "uid")]
        mount_uid: Owner = "ASHLAR_MOUNT_UID",
        /// The group that all files on the mount are shown as belonging to, and that owns the files made
        /// there: a number, or own for each file's own group [default: as mount_uid]
        #[arg(value_name = "NUMBER", visible_alias = "gid")]
        mount_gid: Owner = "ASHLAR_MOUNT_GID",
        /// The permissions, in octal, that nobody is shown to have on the mount; all others anybody has
        /// [default: each file's own permissions]
        #[arg(value_name = "OCTAL", visible_alias = "umask")]
        mount_umask: Umask = "ASHLAR_MOUNT_UMASK",
        /// Whether it is not noted when files are read through the mount [default: false]
        #[arg(value_name = "BOOL", visible_alias = "noatime", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
        mount_noatime: bool = "ASHLAR_MOUNT_NOATIME",
        /// How true what the kernel remembers is while others have the volume open [default: strict]
        #[arg(value_name = "CLASS")]
        coherence: CoherenceClass = "ASHLAR_COHERENCE",
        /// The most that programs may have written and that waits in memory [default: 128MiB]
        #[arg(value_name = "SIZE")]
        write_memory: Size = "ASHLAR_WRITE_MEMORY",
        /// How long programs wait while the metadata store or the blocks cannot be reached, before
        /// they are told of an error [default: 3600]
        #[arg(value_name = "SECONDS")]
        io_timeout_seconds: u64 = "ASHLAR_IO_TIMEOUT_SECONDS",
    }

    /// How the gateway serves.
    group Serving {
        /// Whether a new volume is made if --meta has none, though the data directory does not exist or
        /// belongs to another volume [default: false]
        #[arg(value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = boolish())]
        create: bool = "ASHLAR_CREATE",
        /// A folder on which the volume is mounted besides, as a file system
        #[arg(value_name = "DIR")]
        mount: PathBuf = "ASHLAR_MOUNT",
        /// The address of the S3 endpoint [default: 127.0.0.1:9700]
        #[arg(value_name = "HOST:PORT")]
        listen: String = "ASHLAR_LISTEN",
        /// The address of metrics and status, or off [default: 127.0.0.1:9701, or any free port if
        /// that one is taken]
        #[arg(value_name = "HOST:PORT")]
        admin_listen: String = "ASHLAR_ADMIN_LISTEN",
        /// A name by which metrics and status are asked for, besides addresses, localhost and the
        /// name in --admin-listen; may be repeated
        #[arg(value_name = "NAME", value_delimiter = ',')]
        admin_host: Vec<String> = "ASHLAR_ADMIN_HOST",
        /// The certificate chain in PEM; with it, the S3 endpoint speaks TLS
        #[arg(value_name = "FILE")]
        tls_cert: PathBuf = "ASHLAR_TLS_CERT",
        /// The certificate's private key in PEM
        #[arg(value_name = "FILE")]
        tls_key: PathBuf = "ASHLAR_TLS_KEY",
        /// The region that signatures name [default: us-east-1]
        #[arg(value_name = "NAME")]
        region: String = "ASHLAR_REGION",
        /// A domain below which buckets are host names; may be repeated
        #[arg(value_name = "DOMAIN", value_delimiter = ',')]
        domain: Vec<String> = "ASHLAR_DOMAIN",
        /// Whether URLs presigned with signature version 2 are accepted [default: true]
        #[arg(value_name = "BOOL")]
        sigv2_presign: bool = "ASHLAR_SIGV2_PRESIGN",
        /// Whom the objects of new buckets belong to, and whether access control lists count there,
        /// unless a bucket is made with another setting [default: BucketOwnerEnforced]
        #[arg(value_name = "CLASS")]
        default_object_ownership: OwnershipClass = "ASHLAR_DEFAULT_OBJECT_OWNERSHIP",
        /// How many seconds a day of lifecycle rules takes; anything else than 86400 is for tests of
        /// rules [default: 86400]
        #[arg(value_name = "SECONDS")]
        lifecycle_day: u64 = "ASHLAR_LIFECYCLE_DAY",
        /// Connections served at a time [default: 4096]
        #[arg(value_name = "COUNT")]
        connections_max: u32 = "ASHLAR_CONNECTIONS_MAX",
        /// Requests served at a time [default: 512]
        #[arg(value_name = "COUNT")]
        requests_max: u32 = "ASHLAR_REQUESTS_MAX",
        /// Connections of one host at a time [default: half of connections_max]
        #[arg(value_name = "COUNT")]
        host_connections_max: u32 = "ASHLAR_HOST_CONNECTIONS_MAX",
        /// Requests of one host at a time [default: half of requests_max]
        #[arg(value_name = "COUNT")]
        host_requests_max: u32 = "ASHLAR_HOST_REQUESTS_MAX",
        /// The address of a proxy that appends its client's to X-Forwarded-For, or a network of
        /// such, as 10.0.0.0/8; may be repeated
        #[arg(value_name = "ADDRESS", value_delimiter = ',')]
        trusted_proxy: Vec<Network> = "ASHLAR_TRUSTED_PROXY",
        /// How long the body of a request may stall before the request ends, and how long a client may
        /// take nothing of an answer that is in memory [default: 30]
        #[arg(value_name = "SECONDS")]
        body_timeout_seconds: u64 = "ASHLAR_BODY_TIMEOUT_SECONDS",
        /// How long a client may take nothing of an object that it downloads [default: 300]
        #[arg(value_name = "SECONDS")]
        answer_timeout_seconds: u64 = "ASHLAR_ANSWER_TIMEOUT_SECONDS",
        /// How long the gateway still accepts connections after SIGTERM, while its readiness check
        /// answers 503, so that load balancers stop sending clients: a time such as 10s. A second
        /// signal ends it [default: 0s]
        #[arg(value_name = "TIME")]
        shutdown_delay: Delay = "ASHLAR_SHUTDOWN_DELAY",
        /// How long requests under way may take to finish once the listener is closed [default: 30]
        #[arg(value_name = "SECONDS")]
        drain_timeout_seconds: u64 = "ASHLAR_DRAIN_TIMEOUT_SECONDS",
        /// An OpenID issuer and the role that its users get, as a table of TOML with `role`,
        /// `issuer`, `audience` and others; may be repeated, and the variable has one on each line
        #[arg(value_name = "TABLE", value_delimiter = '\n')]
        openid: Vec<OpenIdRole> = "ASHLAR_OPENID",
    }
}

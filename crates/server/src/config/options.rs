//! The table of options: each is declared once for its flag, its variable and its field in the
//! file.
//!
//! The documentation of an option is its `--help` text. For example, `block_bytes` is the field
//! `block_bytes`, the flag `--block-bytes` and the variable `ASHLAR_BLOCK_BYTES`.

#![expect(clippy::doc_markdown, reason = "the texts are shown on terminals, as they are")]
#![expect(clippy::struct_field_names, reason = "options of one command have its name before them")]

use std::net::SocketAddr;
use std::path::PathBuf;

use edge::Network;

use super::{
    AccessLogFormat, CoherenceClass, Delay, DurabilityClass, Grace, KmsPlace, LogFormat,
    OpenIdRole, Owner, OwnershipClass, Size, Umask,
};

/// Returns the parser of a switch that is often set by a variable. It accepts `true`, `yes`, `on`
/// and `1`, and their opposites.
fn boolish() -> clap::builder::BoolishValueParser {
    clap::builder::BoolishValueParser::new()
}

/// Declares groups of options for the command line, and the configuration file with the fields of
/// all groups.
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
                    // `--help` hides the values of variables, because the URL of a store can
                    // contain a password. There are no defaults of clap: an absent flag must not
                    // override the file.
                    #[arg(long, env = $variable, hide_env_values = true $(, $($arg)*)?)]
                    pub(crate) $name: Option<$type>,
                )*
            }

            impl $group {
                /// Returns these options, with the values of `weaker` for those that are not set.
                pub(crate) fn or(self, weaker: $group) -> $group {
                    $group { $($name: self.$name.or(weaker.$name),)* }
                }

                /// Returns the values that a configuration file gives to these options.
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

        /// All options: the field in the file and the variable of each.
        #[cfg(test)]
        pub(crate) const ALL: &[(&str, &str)] = &[$($((stringify!($name), $variable),)*)*];
    };
}

options! {
    /// The stores of a volume, and the log. Every command that opens a volume has these options.
    group Common {
        /// The metadata store: sqlite:PATH, postgres://USER@HOST:PORT,…/DATABASE,
        /// mysql://USER@HOST:PORT,…/DATABASE, redis://HOST:PORT/?prefix=NAME,
        /// redis+sentinel://SENTINEL:PORT,…/MASTER?prefix=NAME, etcd://HOST:PORT,…/NAME, or memory:
        /// [default: sqlite:DATA_DIR/meta.db]
        #[arg(value_name = "URL", global = true)]
        meta: String = "ASHLAR_META",
        /// The crash that an acknowledged change must survive. strict: a crash of the database's
        /// machine. relaxed: only the crashes that the database's own settings cover
        /// [default: strict]
        #[arg(value_name = "CLASS", global = true)]
        metadata_durability: DurabilityClass = "ASHLAR_METADATA_DURABILITY",
        /// Keep each block for this time after the commit that freed it. It must be longer than the
        /// time of commits that the metadata store can lose. auto: 1m if the store's durability is
        /// relaxed, else 0s. Set a time such as 10s if a replica may be promoted before it has
        /// received every commit [default: auto]
        #[arg(value_name = "TIME", global = true)]
        deletion_grace: Grace = "ASHLAR_DELETION_GRACE",
        /// The block store: file:PATH, memory:, or
        /// s3://BUCKET/PREFIX?endpoint=http://HOST:PORT&region=REGION [default:
        /// file:DATA_DIR/blocks]
        #[arg(value_name = "URL", global = true)]
        blocks: String = "ASHLAR_BLOCKS",
        /// The directory for the gateway's local files [default: ashlar-data]
        #[arg(value_name = "DIR", global = true)]
        data_dir: PathBuf = "ASHLAR_DATA_DIR",
        /// The file with the master key, which encrypts the users' secrets in the metadata store.
        /// The first start creates it [default: DATA_DIR/master.key]
        #[arg(value_name = "FILE", global = true)]
        master_key_file: PathBuf = "ASHLAR_MASTER_KEY_FILE",
        /// The file with the earlier master key, while the master key is replaced: from before
        /// `ashlar ring rewrap` until its end [default: none]
        #[arg(value_name = "FILE", global = true)]
        old_master_key_file: PathBuf = "ASHLAR_OLD_MASTER_KEY_FILE",
        /// The key management service for SSE-KMS: static:NAME=file:PATH,NAME=file:PATH or
        /// vault:URL or kes:URL [default: none]
        #[arg(value_name = "KMS", global = true)]
        kms: KmsPlace = "ASHLAR_KMS",
        /// The key of the KMS for content that is to be encrypted under a key of the KMS, if
        /// neither the request nor the bucket names one [default: none]
        #[arg(value_name = "NAME", global = true)]
        kms_default: String = "ASHLAR_KMS_DEFAULT",
        /// The file with the token for Vault [default: none]
        #[arg(value_name = "FILE", global = true)]
        kms_token_file: PathBuf = "ASHLAR_KMS_TOKEN_FILE",
        /// The id of the AppRole for Vault, if there is no token [default: none]
        #[arg(value_name = "ID", global = true)]
        kms_role: String = "ASHLAR_KMS_ROLE",
        /// The file with the secret id of the AppRole for Vault [default: none]
        #[arg(value_name = "FILE", global = true)]
        kms_secret_file: PathBuf = "ASHLAR_KMS_SECRET_FILE",
        /// The certificate authorities of the KMS, in PEM [default: those of the system]
        #[arg(value_name = "FILE", global = true)]
        kms_authorities_file: PathBuf = "ASHLAR_KMS_AUTHORITIES_FILE",
        /// The certificate of this process for KES, in PEM [default: none]
        #[arg(value_name = "FILE", global = true)]
        kms_certificate_file: PathBuf = "ASHLAR_KMS_CERTIFICATE_FILE",
        /// The private key of the certificate for KES, in PEM [default: none]
        #[arg(value_name = "FILE", global = true)]
        kms_key_file: PathBuf = "ASHLAR_KMS_KEY_FILE",
        /// The log level: error, warn, info, debug, trace, or filters such as info,access=debug
        /// [default: info]
        #[arg(value_name = "LEVEL", global = true)]
        log: String = "ASHLAR_LOG",
        /// The format of log lines [default: text]
        #[arg(value_name = "FORMAT", global = true)]
        log_format: LogFormat = "ASHLAR_LOG_FORMAT",
    }

    /// Memory, caches and blocks of a process that has a volume open.
    group Opening {
        /// The size of a block, 64KiB to 16MiB. A volume keeps the size that it was created with
        /// [default: 16MiB]
        #[arg(value_name = "SIZE")]
        block_bytes: Size = "ASHLAR_BLOCK_BYTES",
        /// The limit of memory for request and response bodies in flight, at least four blocks
        /// [default: 128MiB]
        #[arg(value_name = "SIZE")]
        memory_budget: Size = "ASHLAR_MEMORY_BUDGET",
        /// The limit of bytes of small uploads that are staged in the metadata store until they are
        /// moved into blocks. An upload is staged only if this process has had no concurrent
        /// uploads for a short time. 0 disables staging [default: 32MiB]
        #[arg(value_name = "SIZE")]
        staged_inline_bytes: Size = "ASHLAR_STAGED_INLINE_BYTES",
        /// The memory for cached metadata records; 0 disables the cache [default: 128MiB]
        #[arg(value_name = "SIZE")]
        record_cache_bytes: Size = "ASHLAR_RECORD_CACHE_BYTES",
        /// Answer reads from the record cache without a round trip to the metadata store while this
        /// is the only process of the volume, or has leases of all others [default: true]
        #[arg(value_name = "BOOL")]
        authoritative_reads: bool = "ASHLAR_AUTHORITATIVE_READS",
        /// Give leases to the other gateways and mounts of the volume, and take leases of them, so
        /// that all answer reads from their record caches. Processes of different machines need the
        /// same master key [default: true]
        #[arg(value_name = "BOOL")]
        peer_reads: bool = "ASHLAR_PEER_READS",
        /// The address for connections of gateways and mounts on other machines, for example
        /// 0.0.0.0:9703. Processes of one machine need none
        #[arg(value_name = "ADDRESS")]
        peer_listen: SocketAddr = "ASHLAR_PEER_LISTEN",
        /// The host and port that other machines connect to, if they differ from --peer-listen, for
        /// example behind NAT
        #[arg(value_name = "HOST:PORT")]
        peer_address: String = "ASHLAR_PEER_ADDRESS",
        /// The memory for cached blocks; 0 disables the memory cache
        /// [default: 1/16 of the machine's or container's memory, at least 128MiB, at most 1GiB]
        #[arg(value_name = "SIZE")]
        cache_memory: Size = "ASHLAR_CACHE_MEMORY",
        /// The directory of the disk cache, for this gateway alone [default: DATA_DIR/cache]
        #[arg(value_name = "DIR")]
        cache_dir: PathBuf = "ASHLAR_CACHE_DIR",
        /// The size of the disk cache, at least 64MiB; 0 disables the disk cache [default: 0]
        #[arg(value_name = "SIZE")]
        cache_disk: Size = "ASHLAR_CACHE_DISK",
        /// Accept a block store without the volume's mark, and write the mark. Use it for one start
        /// after the blocks were restored without the mark [default: false]
        #[arg(value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = boolish())]
        adopt_blocks: bool = "ASHLAR_ADOPT_BLOCKS",
        /// The length in seconds of a day of lifecycle rules. Values other than 86400 are for tests
        /// of rules [default: 86400]
        #[arg(value_name = "SECONDS", alias = "lifecycle-day")]
        lifecycle_day_seconds: u64 = "ASHLAR_LIFECYCLE_DAY_SECONDS",
    }

    /// A mount of the volume.
    group Mounting {
        /// Mount read-only [default: false]
        #[arg(value_name = "BOOL", visible_alias = "read-only", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
        mount_read_only: bool = "ASHLAR_MOUNT_READ_ONLY",
        /// Mount this directory instead of the whole volume [default: the volume]
        #[arg(value_name = "BUCKET/PATH", visible_alias = "subdir")]
        mount_subdir: String = "ASHLAR_MOUNT_SUBDIR",
        /// Allow other users than the one who mounts to use the mount [default: false]
        #[arg(value_name = "BOOL", visible_alias = "allow-other", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
        mount_allow_other: bool = "ASHLAR_MOUNT_ALLOW_OTHER",
        /// Show all files as owned by this user, and create files with it: a number, or own for
        /// each file's own user [default: the user who mounts; own for root]
        #[arg(value_name = "NUMBER", visible_alias = "uid")]
        mount_uid: Owner = "ASHLAR_MOUNT_UID",
        /// Show all files as owned by this group, and create files with it: a number, or own for
        /// each file's own group [default: the group of the user who mounts; own for root]
        #[arg(value_name = "NUMBER", visible_alias = "gid")]
        mount_gid: Owner = "ASHLAR_MOUNT_GID",
        /// Show all files with all permissions except these, in octal: 007 shows files as 660 and
        /// directories as 770 [default: each file's own permissions]
        #[arg(value_name = "OCTAL", visible_alias = "umask")]
        mount_umask: Umask = "ASHLAR_MOUNT_UMASK",
        /// Do not update access times when files are read [default: false]
        #[arg(value_name = "BOOL", visible_alias = "noatime", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
        mount_noatime: bool = "ASHLAR_MOUNT_NOATIME",
        /// The kernel's cache of names and attributes while other processes have the volume open.
        /// strict: it caches nothing. pushed: it caches for a second at most [default: strict]
        #[arg(value_name = "CLASS")]
        coherence: CoherenceClass = "ASHLAR_COHERENCE",
        /// The limit of memory for dirty data, at least 16MiB. Writers beyond it wait [default:
        /// 128MiB]
        #[arg(value_name = "SIZE")]
        write_memory: Size = "ASHLAR_WRITE_MEMORY",
        /// The time in seconds after which a file operation fails if a store is unreachable
        /// [default: 3600]
        #[arg(value_name = "SECONDS")]
        io_timeout_seconds: u64 = "ASHLAR_IO_TIMEOUT_SECONDS",
    }

    /// The access log and the listener for operators of `ashlar mount`. Those of `ashlar serve`
    /// have options of their own, so that both can run on one machine with one configuration file.
    group Watching {
        /// The access log: a file to which lines for the begin and the end of the mount are
        /// appended, or off. SIGHUP opens the file again [default: off]
        #[arg(value_name = "FILE", visible_alias = "access-log")]
        mount_access_log: String = "ASHLAR_MOUNT_ACCESS_LOG",
        /// The format of lines of the access log [default: json]
        #[arg(value_name = "FORMAT", visible_alias = "access-log-format")]
        mount_access_log_format: AccessLogFormat = "ASHLAR_MOUNT_ACCESS_LOG_FORMAT",
        /// The address of metrics, status and health checks, or off [default: off]
        #[arg(value_name = "HOST:PORT", visible_alias = "admin-listen")]
        mount_admin_listen: String = "ASHLAR_MOUNT_ADMIN_LISTEN",
        /// A host name that clients of metrics and status may use, in addition to addresses,
        /// localhost and the name in --admin-listen. Can be repeated
        #[arg(value_name = "NAME", value_delimiter = ',', visible_alias = "admin-host")]
        mount_admin_host: Vec<String> = "ASHLAR_MOUNT_ADMIN_HOST",
    }

    /// The listeners of a gateway, their limits, and its S3 settings.
    group Serving {
        /// Create a volume if --meta has none, even if the data directory does not exist or belongs
        /// to another volume [default: false]
        #[arg(value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = boolish())]
        create: bool = "ASHLAR_CREATE",
        /// Also mount the volume as a file system on this empty directory
        #[arg(value_name = "DIR")]
        mount: PathBuf = "ASHLAR_MOUNT",
        /// The address of the S3 endpoint [default: 127.0.0.1:9700]
        #[arg(value_name = "HOST:PORT")]
        listen: String = "ASHLAR_LISTEN",
        /// The address of metrics and status, or off [default: 127.0.0.1:9701, or any free port if
        /// that port is in use]
        #[arg(value_name = "HOST:PORT")]
        admin_listen: String = "ASHLAR_ADMIN_LISTEN",
        /// A host name that clients of metrics and status may use, in addition to addresses,
        /// localhost and the name in --admin-listen. Can be repeated
        #[arg(value_name = "NAME", value_delimiter = ',')]
        admin_host: Vec<String> = "ASHLAR_ADMIN_HOST",
        /// The address of the console and the administration API, or off [default: 127.0.0.1:9702,
        /// or any free port if that port is in use]
        #[arg(value_name = "HOST:PORT")]
        console_listen: String = "ASHLAR_CONSOLE_LISTEN",
        /// The URL of the console as browsers reach it, such as `https://console.example.com`. A
        /// browser that opens the S3 endpoint is redirected to it [default: none]
        #[arg(value_name = "URL")]
        console_url: String = "ASHLAR_CONSOLE_URL",
        /// A bucket that the start creates if it does not exist, such as photos or site:download.
        /// After the colon stands the access of clients without credentials: private, download,
        /// upload or public. Can be repeated
        #[arg(value_name = "BUCKET", value_delimiter = ',')]
        buckets: Vec<String> = "ASHLAR_BUCKETS",
        /// A TOML file that declares buckets, users, groups and policies, which the start puts in
        /// force
        #[arg(value_name = "FILE")]
        bootstrap: PathBuf = "ASHLAR_BOOTSTRAP",
        /// The number of buckets, in order of name, whose usage and quota are metrics, and the
        /// number of buckets with a label of their own in metrics of requests. 0 shows none
        /// [default: 100]
        #[arg(value_name = "COUNT")]
        bucket_metrics_max: u32 = "ASHLAR_BUCKET_METRICS_MAX",
        /// The access log: a file to which one line for each request is appended, - for standard
        /// output, or off. SIGHUP opens the file again [default: off]
        #[arg(value_name = "FILE")]
        access_log: String = "ASHLAR_ACCESS_LOG",
        /// The format of lines of the access log [default: json]
        #[arg(value_name = "FORMAT")]
        access_log_format: AccessLogFormat = "ASHLAR_ACCESS_LOG_FORMAT",
        /// The time in seconds after which the access logs of buckets are delivered into their
        /// target buckets [default: 60]
        #[arg(value_name = "SECONDS")]
        bucket_log_interval_seconds: u64 = "ASHLAR_BUCKET_LOG_INTERVAL_SECONDS",
        /// The certificate chain in PEM. With it, the S3 endpoint and the console use TLS
        #[arg(value_name = "FILE")]
        tls_cert: PathBuf = "ASHLAR_TLS_CERT",
        /// The certificate's private key in PEM
        #[arg(value_name = "FILE")]
        tls_key: PathBuf = "ASHLAR_TLS_KEY",
        /// The region that clients sign with [default: us-east-1]
        #[arg(value_name = "NAME")]
        region: String = "ASHLAR_REGION",
        /// A domain for virtual-hosted requests: its subdomains are bucket names. Can be repeated
        #[arg(value_name = "DOMAIN", value_delimiter = ',')]
        domain: Vec<String> = "ASHLAR_DOMAIN",
        /// Accept URLs that are presigned with signature version 2 [default: true]
        #[arg(value_name = "BOOL")]
        sigv2_presign: bool = "ASHLAR_SIGV2_PRESIGN",
        /// Accept keys of clients (SSE-C) without TLS. Clients on this machine, for example a proxy
        /// with TLS, may always send them so [default: false]
        #[arg(value_name = "BOOL")]
        sse_c_over_http: bool = "ASHLAR_SSE_C_OVER_HTTP",
        /// Serve the subset of MinIO's administration protocol that `mc admin` uses, at the S3
        /// endpoint below /minio/admin [default: true]
        #[arg(value_name = "BOOL")]
        minio_admin: bool = "ASHLAR_MINIO_ADMIN",
        /// The object ownership of new buckets whose CreateBucket request names none
        /// [default: BucketOwnerEnforced]
        #[arg(value_name = "CLASS")]
        default_object_ownership: OwnershipClass = "ASHLAR_DEFAULT_OBJECT_OWNERSHIP",
        /// The limit of connections [default: 4096]
        #[arg(value_name = "COUNT")]
        connections_max: u32 = "ASHLAR_CONNECTIONS_MAX",
        /// The limit of requests in flight [default: 512]
        #[arg(value_name = "COUNT")]
        requests_max: u32 = "ASHLAR_REQUESTS_MAX",
        /// The limit of connections of one host [default: half of --connections-max]
        #[arg(value_name = "COUNT")]
        host_connections_max: u32 = "ASHLAR_HOST_CONNECTIONS_MAX",
        /// The limit of requests in flight of one host [default: half of --requests-max]
        #[arg(value_name = "COUNT")]
        host_requests_max: u32 = "ASHLAR_HOST_REQUESTS_MAX",
        /// The address or network, such as 10.0.0.0/8, of proxies that append their client's
        /// address to X-Forwarded-For. Can be repeated
        #[arg(value_name = "ADDRESS", value_delimiter = ',')]
        trusted_proxy: Vec<Network> = "ASHLAR_TRUSTED_PROXY",
        /// The time in seconds after which a request fails if its client sends less than 1 KiB of
        /// body per second, or reads nothing of a response that is in memory [default: 30]
        #[arg(value_name = "SECONDS")]
        body_timeout_seconds: u64 = "ASHLAR_BODY_TIMEOUT_SECONDS",
        /// The time in seconds after which a download ends if its client reads nothing [default:
        /// 300]
        #[arg(value_name = "SECONDS")]
        download_timeout_seconds: u64 = "ASHLAR_DOWNLOAD_TIMEOUT_SECONDS",
        /// The time between SIGTERM and the close of the listener, such as 10s. The readiness check
        /// answers 503 meanwhile, so that load balancers send no new clients. A second signal ends
        /// it [default: 0s]
        #[arg(value_name = "TIME")]
        shutdown_delay: Delay = "ASHLAR_SHUTDOWN_DELAY",
        /// The time in seconds that requests in flight have to finish after the listener is closed
        /// [default: 30]
        #[arg(value_name = "SECONDS")]
        drain_timeout_seconds: u64 = "ASHLAR_DRAIN_TIMEOUT_SECONDS",
        /// An OpenID issuer and the role of its users: a TOML table with `role`, `issuer`,
        /// `audience` and other fields. Can be repeated; the variable has one table on each line
        #[arg(value_name = "TABLE", value_delimiter = '\n')]
        openid: Vec<OpenIdRole> = "ASHLAR_OPENID",
    }
}

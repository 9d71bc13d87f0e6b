//! Configuration: flags, environment variables and a file become checked settings.
//!
//! A flag overrides a variable, a variable overrides the file, and the file overrides the default.
//! All three sources have the same options, which the table in `options` declares once. `settle`
//! checks the values; the rest of the program sees only valid settings. For example,
//! `--requests-max 0` fails there, so the queues need not handle a limit of 0. Secrets are not
//! options: see `environment`.

mod choice;
mod console_url;
mod delay;
mod expires;
mod grace;
mod kms;
mod memory;
mod openid;
mod options;
mod owner;
mod place;
mod size;
mod umask;
mod watching;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use audit::LogSink;
use block::BLOCK_BYTES_DEFAULT;
use edge::{Network, TlsFiles};
use mountd::{MountParameters, ShownOwner};
use volume::{RECORD_CACHE_BYTES_DEFAULT, STAGED_INLINE_BYTES_DEFAULT};

pub(crate) use choice::{
    AccessLogFormat, CoherenceClass, DurabilityClass, ListenAt, LogFormat, OwnershipClass,
};
pub(crate) use delay::Delay;
pub(crate) use expires::Expires;
pub(crate) use grace::Grace;
pub(crate) use kms::{KmsPlace, KmsSettings};
pub(crate) use openid::{OpenIdLogin, OpenIdRole};
pub(crate) use options::{Common, File, Mounting, Opening, Serving, Watching};
pub(crate) use owner::Owner;
pub(crate) use place::{BlocksPlace, BucketPlace, MetaPlace, ServerKind, ServerPlace};
pub(crate) use size::Size;
pub(crate) use umask::Umask;
pub(crate) use watching::WatchSettings;

use problem::{Cause, Problem};

/// The default data directory, relative to the working directory.
pub(crate) const DATA_DIR_DEFAULT: &str = "ashlar-data";

/// The limit of buckets with metrics. Each has up to four time series.
const BUCKET_METRICS_LIMIT: u32 = 500;

/// The default address of metrics and status.
pub(crate) const ADMIN_LISTEN_DEFAULT: &str = "127.0.0.1:9701";

/// The default address of the console and the administration API.
pub(crate) const CONSOLE_LISTEN_DEFAULT: &str = "127.0.0.1:9702";

/// Least time for which freed blocks are kept if Sentinels may replace the metadata store: longer
/// than the 11 seconds of commits that a failover can lose with the recommended settings, with time
/// for the failover itself.
const FAILOVER_GRACE_MIN: Duration = Duration::from_secs(30);

/// The settings of each command that opens a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VolumeSettings {
    pub(crate) data_dir: PathBuf,
    pub(crate) meta: MetaPlace,
    pub(crate) metadata_durability: DurabilityClass,
    pub(crate) deletion_grace: Grace,
    pub(crate) blocks: BlocksPlace,
    pub(crate) master_key_file: PathBuf,
    /// The earlier master key, while the master key is replaced.
    pub(crate) old_master_key_file: Option<PathBuf>,
    pub(crate) kms: KmsSettings,
    pub(crate) log: String,
    pub(crate) log_format: LogFormat,
}

/// The settings of a process that serves a volume: a gateway or a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenSettings {
    pub(crate) block_bytes: Size,
    pub(crate) memory_budget: Size,
    pub(crate) staged_inline_bytes: Size,
    pub(crate) record_cache_bytes: Size,
    pub(crate) authoritative_reads: bool,
    /// True: the process gives leases to other processes of the volume, and takes leases of them.
    pub(crate) peer_reads: bool,
    /// The address for processes on other machines; `None` for none.
    pub(crate) peer_listen: Option<SocketAddr>,
    /// The address that other machines use instead of `peer_listen`.
    pub(crate) peer_address: Option<String>,
    pub(crate) cache_memory: Size,
    /// `None` is the folder `cache` in the data directory.
    pub(crate) cache_dir: Option<PathBuf>,
    pub(crate) cache_disk: Size,
    /// True: a block store without the volume's mark, the entry in it that names the volume, is
    /// accepted and marked.
    pub(crate) adopt_blocks: bool,
    /// The length of a day of lifecycle rules, in seconds.
    pub(crate) lifecycle_day_seconds: u64,
}

/// The settings of a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MountSettings {
    pub(crate) read_only: bool,
    /// The path of the mounted directory: the bucket and the names below it. Empty for the whole
    /// volume.
    pub(crate) subdir: Vec<String>,
    pub(crate) allow_other: bool,
    /// True: reads do not update access times.
    pub(crate) noatime: bool,
    /// The owner that all files are shown with. `None` is the user who mounts, or each file's own
    /// owner if that is root.
    pub(crate) uid: Option<Owner>,
    pub(crate) gid: Option<Owner>,
    /// The permission bits that no file is shown with. All other bits are shown for every file.
    /// `None` shows each file's own permissions.
    pub(crate) umask: Option<Umask>,
    pub(crate) coherence: CoherenceClass,
    pub(crate) write_memory: Size,
    pub(crate) io_timeout_seconds: u64,
}

impl MountSettings {
    /// Returns the settings in the form that the mount takes.
    pub(crate) fn parameters(&self) -> MountParameters {
        let shown = |owner: Option<Owner>| match owner {
            None => ShownOwner::Mounter,
            Some(Owner::Own) => ShownOwner::Own,
            Some(Owner::Number(number)) => ShownOwner::Number(number),
        };
        MountParameters {
            read_only: self.read_only,
            subdir: self.subdir.clone(),
            allow_other: self.allow_other,
            updates_atime: !self.noatime,
            uid: shown(self.uid),
            gid: shown(self.gid),
            umask: self.umask.map(|umask| umask.0),
            coherence: self.coherence.into(),
            write_memory: self.write_memory.0,
            io_timeout: Duration::from_secs(self.io_timeout_seconds),
        }
    }
}

/// The settings of `ashlar serve` alone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(crate) struct ServeSettings {
    /// True: a volume is created even if the data directory belongs to another one.
    pub(crate) create: bool,
    /// The directory on which the gateway mounts the volume, if any.
    pub(crate) mount: Option<PathBuf>,
    pub(crate) listen: String,
    pub(crate) admin_listen: ListenAt,
    /// Additional host names that the administrative listener accepts.
    pub(crate) admin_hosts: Vec<String>,
    /// The address of the console and the administration API.
    pub(crate) console_listen: ListenAt,
    /// The URL of the console as browsers reach it.
    pub(crate) console_url: Option<String>,
    /// Buckets to create at the start, each as `NAME` or `NAME:ACCESS`.
    pub(crate) buckets: Vec<String>,
    /// The file with declarations that the start puts in force.
    pub(crate) bootstrap: Option<PathBuf>,
    pub(crate) bucket_metrics_max: u32,
    pub(crate) access_log: LogSink,
    pub(crate) access_log_format: AccessLogFormat,
    pub(crate) bucket_log_interval_seconds: u64,
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) region: String,
    pub(crate) domains: Vec<String>,
    pub(crate) sigv2_presign: bool,
    /// True: keys of clients (SSE-C) are accepted without TLS.
    pub(crate) sse_c_over_http: bool,
    /// True if the S3 endpoint serves MinIO's administration protocol.
    pub(crate) minio_admin: bool,
    pub(crate) default_object_ownership: OwnershipClass,
    pub(crate) connections_max: u32,
    pub(crate) requests_max: u32,
    pub(crate) host_connections_max: u32,
    pub(crate) host_requests_max: u32,
    pub(crate) trusted_proxies: Vec<Network>,
    pub(crate) body_timeout_seconds: u64,
    pub(crate) download_timeout_seconds: u64,
    /// The time between the signal to stop and the close of the listener.
    pub(crate) shutdown_delay: Delay,
    pub(crate) drain_timeout_seconds: u64,
    pub(crate) openid: Vec<OpenIdRole>,
}

impl File {
    /// Reads a configuration file. Fails for an unknown field, which is usually a misspelt one.
    pub(crate) fn read(path: &Path) -> Result<File, Problem> {
        let doing = || format!("read the configuration in {}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| {
            Problem::new(doing(), error)
                .remedy("--config (ASHLAR_CONFIG) must be a TOML file that this user can read")
        })?;
        File::parse(&text).map_err(|wrong| {
            Problem::new(doing(), wrong).remedy("config/default.toml lists every field")
        })
    }

    /// Parses a configuration. The error is one line with the number of the wrong line.
    pub(crate) fn parse(text: &str) -> Result<File, String> {
        toml::from_str(text).map_err(|error: toml::de::Error| {
            let line = error.span().map_or(1, |span| {
                text.as_bytes().iter().take(span.start).filter(|&&byte| byte == b'\n').count() + 1
            });
            format!("line {line}: {}", error.message().replace('\n', " "))
        })
    }
}

impl Common {
    /// Returns the settings in force of a command that opens a volume.
    pub(crate) fn settle(self, file: &File) -> Result<VolumeSettings, Problem> {
        let common = self.or(Common::from_file(file));
        let data_dir = common.data_dir.filter(|path| !path.as_os_str().is_empty());
        let data_dir = data_dir.unwrap_or_else(|| PathBuf::from(DATA_DIR_DEFAULT));
        let meta = match text(common.meta) {
            Some(url) => MetaPlace::parse(&url)?,
            None => MetaPlace::default_in(&data_dir),
        };
        // The default stores and the master key are below the data directory, so that one option
        // moves all local files.
        let blocks = match text(common.blocks) {
            Some(url) => BlocksPlace::parse(&url)?,
            None => BlocksPlace::Folder(data_dir.join("blocks")),
        };
        let file = |path: Option<PathBuf>| path.filter(|path| !path.as_os_str().is_empty());
        let master_key_file = file(common.master_key_file);
        let kms = KmsSettings {
            place: common.kms,
            default: text(common.kms_default).map(|name| kms::default_key(&name)).transpose()?,
            token_file: file(common.kms_token_file),
            role: text(common.kms_role),
            secret_file: file(common.kms_secret_file),
            authorities_file: file(common.kms_authorities_file),
            certificate_file: file(common.kms_certificate_file),
            key_file: file(common.kms_key_file),
        };
        let settings = VolumeSettings {
            meta,
            metadata_durability: common.metadata_durability.unwrap_or_default(),
            deletion_grace: common.deletion_grace.unwrap_or_default(),
            blocks,
            master_key_file: master_key_file.unwrap_or_else(|| data_dir.join("master.key")),
            old_master_key_file: file(common.old_master_key_file),
            kms,
            log: text(common.log).unwrap_or_else(|| "info".to_owned()),
            log_format: common.log_format.unwrap_or_default(),
            data_dir,
        };
        settings.check()?;
        Ok(settings)
    }
}

impl VolumeSettings {
    /// Fails if Sentinels may replace the metadata store by a server that has not received all
    /// commits, and the settings do not allow for that.
    fn check(&self) -> Result<(), Problem> {
        let MetaPlace::Server(server) = &self.meta else { return Ok(()) };
        if !server.has_sentinels() {
            return Ok(());
        }
        let problem = |wrong: &str, remedy: String| {
            let doing = format!("use the metadata store {server}");
            Err(Problem::new(doing, wrong).remedy(remedy).because(Cause::Settings))
        };
        if self.metadata_durability != DurabilityClass::Relaxed {
            return problem(
                "Redis replication does not wait, so that a failover by Sentinels loses the last \
                 moments of what was acknowledged",
                "--metadata-durability=relaxed accepts that".to_owned(),
            );
        }
        if self.deletion_grace.given().is_some_and(|grace| grace < FAILOVER_GRACE_MIN) {
            let least = humantime::format_duration(FAILOVER_GRACE_MIN);
            return problem(
                "a failover by Sentinels can bring back records that name freed blocks, and these \
                 must still exist",
                format!("set --deletion-grace to {least} or more, or to auto, which is 1m here"),
            );
        }
        Ok(())
    }
}

impl Opening {
    /// Returns the settings in force of a process that serves a volume.
    pub(crate) fn settle(self, file: &File) -> Result<OpenSettings, Problem> {
        let opening = self.or(Opening::from_file(file));
        let present = |path: &PathBuf| !path.as_os_str().is_empty();
        let settings = OpenSettings {
            block_bytes: opening.block_bytes.unwrap_or(Size(BLOCK_BYTES_DEFAULT.into())),
            memory_budget: opening.memory_budget.unwrap_or(Size::mebibytes(128)),
            staged_inline_bytes: opening
                .staged_inline_bytes
                .unwrap_or(Size(STAGED_INLINE_BYTES_DEFAULT)),
            record_cache_bytes: opening
                .record_cache_bytes
                .unwrap_or(Size(RECORD_CACHE_BYTES_DEFAULT)),
            authoritative_reads: opening.authoritative_reads.unwrap_or(true),
            peer_reads: opening.peer_reads.unwrap_or(true),
            peer_listen: opening.peer_listen,
            peer_address: text(opening.peer_address),
            cache_memory: opening.cache_memory.unwrap_or_else(memory::cache_default),
            cache_dir: opening.cache_dir.filter(present),
            cache_disk: opening.cache_disk.unwrap_or(Size::mebibytes(0)),
            adopt_blocks: opening.adopt_blocks.unwrap_or(false),
            lifecycle_day_seconds: opening.lifecycle_day_seconds.unwrap_or(86_400),
        };
        settings.check()?;
        Ok(settings)
    }
}

impl OpenSettings {
    /// Fails if a value is out of range.
    fn check(&self) -> Result<(), Problem> {
        // The block size first, because the minimum of the budget depends on it.
        at_least(&[
            ("block_bytes", self.block_bytes.0, 64 << 10),
            ("lifecycle_day_seconds", self.lifecycle_day_seconds, 1),
        ])?;
        if self.block_bytes.0 > 16 << 20 {
            let wrong = format!("{} is more than 16 MiB", self.block_bytes.0);
            return Err(Problem::new("use the option block_bytes", wrong));
        }
        at_least(&[("memory_budget", self.memory_budget.0, 4 * self.block_bytes.0)])?;
        if (1..cache::DISK_BYTES_MIN).contains(&self.cache_disk.0) {
            let wrong =
                format!("{} is neither 0 nor {} or more", self.cache_disk.0, cache::DISK_BYTES_MIN);
            return Err(Problem::new("use the option cache_disk", wrong));
        }
        Ok(())
    }
}

impl Mounting {
    /// Returns the settings in force of a mount.
    pub(crate) fn settle(self, file: &File) -> Result<MountSettings, Problem> {
        let mounting = self.or(Mounting::from_file(file));
        let subdir = text(mounting.mount_subdir).unwrap_or_default();
        // Slashes at the ends and doubled ones give empty names, which are ignored.
        let names = subdir.split('/').filter(|name| !name.is_empty()).map(str::to_owned);
        let settings = MountSettings {
            read_only: mounting.mount_read_only.unwrap_or(false),
            subdir: names.collect(),
            allow_other: mounting.mount_allow_other.unwrap_or(false),
            noatime: mounting.mount_noatime.unwrap_or(false),
            uid: mounting.mount_uid,
            gid: mounting.mount_gid,
            umask: mounting.mount_umask,
            coherence: mounting.coherence.unwrap_or_default(),
            write_memory: mounting.write_memory.unwrap_or(Size::mebibytes(128)),
            io_timeout_seconds: mounting.io_timeout_seconds.unwrap_or(3_600),
        };
        at_least(&[("write_memory", settings.write_memory.0, 16 << 20)])?;
        Ok(settings)
    }
}

/// Fails if a value is below its minimum. Each item is the option, its value and its minimum.
fn at_least(options: &[(&str, u64, u64)]) -> Result<(), Problem> {
    for (name, value, least) in options {
        if value < least {
            let wrong = format!("{value} is less than {least}");
            return Err(Problem::new(format!("use the option {name}"), wrong));
        }
    }
    Ok(())
}

impl Serving {
    /// Returns the settings in force of `ashlar serve`.
    pub(crate) fn settle(self, file: &File) -> Result<ServeSettings, Problem> {
        let serving = self.or(Serving::from_file(file));
        let present = |path: &PathBuf| !path.as_os_str().is_empty();
        let (cert, key) = (serving.tls_cert.filter(present), serving.tls_key.filter(present));
        let tls = match (cert, key) {
            (Some(cert), Some(key)) => Some(TlsFiles { cert, key }),
            (None, None) => None,
            // With one of both files the operator wants TLS, so a start without TLS would be
            // unsafe.
            _ => {
                let wrong = "only one of the certificate and its key is given";
                return Err(Problem::new("serve TLS", wrong)
                    .remedy("give both --tls-cert and --tls-key, or neither"));
            }
        };
        let admin_listen = ListenAt::parse(serving.admin_listen.as_deref());
        let console_listen = ListenAt::parse(serving.console_listen.as_deref());
        // clap splits an empty variable into one empty item, which means none.
        let named = |names: Option<Vec<String>>| -> Vec<String> {
            names.unwrap_or_default().into_iter().filter(|name| !name.is_empty()).collect()
        };
        let connections_max = serving.connections_max.unwrap_or(4096);
        let requests_max = serving.requests_max.unwrap_or(512);
        // Half of each limit, so that one host leaves as much to all others.
        let half = |all: u32| all.div_ceil(2);
        let settings = ServeSettings {
            create: serving.create.unwrap_or(false),
            mount: serving.mount.filter(present),
            listen: text(serving.listen).unwrap_or_else(|| "127.0.0.1:9700".to_owned()),
            admin_listen,
            console_listen,
            console_url: text(serving.console_url),
            admin_hosts: named(serving.admin_host),
            buckets: named(serving.buckets),
            bootstrap: serving.bootstrap.filter(present),
            bucket_metrics_max: serving.bucket_metrics_max.unwrap_or(100),
            access_log: LogSink::parse(&serving.access_log.unwrap_or_default()),
            access_log_format: serving.access_log_format.unwrap_or_default(),
            bucket_log_interval_seconds: serving.bucket_log_interval_seconds.unwrap_or(60),
            tls,
            region: text(serving.region).unwrap_or_else(|| "us-east-1".to_owned()),
            domains: named(serving.domain),
            sigv2_presign: serving.sigv2_presign.unwrap_or(true),
            sse_c_over_http: serving.sse_c_over_http.unwrap_or(false),
            minio_admin: serving.minio_admin.unwrap_or(true),
            default_object_ownership: serving.default_object_ownership.unwrap_or_default(),
            connections_max,
            requests_max,
            host_connections_max: serving.host_connections_max.unwrap_or(half(connections_max)),
            host_requests_max: serving.host_requests_max.unwrap_or(half(requests_max)),
            trusted_proxies: serving.trusted_proxy.unwrap_or_default(),
            body_timeout_seconds: serving.body_timeout_seconds.unwrap_or(30),
            download_timeout_seconds: serving.download_timeout_seconds.unwrap_or(300),
            shutdown_delay: serving.shutdown_delay.unwrap_or_default(),
            drain_timeout_seconds: serving.drain_timeout_seconds.unwrap_or(30),
            openid: serving.openid.unwrap_or_default(),
        };
        settings.check()?;
        Ok(settings)
    }
}

impl ServeSettings {
    /// Fails if a value is out of range.
    fn check(&self) -> Result<(), Problem> {
        let least = [
            ("connections_max", u64::from(self.connections_max), 1),
            ("requests_max", u64::from(self.requests_max), 1),
            ("host_connections_max", u64::from(self.host_connections_max), 1),
            ("host_requests_max", u64::from(self.host_requests_max), 1),
            ("body_timeout_seconds", self.body_timeout_seconds, 1),
            ("bucket_log_interval_seconds", self.bucket_log_interval_seconds, 1),
            ("download_timeout_seconds", self.download_timeout_seconds, 1),
        ];
        at_least(&least)?;
        if self.bucket_metrics_max > BUCKET_METRICS_LIMIT {
            let wrong = format!("{} is more than {BUCKET_METRICS_LIMIT}", self.bucket_metrics_max);
            return Err(Problem::new("use the option bucket_metrics_max", wrong));
        }
        if let Some(url) = &self.console_url {
            console_url::check(url)?;
        }
        openid::check(&self.openid)
    }
}

/// Returns the settings in force as a configuration file with the same effect.
#[expect(clippy::too_many_lines, reason = "one line for each setting")]
pub(crate) fn in_force(
    volume: &VolumeSettings,
    open: &OpenSettings,
    mount: &MountSettings,
    serve: &ServeSettings,
) -> File {
    File {
        meta: Some(volume.meta.to_string()),
        metadata_durability: Some(volume.metadata_durability),
        deletion_grace: Some(volume.deletion_grace),
        blocks: Some(volume.blocks.to_string()),
        data_dir: Some(volume.data_dir.clone()),
        master_key_file: Some(volume.master_key_file.clone()),
        old_master_key_file: volume.old_master_key_file.clone(),
        kms: volume.kms.place.clone(),
        kms_default: volume.kms.default.as_ref().map(ToString::to_string),
        kms_token_file: volume.kms.token_file.clone(),
        kms_role: volume.kms.role.clone(),
        kms_secret_file: volume.kms.secret_file.clone(),
        kms_authorities_file: volume.kms.authorities_file.clone(),
        kms_certificate_file: volume.kms.certificate_file.clone(),
        kms_key_file: volume.kms.key_file.clone(),
        log: Some(volume.log.clone()),
        log_format: Some(volume.log_format),
        mount_read_only: Some(mount.read_only),
        mount_subdir: Some(mount.subdir.join("/")),
        mount_allow_other: Some(mount.allow_other),
        mount_noatime: Some(mount.noatime),
        mount_uid: mount.uid,
        mount_gid: mount.gid,
        mount_umask: mount.umask,
        coherence: Some(mount.coherence),
        write_memory: Some(mount.write_memory),
        io_timeout_seconds: Some(mount.io_timeout_seconds),
        create: Some(serve.create),
        mount: serve.mount.clone(),
        listen: Some(serve.listen.clone()),
        // The default is absent, because it has a second choice that no address expresses: a free
        // port.
        admin_listen: serve.admin_listen.text(),
        console_listen: serve.console_listen.text(),
        console_url: serve.console_url.clone(),
        admin_host: Some(serve.admin_hosts.clone()),
        buckets: Some(serve.buckets.clone()),
        bootstrap: serve.bootstrap.clone(),
        bucket_metrics_max: Some(serve.bucket_metrics_max),
        access_log: Some(serve.access_log.to_string()),
        access_log_format: Some(serve.access_log_format),
        bucket_log_interval_seconds: Some(serve.bucket_log_interval_seconds),
        tls_cert: serve.tls.as_ref().map(|tls| tls.cert.clone()),
        tls_key: serve.tls.as_ref().map(|tls| tls.key.clone()),
        region: Some(serve.region.clone()),
        domain: Some(serve.domains.clone()),
        sigv2_presign: Some(serve.sigv2_presign),
        sse_c_over_http: Some(serve.sse_c_over_http),
        minio_admin: Some(serve.minio_admin),
        default_object_ownership: Some(serve.default_object_ownership),
        lifecycle_day_seconds: Some(open.lifecycle_day_seconds),
        block_bytes: Some(open.block_bytes),
        memory_budget: Some(open.memory_budget),
        staged_inline_bytes: Some(open.staged_inline_bytes),
        record_cache_bytes: Some(open.record_cache_bytes),
        authoritative_reads: Some(open.authoritative_reads),
        peer_reads: Some(open.peer_reads),
        peer_listen: open.peer_listen,
        peer_address: open.peer_address.clone(),
        cache_memory: Some(open.cache_memory),
        cache_dir: open.cache_dir.clone(),
        cache_disk: Some(open.cache_disk),
        adopt_blocks: Some(open.adopt_blocks),
        connections_max: Some(serve.connections_max),
        requests_max: Some(serve.requests_max),
        host_connections_max: Some(serve.host_connections_max),
        host_requests_max: Some(serve.host_requests_max),
        trusted_proxy: Some(serve.trusted_proxies.clone()),
        body_timeout_seconds: Some(serve.body_timeout_seconds),
        download_timeout_seconds: Some(serve.download_timeout_seconds),
        shutdown_delay: Some(serve.shutdown_delay),
        drain_timeout_seconds: Some(serve.drain_timeout_seconds),
        openid: Some(serve.openid.clone()),
        mount_access_log: None,
        mount_access_log_format: None,
        mount_admin_listen: None,
        mount_admin_host: None,
    }
}

/// Returns `None` for an empty text: a compose file can unset a variable only by an empty value.
fn text(value: Option<String>) -> Option<String> {
    value.filter(|text| !text.is_empty())
}

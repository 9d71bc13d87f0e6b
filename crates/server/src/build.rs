//! The build of this program: its version, its commit, and the parts that it contains.

/// The version. A release passes it to the compiler in `ASHLAR_BUILD_VERSION`.
pub(crate) const VERSION: &str = match option_env!("ASHLAR_BUILD_VERSION") {
    // A build argument without a value is an empty variable.
    Some(version) if !version.is_empty() => version,
    _ => env!("CARGO_PKG_VERSION"),
};

/// The commit of the sources, if the build has passed it in `ASHLAR_BUILD_COMMIT`.
pub(crate) const COMMIT: Option<&str> = match option_env!("ASHLAR_BUILD_COMMIT") {
    Some(commit) if !commit.is_empty() => Some(commit),
    _ => None,
};

/// The metadata engines that a build can contain, each with true if this one does.
const ENGINES: [(&str, bool); 4] = [
    ("mysql", cfg!(feature = "mysql")),
    ("postgres", cfg!(feature = "postgres")),
    ("redis", cfg!(feature = "redis")),
    ("sqlite", cfg!(feature = "sqlite")),
];

/// Returns the metadata engines that this program contains, in alphabetical order.
pub(crate) fn engines() -> Vec<&'static str> {
    ENGINES.into_iter().filter_map(|(name, is_built)| is_built.then_some(name)).collect()
}

/// Returns the features of cargo that this program was built with, in alphabetical order.
pub(crate) fn features() -> Vec<&'static str> {
    let allocator = cfg!(feature = "jemalloc").then_some("jemalloc");
    allocator.into_iter().chain(engines()).collect()
}

//! The variables of MinIO that have an equivalent, so that the environment of a MinIO container
//! starts a gateway.
//!
//! For example, `MINIO_ADDRESS=:9000` stands for `--listen 0.0.0.0:9000`. A variable of MinIO is
//! weaker than the flag, the `ASHLAR_` variable and the field of the configuration file with the
//! same meaning; it only replaces the default. The log has one line for each variable. The root
//! credentials are not among them: see `credentials`.

use std::path::{Path, PathBuf};

use problem::{Cause, Problem};

use crate::config::{Common, Serving};
use crate::environment::variable;

/// The entry with which MinIO marks its drives.
const DRIVE_MARK: &str = ".minio.sys";

/// The values of MinIO's variables.
#[derive(Clone, Debug, Default)]
pub(crate) struct MinioVariables {
    /// `MINIO_ADDRESS`.
    address: Option<String>,
    /// `MINIO_CONSOLE_ADDRESS`.
    console_address: Option<String>,
    /// `MINIO_BROWSER`.
    browser: Option<String>,
    /// `MINIO_BROWSER_REDIRECT_URL`.
    redirect_url: Option<String>,
    /// `MINIO_SITE_REGION`, or `MINIO_REGION` of older releases, with the name of the variable.
    region: Option<(&'static str, String)>,
    /// `MINIO_DOMAIN`.
    domain: Option<String>,
    /// `MINIO_DEFAULT_BUCKETS`, which only some images have.
    default_buckets: Option<String>,
    /// `MINIO_VOLUMES`.
    volumes: Option<String>,
    /// `MINIO_PROMETHEUS_AUTH_TYPE`.
    prometheus_auth_type: Option<String>,
}

/// A variable that was found, with its effect, as a line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The variable.
    pub(crate) variable: &'static str,
    /// The effect, as a phrase: for example `stands for --listen 0.0.0.0:9000`.
    pub(crate) effect: String,
}

impl Found {
    fn taken(variable: &'static str, option: &str, value: &str) -> Found {
        Found { variable, effect: format!("stands for {option} {value}") }
    }

    fn ignored(variable: &'static str, option: &str) -> Found {
        Found { variable, effect: format!("has no effect, because {option} is set") }
    }

    /// Writes the line of the log.
    pub(crate) fn log(&self) {
        tracing::info!(variable = self.variable, effect = self.effect, "found a variable of MinIO");
    }
}

impl MinioVariables {
    /// Reads the variables from the environment. Fails if one is not UTF-8.
    pub(crate) fn read() -> Result<MinioVariables, Problem> {
        MinioVariables::from(variable).map_err(|problem| problem.because(Cause::Settings))
    }

    /// Reads the variables with `value`, which returns `None` for an unset or empty one.
    fn from(
        value: impl Fn(&str) -> Result<Option<String>, Problem>,
    ) -> Result<MinioVariables, Problem> {
        let named = |name: &'static str| Ok(value(name)?.map(|value| (name, value)));
        let region = match named("MINIO_SITE_REGION")? {
            None => named("MINIO_REGION")?,
            found => found,
        };
        Ok(MinioVariables {
            address: value("MINIO_ADDRESS")?,
            console_address: value("MINIO_CONSOLE_ADDRESS")?,
            browser: value("MINIO_BROWSER")?,
            redirect_url: value("MINIO_BROWSER_REDIRECT_URL")?,
            region,
            domain: value("MINIO_DOMAIN")?,
            default_buckets: value("MINIO_DEFAULT_BUCKETS")?,
            volumes: value("MINIO_VOLUMES")?,
            prometheus_auth_type: value("MINIO_PROMETHEUS_AUTH_TYPE")?,
        })
    }

    /// Adds the data directory to options that have none. The folder of `MINIO_VOLUMES` becomes the
    /// data directory if it is one local folder that is no drive of MinIO.
    pub(crate) fn common(&self, mut options: Common) -> Common {
        if let Some(Ok(folder)) = self.volumes.as_deref().map(usable_folder)
            && is_unset(options.data_dir.as_deref())
        {
            options.data_dir = Some(folder);
        }
        options
    }

    /// Fails if `MINIO_VOLUMES` names places that a gateway cannot use and `options` has no data
    /// directory. Returns the line of the log otherwise.
    pub(crate) fn check_volumes(&self, options: &Common) -> Result<Option<Found>, Problem> {
        let Some(volumes) = &self.volumes else { return Ok(None) };
        let (name, option) = ("MINIO_VOLUMES", "--data-dir");
        if !is_unset(options.data_dir.as_deref()) {
            return Ok(Some(Found::ignored(name, option)));
        }
        match usable_folder(volumes) {
            Ok(folder) => Ok(Some(Found::taken(name, option, &folder.display().to_string()))),
            Err(wrong) => Err(Problem::new(format!("use MINIO_VOLUMES={volumes}"), wrong)
                .remedy(
                    "give the place of the volume with --data-dir (ASHLAR_DATA_DIR), --meta and \
                     --blocks, or unset the variable",
                )
                .because(Cause::Settings)),
        }
    }

    /// Adds values to options that are not set. Also returns a line of the log for each variable.
    pub(crate) fn serving(&self, mut options: Serving) -> (Serving, Vec<Found>) {
        let mut found = Vec::new();
        let mut text = |variable, option, field: &mut Option<String>, value: Option<String>| {
            let Some(value) = value else { return };
            if field.as_ref().is_some_and(|text| !text.is_empty()) {
                found.push(Found::ignored(variable, option));
            } else {
                found.push(Found::taken(variable, option, &value));
                *field = Some(value);
            }
        };
        text(
            "MINIO_ADDRESS",
            "--listen",
            &mut options.listen,
            self.address.as_deref().map(address),
        );
        // A browser that is off has no console, at no address.
        let is_off = self.browser.as_deref().is_some_and(|it| it.eq_ignore_ascii_case("off"));
        let off = is_off.then(|| "off".to_owned());
        text("MINIO_BROWSER", "--console-listen", &mut options.console_listen, off);
        let console = self.console_address.as_deref().map(address);
        text("MINIO_CONSOLE_ADDRESS", "--console-listen", &mut options.console_listen, console);
        let url = self.redirect_url.clone();
        text("MINIO_BROWSER_REDIRECT_URL", "--console-url", &mut options.console_url, url);
        if let Some((variable, region)) = &self.region {
            text(variable, "--region", &mut options.region, Some(region.clone()));
        }
        let mut list = |variable, option, field: &mut Option<Vec<String>>, values: Vec<String>| {
            if values.is_empty() {
                return;
            }
            if field.as_ref().is_some_and(|list| list.iter().any(|item| !item.is_empty())) {
                found.push(Found::ignored(variable, option));
            } else {
                found.push(Found::taken(variable, option, &values.join(",")));
                *field = Some(values);
            }
        };
        list("MINIO_DOMAIN", "--domain", &mut options.domain, items(self.domain.as_deref()));
        let buckets = items(self.default_buckets.as_deref());
        list("MINIO_DEFAULT_BUCKETS", "--buckets", &mut options.buckets, buckets);
        if self.prometheus_auth_type.is_some() {
            let effect =
                "has no effect: metrics are at --admin-listen, which has no login".to_owned();
            found.push(Found { variable: "MINIO_PROMETHEUS_AUTH_TYPE", effect });
        }
        (options, found)
    }
}

/// Returns true if a path is not given. An empty one means the default.
fn is_unset(path: Option<&Path>) -> bool {
    path.is_none_or(|path| path.as_os_str().is_empty())
}

/// Returns an address with a host: MinIO's `:9000` is port 9000 of every address of the machine.
fn address(text: &str) -> String {
    if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.to_owned() }
}

/// Returns the items of a list, which commas, semicolons or spaces separate.
fn items(text: Option<&str>) -> Vec<String> {
    let separated = text.unwrap_or_default().split([',', ';', ' ']);
    separated.filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

/// Returns the one local folder of `MINIO_VOLUMES`. Fails with the reason if it names other places,
/// or a drive with data of MinIO.
fn usable_folder(volumes: &str) -> Result<PathBuf, &'static str> {
    let volumes = volumes.trim();
    if volumes.contains("://") {
        return Err(
            "it names servers, and a gateway keeps its volume in a metadata store and a block \
                    store",
        );
    }
    if volumes.contains([' ', ',']) || volumes.contains("...") {
        return Err("it names several drives, and a gateway has one data directory");
    }
    let folder = PathBuf::from(volumes);
    if folder.join(DRIVE_MARK).exists() {
        return Err("the folder is a drive of MinIO, whose format a gateway does not read");
    }
    Ok(folder)
}

#[cfg(test)]
mod tests;

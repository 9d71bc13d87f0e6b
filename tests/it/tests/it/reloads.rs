//! SIGHUP: each part of the settings is loaded again, and a wrong one leaves the previous one in
//! force.

use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;

use crate::servers::{Blocks, Gateway, Setup, wait_for};

const PATIENCE: Duration = Duration::from_secs(20);

/// Writes the configuration, sends SIGHUP, and returns the new part of the log when it has a line
/// with this text.
#[track_caller]
fn reload(gateway: &Gateway, config: &Path, text: &str, expected: &str) -> String {
    std::fs::write(config, text).expect("a configuration");
    let before = gateway.log().len();
    gateway.child.signal(Signal::HUP);
    let mut said = String::new();
    let arrives = wait_for(PATIENCE, || {
        gateway.log()[before..].clone_into(&mut said);
        said.contains(expected)
    });
    assert!(arrives, "{expected:?} is not in the log:\n{said}");
    said
}

#[test]
fn sighup_changes_the_log_level_and_keeps_it_if_the_file_is_wrong() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("ashlar.toml");
    std::fs::write(&config, "log = \"info\"\n").expect("a configuration");
    let path = config.display().to_string();
    let setup = Setup::new(folder.path(), Blocks::Folder).more_options(&["--config", &path]);
    let gateway = setup.start();
    let logs_requests = || {
        let before = gateway.log().len();
        let id = gateway.client.get("/").expect(200).header("x-amz-request-id").to_owned();
        // The line is written before the end of the response has arrived, or shortly after.
        wait_for(Duration::from_secs(1), || gateway.log()[before..].contains(&id))
    };
    assert!(!logs_requests());
    reload(&gateway, &config, "log = \"info,access=debug\"\n", "changed the log level");
    assert!(logs_requests(), "{}", gateway.log());
    reload(&gateway, &config, "log = \"loud\"\n", "cannot change the log level");
    reload(&gateway, &config, "listen_here = 1\n", "cannot read the configuration again");
    assert!(logs_requests(), "the previous level stays: {}", gateway.log());
    reload(&gateway, &config, "log = \"info\"\n", "changed the log level");
    assert!(!logs_requests());
    reload(&gateway, &config, "log = \"info\"\n", "the log level is unchanged");
    gateway.stop();
}

#[test]
fn sighup_loads_the_openid_roles_and_keeps_them_if_one_is_wrong() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("ashlar.toml");
    std::fs::write(&config, "").expect("a configuration");
    let path = config.display().to_string();
    let setup = Setup::new(folder.path(), Blocks::Folder).more_options(&["--config", &path]);
    let gateway = setup.start();
    let role = |more: &str| {
        format!(
            "[[openid]]\nrole = \"reader\"\nissuer = \"https://id.example\"\naudience = [\"a\"]\n\
             policies = [\"readonly\"]\n{more}"
        )
    };
    // The issuer is not asked before a token arrives, and an unknown issuer is refused without it.
    // `eyJpc3MiOiJodHRwczovL2lkLmV4YW1wbGUifQ` is `{"iss":"https://id.example"}`.
    let refusal = || {
        let token = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJodHRwczovL2lkLmV4YW1wbGUifQ.AAAA";
        let target = format!(
            "/?Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleSessionName=session\
             &WebIdentityToken={token}"
        );
        let request = crate::client::Request::new("GET", &target);
        let wire = request.anonymous(gateway.address());
        gateway.client.exchange("GET", &wire).expect("an answer").text()
    };
    let unknown = "No OpenIDConnect provider found";
    assert!(refusal().contains(unknown), "{}", refusal());
    let said = reload(&gateway, &config, &role(""), "loaded the OpenID roles again");
    assert!(said.contains("roles=1"), "{said}");
    assert!(!refusal().contains(unknown), "{}", refusal());
    let missing = role("ca_file = \"/nonexistent/ca.pem\"\n");
    reload(&gateway, &config, &missing, "cannot load the new OpenID roles");
    assert!(!refusal().contains(unknown), "the previous roles stay: {}", refusal());
    reload(&gateway, &config, "", "loaded the OpenID roles again");
    assert!(refusal().contains(unknown), "{}", refusal());
    gateway.stop();
}

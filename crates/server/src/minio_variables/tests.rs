use std::path::PathBuf;

use super::{Found, MinioVariables};
use crate::config::{Common, Serving};

fn variables(set: &[(&str, &str)]) -> MinioVariables {
    let value = |name: &str| Ok(set.iter().find(|(set, _)| *set == name).map(|it| it.1.to_owned()));
    MinioVariables::from(value).expect("UTF-8")
}

fn effects(found: &[Found]) -> Vec<(&str, &str)> {
    found.iter().map(|found| (found.variable, found.effect.as_str())).collect()
}

#[test]
fn a_variable_of_minio_replaces_the_default() {
    let minio = variables(&[
        ("MINIO_ADDRESS", ":9000"),
        ("MINIO_CONSOLE_ADDRESS", "10.0.0.1:9001"),
        ("MINIO_REGION", "old"),
        ("MINIO_SITE_REGION", "eu"),
        ("MINIO_DOMAIN", "a.example,b.example"),
        ("MINIO_DEFAULT_BUCKETS", "one, two:public;three:download four"),
        ("MINIO_PROMETHEUS_AUTH_TYPE", "public"),
    ]);
    let (options, found) = minio.serving(Serving::default());
    assert_eq!(options.listen.as_deref(), Some("0.0.0.0:9000"));
    assert_eq!(options.console_listen.as_deref(), Some("10.0.0.1:9001"));
    assert_eq!(options.region.as_deref(), Some("eu"));
    assert_eq!(options.domain.unwrap(), ["a.example", "b.example"]);
    assert_eq!(options.buckets.unwrap(), ["one", "two:public", "three:download", "four"]);
    let effects = effects(&found);
    assert!(
        effects.contains(&("MINIO_ADDRESS", "stands for --listen 0.0.0.0:9000")),
        "{effects:?}"
    );
    let metrics = effects.iter().find(|(name, _)| *name == "MINIO_PROMETHEUS_AUTH_TYPE");
    assert!(metrics.is_some_and(|(_, effect)| effect.starts_with("has no effect")), "{effects:?}");
    assert_eq!(found.len(), 6, "{effects:?}");
    assert_eq!(variables(&[]).serving(Serving::default()), (Serving::default(), Vec::new()));
}

#[test]
fn an_option_of_ashlar_overrides_the_variable_of_minio() {
    let minio = variables(&[("MINIO_ADDRESS", ":9000"), ("MINIO_DEFAULT_BUCKETS", "one")]);
    let given = Serving {
        listen: Some("127.0.0.1:1".to_owned()),
        buckets: Some(vec!["two".to_owned()]),
        ..Serving::default()
    };
    let (options, found) = minio.serving(given.clone());
    assert_eq!(options, given);
    let effects = effects(&found);
    assert_eq!(
        effects,
        [
            ("MINIO_ADDRESS", "has no effect, because --listen is set"),
            ("MINIO_DEFAULT_BUCKETS", "has no effect, because --buckets is set"),
        ]
    );
    // A compose file can unset a variable only by an empty value.
    let unset = Serving { listen: Some(String::new()), ..Serving::default() };
    assert_eq!(minio.serving(unset).0.listen.as_deref(), Some("0.0.0.0:9000"));
}

#[test]
fn a_browser_that_is_off_has_no_console() {
    let minio = variables(&[("MINIO_BROWSER", "off"), ("MINIO_CONSOLE_ADDRESS", ":9001")]);
    let (options, found) = minio.serving(Serving::default());
    assert_eq!(options.console_listen.as_deref(), Some("off"));
    assert_eq!(effects(&found)[1].1, "has no effect, because --console-listen is set");
    let on = variables(&[("MINIO_BROWSER", "on")]).serving(Serving::default());
    assert_eq!(on, (Serving::default(), Vec::new()));
}

#[test]
fn one_folder_of_minio_volumes_becomes_the_data_directory() {
    let minio = variables(&[("MINIO_VOLUMES", "/no/such/folder")]);
    let nothing = Common::default();
    let folder = PathBuf::from("/no/such/folder");
    assert_eq!(minio.common(nothing.clone()).data_dir, Some(folder));
    let found = minio.check_volumes(&nothing).expect("usable").expect("found");
    assert_eq!(found.effect, "stands for --data-dir /no/such/folder");
    let given = Common { data_dir: Some(PathBuf::from("data")), ..Common::default() };
    assert_eq!(minio.common(given.clone()), given);
    let found = minio.check_volumes(&given).expect("not used").expect("found");
    assert_eq!(found.effect, "has no effect, because --data-dir is set");
}

#[test]
fn places_of_minio_that_a_gateway_cannot_use_are_refused() {
    let drive = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(drive.path().join(".minio.sys")).expect("made");
    let cases = [
        ("http://host{1...4}/data", "servers"),
        ("/data{1...4}", "several drives"),
        ("/data1 /data2", "several drives"),
        (drive.path().to_str().expect("UTF-8"), "drive of MinIO"),
    ];
    for (volumes, reason) in cases {
        let minio = variables(&[("MINIO_VOLUMES", volumes)]);
        let nothing = Common::default();
        assert_eq!(minio.common(nothing.clone()), nothing, "{volumes}");
        let refused = minio.check_volumes(&nothing).expect_err("refused").to_string();
        assert!(refused.contains(reason) && refused.contains("--data-dir"), "{refused}");
    }
}

#[test]
fn browsers_are_redirected_to_the_console_of_minio() {
    let url = "https://console.example.com";
    let minio = variables(&[("MINIO_BROWSER_REDIRECT_URL", url)]);
    let (options, found) = minio.serving(Serving::default());
    assert_eq!(options.console_url.as_deref(), Some(url));
    assert_eq!(effects(&found)[0].1, format!("stands for --console-url {url}"));
}

use std::path::PathBuf;

use super::options::ALL;
use super::{
    BlocksPlace, Common, Delay, File, KmsSettings, ListenAt, LogFormat, MetaPlace, Mounting,
    Opening, Owner, Serving, Size, Umask, VolumeSettings, in_force,
};

const DEFAULT: &str = include_str!("../../../../config/default.toml");

fn file(text: &str) -> File {
    File::parse(text).expect("a valid file")
}

#[test]
fn the_default_file_has_the_default_values() {
    let (nothing, default) = (File::default(), file(DEFAULT));
    assert_ne!(default, nothing, "the file has fields");
    let common = |file| Common::default().settle(file).expect("defaults settle");
    let serving = |file| Serving::default().settle(file).expect("defaults settle");
    assert_eq!(common(&default), common(&nothing));
    assert_eq!(serving(&default), serving(&nothing));
    let opening = |file| Opening::default().settle(file).expect("defaults settle");
    assert_eq!(opening(&default), opening(&nothing));
    let mounting = |file| Mounting::default().settle(file).expect("defaults settle");
    assert_eq!(mounting(&default), mounting(&nothing));
}

#[test]
fn the_default_file_lists_every_option() {
    for (name, _) in ALL {
        let named = DEFAULT.lines().any(|line| {
            let line = line.strip_prefix("# ").unwrap_or(line);
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with(" = "))
        });
        assert!(named, "config/default.toml does not name {name}");
    }
}

#[test]
fn commented_fields_of_the_default_file_are_valid() {
    let uncommented: String = DEFAULT
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(field) if ALL.iter().any(|(name, _)| field.starts_with(&format!("{name} = "))) => {
                format!("{field}\n")
            }
            _ => format!("{line}\n"),
        })
        .collect();
    let file = file(&uncommented);
    let volume = Common::default().settle(&file).expect("it settles");
    assert!(volume.kms.place.is_some() && volume.old_master_key_file.is_some());
    let plain = VolumeSettings { kms: KmsSettings::default(), old_master_key_file: None, ..volume };
    assert_eq!(plain, Common::default().settle(&File::default()).expect("defaults settle"));
    let serve = Serving::default().settle(&file).expect("it settles");
    assert!(serve.tls.is_some());
    assert_eq!(serve.admin_listen, ListenAt::At(super::ADMIN_LISTEN_DEFAULT.to_owned()));
}

#[test]
fn every_option_has_a_variable_of_its_own_name() {
    for (name, variable) in ALL {
        assert_eq!(*variable, format!("ASHLAR_{}", name.to_uppercase()));
    }
}

#[test]
fn an_unknown_field_is_refused_with_its_line_and_name() {
    let wrong = File::parse("region = \"x\"\n\nlisten_address = \"y\"\n").expect_err("unknown");
    assert!(wrong.starts_with("line 3: unknown field `listen_address`"), "{wrong}");
    assert!(!wrong.contains('\n'));
    assert!(File::parse("requests_max = \"many\"").is_err());
}

#[test]
fn a_flag_overrides_the_file_and_the_file_overrides_the_default() {
    let file = file("region = \"from-file\"\nlisten = \"1.2.3.4:5\"\nlog_format = \"json\"");
    let flags = Serving { region: Some("from-flag".to_owned()), ..Serving::default() };
    let serve = flags.settle(&file).expect("it settles");
    assert_eq!((&*serve.region, &*serve.listen), ("from-flag", "1.2.3.4:5"));
    assert_eq!(serve.requests_max, 512);
    let volume = Common::default().settle(&file).expect("it settles");
    assert_eq!(volume.log_format, LogFormat::Json);
}

#[test]
fn places_below_the_data_directory_follow_it() {
    let flags = Common { data_dir: Some(PathBuf::from("/srv/x")), ..Common::default() };
    let volume = flags.settle(&File::default()).expect("it settles");
    assert_eq!(volume.meta, MetaPlace::Sqlite(PathBuf::from("/srv/x/meta.db")));
    assert_eq!(volume.blocks, BlocksPlace::Folder(PathBuf::from("/srv/x/blocks")));
    assert_eq!(volume.master_key_file, PathBuf::from("/srv/x/master.key"));
}

#[test]
fn printed_settings_parse_to_the_same_settings() {
    let given = file(
        "blocks = \"s3://b/p/q?endpoint=http://127.0.0.1:9000&region=eu\"\nblock_bytes = \"1MiB\"
         tls_cert = \"c\"\ntls_key = \"k\"\nadmin_listen = \"off\"\ndomain = [\"a\", \"b\"]
         mount = \"/mnt\"\nmount_subdir = \"bucket/below\"\nmount_read_only = true
         mount_uid = 7\nmount_gid = \"own\"\nmount_umask = \"027\"",
    );
    let settle = |file: &File| {
        let volume = Common::default().settle(file).expect("it settles");
        let open = Opening::default().settle(file).expect("it settles");
        let mount = Mounting::default().settle(file).expect("it settles");
        (volume, open, mount, Serving::default().settle(file).expect("it settles"))
    };
    let (volume, open, mount, serve) = settle(&given);
    let printed = toml::to_string(&in_force(&volume, &open, &mount, &serve)).expect("it is TOML");
    assert_eq!(settle(&file(&printed)), (volume, open, mount, serve));
}

#[test]
fn urls_name_files_and_buckets() {
    let path = |text: &str| Some(PathBuf::from(text));
    let sqlite = |url| match MetaPlace::parse(url) {
        Ok(MetaPlace::Sqlite(path)) => Some(path),
        _ => None,
    };
    assert_eq!(sqlite("sqlite:a/b.db"), path("a/b.db"));
    assert_eq!(sqlite("sqlite:///a/b.db"), path("/a/b.db"));
    assert_eq!(MetaPlace::parse("memory:"), Ok(MetaPlace::Memory));
    let BlocksPlace::Bucket(place) =
        BlocksPlace::parse("s3://blocks/ash/lar/?endpoint=http://127.0.0.1:9000")
            .expect("a bucket")
    else {
        panic!("a bucket")
    };
    assert_eq!((&*place.bucket, &*place.prefix), ("blocks", "ash/lar"));
    assert_eq!(place.endpoint.as_deref(), Some("http://127.0.0.1:9000"));
    assert_eq!(place.region, "us-east-1");
}

#[test]
fn unknown_or_incomplete_urls_are_refused_with_the_reason() {
    let sentence = |url: &str| MetaPlace::parse(url).expect_err(url).to_string();
    let unknown = sentence("oracle://host/db");
    assert!(unknown.contains("scheme is not known; --meta takes"), "{unknown}");
    assert!(sentence("etcd:///name").contains("has no host"));
    assert!(sentence("postgres://host/").contains("has no database"));
    assert!(sentence("mysql:///db").contains("has no host"));
    assert!(sentence("sqlite:").contains("has no file"));
    assert!(sentence("nonsense").contains("scheme is not known"));
    assert!(sentence("postgres://me@one,,two/db").contains("a host is empty"));
    assert!(sentence("postgres://me@one,one/db").contains("one host twice"));
    assert!(sentence("redis://one,two/").contains("redis+sentinel://"));
    assert!(sentence("redis+sentinel://one,two/").contains("no name of a master"));
    assert!(sentence("redis+sentinel:///main").contains("has no host"));
    let blocks = |url: &str| BlocksPlace::parse(url).expect_err(url).to_string();
    assert!(blocks("s3://b/?endpont=x").contains("endpont is not known"));
    assert!(blocks("s3://b/?endpoint=host:9000").contains("neither http:// nor https://"));
    assert!(blocks("s3:///prefix").contains("has no bucket"));
}

#[test]
fn errors_about_urls_contain_no_secrets() {
    for (url, why) in [
        ("s3://key:hush@b/", "credentials do not belong in a URL"),
        ("s3://hush@b/", "credentials do not belong in a URL"),
        ("s3://key:hu/sh@b/p", "credentials do not belong in a URL"),
        ("s3://key:1/hush@b/p", "credentials do not belong in a URL"),
        ("s3://b/?endpoint=http://key:hush@h:9000", "credentials do not belong in a URL"),
        ("s3://b/?endpoint=http%3A%2F%2Fkey%3Ahush%40h", "credentials do not belong in a URL"),
        ("s3://b/?endpoint=http://h:9000?secret=hush", "endpoint has parameters"),
        ("s3://b/?endpoint=key:hush@h", "neither http:// nor https://"),
        ("s3://b/?secret_key=hush", "secret_key is not known"),
        ("s3://b/?endpoint=http://h:9000&KEY:hush", "a parameter is not known"),
        ("s3://b/?hush-hush-hush-hush-hush", "a parameter is not known"),
        ("https://key:hush@h/b", "scheme is not known"),
        ("s3:key:hush@b", "has no bucket"),
        ("key:hush@b", "scheme is not known"),
        ("hush", "scheme is not known"),
        ("hush+hush+hush+hush:x", "scheme is not known"),
    ] {
        let sentence = BlocksPlace::parse(url).expect_err(url).to_string();
        assert!(sentence.contains(why), "{url}: {sentence}");
        assert!(!sentence.contains("hush"), "{url}: {sentence}");
    }
    for url in ["postgres:me:hush@h/db", "postgres://me:hush@/", "hush", "mysql://me:hush@h/"] {
        let sentence = MetaPlace::parse(url).expect_err(url).to_string();
        assert!(!sentence.contains("hush"), "{url}: {sentence}");
    }
}

#[test]
fn servers_are_shown_without_their_passwords() {
    for (url, shown) in [
        ("postgres://me:hush@host:5432/db", "postgres://me@host:5432/db"),
        ("mariadb://me:hush@host/db", "mysql://me@host/db"),
        ("rediss://:hush@host/0?prefix=x", "rediss://host/0?prefix=x"),
        ("postgres://me:hush@one,two:5433/db", "postgres://me@one,two:5433/db"),
        ("mysql://me@one:3307,two/db?ssl-key=hush", "mysql://me@one:3307,two/db"),
        (
            "redis+sentinel://:hush@one,two:7000/main/1?prefix=x",
            "redis+sentinel://one,two:7000/main/1?prefix=x",
        ),
        ("rediss+sentinel://one,two/main?sentinel_password=hush", "rediss+sentinel://one,two/main"),
        ("postgres://me@host/db?password=hush", "postgres://me@host/db"),
    ] {
        let Ok(MetaPlace::Server(place)) = MetaPlace::parse(url) else { panic!("{url}") };
        assert_eq!(place.to_string(), shown);
        assert!(!format!("{place:?}").contains("hush"));
        assert!(place.url(None).expect("a URL").contains("hush"), "the engine gets it");
        assert!(!place.url(Some("other")).expect("a URL").contains("other:"), "its own counts");
    }
    let wrong = MetaPlace::parse("postgres://me:hush@/").expect_err("no host").to_string();
    assert!(!wrong.contains("hush"), "{wrong}");
    let Ok(MetaPlace::Server(place)) = MetaPlace::parse("mysql://me@host/db") else { panic!() };
    assert_eq!(place.url(Some("a b/c")).expect("a URL"), "mysql://me:a%20b%2Fc@host/db");
    assert_eq!(place.url(Some("50%41")).expect("a URL"), "mysql://me:50%2541@host/db");
    let Ok(MetaPlace::Server(place)) = MetaPlace::parse("mysql://me@one,two/db") else { panic!() };
    assert_eq!(place.url(Some("a,b")).expect("a URL"), "mysql://me:a,b@one,two/db");
}

/// A failover loses the last commits, so both settings must allow for that.
#[test]
fn sentinels_need_relaxed_durability_and_a_deletion_grace() {
    let settle = |meta: &str, rest: &str| {
        let text = format!("meta = \"{meta}\"\n{rest}");
        Common::default().settle(&file(&text)).map_err(|problem| problem.to_string())
    };
    let relaxed = "metadata_durability = \"relaxed\"\n";
    for meta in ["redis+sentinel://:hush@one,two/main", "rediss+sentinel://:hush@one/main"] {
        let sentence = settle(meta, "").expect_err("strict");
        assert!(sentence.contains("--metadata-durability=relaxed"), "{sentence}");
        assert!(!sentence.contains("hush"), "{sentence}");
        for grace in ["0s", "10s", "29s"] {
            let rest = format!("{relaxed}deletion_grace = \"{grace}\"");
            let sentence = settle(meta, &rest).expect_err(grace);
            assert!(sentence.contains("--deletion-grace to 30s or more"), "{sentence}");
        }
        for grace in ["30s", "5m", "auto"] {
            let rest = format!("{relaxed}deletion_grace = \"{grace}\"");
            settle(meta, &rest).unwrap_or_else(|sentence| panic!("{grace}: {sentence}"));
        }
    }
    settle("redis://host/", "deletion_grace = \"1s\"").expect("no Sentinels");
}

#[test]
fn limits_out_of_range_are_refused() {
    for text in [
        "requests_max = 0",
        "connections_max = 0",
        "tls_cert = \"only.pem\"",
        "memory_budget = \"8MiB\"",
        "block_bytes = \"32MiB\"",
        "block_bytes = \"1KiB\"",
        "write_memory = \"1MiB\"",
    ] {
        let file = file(text);
        let refused = Serving::default().settle(&file).is_err()
            || Opening::default().settle(&file).is_err()
            || Mounting::default().settle(&file).is_err();
        assert!(refused, "{text}");
    }
}

#[test]
fn sizes_are_read_and_written_exactly() {
    for (text, bytes) in [("4MiB", 4 << 20), ("1GiB", 1 << 30), ("1500B", 1500), ("0B", 0)] {
        assert_eq!(text.parse(), Ok(Size(bytes)));
        assert_eq!(Size(bytes).to_string(), text);
    }
    assert_eq!("20GB".parse(), Ok(Size(20_000_000_000)));
    assert!("many".parse::<Size>().is_err());
}

#[test]
fn a_delay_is_a_number_of_seconds_or_a_time() {
    let seconds = |text: &str| text.parse().ok().map(|Delay(time)| time.as_secs_f32());
    assert_eq!(["3", "3s", "1m", "500ms", "0s"].map(seconds), [3.0, 3.0, 60.0, 0.5, 0.0].map(Some));
    assert_eq!(["", "-1", "soon"].map(seconds), [None; 3]);
}

#[test]
fn the_owner_of_a_mount_is_a_number_or_each_files_own() {
    let uid = |text: &str| file(&format!("mount_uid = {text}")).mount_uid;
    assert_eq!(uid("7"), Some(Owner::Number(7)));
    assert_eq!(uid("\"own\""), Some(Owner::Own));
    assert_eq!("1000".parse(), Ok(Owner::Number(1000)));
    assert!("anna".parse::<Owner>().is_err());
}

#[test]
fn a_umask_is_octal() {
    let mask = |text: &str| text.parse().ok().map(|Umask(bits)| bits);
    assert_eq!(["022", "77", "0o27", "0007"].map(mask), [0o22, 0o77, 0o27, 0o7].map(Some));
    assert_eq!(["", "8", "+7", "1777", "u=rw", "-1"].map(mask), [None; 6]);
    assert_eq!(Umask(0o7).to_string(), "007");
}

#[test]
fn a_flag_of_a_mount_does_not_take_the_next_argument_as_its_value() {
    #[derive(clap::Parser)]
    struct Line {
        folder: String,
        #[command(flatten)]
        mounting: Mounting,
    }
    let words = ["mount", "--allow-other", "--read-only=false", "--noatime", "/mnt"];
    let line = <Line as clap::Parser>::try_parse_from(words).expect("it is a command");
    let Mounting { mount_allow_other, mount_read_only, mount_noatime, .. } = line.mounting;
    assert_eq!([mount_allow_other, mount_noatime], [Some(true); 2]);
    assert_eq!((mount_read_only, &*line.folder), (Some(false), "/mnt"));
}

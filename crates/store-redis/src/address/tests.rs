use store::StoreErrorKind;

use super::{Address, Route, parse};

fn parsed(url: &str) -> Address {
    parse(url).unwrap_or_else(|error| panic!("{url}: {error}"))
}

fn client(address: &Address) -> &redis::Client {
    let Route::Server(client) = &address.route else { panic!("{:?}", address.route) };
    client
}

#[test]
fn a_volume_has_the_name_of_its_prefix_or_the_default() {
    assert_eq!(parsed("redis://localhost:7000/").prefix, "{ashlar}:");
    assert_eq!(parsed("redis://localhost/3?prefix=photos-2.b_c").prefix, "{photos-2.b_c}:");
}

#[test]
fn urls_of_tcp_tls_and_sockets_are_parsed() {
    let plain = parsed("redis://localhost:7000/3?prefix=a");
    let info = client(&plain).get_connection_info();
    assert_eq!((info.addr().to_string(), info.redis_settings().db()), ("localhost:7000".into(), 3));
    assert!(info.tcp_settings().nodelay());
    let secure = parsed("rediss://user:word@db.example/");
    let info = client(&secure).get_connection_info();
    assert!(matches!(info.addr(), redis::ConnectionAddr::TcpTls { insecure: false, .. }));
    assert_eq!(info.redis_settings().password(), Some("word"));
    let socket = parsed("redis+unix:///run/redis.sock?db=2&pass=word&prefix=a");
    let info = client(&socket).get_connection_info();
    assert_eq!(
        (info.addr().to_string(), info.redis_settings().db()),
        ("/run/redis.sock".into(), 2)
    );
    assert_eq!(info.redis_settings().password(), Some("word"));
}

#[test]
fn malformed_urls_are_refused_without_the_password() {
    let long = format!("redis://user:hunter2@localhost/?prefix={}", "a".repeat(65));
    let bad = [
        "redis://user:hunter2@local host/",
        "redis://user:hunter2@localhost/?prefix=",
        "redis://user:hunter2@localhost/?prefix=a%7Db",
        "redis://user:hunter2@localhost/?prefx=a",
        "redis://user:hunter2@localhost/one",
        "redis://user:hunter2@localhost:port/",
        "rediss://user:hunter2@localhost/#insecure",
        "postgres://user:hunter2@localhost/",
        "user:hunter2@localhost",
        "redis://user:hunter2@one,two/",
        "redis://user:hunter2@localhost/?sentinel_password=hunter2",
        "redis+sentinel://user:hunter2@one,two,three/",
        "redis+sentinel://user:hunter2@one/main/0/1",
        "redis+sentinel://user:hunter2@one/main/zero",
        "redis+sentinel://user:hunter2@one/ma%20in",
        "redis+sentinel://user:hunter2@/main",
        "redis+sentinel://user:hunter2@one,one:26379/main",
        "redis+sentinel://user:hunter2@one/main?sentinel_tls=hunter2",
        "redis+sentinel://user:hunter2@one/main?pass=hunter2",
        &long,
    ];
    for url in bad {
        let Err(error) = parse(url) else { panic!("{url} is a URL") };
        assert_eq!(error.kind(), StoreErrorKind::Malformed, "{error}");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    }
    let missing = parse("rediss://user:hunter2@localhost/?ca=/nowhere/ca.pem");
    let Err(error) = missing else { panic!("there is no such file") };
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
}

#[test]
fn several_hosts_without_sentinels_are_refused_with_the_cure() {
    let Err(error) = parse("redis://user:hunter2@one,two/") else { panic!("that is one server") };
    assert!(error.to_string().contains("redis+sentinel://"), "{error}");
}

#[test]
fn a_url_of_sentinels_names_them_and_the_group() {
    let address = parsed(
        "rediss+sentinel://user:hunter2@one,two:7000,[::1]/main/3?prefix=a&sentinel_password=hunter3",
    );
    assert_eq!(address.prefix, "{a}:");
    let shown = format!("{:?}", address.route);
    assert_eq!(shown, "Sentinels(main at one:26379,two:7000,[::1]:26379)");
}

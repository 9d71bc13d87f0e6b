use store::StoreErrorKind;

use super::{Address, endpoints};
use crate::connect::Connector;

const SECRET: &str = "hush-3b1f";

#[test]
fn no_message_contains_the_password() {
    let url = format!("postgres://someone:{SECRET}@somewhere:5433/things");
    let connector = Connector::new(&url, false).expect("a URL");
    assert_eq!(connector.name(), "somewhere:5433/things");
    assert!(!format!("{connector:?}").contains(SECRET));
    for url in [
        format!("postgres://someone:{SECRET}@somewhere/"),
        format!("postgres://:{SECRET}@somewhere/things"),
        format!("postgres://someone:{SECRET}@somewhere:port/things"),
        format!("postgres://someone:{SECRET}@somewhere/things?sslmode={SECRET}"),
        format!("postgres://someone@somewhere/things?pasword={SECRET}"),
        format!("mysql://someone:{SECRET}@somewhere/things"),
        SECRET.to_owned(),
    ] {
        let error = Connector::new(&url, false).expect_err("it is no URL of ours");
        assert_eq!(error.kind(), StoreErrorKind::Unavailable);
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains(SECRET), "{shown}");
    }
}

#[test]
fn a_url_has_user_host_and_database() {
    let accepted = [
        "postgres://me@here/it",
        "postgresql://me:pw@[::1]:6000/it?sslmode=verify-full&sslrootcert=/ca.pem",
        "postgres://me@here/it?options[search_path]=one&application_name=x",
        "postgres:///?user=me&dbname=it&host=/run/postgresql",
    ];
    for url in accepted {
        let parsed = Address::parse(url);
        assert!(parsed.is_ok(), "{url}: {:?}", parsed.err());
    }
    for url in ["postgres://here/it", "postgres://me@here", "postgres:///it?user=me"] {
        Address::parse(url).map(drop).expect_err(url);
    }
    let Ok(address) = Address::parse("postgres://me@here/it") else { panic!("a URL") };
    assert_eq!(address.name, "here:5432/it");
    assert!(address.hosts()[0].get_options().expect("settings").contains("plan_cache_mode"));
}

#[test]
fn a_url_may_name_several_hosts_and_the_promise_about_standbys() {
    let url = "postgres://me@one,two:5433/it?sslmode=require&async_standbys=never_promoted";
    let Ok(address) = Address::parse(url) else { panic!("a URL") };
    assert_eq!(address.name, "one:5432,two:5433/it");
    assert!(address.never_promoted);
    assert_eq!(address.hosts().len(), 2);
    let Ok(address) = Address::parse("postgres://me@one/it") else { panic!("a URL") };
    assert!(!address.never_promoted);
    for (url, why) in [
        ("postgres://me@one,two/it?host=three", "the parameter host contradicts"),
        ("postgres://me@one,two/it?port=3", "the parameter port contradicts"),
        ("postgres://me@one,/it", "a host is empty"),
        ("postgres://me@one/it?async_standbys=promoted", "async_standbys is not never_promoted"),
    ] {
        let error = Address::parse(url).map(drop).expect_err(url).to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[tokio::test]
async fn a_name_with_two_addresses_has_two_endpoints_unless_the_certificate_names_it() {
    let at = |url: &str| Address::parse(url).map(|address| address.hosts()[0].clone());
    let Ok(host) = at("postgres://me@[::1]:7/it") else { panic!("a URL") };
    let found = endpoints(&host).await.expect("an address");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].options.get_host(), "::1");
    let Ok(host) = at("postgres://me@somewhere.invalid:7/it?sslmode=verify-full") else {
        panic!("a URL")
    };
    let found = endpoints(&host).await.expect("no name is looked up");
    assert_eq!(found[0].options.get_host(), "somewhere.invalid");
}

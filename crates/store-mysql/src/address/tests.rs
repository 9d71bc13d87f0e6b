use super::{Address, endpoints};

#[test]
fn messages_name_all_hosts_and_the_database() {
    let url = "mysql://me:hush@one,two:3307/ashlar?async_standbys=never_promoted";
    let Ok(address) = Address::parse(url) else { panic!("a URL") };
    assert_eq!(address.name, "one:3306,two:3307/ashlar");
    assert!(address.promises.never_promoted && !address.promises.single_writer);
}

#[tokio::test]
async fn a_name_is_looked_up_unless_the_certificate_names_it() {
    let at = |url: &str| Address::parse(url).map(|address| address.hosts()[0].clone());
    let Ok(host) = at("mysql://me@[::1]:7/it") else { panic!("a URL") };
    let found = endpoints(&host).await.expect("an address");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].options.get_host(), "::1");
    let Ok(host) = at("mysql://me@somewhere.invalid:7/it?ssl-mode=VERIFY_IDENTITY") else {
        panic!("a URL")
    };
    let found = endpoints(&host).await.expect("no name is looked up");
    assert_eq!(found[0].options.get_host(), "somewhere.invalid");
}

use super::*;

fn sent(cookies: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(COOKIE, HeaderValue::from_static(cookies))])
}

#[test]
fn an_attempt_returns_from_another_site_and_a_login_does_not() {
    let mut headers = HeaderMap::new();
    set(&mut headers, "t", false);
    set_attempt(&mut headers, "a", true);
    let set: Vec<_> = headers.get_all(SET_COOKIE).iter().collect();
    assert_eq!(set[0], "ashlar-login=t; Path=/; HttpOnly; SameSite=Strict");
    assert_eq!(set[1], "__Host-ashlar-openid=a; Path=/; HttpOnly; SameSite=Lax; Secure");
}

#[test]
fn each_cookie_is_read_by_its_own_name_and_once() {
    let headers = sent("ashlar-login=t; ashlar-openid=a; __Host-ashlar-openid=s");
    assert_eq!(ticket(&headers, false), Some("t"));
    assert_eq!(attempt(&headers, false), Some("a"));
    assert_eq!((ticket(&headers, true), attempt(&headers, true)), (None, Some("s")));
    let twice = sent("ashlar-openid=a; ashlar-openid=b");
    assert_eq!(attempt(&twice, false), None, "another page has set one of them");
}

#[test]
fn a_removed_attempt_leaves_the_login() {
    let mut headers = HeaderMap::new();
    remove_attempt(&mut headers);
    let removed: Vec<_> = headers.get_all(SET_COOKIE).iter().collect();
    assert_eq!(removed[0], "ashlar-openid=; Max-Age=0; Path=/; HttpOnly; SameSite=Lax");
    assert_eq!(
        removed[1],
        "__Host-ashlar-openid=; Max-Age=0; Path=/; HttpOnly; SameSite=Lax; Secure"
    );
}

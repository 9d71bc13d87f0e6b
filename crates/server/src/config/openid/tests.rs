use super::*;
use crate::config::{File, Serving};

const FULL: &str = r#"{ role = "staff", issuer = "https://idp.example.com", audience = ["ashlar"],
    require = { org = ["acme", "lab"], ref = ["main"] }, policies = ["readonly"], policy_claim = "roles", claims = ["groups"],
    account = "123456789012", uid = 7, gid = 8, umask = "077", ca_file = "/etc/idp.pem", allow_http = true,
    login = { client_id = "ashlar", client_secret_file = "/etc/secret", redirect_url = "https://c.example.com/login/callback", label = "Staff", scopes = ["groups"], max_seconds = 3600 } }"#;

fn settle(text: &str) -> Result<Vec<OpenIdRole>, String> {
    let file = File::parse(text)?;
    let serving = Serving::default().settle(&file).map_err(|problem| problem.to_string())?;
    Ok(serving.openid)
}

#[test]
fn a_role_parses_alike_from_a_file_and_from_a_flag() {
    let flag: OpenIdRole = FULL.replace('\n', " ").parse().expect("a role");
    let file = r#"[[openid]]
        role = "staff"
        issuer = "https://idp.example.com"
        audience = ["ashlar"]
        require = { org = ["acme", "lab"], ref = ["main"] }
        policies = ["readonly"]
        policy_claim = "roles"
        claims = ["groups"]
        account = "123456789012"
        uid = 7
        gid = 8
        umask = "077"
        ca_file = "/etc/idp.pem"
        allow_http = true
        [openid.login]
        client_id = "ashlar"
        client_secret_file = "/etc/secret"
        redirect_url = "https://c.example.com/login/callback"
        label = "Staff"
        scopes = ["groups"]
        max_seconds = 3600"#;
    assert_eq!(settle(file), Ok(vec![flag.clone()]));
    assert_eq!(flag.account(), Some(AccountId(123_456_789_012)));
    assert_eq!(flag.owner(), (7, 8, 0o077));
    assert_eq!(flag.require["org"], ["acme", "lab"]);
    let printed = toml::to_string(&File { openid: Some(vec![flag.clone()]), ..File::default() });
    assert_eq!(settle(&printed.expect("it is TOML")), Ok(vec![flag]));
}

#[test]
fn absent_fields_have_defaults() {
    let bare = r#"{ role = "r", issuer = "https://i", audience = ["a"] }"#;
    let role: OpenIdRole = bare.parse().expect("a role");
    assert_eq!(role.policy_claim().as_deref(), Some("policy"));
    assert!(role.claims.is_empty() && role.require.is_empty());
    assert_eq!(role.account(), Some(AccountId::MAIN));
    assert_eq!(role.owner(), (1_000, 1_000, 0o022));
    let fixed = bare.replace(" }", r#", policies = ["p"] }"#);
    let fixed: OpenIdRole = fixed.parse().expect("a role");
    assert_eq!(fixed.policy_claim(), None, "all users have the same policies");
}

#[test]
fn invalid_roles_are_refused_with_the_reason() {
    let role = |fields: &str| format!("openid = [{{ issuer = \"https://i\", {fields} }}]");
    let require =
        |claims: &str| role(&format!("role = \"r\", audience = [\"a\"], require = {{ {claims} }}"));
    let claims: Vec<String> =
        (0..=REQUIRED_CLAIMS_MAX).map(|at| format!(r#"c{at} = ["v"]"#)).collect();
    let values = vec![r#""v""#; REQUIRED_VALUES_MAX + 1].join(",");
    assert!(settle(&require(&claims[1..].join(","))).is_ok(), "the limit itself is valid");
    for (text, why) in [
        (role(r#"role = "r""#), "missing field `audience`"),
        (role(r#"role = "r", audience = []"#), "audience is empty"),
        (role(r#"role = "r", audience = [""]"#), "audience is empty"),
        (role(r#"role = "", audience = ["a"]"#), "must have 1 to 64"),
        (role(r#"role = "a/b", audience = ["a"]"#), "must have 1 to 64"),
        (role(r#"role = "r", audience = ["a"], account = "7""#), "12 digits"),
        (role(r#"role = "r", audience = ["a"], policy_claim = """#), "policy_claim is empty"),
        (require("org = []"), "no value, or an empty one, for \"org\""),
        (require(r#"org = ["acme", ""]"#), "or an empty one"),
        (require(r#""" = ["acme"]"#), "name of a claim in require is empty"),
        (require(r#"org = "acme""#), "expected a sequence"),
        (require(&claims.join(",")), "more than 16 claims"),
        (require(&format!("org = [{values}]")), "more than 256 values for \"org\""),
        (role(r#"role = "r", audience = ["a"], polices = ["p"]"#), "unknown field `polices`"),
        (
            format!(
                "{0}\n{0}",
                "[[openid]]\nrole = \"r\"\nissuer = \"https://i\"\naudience = [\"a\"]"
            ),
            "two tables have the role \"r\"",
        ),
    ] {
        let wrong = settle(&text).expect_err(&text);
        assert!(wrong.contains(why), "{text}: {wrong}");
    }
    assert!("role".parse::<OpenIdRole>().is_err());
}

#[test]
fn invalid_logins_are_refused_with_the_reason() {
    let login = |fields: &str| {
        let role = r#"role = "staff", issuer = "https://i", audience = ["a", "c"]"#;
        settle(&format!("openid = [{{ {role}, login = {{ {fields} }} }}]"))
    };
    let (id, url) = (r#"client_id = "c""#, r#"redirect_url = "http://[::1]:9702/login/callback""#);
    let roles = login(&format!("{id}, {url}")).expect("a login");
    let of = roles[0].login.as_ref().expect("a login");
    assert_eq!((of.session(), of.label.clone(), of.scopes.len()), (LOGIN_MAX, None, 0));
    let to = |url: &str| format!("{id}, redirect_url = {url:?}");
    for (fields, why) in [
        (url.to_owned(), "missing field `client_id`"),
        (id.to_owned(), "missing field `redirect_url`"),
        (format!(r#"client_id = "x", {url}"#), "\"x\" is not in audience"),
        (to("https://c.example.com/"), "with the path /login/callback"),
        (to("https://c.example.com/login/callback?a"), "with the path"),
        (to("https://c.example.com/login/callback#a"), "with the path"),
        (to("ftp://c.example.com/login/callback"), "with the path"),
        (to("/login/callback"), "with the path"),
        (format!(r#"{id}, {url}, label = " ""#), "label is empty"),
        (format!(r#"{id}, {url}, scopes = ["a b"]"#), "a scope is empty, or has a space"),
        (format!("{id}, {url}, max_seconds = 59"), "max_seconds must be 60 to 43200"),
        (format!("{id}, {url}, max_seconds = 43201"), "max_seconds must be 60 to 43200"),
        (format!(r#"{id}, {url}, client_secret = "s""#), "unknown field `client_secret`"),
    ] {
        let wrong = login(&fields).expect_err(&fields);
        assert!(wrong.contains(why), "{fields}: {wrong}");
    }
}

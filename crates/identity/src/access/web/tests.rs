use openid::IssuerSettings;
use runtime::Tasks;

use super::*;
use crate::access::{Access, Identity, MasterKey, NewSession, Secret};
use policy::{NoValues, Principal, Question, Sources, authorise};
use record::{Account, CanonicalId, PolicyRecord, User};
use s3::sts::SessionCredentials;
use s3::{Code, Fault};
use time::{Duration, OffsetDateTime};
use volume::AccessRecords;

const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;
const LAB: AccountId = AccountId(123_456_789_012);

/// Returns the requirement that the claim `org` has one of these values.
fn require(values: &[&str]) -> BTreeMap<String, Vec<String>> {
    let values = values.iter().map(|&value| value.to_owned()).collect();
    BTreeMap::from([("org".to_owned(), values)])
}

fn role(change: impl FnOnce(&mut WebRole)) -> WebRole {
    let (url, authorities) = ("https://idp.example.com/realm".to_owned(), None);
    let settings = IssuerSettings { url, authorities, allow_http: false };
    let issuer = Issuer::new(settings, Tasks::new()).expect("an issuer");
    let mut role = WebRole {
        name: "staff".to_owned(),
        account: LAB,
        issuer: Arc::new(issuer),
        audiences: vec!["other".to_owned(), "ashlar".to_owned()],
        require: require(&["acme", "lab"]),
        policies: vec!["readonly".to_owned()],
        policy_claim: Some("policy".to_owned()),
        claims: vec!["groups".to_owned()],
        uid: 7,
        gid: 8,
        umask: 0o077,
        login: None,
    };
    change(&mut role);
    role
}

fn web() -> WebIdentity {
    WebIdentity {
        role: "staff".to_owned(),
        account: LAB.to_string(),
        issuer: "https://idp.example.com/realm".to_owned(),
        audience: "ashlar".to_owned(),
        subject: "anna".to_owned(),
        required: vec![("org".to_owned(), "acme".to_owned())],
        policy_claim: Some("policy".to_owned()),
        policies: vec!["extra".to_owned()],
        claims: vec![("groups".to_owned(), vec!["a".to_owned(), "b".to_owned()])],
    }
}

/// Returns the records: an account, and the policy that the issuer names.
fn records() -> AccessRecords {
    let lab = Account { name: "lab".to_owned(), canonical_id: CanonicalId([1; 32]) };
    let document = r#"{"Statement":{"Effect":"Allow","Action":"s3:PutObject","Resource":"*",
        "Condition":{"StringEquals":{"aws:userid":"staff:nightly"}}}}"#;
    let extra = PolicyRecord(document.to_owned());
    let policies = vec![("extra".to_owned(), extra)];
    AccessRecords { accounts: vec![(LAB, lab)], policies, ..AccessRecords::default() }
}

fn access(roles: Vec<WebRole>) -> Access {
    let root = Identity::root("root", Secret::new("rootsecret"));
    let access = Access::new(root, MasterKey::new([7; MasterKey::BYTES])).with_web_roles(roles);
    assert_eq!(access.replace(records()), []);
    access
}

/// Returns a user without policies.
fn user(access_key: &str) -> User {
    let (secret, nonce) = (Secret::new("s3cret"), [1; MasterKey::NONCE_BYTES]);
    let sealed = MasterKey::new([7; MasterKey::BYTES]).seal(access_key, &secret, nonce);
    User::new(LAB, sealed)
}

fn begin(access: &Access) -> SessionCredentials {
    let expires = NOW + Duration::HOUR;
    let new = NewSession { name: "nightly", policy: None, began: NOW, expires };
    access.begin_web_session(web(), &new).expect("a session")
}

fn open(access: &Access, given: &SessionCredentials) -> Result<Arc<Identity>, Fault> {
    access.session(&given.access_key, &given.token, NOW)
}

fn code(result: Result<Arc<Identity>, Fault>) -> Option<Code> {
    result.err().map(|fault| fault.code)
}

fn may(principal: &Principal, identity: &Identity, action: &str) -> bool {
    let question = Question { principal, action, resource: "*", conditions: &NoValues };
    let policies: Vec<_> = identity.policies.iter().map(Arc::as_ref).collect();
    let none = || false;
    let sources = Sources { identity: &policies, session: None, bucket: None, acl: &none };
    authorise(&question, &sources).is_allowed()
}

#[tokio::test]
async fn a_web_session_has_its_role_and_no_user() {
    let access = access(vec![role(|_| {})]);
    let given = begin(&access);
    let identity = open(&access, &given).expect("a session");
    assert_eq!(identity.access_key, given.access_key);
    assert_eq!(identity.secret.expose(), given.secret);
    assert_eq!((identity.account, identity.uid, identity.gid), (LAB, 7, 8));
    assert_eq!((identity.umask, identity.root), (0o077, false));
    assert_eq!(identity.user_id(), "staff:nightly");
    let principal = access.principal(Some(&identity));
    let arn = "arn:aws:sts::123456789012:assumed-role/staff/nightly";
    assert_eq!(principal.sender_arn().as_deref(), Some(arn));
    assert!(matches!(&principal, Principal::User { name: None, session: Some(_), .. }));
    assert!(may(&principal, &identity, "s3:GetObject"), "what the role has");
    assert!(may(&principal, &identity, "s3:PutObject"), "what the issuer gives");
    assert!(!may(&principal, &identity, "s3:DeleteObject"));
}

#[tokio::test]
async fn a_web_session_ends_when_its_role_account_or_policy_is_removed() {
    let access = access(vec![role(|_| {})]);
    let given = begin(&access);
    let without = |change: fn(&mut AccessRecords)| {
        let mut records = records();
        change(&mut records);
        access.replace(records);
        code(open(&access, &given))
    };
    assert_eq!(without(|_| {}), None);
    assert_eq!(without(|records| records.policies.clear()), Some(Code::AccessDenied));
    let unreadable = |records: &mut AccessRecords| records.policies[0].1.0.clear();
    assert_eq!(without(unreadable), Some(Code::AccessDenied));
    assert_eq!(without(|records| records.accounts.clear()), Some(Code::AccessDenied));
    // A user with the name of the role. Policies could not distinguish its sessions from the
    // role's.
    let named_alike = |records: &mut AccessRecords| {
        records.users.push(("staff".to_owned(), user("staff")));
    };
    assert_eq!(without(named_alike), Some(Code::AccessDenied));
    // The principal of a further key is its user, so any user may have one with this name.
    let key_named_alike = |records: &mut AccessRecords| {
        let key = User { parent: Some("anna".to_owned()), ..user("staff") };
        records.users.push(("anna".to_owned(), user("anna")));
        records.users.push(("staff".to_owned(), key));
    };
    assert_eq!(without(key_named_alike), None);
    assert_eq!(without(|_| {}), None);
}

#[tokio::test]
async fn a_policy_on_a_claim_that_is_not_kept_denies_everything() {
    let denies = |condition: &str| {
        let document = format!(
            r#"{{"Version":"2012-10-17","Statement":[
                {{"Effect":"Allow","Action":"s3:*","Resource":"*"}},
                {{"Effect":"Deny","Action":"s3:*","Resource":"*","Condition":{condition}}}]}}"#
        );
        let mut records = records();
        records.policies[0].1 = PolicyRecord(document);
        records
    };
    let under = |role: WebRole, condition: &str| {
        let access = access(vec![role]);
        let given = begin(&access);
        assert_eq!(access.replace(denies(condition)), [], "{condition}");
        let login = access.web_policies(&access.web_roles()[0], &web().policies).err();
        let opened = open(&access, &given).err();
        let of = |fault: &Option<Fault>| fault.as_ref().map(|fault| fault.code);
        assert_eq!(of(&login), of(&opened), "{condition}: at login as at every request");
        opened.map(|fault| (fault.code, fault.detail.unwrap_or_default().into_owned()))
    };
    let of_groups = r#"{"StringEquals":{"jwt:groups":"interns"}}"#;
    assert_eq!(under(role(|_| {}), of_groups), None, "it is kept");
    for (condition, claim) in [
        (of_groups, "groups"),
        (r#"{"StringLike":{"aws:Referer":"${jwt:team}"}}"#, "team"),
        (r#"{"ForAnyValue:StringEquals":{"jwt:Sub":"anna"}}"#, "Sub"),
    ] {
        let (code, detail) = under(role(|role| role.claims.clear()), condition).expect(condition);
        assert_eq!(code, Code::AccessDenied);
        assert!(detail.contains(&format!("{claim:?}")), "{condition}: {detail}");
    }
    let always = r#"{"StringEquals":{"jwt:sub":"bert","jwt:aud":"x","jwt:iss":"x"}}"#;
    assert_eq!(under(role(|role| role.claims.clear()), always), None, "they are always kept");
}

#[tokio::test]
async fn a_web_session_ends_when_its_role_no_longer_admits_it() {
    let given = begin(&access(vec![role(|_| {})]));
    let under = |roles| code(open(&access(roles), &given));
    assert_eq!(under(vec![role(|_| {})]), None);
    assert_eq!(under(vec![role(|role| role.name = "others".to_owned()), role(|_| {})]), None);
    let gone = Some(Code::InvalidToken);
    assert_eq!(under(Vec::new()), gone);
    assert_eq!(under(vec![role(|role| role.name = "others".to_owned())]), gone);
    assert_eq!(under(vec![role(|role| role.account = AccountId::MAIN)]), gone);
    assert_eq!(under(vec![role(|role| role.audiences.truncate(1))]), gone);
    assert_eq!(under(vec![role(|role| role.policy_claim = None)]), gone);
    assert_eq!(under(vec![role(|role| role.policy_claim = Some("roles".to_owned()))]), gone);
    let required = |values: &[&str]| under(vec![role(|role| role.require = require(values))]);
    assert_eq!(required(&["other", "acme"]), None);
    assert_eq!(required(&["lab"]), gone);
    let more = |role: &mut WebRole| {
        role.require.insert("ref".to_owned(), vec!["main".to_owned()]);
    };
    assert_eq!(under(vec![role(more)]), gone, "the token was not checked for this claim");
    assert_eq!(under(vec![role(|role| role.require.clear())]), None);
    assert_eq!(under(vec![role(|role| role.claims.clear())]), None, "no policy asks for it");
    assert_eq!(under(vec![role(|role| role.claims.push("team".to_owned()))]), gone);
    let elsewhere = |role: &mut WebRole| {
        let (url, authorities) = ("https://idp.example.com".to_owned(), None);
        let settings = IssuerSettings { url, authorities, allow_http: false };
        role.issuer = Arc::new(Issuer::new(settings, Tasks::new()).expect("an issuer"));
    };
    assert_eq!(under(vec![role(elsewhere)]), gone);
}

#[tokio::test]
async fn a_web_token_that_exceeds_the_header_limit_is_not_created() {
    let access = access(vec![role(|_| {})]);
    let mut large = web();
    large.claims[0].1 = vec!["x".repeat(10_000)];
    let new = NewSession { name: "nightly", policy: None, began: NOW, expires: NOW };
    let fault = access.begin_web_session(large, &new).expect_err("too large");
    assert_eq!(fault.code, Code::PackedPolicyTooLarge);
}

#[test]
fn claims_of_the_token_are_values_of_conditions() {
    let web = web();
    let one = |text: &str| Values::One(text.to_owned().into());
    assert_eq!(web.claim("sub"), one("anna"));
    assert_eq!(web.claim("aud"), one("ashlar"));
    assert_eq!(web.claim("iss"), one("https://idp.example.com/realm"));
    assert_eq!(web.claim("groups"), Values::Many(vec!["a".into(), "b".into()]));
    assert_eq!(web.claim("email"), Values::Absent);
    let without = WebIdentity { claims: vec![("groups".to_owned(), Vec::new())], ..web.clone() };
    assert_eq!(without.claim("groups"), Values::Absent, "the token did not have it");
    let arn = "arn:aws:iam::123456789012:oidc-provider/idp.example.com/realm";
    assert_eq!(web.provider_arn(), arn);
}

#[tokio::test]
async fn a_token_with_many_claims_fits_the_headers_or_is_refused_with_a_sentence() {
    let access = access(vec![role(|_| {})]);
    let mut refused = 0;
    for groups in (0..200).step_by(10) {
        // Quotes are the longest form of a character in JSON.
        let texts = (0..groups).map(|number| format!("\"{number}\" of the lab")).collect();
        let web = WebIdentity { claims: vec![("groups".to_owned(), texts)], ..web() };
        let new = NewSession { name: "n", policy: None, began: NOW, expires: NOW + Duration::HOUR };
        match access.begin_web_session(web, &new) {
            Ok(given) => {
                // With 2 KiB of user metadata, half of the headers' limit remains for the token.
                assert!(given.token.len() <= 4 << 10, "{} bytes", given.token.len());
                let session = access.session(&given.access_key, &given.token, NOW);
                let session = session.expect("a session that was given can be used");
                let web = session.session.as_ref().and_then(|session| session.web.as_ref());
                assert_eq!(web.map(|web| web.claims[0].1.len()), Some(groups));
            }
            Err(fault) => {
                assert_eq!(fault.code, Code::PackedPolicyTooLarge);
                assert!(format!("{fault:?}").contains("claims"), "{fault:?}");
                refused += 1;
            }
        }
    }
    assert!((1..20).contains(&refused), "{refused}");
}

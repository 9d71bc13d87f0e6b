use record::User;
use time::Duration;
use volume::AccessRecords;

use super::*;

const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

fn access(master: u8) -> Access {
    let master = MasterKey::new([master; MasterKey::BYTES]);
    let access = Access::new(Identity::root("root", Secret::new("rootsecret")), master.clone());
    let user = User {
        uid: 1_000,
        gid: 100,
        umask: 0o027,
        policies: vec!["readonly".to_owned()],
        ..User::new(
            record::AccountId(7),
            master.seal("anna", &Secret::new("hers"), [1; MasterKey::NONCE_BYTES]),
        )
    };
    let users = vec![("anna".to_owned(), user)];
    assert_eq!(access.replace(AccessRecords { users, ..AccessRecords::default() }), []);
    access
}

fn begin(access: &Access, policy: Option<&str>) -> SessionCredentials {
    let anna = access.lookup("anna", NOW).expect("anna was added");
    let expires = NOW + Duration::HOUR;
    let new = NewSession { name: "nightly", policy, began: NOW, expires };
    access.begin_session(&anna, &new).expect("a session")
}

fn code(result: Result<Arc<Identity>, Fault>) -> Code {
    result.expect_err("a fault").code
}

#[test]
fn a_session_has_the_permissions_of_its_user_within_its_policy() {
    let access = access(7);
    let policy = r#"{"Statement":{"Effect":"Allow","Action":"s3:*","Resource":"*"}}"#;
    let given = begin(&access, Some(policy));
    assert!(given.access_key.starts_with("ASIA") && given.access_key.len() == 20);
    let session = access.session(&given.access_key, &given.token, NOW).expect("a session");
    assert_eq!(session.access_key, "anna");
    assert_eq!((session.account, session.uid, session.umask), (record::AccountId(7), 1_000, 0o027));
    assert_eq!(session.secret.expose(), given.secret);
    assert!(session.session.as_ref().is_some_and(|session| session.policy.is_some()));
    let again = begin(&access, None);
    assert_ne!((given.access_key, given.secret), (again.access_key, again.secret));
}

#[test]
fn a_session_ends_when_it_expires_or_its_user_is_removed() {
    let access = access(7);
    let given = begin(&access, None);
    let at = |now| access.session(&given.access_key, &given.token, now);
    assert!(at(NOW + Duration::minutes(59)).is_ok());
    assert_eq!(code(at(NOW + Duration::HOUR)), Code::ExpiredToken);
    access.replace(AccessRecords::default());
    assert_eq!(code(at(NOW)), Code::InvalidToken);
}

#[test]
fn a_token_opens_only_with_its_access_key_and_master_key() {
    let (here, there) = (access(7), access(8));
    let (one, other) = (begin(&here, None), begin(&here, None));
    let try_it = |access: &Access, key: &str, token: &str| access.session(key, token, NOW);
    assert!(try_it(&here, &one.access_key, &one.token).is_ok());
    assert_eq!(code(try_it(&here, &other.access_key, &one.token)), Code::InvalidToken);
    assert_eq!(code(try_it(&there, &one.access_key, &one.token)), Code::InvalidToken);
    let long = "A".repeat(TOKEN_BYTES_MAX + 4);
    for bad in ["", "no base64!", "AAAA", &one.token[4..], &long] {
        assert_eq!(code(try_it(&here, &one.access_key, bad)), Code::InvalidToken);
    }
    for at in (0..one.token.len()).step_by(7) {
        let mut bytes = one.token.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(bytes).expect("base64 is text");
        assert!(try_it(&here, &one.access_key, &changed).is_err(), "byte {at}");
    }
}

#[test]
fn a_sealed_secret_is_refused_as_a_token() {
    let access = access(7);
    let master = MasterKey::new([7; MasterKey::BYTES]);
    let sealed = master.seal("anna", &Secret::new("hers"), [1; MasterKey::NONCE_BYTES]);
    assert_eq!(code(access.session("anna", &STANDARD.encode(sealed), NOW)), Code::InvalidToken);
}

#[test]
fn a_token_in_the_recorded_format_opens() {
    let access = access(7);
    let anna = access.lookup("anna", NOW).expect("anna was added");
    let text = format!(
        r#"{{"secret":"s3cret","user":"anna","proof":"{}","name":"nightly","policy":null,
            "began":0,"expires":3600}}"#,
        anna.proof()
    );
    let nonce = [3; MasterKey::NONCE_BYTES];
    let sealed = access.seal(&seal_name("ASIAEXAMPLE"), &Secret::new(text), nonce);
    let session = access.session("ASIAEXAMPLE", &STANDARD.encode(sealed), NOW).expect("a session");
    assert_eq!((session.access_key.as_str(), session.secret.expose()), ("anna", "s3cret"));
    assert_eq!(session.user_id(), "anna:nightly");
}

#[test]
fn a_token_that_exceeds_the_header_limit_is_not_created() {
    let access = access(7);
    let name = "n".repeat(64);
    // As many quotes as a policy can contain.
    let policy = |bytes: usize| {
        let list = |text: &str| {
            format!(
                r#"{{"Statement":{{"Effect":"Deny","Action":"s3:*","Resource":"*","Condition":{{"StringEquals":{{"aws:UserAgent":[{text}]}}}}}}}}"#
            )
        };
        let values = (bytes - list("").len() - 3) / 4;
        list(&format!("{}\"b\"", "\"a\",".repeat(values)))
    };
    let mut refused = 0;
    for bytes in (500..6_000).step_by(100).chain([AWS_POLICY_BYTES_MAX]) {
        let policy = policy(bytes);
        assert!(policy.len() <= bytes && bytes - policy.len() < 4);
        let anna = access.lookup("anna", NOW).expect("anna was added");
        let expires = NOW + Duration::HOUR;
        let new = NewSession { name: &name, policy: Some(&policy), began: NOW, expires };
        match access.begin_session(&anna, &new) {
            Ok(given) => {
                assert!(given.token.len() <= TOKEN_BYTES_MAX);
                let session = access.session(&given.access_key, &given.token, NOW);
                let session = session.expect("a session that was given can be used");
                assert!(session.session.as_ref().is_some_and(|it| it.policy.is_some()));
            }
            Err(fault) => {
                assert_eq!(fault.code, Code::PackedPolicyTooLarge);
                assert!(bytes > AWS_POLICY_BYTES_MAX, "{bytes} bytes");
                refused += 1;
            }
        }
    }
    assert!(refused > 0, "the longest policies do not fit");
}

#[test]
fn a_session_of_a_further_key_acts_for_the_user_and_ends_with_the_key() {
    let access = access(7);
    let master = MasterKey::new([7; MasterKey::BYTES]);
    let record = |name: &str, secret: &str| {
        let sealed = master.seal(name, &Secret::new(secret), [1; MasterKey::NONCE_BYTES]);
        User { policies: vec!["readonly".to_owned()], ..User::new(record::AccountId(7), sealed) }
    };
    let expires = Some(record::Timestamp(60_000_000_000));
    let key = User { parent: Some("anna".to_owned()), expires, ..record("AK2", "its own") };
    let anna = record("anna", "hers");
    let with = |anna: User, key: Option<User>| {
        let key = key.map(|key| ("AK2".to_owned(), key));
        let users = [("anna".to_owned(), anna)].into_iter().chain(key).collect();
        assert_eq!(access.replace(AccessRecords { users, ..AccessRecords::default() }), []);
    };
    with(anna.clone(), Some(key.clone()));
    let further = access.lookup("AK2", NOW).expect("a further key");
    let new =
        NewSession { name: "nightly", policy: None, began: NOW, expires: NOW + Duration::HOUR };
    let given = access.begin_session(&further, &new).expect("a session");
    let at = |now| access.session(&given.access_key, &given.token, now);
    let session = at(NOW).expect("a session");
    assert_eq!((session.user_id().as_str(), session.signing_key.as_str()), ("anna:nightly", "AK2"));
    assert_eq!(code(at(NOW + Duration::MINUTE)), Code::InvalidToken, "its key has expired");
    with(User { enabled: false, ..anna.clone() }, Some(key));
    assert_eq!(code(at(NOW)), Code::InvalidToken, "its user is disabled");
    with(anna, None);
    assert_eq!(code(at(NOW)), Code::InvalidToken, "its key is removed");
}

#[test]
fn work_that_lasts_follows_the_rights_of_its_sender() {
    let access = access(7);
    let master = MasterKey::new([7; MasterKey::BYTES]);
    let record = |policies: &[&str], secret: &str| {
        let sealed = master.seal("anna", &Secret::new(secret), [1; MasterKey::NONCE_BYTES]);
        let policies = policies.iter().map(ToString::to_string).collect();
        User { policies, ..User::new(record::AccountId(7), sealed) }
    };
    let with = |user: Option<User>| {
        let users = user.map(|user| ("anna".to_owned(), user)).into_iter().collect();
        assert_eq!(access.replace(AccessRecords { users, ..AccessRecords::default() }), []);
    };
    let key = access.lookup("anna", NOW).expect("anna was added");
    let given = begin(&access, None);
    let session = access.session(&given.access_key, &given.token, NOW).expect("a session");
    let policies = |of: &Identity, now| access.current(of, now).map(|now| now.policies.len());
    for of in [&key, &session] {
        with(Some(record(&["readonly"], "hers")));
        assert_eq!(policies(of, NOW), Some(1));
        with(Some(record(&["readonly", "writeonly"], "hers")));
        assert_eq!(policies(of, NOW), Some(2), "a changed policy");
        with(Some(record(&["readonly"], "another")));
        assert_eq!(policies(of, NOW), None, "another secret");
        with(Some(User { enabled: false, ..record(&["readonly"], "hers") }));
        assert_eq!(policies(of, NOW), None, "disabled");
        with(None);
        assert_eq!(policies(of, NOW), None, "removed");
        let expires = Some(record::Timestamp(60_000_000_000));
        with(Some(User { expires, ..record(&["readonly"], "hers") }));
        assert_eq!(policies(of, NOW + Duration::MINUTE), None, "expired");
    }
    with(Some(record(&["readonly"], "hers")));
    assert_eq!(policies(&session, NOW + Duration::minutes(59)), Some(1));
    assert_eq!(policies(&session, NOW + Duration::HOUR), None, "the session itself has ended");
    let current = access.current(&session, NOW).expect("a session");
    assert_eq!((current.secret.expose(), current.is_temporary()), (&*given.secret, true));
    assert!(access.current(&Identity::root("root", Secret::new("rootsecret")), NOW).is_some());
}

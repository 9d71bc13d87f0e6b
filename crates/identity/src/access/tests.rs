use policy::{NoValues, Question, Sources, authorise};
use record::{Account, AccountId, CanonicalId, Group, PolicyRecord, Timestamp, User};
use time::OffsetDateTime;
use volume::AccessRecords;

use super::{Access, Identity, MasterKey, SealError, Secret};

const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

fn master(byte: u8) -> MasterKey {
    MasterKey::new([byte; MasterKey::BYTES])
}

#[test]
fn a_sealed_secret_opens_for_its_access_key_alone() {
    let secret = Secret::new("correct horse");
    let sealed = master(7).seal("anna", &secret, [9; MasterKey::NONCE_BYTES]);
    assert_eq!(master(7).open("anna", &sealed), Ok(secret));
    assert_eq!(master(7).open("bert", &sealed), Err(SealError::Foreign));
    assert_eq!(master(8).open("anna", &sealed), Err(SealError::Foreign));
    assert!(master(7).is_sealed("anna", "correct horse", &sealed));
    assert!(!master(7).is_sealed("anna", "correct horse ", &sealed), "another secret");
    assert!(!master(7).is_sealed("bert", "correct horse", &sealed), "another access key");
}

#[test]
fn each_changed_byte_of_a_sealed_secret_is_detected() {
    let sealed = master(7).seal("anna", &Secret::new("s3cret"), [9; MasterKey::NONCE_BYTES]);
    for at in 0..sealed.len() {
        let mut changed = sealed.clone();
        changed[at] ^= 0x40;
        assert!(master(7).open("anna", &changed).is_err(), "byte {at}");
        assert!(master(7).open("anna", &sealed[..at]).is_err(), "cut at {at}");
    }
}

#[test]
fn the_format_of_a_sealed_secret_is_stable() {
    let sealed = master(7).seal("anna", &Secret::new("s3cret"), [9; MasterKey::NONCE_BYTES]);
    let golden = include_str!("golden/sealed_secret.hex");
    assert_eq!(hex::encode(sealed), golden.trim());
}

#[test]
fn a_newer_seal_format_is_reported() {
    assert_eq!(master(7).open("anna", &[2; 40]), Err(SealError::Format(2)));
}

#[test]
fn a_master_key_is_read_from_hexadecimal_and_base64() {
    let key = master(0xab);
    assert_eq!(MasterKey::parse(&format!("{}\n", key.expose())), Ok(key.clone()));
    let base64 = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, [0xab; 32]);
    assert_eq!(MasterKey::parse(&base64), Ok(key));
    for bad in ["", "short", &"ab".repeat(31), &"ab".repeat(33), &"zz".repeat(32)] {
        assert_eq!(MasterKey::parse(bad), Err(SealError::MasterKey), "{bad:?}");
    }
}

#[test]
fn secrets_are_never_printed() {
    let printed = format!("{:?} {:?}", Secret::new("s3cret"), master(0xab));
    assert!(!printed.contains("s3cret") && !printed.contains("abab"), "{printed}");
}

fn access() -> Access {
    Access::new(Identity::root("root", Secret::new("rootsecret")), master(7))
}

fn user(access_key: &str, policies: &[&str]) -> (String, User) {
    let secret = Secret::new(format!("secret of {access_key}"));
    let user = User {
        uid: 1000,
        gid: 100,
        umask: 0o027,
        policies: policies.iter().map(|&name| name.to_owned()).collect(),
        ..User::new(
            AccountId::MAIN,
            master(7).seal(access_key, &secret, [1; MasterKey::NONCE_BYTES]),
        )
    };
    (access_key.to_owned(), user)
}

/// Returns true if a sender has a permission in a bucket of the first account that has no policy.
fn may(access: &Access, identity: Option<&Identity>, action: &str, resource: &str) -> bool {
    let principal = access.principal(identity);
    let question = Question { principal: &principal, action, resource, conditions: &NoValues };
    let policies = identity.map_or(&[][..], |identity| &identity.policies);
    let policies: Vec<_> = policies.iter().map(std::sync::Arc::as_ref).collect();
    let account = AccountId::MAIN.to_string();
    let bucket = Some(policy::BucketSide { account: &account, policy: None, policy_allows: true });
    let sources = Sources { identity: &policies, session: None, bucket, acl: &|| false };
    authorise(&question, &sources).is_allowed()
}

fn replace(
    access: &Access,
    users: Vec<(String, User)>,
    policies: Vec<(String, PolicyRecord)>,
) -> Vec<super::Unusable> {
    access.replace(AccessRecords { users, policies, ..AccessRecords::default() })
}

fn policy(name: &str, statements: &str) -> (String, PolicyRecord) {
    let document = format!(r#"{{"Version":"2012-10-17","Statement":[{statements}]}}"#);
    (name.to_owned(), PolicyRecord(document))
}

#[test]
fn anonymous_clients_have_no_permission_and_root_has_all() {
    let access = access();
    let root = access.lookup("root", NOW).expect("root is always known");
    assert!(may(&access, Some(&root), "s3:PutObject", "b/k"));
    assert!(!may(&access, None, "s3:PutObject", "b/k"));
    assert!(access.lookup("anna", NOW).is_none());
}

#[test]
fn policies_of_a_user_decide_and_deny_wins() {
    let access = access();
    let narrow = policy(
        "narrow",
        r#"{"Effect":"Allow","Action":"s3:*","Resource":"arn:aws:s3:::b/*"},
           {"Effect":"Deny","Action":"s3:DeleteObject","Resource":"arn:aws:s3:::b/keep/*"}"#,
    );
    let users = vec![user("anna", &["narrow", "readwrite"]), user("bert", &["readonly"])];
    assert_eq!(replace(&access, users, vec![narrow]), Vec::new());
    let anna = access.lookup("anna", NOW).expect("anna was added");
    assert_eq!(anna.secret.expose(), "secret of anna");
    assert!(may(&access, Some(&anna), "s3:DeleteObject", "b/other"));
    assert!(!may(&access, Some(&anna), "s3:DeleteObject", "b/keep/this"));
    let bert = access.lookup("bert", NOW).expect("bert was added");
    assert!(may(&access, Some(&bert), "s3:GetObject", "b/k"));
    assert!(!may(&access, Some(&bert), "s3:PutObject", "b/k"));
}

#[test]
fn a_user_with_no_policy_or_a_missing_one_has_no_permission() {
    let access = access();
    let trouble = replace(&access, vec![user("anna", &[]), user("bert", &["gone"])], Vec::new());
    let anna = access.lookup("anna", NOW).expect("anna was added");
    assert!(!may(&access, Some(&anna), "s3:GetObject", "b/k"));
    assert!(access.lookup("bert", NOW).is_none());
    let sentence = trouble.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(sentence, [r#"access key "bert": no usable policy "gone""#]);
}

#[test]
fn unusable_records_grant_nothing_and_are_reported_once() {
    let access = access();
    let broken = ("broken".to_owned(), PolicyRecord("{".to_owned()));
    let users = vec![user("anna", &["readwrite", "broken"])];
    assert_eq!(replace(&access, users.clone(), vec![broken.clone()]).len(), 2);
    assert!(access.lookup("anna", NOW).is_none());
    assert_eq!(replace(&access, users, vec![broken]), Vec::new());
}

#[test]
fn disabled_and_removed_users_are_unknown_and_root_cannot_be_replaced() {
    let access = access();
    let mut anna = user("anna", &["readwrite"]);
    replace(&access, vec![anna.clone(), user("root", &[])], Vec::new());
    assert!(access.lookup("anna", NOW).is_some());
    assert!(access.lookup("root", NOW).expect("root is always known").root);
    anna.1.enabled = false;
    replace(&access, vec![anna], Vec::new());
    assert!(access.lookup("anna", NOW).is_none());
}

#[test]
fn accounts_appear_as_owners_and_resolve_by_canonical_id() {
    let access = access();
    let (lab, id) = (AccountId(123_456_789_012), CanonicalId([0xc1; 32]));
    let account = Account { name: "lab".to_owned(), canonical_id: id };
    let mut anna = user("anna", &["readwrite"]);
    anna.1.account = lab;
    let (accounts, users) = (vec![(lab, account)], vec![anna]);
    assert_eq!(access.replace(AccessRecords { accounts, users, ..AccessRecords::default() }), []);
    let owner = access.owner(lab);
    assert_eq!((owner.id.as_str(), owner.display_name.as_str()), (&*"c1".repeat(32), "lab"));
    assert_eq!(access.account_of(&owner.id), Some((lab, id)));
    assert_eq!(access.account_of(&"00".repeat(32)), None);
    assert_eq!(access.owner(AccountId(5)).id.len(), 64, "of one that was removed");
    let anna = access.lookup("anna", NOW).expect("anna was added");
    assert_eq!(anna.account, lab);
    assert!(!may(&access, Some(&anna), "s3:GetObject", "b/k"), "the bucket is another account's");
    let named = |account: &str, name: &str| policy::PrincipalName::User {
        account: account.to_owned(),
        name: name.to_owned(),
    };
    assert!(access.exists(&named("123456789012", "anna")));
    assert!(!access.exists(&named("000000000001", "anna")) && !access.exists(&named("", "bert")));
}

/// A further key of `anna`.
fn further(access_key: &str, expires: Option<Timestamp>) -> (String, User) {
    let (name, user) = user(access_key, &[]);
    (name, User { parent: Some("anna".to_owned()), expires, uid: 9, account: AccountId(9), ..user })
}

#[test]
fn a_further_key_has_everything_of_its_user() {
    let access = access();
    let users = vec![user("anna", &["readonly"]), further("AK2", None)];
    assert_eq!(replace(&access, users, Vec::new()), []);
    let key = access.lookup("AK2", NOW).expect("a further key");
    assert_eq!((&*key.access_key, &*key.signing_key), ("anna", "AK2"));
    assert_eq!(
        (key.secret.expose(), key.uid, key.account),
        ("secret of AK2", 1000, AccountId::MAIN)
    );
    assert!(may(&access, Some(&key), "s3:GetObject", "b/k"));
    assert!(!may(&access, Some(&key), "s3:PutObject", "b/k"));
    let principal = access.principal(Some(&key));
    assert_eq!(principal.sender_arn().as_deref(), Some("arn:aws:iam::000000000001:user/anna"));
    assert!(access.exists(&policy::PrincipalName::AccessKey("anna".to_owned())));
    assert!(!access.exists(&policy::PrincipalName::AccessKey("AK2".to_owned())), "no principal");
}

#[test]
fn a_key_ends_at_its_expiry_without_a_new_snapshot() {
    let access = access();
    let (name, anna) = user("anna", &["readonly"]);
    let soon = Some(Timestamp(1_000_000_000));
    let users = vec![(name, User { expires: soon, ..anna }), further("AK2", None)];
    let users = [users, vec![further("AK3", soon)]].concat();
    assert_eq!(replace(&access, users, Vec::new()), []);
    let later = NOW + time::Duration::SECOND;
    for (key, known_later) in [("anna", false), ("AK2", true), ("AK3", false)] {
        assert!(access.lookup(key, NOW).is_some(), "{key}");
        assert_eq!(access.lookup(key, later).is_some(), known_later, "{key}");
        let identified = access.identify(Some(key), None, later).expect("no fault");
        assert_eq!(identified.is_some(), known_later, "{key}");
    }
}

#[test]
fn a_disabled_user_takes_its_further_keys_along() {
    let access = access();
    let mut anna = user("anna", &["readonly"]);
    anna.1.enabled = false;
    assert_eq!(replace(&access, vec![anna, further("AK2", None)], Vec::new()), []);
    assert!(access.lookup("AK2", NOW).is_none());
    let mut off = further("AK3", None);
    off.1.enabled = false;
    assert_eq!(replace(&access, vec![user("anna", &[]), off], Vec::new()), []);
    assert!(access.lookup("AK3", NOW).is_none() && access.lookup("anna", NOW).is_some());
    let orphan = replace(&access, vec![further("AK2", None)], Vec::new());
    assert_eq!(orphan.len(), 1, "{orphan:?}");
    assert!(access.lookup("AK2", NOW).is_none());
}

#[test]
fn members_have_the_policies_of_enabled_groups_also_their_denies() {
    let access = access();
    let denies = r#"{"Effect":"Deny","Action":"s3:DeleteObject","Resource":"*"}"#;
    let policies = vec![policy("no-deletes", denies)];
    let group = |name: &str, enabled: bool, policies: &[&str]| {
        let policies = policies.iter().map(|&name| name.to_owned()).collect();
        (name.to_owned(), Group { enabled, members: vec!["anna".to_owned()], policies })
    };
    let with = |groups: Vec<(String, Group)>| {
        let (name, anna) = user("anna", &["readonly"]);
        let names = groups.iter().map(|(name, _)| name.clone()).collect();
        let users = vec![(name, User { groups: names, ..anna }), further("AK2", None)];
        let policies = policies.clone();
        let records = AccessRecords { users, groups, policies, ..AccessRecords::default() };
        let unusable = access.replace(records).len();
        let key = access.lookup("AK2", NOW);
        let can =
            |action: &str| key.as_deref().is_some_and(|key| may(&access, Some(key), action, "b/k"));
        (unusable, can("s3:GetObject"), can("s3:PutObject"), can("s3:DeleteObject"))
    };
    assert_eq!(with(Vec::new()), (0, true, false, false));
    let writers = group("writers", true, &["readwrite"]);
    assert_eq!(with(vec![writers.clone()]), (0, true, true, true));
    assert_eq!(
        with(vec![writers.clone(), group("keep", true, &["no-deletes"])]),
        (0, true, true, false)
    );
    assert_eq!(with(vec![writers, group("keep", false, &["no-deletes"])]), (0, true, true, true));
    // A missing policy might deny something, so the keys of the members are unusable.
    assert_eq!(with(vec![group("lost", true, &["gone"])]), (2, false, false, false));
}

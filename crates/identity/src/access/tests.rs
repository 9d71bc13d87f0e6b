use policy::{NoValues, Question, Sources, authorise};
use record::{Account, AccountId, CanonicalId, PolicyRecord, User};
use volume::AccessRecords;

use super::{Access, Identity, MasterKey, SealError, Secret};

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
    let root = access.lookup("root").expect("root is always known");
    assert!(may(&access, Some(&root), "s3:PutObject", "b/k"));
    assert!(!may(&access, None, "s3:PutObject", "b/k"));
    assert!(access.lookup("anna").is_none());
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
    let anna = access.lookup("anna").expect("anna was added");
    assert_eq!(anna.secret.expose(), "secret of anna");
    assert!(may(&access, Some(&anna), "s3:DeleteObject", "b/other"));
    assert!(!may(&access, Some(&anna), "s3:DeleteObject", "b/keep/this"));
    let bert = access.lookup("bert").expect("bert was added");
    assert!(may(&access, Some(&bert), "s3:GetObject", "b/k"));
    assert!(!may(&access, Some(&bert), "s3:PutObject", "b/k"));
}

#[test]
fn a_user_with_no_policy_or_a_missing_one_has_no_permission() {
    let access = access();
    let trouble = replace(&access, vec![user("anna", &[]), user("bert", &["gone"])], Vec::new());
    let anna = access.lookup("anna").expect("anna was added");
    assert!(!may(&access, Some(&anna), "s3:GetObject", "b/k"));
    assert!(access.lookup("bert").is_none());
    let sentence = trouble.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(sentence, [r#"access key "bert": no usable policy "gone""#]);
}

#[test]
fn unusable_records_grant_nothing_and_are_reported_once() {
    let access = access();
    let broken = ("broken".to_owned(), PolicyRecord("{".to_owned()));
    let users = vec![user("anna", &["readwrite", "broken"])];
    assert_eq!(replace(&access, users.clone(), vec![broken.clone()]).len(), 2);
    assert!(access.lookup("anna").is_none());
    assert_eq!(replace(&access, users, vec![broken]), Vec::new());
}

#[test]
fn disabled_and_removed_users_are_unknown_and_root_cannot_be_replaced() {
    let access = access();
    let mut anna = user("anna", &["readwrite"]);
    replace(&access, vec![anna.clone(), user("root", &[])], Vec::new());
    assert!(access.lookup("anna").is_some());
    assert!(access.lookup("root").expect("root is always known").root);
    anna.1.enabled = false;
    replace(&access, vec![anna], Vec::new());
    assert!(access.lookup("anna").is_none());
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
    let anna = access.lookup("anna").expect("anna was added");
    assert_eq!(anna.account, lab);
    assert!(!may(&access, Some(&anna), "s3:GetObject", "b/k"), "the bucket is another account's");
    let named = |account: &str, name: &str| policy::PrincipalName::User {
        account: account.to_owned(),
        name: name.to_owned(),
    };
    assert!(access.exists(&named("123456789012", "anna")));
    assert!(!access.exists(&named("000000000001", "anna")) && !access.exists(&named("", "bert")));
}

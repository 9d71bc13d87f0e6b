use std::cell::Cell;

use super::{ACCOUNT, OTHER, Said, of_bucket, of_user, root, session, user};
use crate::Ruling::{Allowed, Denied, NotAllowed};
use crate::{BucketSide, Policy, Principal, Question, Ruling, Source, Sources, authorise};

const ALL: &str = r#""Action":"s3:*","Resource":"*""#;

/// The sources of a test; the bucket belongs to `ACCOUNT`.
#[derive(Default, Clone, Copy)]
struct Case<'a> {
    identity: Option<&'a Policy>,
    session: Option<&'a Policy>,
    bucket: Option<&'a Policy>,
    acl: bool,
}

impl Case<'_> {
    fn rule(self, principal: &Principal, action: &str) -> Ruling {
        let identity: Vec<&Policy> = self.identity.into_iter().collect();
        let question =
            Question { principal, action, resource: "b/k", conditions: &Said::default() };
        authorise(
            &question,
            &Sources {
                identity: &identity,
                session: self.session,
                bucket: Some(BucketSide {
                    account: ACCOUNT,
                    policy: self.bucket,
                    policy_allows: true,
                }),
                acl: &|| self.acl,
            },
        )
    }
}

const GET: &str = "s3:GetObject";

#[test]
fn within_an_account_either_side_is_enough() {
    let alice = user(ACCOUNT, "alice");
    let (allow, other) =
        (of_user("Allow", ALL), of_user("Allow", r#""Action":"s3:PutObject","Resource":"*""#));
    let bucket = of_bucket("Allow", r#""Principal":{"AWS":"alice"}"#);
    let case = Case { identity: Some(&other), ..Case::default() };
    assert_eq!(case.rule(&alice, GET), NotAllowed(Source::Identity));
    assert_eq!(Case { identity: Some(&allow), ..case }.rule(&alice, GET), Allowed);
    assert_eq!(Case { bucket: Some(&bucket), ..case }.rule(&alice, GET), Allowed);
    assert_eq!(Case { acl: true, ..case }.rule(&alice, GET), Allowed);
    for principal in [r#""*""#, r#"{"AWS":"111111111111"}"#] {
        let bucket = of_bucket("Allow", &format!(r#""Principal":{principal}"#));
        assert_eq!(Case { bucket: Some(&bucket), ..case }.rule(&alice, GET), Allowed);
    }
}

#[test]
fn across_accounts_both_sides_must_allow() {
    let alice = user(OTHER, "alice");
    let allow = of_user("Allow", ALL);
    let bucket = of_bucket("Allow", r#""Principal":{"AWS":"222222222222"}"#);
    let none = Case::default();
    let identity = Case { identity: Some(&allow), ..none };
    assert_eq!(none.rule(&alice, GET), NotAllowed(Source::Identity));
    assert_eq!(identity.rule(&alice, GET), NotAllowed(Source::Bucket));
    assert_eq!(
        Case { bucket: Some(&bucket), ..none }.rule(&alice, GET),
        NotAllowed(Source::Identity)
    );
    assert_eq!(Case { acl: true, ..none }.rule(&alice, GET), NotAllowed(Source::Identity));
    assert_eq!(Case { bucket: Some(&bucket), ..identity }.rule(&alice, GET), Allowed);
    assert_eq!(Case { acl: true, ..identity }.rule(&alice, GET), Allowed);
    // A root user's own side allows all, and no more.
    assert_eq!(none.rule(&root(OTHER), GET), NotAllowed(Source::Bucket));
    assert_eq!(Case { acl: true, ..none }.rule(&root(OTHER), GET), Allowed);
}

#[test]
fn a_deny_of_each_source_overrides_each_allow() {
    let (allow, deny) = (of_user("Allow", ALL), of_user("Deny", ALL));
    let (open, closed) =
        (of_bucket("Allow", r#""Principal":"*""#), of_bucket("Deny", r#""Principal":"*""#));
    let all =
        Case { identity: Some(&allow), session: Some(&allow), bucket: Some(&open), acl: true };
    for alice in [user(ACCOUNT, "alice"), user(OTHER, "alice"), session(ACCOUNT, "a", "r", "s")] {
        assert_eq!(all.rule(&alice, GET), Allowed);
        let denied = Case { identity: Some(&deny), ..all }.rule(&alice, GET);
        assert_eq!(denied, Denied(Source::Identity));
        let denied = Case { session: Some(&deny), ..all }.rule(&alice, GET);
        assert_eq!(denied, Denied(Source::Session));
        let denied = Case { bucket: Some(&closed), ..all }.rule(&alice, GET);
        assert_eq!(denied, Denied(Source::Bucket));
    }
}

#[test]
fn the_owners_root_user_can_always_change_the_bucket_policy() {
    let closed = of_bucket("Deny", r#""Principal":"*""#);
    let case = Case { bucket: Some(&closed), ..Case::default() };
    for action in ["s3:GetBucketPolicy", "s3:PutBucketPolicy", "s3:DeleteBucketPolicy"] {
        assert_eq!(case.rule(&root(ACCOUNT), action), Allowed);
        assert_eq!(case.rule(&root(OTHER), action), Denied(Source::Bucket));
        assert_eq!(case.rule(&user(ACCOUNT, "alice"), action), Denied(Source::Bucket));
    }
    assert_eq!(case.rule(&root(ACCOUNT), GET), Denied(Source::Bucket));
    assert_eq!(Case::default().rule(&root(ACCOUNT), GET), Allowed);
    // Policies of a root user do not count, in either way.
    let deny = of_user("Deny", ALL);
    assert_eq!(
        Case { identity: Some(&deny), ..Case::default() }.rule(&root(ACCOUNT), GET),
        Allowed
    );
}

#[test]
fn a_session_policy_does_not_limit_grants_to_the_session_itself() {
    let sender = session(ACCOUNT, "alice", "r", "s");
    let allow = of_user("Allow", ALL);
    let narrow = of_user("Allow", r#""Action":"s3:PutObject","Resource":"*""#);
    let case = Case { identity: Some(&allow), session: Some(&narrow), ..Case::default() };
    assert_eq!(case.rule(&sender, "s3:PutObject"), Allowed);
    assert_eq!(case.rule(&sender, GET), NotAllowed(Source::Session));
    assert_eq!(Case { acl: true, ..case }.rule(&sender, GET), NotAllowed(Source::Session));
    for (principal, expected) in [
        (r#""*""#, NotAllowed(Source::Session)),
        (r#"{"AWS":"alice"}"#, NotAllowed(Source::Session)),
        (r#"{"AWS":"arn:aws:iam::111111111111:role/r"}"#, NotAllowed(Source::Session)),
        (r#"{"AWS":["alice","arn:aws:sts::111111111111:assumed-role/r/s"]}"#, Allowed),
        (r#"{"AWS":"arn:aws:sts::111111111111:assumed-role/r/t"}"#, NotAllowed(Source::Session)),
    ] {
        let bucket = of_bucket("Allow", &format!(r#""Principal":{principal}"#));
        let case = Case { bucket: Some(&bucket), ..case };
        assert_eq!(case.rule(&sender, GET), expected, "{principal}");
    }
    // Without the user's own allow, the session policy gives nothing.
    let alone = Case { session: Some(&allow), ..Case::default() };
    assert_eq!(alone.rule(&sender, GET), NotAllowed(Source::Identity));
}

#[test]
fn an_anonymous_sender_gets_only_grants_to_everyone() {
    let anonymous = Principal::Anonymous;
    let allow = of_user("Allow", ALL);
    let case = Case { identity: Some(&allow), ..Case::default() };
    assert_eq!(case.rule(&anonymous, GET), NotAllowed(Source::Bucket));
    assert_eq!(Case { acl: true, ..case }.rule(&anonymous, GET), Allowed);
    let open = of_bucket("Allow", r#""Principal":"*""#);
    assert_eq!(Case { bucket: Some(&open), ..case }.rule(&anonymous, GET), Allowed);
    let named = of_bucket("Allow", r#""Principal":{"AWS":"111111111111"}"#);
    let ruling = Case { bucket: Some(&named), ..case }.rule(&anonymous, GET);
    assert_eq!(ruling, NotAllowed(Source::Bucket));
    let closed = of_bucket("Deny", r#""Principal":"*""#);
    let ruling = Case { bucket: Some(&closed), acl: true, ..case }.rule(&anonymous, GET);
    assert_eq!(ruling, Denied(Source::Bucket));
}

#[test]
fn without_a_bucket_the_senders_account_decides() {
    let readonly = Policy::canned("readonly").unwrap();
    let ask = |identity: &[&Policy], principal: &Principal| {
        let question = Question {
            principal,
            action: "s3:ListAllMyBuckets",
            resource: "*",
            conditions: &Said::default(),
        };
        let sources = Sources { identity, session: None, bucket: None, acl: &|| false };
        authorise(&question, &sources)
    };
    assert_eq!(ask(&[&readonly], &user(ACCOUNT, "alice")), Allowed);
    assert_eq!(ask(&[], &user(ACCOUNT, "alice")), NotAllowed(Source::Identity));
    assert_eq!(ask(&[], &root(ACCOUNT)), Allowed);
    assert_eq!(ask(&[&readonly], &Principal::Anonymous), NotAllowed(Source::Bucket));
}

#[test]
fn a_policy_of_the_wrong_kind_allows_nothing() {
    let alice = user(ACCOUNT, "alice");
    let (of_user, of_bucket) = (of_user("Allow", ALL), of_bucket("Allow", r#""Principal":"*""#));
    let case = Case { identity: Some(&of_bucket), bucket: Some(&of_user), ..Case::default() };
    assert_eq!(case.rule(&alice, GET), NotAllowed(Source::Identity));
    let identity = Case { identity: Some(&of_user), ..Case::default() };
    let session = Case { session: Some(&of_bucket), ..identity };
    assert_eq!(session.rule(&alice, GET), NotAllowed(Source::Session));
}

#[test]
fn the_access_control_list_is_read_only_if_it_decides() {
    let asked = Cell::new(0);
    let allow = of_user("Allow", ALL);
    let ask = |identity: &[&Policy]| {
        let sources = Sources {
            identity,
            session: None,
            bucket: Some(BucketSide { account: ACCOUNT, policy: None, policy_allows: true }),
            acl: &|| {
                asked.set(asked.get() + 1);
                true
            },
        };
        let question = Question {
            principal: &user(ACCOUNT, "alice"),
            action: GET,
            resource: "b/k",
            conditions: &Said::default(),
        };
        assert_eq!(authorise(&question, &sources), Allowed);
    };
    ask(&[&allow]);
    assert_eq!(asked.get(), 0);
    ask(&[]);
    assert_eq!(asked.get(), 1);
}

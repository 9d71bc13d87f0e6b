use super::{ACCOUNT, CANONICAL, OTHER, decide, in_bucket, of_bucket, root, session, user, web};
use crate::{Decision, NoValues, Policy, PolicyKind, Principal, PrincipalName, Question};

#[test]
fn each_kind_of_principal_name_includes_its_senders() {
    let alice = user(ACCOUNT, "alice");
    let role = session(ACCOUNT, "alice", "r", "s");
    let senders = [
        Principal::Anonymous,
        alice,
        user(ACCOUNT, "bob"),
        user(OTHER, "alice"),
        root(ACCOUNT),
        role,
        session(ACCOUNT, "bob", "r", "t"),
    ];
    // Anonymous, alice, bob, alice of another account, root, alice's session s, bob's session t.
    for (principal, expected) in [
        (r#""*""#, "1111111"),
        (r#"{"AWS":"*"}"#, "1111111"),
        (r#"{"AWS":["*"]}"#, "1111111"),
        (r#"{"AWS":"111111111111"}"#, "0110111"),
        (r#"{"AWS":"arn:aws:iam::111111111111:root"}"#, "0110111"),
        (r#"{"AWS":["arn:aws:iam::111111111111:root","222222222222"]}"#, "0111111"),
        (r#"{"AWS":"arn:aws:iam::111111111111:user/alice"}"#, "0100010"),
        (r#"{"AWS":"arn:aws:iam::111111111111:user/rootkey"}"#, "0000000"),
        (r#"{"AWS":"arn:aws:iam::111111111111:role/r"}"#, "0000011"),
        (r#"{"AWS":"arn:aws:sts::111111111111:assumed-role/r/s"}"#, "0000010"),
        (r#"{"AWS":["alice"]}"#, "0101010"),
        (r#""alice""#, "0101010"),
        (r#"["alice","bob"]"#, "0111011"),
        (r#"{"AWS":"rootkey"}"#, "0000100"),
        (r#"{"AWS":"stranger"}"#, "0000000"),
    ] {
        let policy = of_bucket("Allow", &format!(r#""Principal":{principal}"#));
        let found: String = senders
            .iter()
            .map(|sender| decide(&policy, sender, "s3:GetObject", "b/k").is_allowed())
            .map(|means| if means { '1' } else { '0' })
            .collect();
        assert_eq!(found, expected, "{principal}");
    }
    let upper = CANONICAL.to_ascii_uppercase();
    let policy = of_bucket("Allow", &format!(r#""Principal":{{"CanonicalUser":"{upper}"}}"#));
    assert!(decide(&policy, &senders[1], "s3:GetObject", "b/k").is_allowed());
    assert!(!decide(&policy, &senders[0], "s3:GetObject", "b/k").is_allowed());
}

#[test]
fn not_principal_denies_all_except_the_named() {
    let policy = of_bucket(
        "Deny",
        r#""NotPrincipal":{"AWS":["arn:aws:iam::111111111111:user/alice","arn:aws:iam::111111111111:root"]}"#,
    );
    for (sender, denied) in [
        (user(ACCOUNT, "alice"), false),
        (root(ACCOUNT), false),
        (session(ACCOUNT, "alice", "r", "s"), false),
        // The account includes only its root user.
        (user(ACCOUNT, "bob"), true),
        (user(OTHER, "alice"), true),
        (root(OTHER), true),
        (Principal::Anonymous, true),
    ] {
        let expected = if denied { Decision::Denied } else { Decision::Unspecified };
        assert_eq!(decide(&policy, &sender, "s3:GetObject", "b/k"), expected, "{sender:?}");
    }
}

#[test]
fn a_bad_principal_is_refused() {
    for principal in [
        r#""Principal":"""#,
        r#""Principal":[]"#,
        r#""Principal":{}"#,
        r#""Principal":{"AWS":""}"#,
        r#""Principal":{"AWS":[]}"#,
        r#""Principal":{"AWS":["*","alice"]}"#,
        r#""Principal":{"AWS":"*","CanonicalUser":"00000000000000000000000000000000000000000000000000000000000000aa"}"#,
        r#""Principal":{"AWS":"ali*"}"#,
        r#""Principal":{"AWS":"arn:aws:iam::1:root"}"#,
        r#""Principal":{"AWS":"arn:aws:iam::111111111111:user/"}"#,
        r#""Principal":{"AWS":"arn:aws:iam::111111111111:user/*"}"#,
        r#""Principal":{"AWS":"arn:aws:iam::111111111111:group/g"}"#,
        r#""Principal":{"AWS":"arn:aws:sts::111111111111:assumed-role/r"}"#,
        r#""Principal":{"AWS":7}"#,
        r#""Principal":null"#,
        r#""Principal":{"CanonicalUser":"aa"}"#,
        r#""Principal":{"CanonicalUser":"*"}"#,
        r#""Principal":{"Service":"sns.amazonaws.com"}"#,
        r#""Principal":{"Service":"*"}"#,
        r#""Principal":{"Service":[]}"#,
        r#""Principal":{"AWS":"logging.s3.amazonaws.com/x"}"#,
        r#""Principal":"*","NotPrincipal":"alice""#,
        r#""NotPrincipal":"*""#,
        r#""NotPrincipal":{"AWS":"alice"},"Effect":"Allow""#,
    ] {
        let effect = if principal.contains("Effect") { "" } else { r#""Effect":"Deny","# };
        let json = format!(
            r#"{{"Statement":{{{effect}{principal},"Action":"s3:*","Resource":"arn:aws:s3:::b/*"}}}}"#
        );
        let error = Policy::parse(&json, in_bucket()).expect_err(principal);
        assert_eq!(error.sentence(), "Invalid principal in policy", "{principal}");
        assert_eq!(error.code(), "MalformedPolicy");
    }
}

#[test]
fn principals_must_exist() {
    let json = r#"{"Statement":{"Effect":"Allow","Principal":{"AWS":["alice","222222222222"]},
        "Action":"s3:GetObject","Resource":"arn:aws:s3:::b/*"}}"#;
    let only_accounts = |name: &PrincipalName| matches!(name, PrincipalName::Account(_));
    let kind = PolicyKind::Bucket { bucket: "b", exists: &only_accounts };
    let error = Policy::parse(json, kind).unwrap_err();
    assert_eq!(error.sentence(), "Invalid principal in policy");
    let policy = Policy::parse(json, in_bucket()).unwrap();
    let named: Vec<_> = policy.principals().cloned().collect();
    assert_eq!(
        named,
        [PrincipalName::AccessKey("alice".into()), PrincipalName::Account(OTHER.into())]
    );
}

#[test]
fn arns_of_senders() {
    assert_eq!(Principal::Anonymous.arn(), None);
    assert_eq!(root(ACCOUNT).arn().unwrap(), "arn:aws:iam::111111111111:root");
    assert_eq!(user(ACCOUNT, "alice").arn().unwrap(), "arn:aws:iam::111111111111:user/alice");
    let session = session(ACCOUNT, "alice", "r", "s");
    // The ARN of the user, so that a Deny by `aws:PrincipalArn` holds for its sessions.
    assert_eq!(session.arn().unwrap(), "arn:aws:iam::111111111111:user/alice");
    assert_eq!(session.sender_arn().unwrap(), "arn:aws:sts::111111111111:assumed-role/r/s");
    let web = web(ACCOUNT, "r", "s");
    assert_eq!(web.arn().unwrap(), "arn:aws:iam::111111111111:role/r");
    assert_eq!(web.sender_arn(), session.sender_arn());
}

#[test]
fn a_deny_by_the_name_of_a_user_holds_for_its_sessions() {
    let sender = |who: &Principal, condition: &str| {
        let json = format!(
            r#"{{"Statement":{{"Effect":"Deny","Principal":"*","Action":"s3:GetObject",
                "Resource":"arn:aws:s3:::b/*","Condition":{condition}}}}}"#
        );
        decide(&Policy::parse(&json, in_bucket()).unwrap(), who, "s3:GetObject", "b/k")
    };
    let by_name = r#"{"StringEquals":{"aws:username":"alice"}}"#;
    let by_arn = r#"{"ArnEquals":{"aws:PrincipalArn":"arn:aws:iam::111111111111:user/alice"}}"#;
    let root_arn = r#"{"ArnEquals":{"aws:PrincipalArn":"arn:aws:iam::111111111111:root"}}"#;
    let mut of_root = session(ACCOUNT, "rootkey", "rootkey", "s");
    if let Principal::User { is_root, .. } = &mut of_root {
        *is_root = true;
    }
    for who in [user(ACCOUNT, "alice"), session(ACCOUNT, "alice", "alice", "s")] {
        assert_eq!(sender(&who, by_name), Decision::Denied, "{who:?}");
        assert_eq!(sender(&who, by_arn), Decision::Denied, "{who:?}");
        assert_eq!(sender(&who, root_arn), Decision::Unspecified, "{who:?}");
    }
    assert_eq!(sender(&of_root, root_arn), Decision::Denied);
    // A web identity has no user, also if it chooses the name of one.
    for who in [web(ACCOUNT, "alice", "alice"), session(ACCOUNT, "bob", "bob", "alice"), of_root] {
        assert_eq!(sender(&who, by_name), Decision::Unspecified, "{who:?}");
        assert_eq!(sender(&who, by_arn), Decision::Unspecified, "{who:?}");
    }
}

#[test]
fn a_session_of_a_web_identity_is_no_user() {
    let mut session = session(ACCOUNT, "alice", "r", "s");
    let means = |principal: &Principal, named: &str| {
        let json = format!(
            r#"{{"Statement":{{"Effect":"Allow","Principal":{{"AWS":{named:?}}},
                "Action":"s3:GetObject","Resource":"arn:aws:s3:::b/*"}}}}"#
        );
        let policy = Policy::parse(&json, in_bucket()).expect("a policy");
        let conditions = &NoValues;
        let (action, resource) = ("s3:GetObject", "b/k");
        let question = Question { principal, action, resource, conditions };
        policy.decide(&question) == Decision::Allowed
    };
    let user = "arn:aws:iam::111111111111:user/alice";
    let named = ["alice", user, ACCOUNT, "arn:aws:iam::111111111111:role/r"];
    assert_eq!(named.map(|named| means(&session, named)), [true; 4]);
    if let Principal::User { name, .. } = &mut session {
        *name = None;
    }
    assert_eq!(named.map(|named| means(&session, named)), [false, false, true, true]);
    assert_eq!(session.sender_arn().unwrap(), "arn:aws:sts::111111111111:assumed-role/r/s");
}

#[test]
fn a_service_is_named_as_service_and_is_among_all_principals() {
    let service = Principal::Service(crate::LOG_DELIVERY);
    let named = r#""Principal":{"Service":["logging.s3.amazonaws.com"],"AWS":"alice"}"#;
    let policy = of_bucket("Allow", named);
    assert!(decide(&policy, &service, "s3:PutObject", "b/k").is_allowed());
    assert!(decide(&policy, &user(ACCOUNT, "alice"), "s3:PutObject", "b/k").is_allowed());
    for other in [user(ACCOUNT, "bob"), root(ACCOUNT), Principal::Anonymous] {
        assert_eq!(decide(&policy, &other, "s3:PutObject", "b/k"), Decision::Unspecified);
    }
    assert!(!policy.is_public());
    let everyone = of_bucket("Allow", r#""Principal":"*""#);
    assert!(decide(&everyone, &service, "s3:PutObject", "b/k").is_allowed());
    // A Deny for all principals except users applies to the service.
    let others = of_bucket("Deny", r#""NotPrincipal":{"AWS":"alice"}"#);
    assert_eq!(decide(&others, &service, "s3:PutObject", "b/k"), Decision::Denied);
    let spared = of_bucket("Deny", r#""NotPrincipal":{"Service":"logging.s3.amazonaws.com"}"#);
    assert_eq!(decide(&spared, &service, "s3:PutObject", "b/k"), Decision::Unspecified);
    assert_eq!((service.arn(), service.account()), (None, None));
}

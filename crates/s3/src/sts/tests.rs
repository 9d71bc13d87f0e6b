use super::*;

fn parse(query: &str) -> Result<StsRequest, Fault> {
    StsRequest::parse(&Query::parse(query).expect("a query"))
}

#[test]
fn assume_role_parses_duration_name_and_policy() {
    let asked = "Action=AssumeRole&Version=2011-06-15&RoleArn=arn:aws:iam::000000000001:role/any\
                 &RoleSessionName=nightly&DurationSeconds=900&Policy=%7B%7D";
    let expected =
        AssumeRole { session: "nightly".to_owned(), seconds: 900, policy: Some("{}".to_owned()) };
    assert_eq!(parse(asked), Ok(StsRequest::AssumeRole(expected)));
    let bare = AssumeRole { session: "session".to_owned(), seconds: 3_600, policy: None };
    assert_eq!(parse("Action=AssumeRole"), Ok(StsRequest::AssumeRole(bare)));
    assert_eq!(parse("Action=GetCallerIdentity"), Ok(StsRequest::GetCallerIdentity));
}

#[test]
fn invalid_sts_parameters_are_refused_by_name() {
    for (query, code) in [
        ("", Code::MissingAction),
        ("Action=", Code::MissingAction),
        ("Action=GetFederationToken", Code::InvalidAction),
        ("Action=AssumeRole&DurationSeconds=899", Code::ValidationError),
        ("Action=AssumeRole&DurationSeconds=604801", Code::ValidationError),
        ("Action=AssumeRole&DurationSeconds=-1", Code::ValidationError),
        ("Action=AssumeRole&RoleSessionName=a", Code::ValidationError),
        (&format!("Action=AssumeRole&Policy={}", "a".repeat(7_000)), Code::PackedPolicyTooLarge),
        ("Action=AssumeRole&RoleSessionName=a%20b", Code::ValidationError),
        ("Action=AssumeRole&Action=AssumeRole", Code::InvalidArgument),
    ] {
        assert_eq!(parse(query).expect_err(query).code, code, "{query}");
    }
}

#[test]
fn assume_role_with_web_identity_needs_a_token_and_no_signature() {
    let asked = "Action=AssumeRoleWithWebIdentity&WebIdentityToken=a.b.c&DurationSeconds=43200\
                 &RoleArn=arn:aws:iam::000000000001:role/staff&RoleSessionName=nightly";
    let session = AssumeRole { session: "nightly".to_owned(), seconds: 43_200, policy: None };
    let role = Some("arn:aws:iam::000000000001:role/staff".to_owned());
    let expected = AssumeRoleWithWebIdentity { token: "a.b.c".to_owned(), role, session };
    assert!(!format!("{expected:?}").contains("a.b.c"), "it is never printed");
    assert_eq!(parse(asked), Ok(StsRequest::AssumeRoleWithWebIdentity(expected)));
    let bare = "Action=AssumeRoleWithWebIdentity&WebIdentityToken=a.b.c";
    let Ok(StsRequest::AssumeRoleWithWebIdentity(bare)) = parse(bare) else { panic!("{bare}") };
    assert_eq!((bare.role, &*bare.session.session), (None, "session"));

    let is_open = |query: &str| StsRequest::is_unsigned(&Query::parse(query).expect("a query"));
    assert!(is_open(asked));
    for query in ["", "Action=AssumeRole", "Action=GetCallerIdentity"] {
        assert!(!is_open(query), "{query}");
    }
    assert!(!is_open("Action=AssumeRoleWithWebIdentity&Action=AssumeRole"));
    for more in [
        "",
        "&WebIdentityToken=",
        &format!("&WebIdentityToken={}", "a".repeat(WEB_IDENTITY_TOKEN_BYTES_MAX + 1)),
        "&WebIdentityToken=a&DurationSeconds=43201",
        "&WebIdentityToken=a&PolicyArns.member.1.arn=arn:aws:iam::aws:policy/ReadOnlyAccess",
    ] {
        let query = format!("Action=AssumeRoleWithWebIdentity{more}");
        assert_eq!(parse(&query).expect_err(&query).code, Code::ValidationError, "{query:.120}");
    }
}

#[test]
fn sts_documents_have_the_structure_of_aws() {
    let credentials = SessionCredentials {
        access_key: "ASIAEXAMPLE".to_owned(),
        secret: "secret".to_owned(),
        token: "token".to_owned(),
        expires: OffsetDateTime::from_unix_timestamp(1_795_263_906).expect("a time"),
    };
    assert!(!format!("{credentials:?}").contains("secret"), "it is never printed");
    let document = assumed_role(&credentials, "arn", "id", "1");
    let root = crate::xml::Element::parse(
        document.as_bytes(),
        "AssumeRoleResponse",
        crate::xml::XmlLimits::SMALL,
    );
    let root = root.expect("a document");
    let result = root.child("AssumeRoleResult").expect("one").expect("a result");
    let given = result.child("Credentials").expect("one").expect("credentials");
    assert_eq!(given.value("SecretAccessKey"), Ok(Some("secret")));
    assert_eq!(given.value("SessionToken"), Ok(Some("token")));
    assert!(document.contains("xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\""));
    let user = WebIdentityUser { subject: "<anna>", audience: "a", provider: "https://i" };
    let document = assumed_role_with_web_identity(&credentials, ("arn", "id"), user, "1");
    let root = crate::xml::Element::parse(
        document.as_bytes(),
        "AssumeRoleWithWebIdentityResponse",
        crate::xml::XmlLimits::SMALL,
    );
    let root = root.expect("a document");
    let result = root.child("AssumeRoleWithWebIdentityResult").expect("one").expect("a result");
    assert_eq!(result.value("SubjectFromWebIdentityToken"), Ok(Some("<anna>")));
    assert_eq!(result.value("Audience"), Ok(Some("a")));
    assert_eq!(result.value("Provider"), Ok(Some("https://i")));
    assert!(result.child("Credentials").expect("one").is_some());
    let refused = refusal(&Code::InvalidAccessKeyId.into(), "1");
    assert!(refused.contains("<Code>InvalidClientTokenId</Code>") && refused.contains("Sender"));
}

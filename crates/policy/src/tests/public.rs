use super::in_bucket;
use crate::Policy;

fn is_public(effect: &str, principal: &str, condition: &str) -> bool {
    is_public_to("s3:GetObject", effect, principal, condition)
}

fn is_public_to(action: &str, effect: &str, principal: &str, condition: &str) -> bool {
    let condition =
        if condition.is_empty() { String::new() } else { format!(r#","Condition":{condition}"#) };
    let json = format!(
        r#"{{"Version":"2012-10-17","Statement":{{"Effect":"{effect}","Principal":{principal},"Action":"{action}","Resource":"arn:aws:s3:::b/*"{condition}}}}}"#
    );
    Policy::parse(&json, in_bucket()).unwrap_or_else(|error| panic!("{error}: {json}")).is_public()
}

#[test]
fn an_allow_for_everyone_is_public() {
    assert!(is_public("Allow", r#""*""#, ""));
    assert!(is_public("Allow", r#"{"AWS":"*"}"#, ""));
    assert!(!is_public("Deny", r#""*""#, ""));
    assert!(!is_public("Allow", r#"{"AWS":"111111111111"}"#, ""));
    assert!(!is_public("Allow", r#""alice""#, ""));
}

#[test]
fn a_condition_on_fixed_values_makes_a_policy_not_public() {
    for (condition, expected) in [
        (r#"{"IpAddress":{"aws:SourceIp":"10.0.0.0/8"}}"#, false),
        (r#"{"IpAddress":{"aws:SourceIp":"10.0.0.0/7"}}"#, true),
        (r#"{"IpAddress":{"aws:SourceIp":["10.0.0.0/8","0.0.0.0/0"]}}"#, true),
        (r#"{"IpAddress":{"aws:SourceIp":"2001:db8::/32"}}"#, false),
        (r#"{"IpAddress":{"aws:SourceIp":"2000::/31"}}"#, true),
        (r#"{"NotIpAddress":{"aws:SourceIp":"10.0.0.0/8"}}"#, true),
        (r#"{"IpAddressIfExists":{"aws:SourceIp":"10.0.0.0/8"}}"#, true),
        (r#"{"StringEquals":{"aws:userid":"AIDA*"}}"#, false),
        (r#"{"StringLike":{"aws:PrincipalAccount":"1*"}}"#, true),
        (r#"{"StringNotEquals":{"aws:PrincipalAccount":"111111111111"}}"#, true),
        (r#"{"StringEqualsIfExists":{"aws:PrincipalAccount":"111111111111"}}"#, true),
        (r#"{"ForAllValues:StringEquals":{"aws:PrincipalAccount":"111111111111"}}"#, true),
        (r#"{"StringEquals":{"aws:PrincipalAccount":"${aws:PrincipalAccount}"}}"#, true),
        (r#"{"StringEquals":{"aws:PrincipalAccount":"111111111111"}}"#, false),
        (r#"{"ArnEquals":{"aws:PrincipalArn":"arn:aws:iam::111111111111:user/a"}}"#, false),
        (r#"{"ArnLike":{"aws:PrincipalArn":"arn:aws:iam::111111111111:user/*"}}"#, true),
        (r#"{"ArnLike":{"aws:SourceArn":"arn:aws:s3:::photos"}}"#, false),
        (r#"{"ArnLike":{"aws:SourceArn":"arn:aws:s3:::*"}}"#, true),
        (r#"{"StringEquals":{"aws:SourceAccount":"111111111111"}}"#, false),
        (r#"{"StringLike":{"aws:userid":"AROAX:*"}}"#, true),
        (r#"{"StringEquals":{"aws:userid":"AROAX:s"}}"#, true),
        (r#"{"StringEquals":{"aws:userid":"AIDAX"}}"#, false),
        (r#"{"StringLike":{"aws:userid":"AROA*"}}"#, true),
        (r#"{"StringEquals":{"aws:UserAgent":"secret"}}"#, true),
        (r#"{"StringEquals":{"aws:Referer":"x","aws:PrincipalAccount":"111111111111"}}"#, false),
        (r#"{"Bool":{"aws:SecureTransport":"true"}}"#, true),
    ] {
        assert_eq!(is_public("Allow", r#""*""#, condition), expected, "{condition}");
    }
    let key = r#"{"StringEquals":{"s3:x-amz-server-side-encryption-aws-kms-key-id":"k"}}"#;
    assert!(!is_public_to("s3:PutObject", "Allow", r#""*""#, key));
}

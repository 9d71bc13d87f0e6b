use super::in_bucket;
use crate::Policy;

fn is_public(effect: &str, principal: &str, condition: &str) -> bool {
    let condition =
        if condition.is_empty() { String::new() } else { format!(r#","Condition":{condition}"#) };
    let json = format!(
        r#"{{"Version":"2012-10-17","Statement":{{"Effect":"{effect}","Principal":{principal},"Action":"s3:GetObject","Resource":"arn:aws:s3:::b/*"{condition}}}}}"#
    );
    Policy::parse(&json, in_bucket()).unwrap_or_else(|error| panic!("{error}: {json}")).is_public()
}

#[test]
fn what_everyone_may_is_public() {
    assert!(is_public("Allow", r#""*""#, ""));
    assert!(is_public("Allow", r#"{"AWS":"*"}"#, ""));
    assert!(!is_public("Deny", r#""*""#, ""));
    assert!(!is_public("Allow", r#"{"AWS":"111111111111"}"#, ""));
    assert!(!is_public("Allow", r#""alice""#, ""));
}

#[test]
fn a_condition_on_fixed_values_makes_it_less_than_public() {
    for (condition, expected) in [
        (r#"{"IpAddress":{"aws:SourceIp":"10.0.0.0/8"}}"#, false),
        (r#"{"IpAddress":{"aws:SourceIp":"10.0.0.0/7"}}"#, true),
        (r#"{"IpAddress":{"aws:SourceIp":["10.0.0.0/8","0.0.0.0/0"]}}"#, true),
        (r#"{"IpAddress":{"aws:SourceIp":"2001:db8::/32"}}"#, false),
        (r#"{"IpAddress":{"aws:SourceIp":"2000::/31"}}"#, true),
        (r#"{"NotIpAddress":{"aws:SourceIp":"10.0.0.0/8"}}"#, true),
        (r#"{"IpAddressIfExists":{"aws:SourceIp":"10.0.0.0/8"}}"#, true),
        (r#"{"StringEquals":{"aws:SourceVpc":"vpc-1"}}"#, false),
        (r#"{"StringLike":{"aws:SourceVpc":"vpc-*"}}"#, true),
        (r#"{"StringLike":{"aws:SourceVpc":"vpc-1"}}"#, false),
        (r#"{"StringEquals":{"aws:SourceVpc":"vpc-*"}}"#, false),
        (r#"{"StringNotEquals":{"aws:SourceVpc":"vpc-1"}}"#, true),
        (r#"{"StringEqualsIfExists":{"aws:SourceVpc":"vpc-1"}}"#, true),
        (r#"{"ForAllValues:StringEquals":{"aws:SourceVpc":"vpc-1"}}"#, true),
        (r#"{"StringEquals":{"aws:SourceAccount":"${aws:PrincipalAccount}"}}"#, true),
        (r#"{"StringEquals":{"aws:PrincipalAccount":"111111111111"}}"#, false),
        (r#"{"ArnEquals":{"aws:PrincipalArn":"arn:aws:iam::111111111111:user/a"}}"#, false),
        (r#"{"ArnLike":{"aws:PrincipalArn":"arn:aws:iam::111111111111:user/*"}}"#, true),
        (r#"{"StringLike":{"aws:userid":"AROAX:*"}}"#, true),
        (r#"{"StringEquals":{"aws:userid":"AROAX:s"}}"#, true),
        (r#"{"StringEquals":{"aws:userid":"AIDAX"}}"#, false),
        (r#"{"StringLike":{"aws:userid":"AROA*"}}"#, true),
        (
            r#"{"StringLike":{"s3:DataAccessPointArn":"arn:aws:s3:us-west-2:1:accesspoint/*"}}"#,
            false,
        ),
        (r#"{"ArnLike":{"s3:DataAccessPointArn":"arn:aws:s3:us-west-2:1:accesspoint/*"}}"#, false),
        (r#"{"ArnLike":{"s3:DataAccessPointArn":"arn:aws:s3:us-west-2:*:accesspoint/*"}}"#, true),
        (r#"{"StringEquals":{"s3:x-amz-server-side-encryption-aws-kms-key-id":"k"}}"#, false),
        (r#"{"StringEquals":{"aws:UserAgent":"secret"}}"#, true),
        (r#"{"StringEquals":{"aws:Referer":"x","aws:SourceVpce":"vpce-1"}}"#, false),
        (r#"{"Bool":{"aws:SecureTransport":"true"}}"#, true),
    ] {
        assert_eq!(is_public("Allow", r#""*""#, condition), expected, "{condition}");
    }
}

use serde::de::DeserializeOwned;

use super::*;

fn parses<T: DeserializeOwned>(body: &str) -> bool {
    serde_json::from_str::<T>(body).is_ok()
}

/// The bodies with all members of madmin-go 3.0.109.
#[test]
fn all_members_of_madmin_go_are_known() {
    assert!(parses::<AddUserBody>(r#"{"secretKey":"s","policy":"p","status":"enabled"}"#));
    assert!(parses::<AddKeyBody>(
        r#"{"policy":{},"targetUser":"u","accessKey":"k","secretKey":"s","name":"n",
            "description":"d","expiration":"2027-01-02T03:04:05Z","comment":"c"}"#
    ));
    assert!(parses::<UpdateKeyBody>(
        r#"{"newPolicy":{},"newSecretKey":"s","newStatus":"on","newName":"n",
            "newDescription":"d","newExpiration":"2027-01-02T03:04:05Z"}"#
    ));
    assert!(parses::<MembersBody>(
        r#"{"group":"g","members":["u"],"groupStatus":"","isRemove":true}"#
    ));
    assert!(parses::<AddUserBody>("{}") && parses::<AddKeyBody>("{}"));
    assert!(parses::<UpdateKeyBody>("{}") && parses::<MembersBody>(r#"{"members":null}"#));
}

#[test]
fn members_in_another_case_are_refused() {
    for body in [r#"{"Policy":{}}"#, r#"{"POLICY":{}}"#, r#"{"Expiration":"2027-01-02T03:04:05Z"}"#]
    {
        assert!(!parses::<AddKeyBody>(body), "{body}");
    }
    for body in [r#"{"NewPolicy":{}}"#, r#"{"newpolicy":{}}"#, r#"{"NewStatus":"off"}"#] {
        assert!(!parses::<UpdateKeyBody>(body), "{body}");
    }
    assert!(!parses::<AddUserBody>(r#"{"secretKey":"s","Status":"disabled"}"#));
    assert!(!parses::<MembersBody>(r#"{"group":"g","members":["u"],"IsRemove":true}"#));
}

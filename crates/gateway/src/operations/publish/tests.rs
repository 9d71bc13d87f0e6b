use s3::conditions::ETagList;

use super::*;

#[test]
fn only_a_write_with_a_condition_conflicts_with_others() {
    let contended = || VolumeError::Fs(FsError::Contended);
    assert_eq!(refusal(contended(), &WritePrecondition::None).code, Code::SlowDown);
    assert_eq!(translate::fault(contended()).code, Code::SlowDown);
    for condition in [WritePrecondition::IfNoneMatchStar, WritePrecondition::IfMatch(ETagList::Any)]
    {
        let fault = refusal(contended(), &condition);
        assert_eq!(fault.code, Code::ConditionalRequestConflict, "{condition:?}");
    }
}

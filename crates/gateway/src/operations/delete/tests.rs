use s3::conditions::ETagList;

use super::*;

#[test]
fn only_a_deletion_with_a_condition_conflicts_with_others() {
    let code = |condition: &WritePrecondition, stat| {
        refusal(VolumeError::Fs(FsError::Contended), condition, stat).code
    };
    let (none, of_any) = (StatPrecondition::default(), WritePrecondition::IfMatch(ETagList::Any));
    let of_size = StatPrecondition { size: Some(1), modified: None };
    assert_eq!(code(&WritePrecondition::None, none), Code::SlowDown);
    assert_eq!(code(&of_any, none), Code::ConditionalRequestConflict);
    assert_eq!(code(&WritePrecondition::None, of_size), Code::ConditionalRequestConflict);
}

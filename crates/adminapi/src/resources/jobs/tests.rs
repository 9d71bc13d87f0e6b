use record::{JobKind, JobRecord, Nonce, Timestamp};

use super::*;
use crate::world::World;

fn job(number: u64, user: &str, state: JobState) -> NumberedJob {
    let job = JobRecord {
        kind: JobKind::DeleteBucket,
        arguments: Vec::new(),
        user: user.to_owned(),
        session: Nonce([1; Nonce::BYTES]),
        place: String::new(),
        began: Timestamp(0),
        changed: Timestamp(0),
        state,
        progress: Vec::new(),
        message: String::new(),
        lines: Vec::new(),
        has_more_lines: false,
    };
    NumberedJob { number, job, was_interrupted: false }
}

#[test]
fn user_has_two_running_jobs_at_most() {
    let (running, stopping) =
        (job(4, "tina", JobState::Running), job(3, "tina", JobState::Stopping));
    let of_others = [job(2, "root", JobState::Running), job(1, "anna", JobState::Running)];
    let mut jobs = vec![running, stopping];
    jobs.extend(of_others);
    assert_eq!(displaced(&jobs, "tina"), Err(JobError::TooMany));
    assert_eq!(displaced(&jobs, "anna"), Ok(vec![]));
    jobs[0].was_interrupted = true;
    assert_eq!(displaced(&jobs, "tina"), Ok(vec![]));
}

#[test]
fn oldest_records_of_the_user_go_first() {
    let of_root = (100..130).map(|number| job(number, "root", JobState::Done));
    let of_tina = (1..=10).rev().map(|number| job(number, "tina", JobState::Failed));
    let mut jobs: Vec<_> = of_root.chain(of_tina).collect();
    assert_eq!(displaced(&jobs, "tina"), Ok(vec![1]), "nine and the new one remain");
    jobs.insert(0, job(131, "tina", JobState::Running));
    assert_eq!(displaced(&jobs, "tina"), Ok(vec![2, 1]));
    assert_eq!(displaced(&jobs, "root"), Ok((109..130).collect()));
}

#[tokio::test]
async fn fork_needs_the_permission_to_read_all_objects() {
    let world = World::new().await;
    world.put("photos", None, None, "").await;
    let jobs = r#"{"Effect":"Allow","Action":["admin:StartJob","admin:ForkBucket"]},
        {"Effect":"Allow","Action":"s3:ListBucket","Resource":"arn:aws:s3:::photos"},
        {"Effect":"Allow","Action":"s3:*","Resource":"arn:aws:s3:::fk-*"}"#;
    for (number, (resource, expected)) in [
        (r#""Resource":"arn:aws:s3:::photos/*""#, true),
        (r#""NotResource":"arn:aws:s3:::films/*""#, true),
        (r#""Resource":"arn:aws:s3:::photos/?""#, false),
        (r#""Resource":"arn:aws:s3:::photos/*/x""#, false),
        (r#""Resource":["arn:aws:s3:::photos/?","arn:aws:s3:::photos/any*"]"#, false),
        (r#""NotResource":"arn:aws:s3:::photos/secret/*""#, false),
        (r#""Resource":"*","Condition":{"StringNotEquals":{"s3:ExistingObjectTag/a":"b"}}"#, false),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("fred{number}");
        let read = format!(r#"{{"Effect":"Allow","Action":"s3:GetObject",{resource}}}"#);
        world.policy(&name, &format!("{jobs},{read}")).await;
        world.user(&name, &[&name]).await;
        let fred = world.sender(&name);
        let checked = world.api.check_fork(&world.actor(&fred), "photos", "fk-1").await;
        let code = checked.map(drop).map_err(|error| error.code);
        assert_eq!(code, if expected { Ok(()) } else { Err("AccessDenied".into()) }, "{resource}");
    }
}

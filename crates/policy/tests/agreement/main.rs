//! The evaluator equals a naive one that was written from AWS's documentation, on pairs of
//! documents and requests at random. So does the law, on three documents for each request.
//!
//! `POLICY_PAIRS=10000000 cargo test -p policy --release --test agreement` asks that many.

mod generator;
mod naive;

use policy::{BucketSide, Decision, Policy, PolicyKind, Principal, Question, Sources, authorise};
use serde_json::Value;

use generator::{ACCOUNTS, Dice};
use naive::Asked;

const PAIRS: usize = 200_000;
const REQUESTS_EACH: usize = 50;

/// The errors of a bucket policy whose words are all valid.
const REFUSALS: [&str; 2] = [
    "Action does not apply to any resource(s) in statement",
    "Conditions do not apply to combination of actions and resources in statement",
];

#[expect(clippy::disallowed_methods, reason = "how long to try is said from outside")]
fn wanted_pairs() -> usize {
    let wanted = std::env::var("POLICY_PAIRS").ok();
    wanted.map_or(PAIRS, |pairs| pairs.parse().expect("a number of pairs"))
}

/// A document that is not refused, and its policy.
fn understood(dice: &mut Dice, kind: PolicyKind<'_>, refused: &mut usize) -> (Value, Policy) {
    loop {
        let document = generator::document(dice, matches!(kind, PolicyKind::Bucket { .. }));
        match Policy::parse_new(&document.to_string(), kind) {
            Ok(policy) => return (document, policy),
            Err(error) => {
                // Where a variable is none, it is no ARN either.
                let old = document["Version"] != "2012-10-17"
                    && error.detail() == Some("an ARN has six components");
                assert!(old || REFUSALS.contains(&error.sentence()), "{error}: {document}");
                *refused += 1;
            }
        }
    }
}

/// The decision of a document, and whether it names the session itself.
type Said = (Decision, bool);

/// The combined decision in a naive form. Bucket: the account, and the decision of its policy.
fn naive_law(
    asked: &Asked,
    identity: Decision,
    session: Option<Decision>,
    bucket: Option<(&str, Option<Said>)>,
    acl: bool,
) -> bool {
    let (is_root, own) = match &asked.principal {
        Principal::Anonymous | Principal::Service(_) => (false, None),
        Principal::User { is_root, account, .. } => (*is_root, Some(account.as_str())),
    };
    let owner = bucket.map(|(account, _)| account);
    let same = own.is_some() && (owner.is_none() || owner == own);
    let about_policy = ["s3:GetBucketPolicy", "s3:PutBucketPolicy", "s3:DeleteBucketPolicy"];
    let exempt = is_root && same && about_policy.contains(&asked.action.as_str());
    let said = bucket.and_then(|(_, said)| said).filter(|_| !exempt);
    let (bucket, names_session) = said.unwrap_or((Decision::Unspecified, false));

    let denied = (!is_root && own.is_some() && identity == Decision::Denied)
        || session == Some(Decision::Denied)
        || bucket == Decision::Denied;
    let by_identity = own.is_some() && (is_root || identity == Decision::Allowed);
    let by_bucket = bucket == Decision::Allowed || acl;
    let limit = session.is_none() || session == Some(Decision::Allowed);
    !denied
        && if own.is_none() {
            // An anonymous sender has no session. If it had one, the session could only deny.
            by_bucket
        } else if same {
            (limit && (by_identity || by_bucket)) || names_session
        } else {
            limit && by_identity && by_bucket
        }
}

/// How often each answer was given.
#[derive(Debug, Default)]
struct Tally {
    /// Of a document and a request.
    pairs: usize,
    /// Allowed, unspecified, denied.
    decisions: [usize; 3],
    /// Not allowed, allowed.
    rulings: [usize; 2],
    refused_documents: usize,
}

/// A document as both evaluators know it.
type Both = (Value, Policy);

fn check(dice: &mut Dice, [bucket, user, other]: &[Both; 3], tally: &mut Tally) {
    let asked = generator::asked(dice);
    let question = Question {
        principal: &asked.principal,
        action: &asked.action,
        resource: &asked.resource,
        conditions: &asked,
    };
    let said = [bucket, user, other].map(|(document, policy)| {
        let said = naive::decide(document, &asked);
        assert_eq!(policy.decide(&question), said.0, "{document}\n{asked:#?}");
        tally.decisions[said.0 as usize] += 1;
        tally.pairs += 1;
        said
    });
    let (with_session, with_bucket, with_policy, acl) =
        (dice.percent(30), dice.percent(85), dice.percent(80), dice.percent(20));
    let account = dice.pick(&ACCOUNTS);
    let sources = Sources {
        identity: &[&user.1],
        session: with_session.then_some(&other.1),
        bucket: with_bucket.then_some(BucketSide {
            account,
            policy: with_policy.then_some(&bucket.1),
            policy_allows: true,
        }),
        acl: &|| acl,
    };
    let expected = naive_law(
        &asked,
        said[1].0,
        with_session.then_some(said[2].0),
        with_bucket.then_some((account, with_policy.then_some(said[0]))),
        acl,
    );
    let ruling = authorise(&question, &sources);
    assert_eq!(ruling.is_allowed(), expected, "{ruling:?} {said:?} {sources:#?}\n{asked:#?}");
    tally.rulings[usize::from(expected)] += 1;
}

#[test]
fn the_evaluator_equals_the_naive_one() {
    let mut dice = Dice::new(20_261_126);
    let pairs = wanted_pairs();
    let mut tally = Tally::default();
    while tally.pairs < pairs {
        let of_bucket = PolicyKind::Bucket { bucket: "b", exists: &|_| true };
        let documents = [of_bucket, PolicyKind::User, PolicyKind::Session]
            .map(|kind| understood(&mut dice, kind, &mut tally.refused_documents));
        for _ in 0..REQUESTS_EACH {
            check(&mut dice, &documents, &mut tally);
        }
    }
    println!("{tally:?}");
    for count in tally.decisions {
        assert!(count * 100 > tally.pairs * 8, "few of a kind: {tally:?}");
    }
    for count in tally.rulings {
        assert!(count * 100 > tally.pairs / 3 * 15, "few of a kind: {tally:?}");
    }
}

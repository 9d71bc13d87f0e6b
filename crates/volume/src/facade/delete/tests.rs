use super::*;

fn line_up(keys: impl IntoIterator<Item = String>) -> Vec<Vec<PlanPart>> {
    let mut directories = ByDirectory::new();
    for (index, key) in keys.into_iter().enumerate() {
        let path = Path::new(b"b", key.as_bytes());
        let removal = Removal { name: path.name, condition: None };
        directories.entry(path.directories).or_default().push((index, removal));
    }
    sequences(directories)
}

/// How many names each plan of each line removes.
fn sizes(sequences: &[Vec<PlanPart>]) -> Vec<Vec<usize>> {
    let names = |part: &PlanPart| part.answers.len();
    sequences.iter().map(|sequence| sequence.iter().map(names).collect()).collect()
}

#[test]
fn plans_of_one_directory_run_in_sequence() {
    let sequences = line_up((0..600).map(|n| format!("a/b/{n}")));
    assert_eq!(sizes(&sequences), [[250, 250, 100]]);
}

#[test]
fn neighbours_share_a_plan() {
    let sequences = line_up((0..200).map(|n| format!("a/{n:03}/x")));
    assert_eq!(sizes(&sequences), [[64, 64, 64, 8]], "each changes what is in a");
    let sequences = line_up((0..200).map(|n| format!("{n:03}/x")));
    assert_eq!(
        sizes(&sequences),
        [vec![64], vec![64], vec![64], vec![8]],
        "the bucket stays anyway"
    );
    let sequences = line_up(["a/x", "a/b/x", "a/b/c/x", "x"].map(str::to_owned));
    assert_eq!(sizes(&sequences), [[4]]);
    // Three directories and four names.
    assert_eq!(sequences[0][0].items, 3 * DIRECTORY_ITEMS + 4 * REMOVAL_ITEMS);
}

#[test]
fn each_plan_fits_the_limits_of_every_engine() {
    let deep = |n: usize| format!("{n}/{}", "d/".repeat(511));
    let sequences = line_up((0..20).map(deep));
    assert_eq!(sizes(&sequences), vec![vec![1]; 20], "each alone, and none behind another");
    let many = (0..300).map(|n| format!("{}{n}", deep(0)));
    let sequences = line_up(many.chain((0..300).map(|n| format!("{}{n}", deep(1)))));
    assert_eq!(sequences.len(), 2);
    for part in sequences.iter().flatten() {
        assert!(part.items <= PLAN_ITEMS, "{} items", part.items);
    }
}

#[test]
fn a_plan_is_split_into_two_halves() {
    let mut sequences = line_up(["a/1", "a/2", "a/3", "b/1", "b/2"].map(str::to_owned));
    let part = sequences.pop().unwrap().pop().unwrap();
    let (first, second) = part.halves();
    assert_eq!((&first.answers[..], &second.answers[..]), (&[0, 1][..], &[2, 3, 4][..]));
    let names =
        |part: &PlanPart| part.branches.iter().map(|b| b.removals.len()).collect::<Vec<_>>();
    assert_eq!((names(&first), names(&second)), (vec![2], vec![1, 2]));
    let (one, other) = first.halves();
    assert_eq!((one.answers, other.answers), (vec![0], vec![1]));
}

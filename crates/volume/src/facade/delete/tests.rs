use super::*;

fn line_up(keys: impl IntoIterator<Item = String>) -> Vec<Vec<Share>> {
    let mut directories = ByDirectory::new();
    for (index, key) in keys.into_iter().enumerate() {
        let path = Path::new(b"b", key.as_bytes());
        let removal = Removal { name: path.name, condition: None };
        directories.entry(path.directories).or_default().push((index, removal));
    }
    lines(directories)
}

/// How many names each plan of each line removes.
fn sizes(lines: &[Vec<Share>]) -> Vec<Vec<usize>> {
    let names = |share: &Share| share.answers.len();
    lines.iter().map(|line| line.iter().map(names).collect()).collect()
}

#[test]
fn names_of_one_directory_are_plans_that_follow_each_other() {
    let lines = line_up((0..600).map(|n| format!("a/b/{n}")));
    assert_eq!(sizes(&lines), [[250, 250, 100]]);
}

#[test]
fn neighbours_share_a_plan() {
    let lines = line_up((0..200).map(|n| format!("a/{n:03}/x")));
    assert_eq!(sizes(&lines), [[64, 64, 64, 8]], "each changes what is in a");
    let lines = line_up((0..200).map(|n| format!("{n:03}/x")));
    assert_eq!(sizes(&lines), [vec![64], vec![64], vec![64], vec![8]], "the bucket stays anyway");
    let lines = line_up(["a/x", "a/b/x", "a/b/c/x", "x"].map(str::to_owned));
    assert_eq!(sizes(&lines), [[4]]);
    // Three directories and four names.
    assert_eq!(lines[0][0].items, 3 * DIRECTORY_ITEMS + 4 * REMOVAL_ITEMS);
}

#[test]
fn no_plan_is_larger_than_every_engine_takes() {
    let deep = |n: usize| format!("{n}/{}", "d/".repeat(511));
    let lines = line_up((0..20).map(deep));
    assert_eq!(sizes(&lines), vec![vec![1]; 20], "each alone, and none behind another");
    let many = (0..300).map(|n| format!("{}{n}", deep(0)));
    let lines = line_up(many.chain((0..300).map(|n| format!("{}{n}", deep(1)))));
    assert_eq!(lines.len(), 2);
    for share in lines.iter().flatten() {
        assert!(share.items <= PLAN_ITEMS, "{} items", share.items);
    }
}

#[test]
fn a_plan_is_cut_into_two_halves() {
    let mut lines = line_up(["a/1", "a/2", "a/3", "b/1", "b/2"].map(str::to_owned));
    let share = lines.pop().unwrap().pop().unwrap();
    let (first, second) = share.halves();
    assert_eq!((&first.answers[..], &second.answers[..]), (&[0, 1][..], &[2, 3, 4][..]));
    let names = |share: &Share| share.branches.iter().map(|b| b.removals.len()).collect::<Vec<_>>();
    assert_eq!((names(&first), names(&second)), (vec![2], vec![1, 2]));
    let (one, other) = first.halves();
    assert_eq!((one.answers, other.answers), (vec![0], vec![1]));
}

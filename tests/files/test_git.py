"""git: clone, commits, gc, fsck, and the replay of a long history, with default settings."""

import pytest

from mounted import run

AUTHOR = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.com",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.com",
    "GIT_CONFIG_GLOBAL": "/dev/null",
}


def git(folder, *words):
    return run("git", "-C", folder, *words, environment=AUTHOR)


def commit(folder, number):
    """Commits additions, changes, renames and deletions."""
    folder_of_it = folder / f"d{number % 7}"
    folder_of_it.mkdir(exist_ok=True)
    (folder_of_it / f"f{number}").write_text(f"{number}\n" * (number % 50 + 1))
    with open(folder / "log", "a") as log:
        log.write(f"{number}\n")
    if number % 5 == 4:
        git(folder, "mv", f"d{(number - 1) % 7}/f{number - 1}", f"moved{number}")
    doomed = folder / f"d{(number - 3) % 7}" / f"f{number - 3}"
    if number % 11 == 10 and doomed.exists():
        git(folder, "rm", "-q", doomed)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", f"commit {number}")


@pytest.fixture
def origin(mount, tmp_path):
    """A repository on a local disk."""
    folder = tmp_path / "origin"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    for number in range(mount.amount(8, 200)):
        commit(folder, number)
    # git does not store empty directories, so a clone lacks those that remain after a rename.
    run("find", folder, "-path", folder / ".git", "-prune", "-o", "-type", "d", "-empty",
        "-exec", "rmdir", "{}", "+")
    return folder


def same(origin, clone):
    assert git(clone, "rev-parse", "HEAD") == git(origin, "rev-parse", "HEAD")
    assert git(clone, "status", "--porcelain") == ""
    assert "error" not in git(clone, "fsck", "--full", "--strict")
    run("diff", "-r", "--exclude=.git", origin, clone)


def test_a_clone_is_complete_before_and_after_gc(place, origin):
    clone = place / "clone"
    # A file:// URL copies objects through a pack, a plain path by hard links or copies.
    git(place, "clone", "-q", f"file://{origin}", clone)
    same(origin, clone)
    git(clone, "gc", "-q", "--aggressive", "--prune=now")
    same(origin, clone)


def test_a_local_clone_on_the_mount_shares_objects(place, origin):
    git(place, "clone", "-q", origin, place / "first")
    git(place, "clone", "-q", place / "first", place / "second")
    same(origin, place / "second")
    objects = (place / "second" / ".git" / "objects").rglob("*")
    assert any(path.is_file() and path.stat().st_nlink > 1 for path in objects)


def test_a_history_is_replayed_commit_by_commit(place, origin):
    replayed = place / "replayed"
    git(place, "init", "-q", "-b", "main", replayed)
    patches = run("git", "-C", origin, "format-patch", "--root", "--stdout", "HEAD")
    run("git", "-C", replayed, "am", "-q", "--committer-date-is-author-date", stdin=patches,
        environment=AUTHOR)
    assert git(replayed, "rev-list", "--count", "HEAD") == git(origin, "rev-list", "--count", "HEAD")
    assert git(replayed, "rev-parse", "HEAD^{tree}") == git(origin, "rev-parse", "HEAD^{tree}")
    assert "error" not in git(replayed, "fsck", "--full", "--strict")


def test_commits_and_branches(place, mount):
    folder = place / "work"
    git(place, "init", "-q", "-b", "main", folder)
    for number in range(mount.amount(6, 60)):
        commit(folder, number)
    git(folder, "checkout", "-q", "-b", "other", "HEAD~5")
    (folder / "aside").write_text("aside\n")
    git(folder, "add", "aside")
    git(folder, "commit", "-q", "-m", "aside")
    git(folder, "rebase", "-q", "main")
    git(folder, "stash", "--include-untracked")
    git(folder, "worktree", "add", "-q", place / "second", "main")
    assert git(folder, "status", "--porcelain") == ""
    assert "error" not in git(folder, "fsck", "--full", "--strict")

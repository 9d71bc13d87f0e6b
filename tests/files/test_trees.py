"""Programs that copy, unpack and install trees, with their default settings."""

import os
import random
import subprocess
import sys
import tarfile
import zipfile

import pytest

from mounted import attempt, run, tree

# A time in 2001, so that a restored time differs from the present one.
OLD = 1_000_000_000


@pytest.fixture
def source(mount, tmp_path):
    """A tree on a local disk: lengths around all limits, links, modes, old times, unusual names."""
    chance, root = random.Random(1), tmp_path / "source"
    root.mkdir()
    for number in range(mount.amount(65, 3_000)):
        folder = root / f"d{number % 13}" / f"e{number % 5}"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"f{number}"
        path.write_bytes(chance.randbytes(chance.choice([0, 1, 4095, 4096, 20_000])))
        path.chmod(chance.choice([0o644, 0o600, 0o755, 0o444]))
        os.utime(path, ns=(OLD * 10**9 + number, OLD * 10**9 + number * 1001))
    (root / "large").write_bytes(chance.randbytes(3 << 20))
    (root / "names ünd 'quotes' \\ and\nlines").write_text("odd")
    (root / "empty").mkdir()
    (root / "link").symlink_to("d0/e0")
    (root / "dangling").symlink_to("nowhere/at all")
    os.link(root / "large", root / "large-again")
    os.mkfifo(root / "fifo")
    for folder, _, _ in os.walk(root):
        os.utime(folder, (OLD, OLD))
    return root


def same(source, copy):
    run("diff", "-r", "--no-dereference", "--exclude=fifo", source, copy)
    for folder, folders, names in os.walk(source):
        for name in [*folders, *names]:
            path = os.path.join(folder, name)
            ours = os.path.join(copy, os.path.relpath(path, source))
            one, other = os.lstat(path), os.lstat(ours)
            about = (one.st_mode, one.st_uid, one.st_gid, one.st_nlink, one.st_mtime_ns)
            if os.path.isdir(path) and not os.path.islink(path):
                # File systems define the link count of a directory differently.
                other_about = (other.st_mode, other.st_uid, other.st_gid, one.st_nlink)
                assert about[:4] == other_about, name
                assert one.st_mtime_ns == other.st_mtime_ns, name
            else:
                other_about = (other.st_mode, other.st_uid, other.st_gid, other.st_nlink)
                assert about == (*other_about, other.st_mtime_ns), name


def test_tar_unpacks_and_packs(source, place, tmp_path):
    archive = tmp_path / "archive.tar"
    run("tar", "-C", source, "--sort=name", "--format=posix", "-cf", archive, ".")
    copy = place / "copy"
    copy.mkdir()
    run("tar", "-C", copy, "-xpf", archive)
    same(source, copy)
    run("tar", "-C", copy, "--compare", "-f", archive)
    # An archive on the mount, of the tree on the mount.
    run("tar", "-C", copy, "-cf", place / "again.tar", ".")
    run("tar", "-C", source, "--compare", "-f", place / "again.tar")


def test_cp_keeps_everything(source, place):
    run("cp", "-a", source, place / "copy")
    same(source, place / "copy")
    run("cp", "-a", place / "copy", place / "second")
    same(source, place / "second")
    run("rm", "-r", place / "copy")
    same(source, place / "second")


def test_a_second_rsync_copies_nothing(source, place):
    words = ["rsync", "-aiH", "--modify-window=-1", f"{source}/", f"{place}/copy/"]
    assert run(*words) != ""
    same(source, place / "copy")
    assert run(*words) == ""
    assert run(*words, "--checksum") == ""
    (source / "d0" / "e0" / "f0").write_text("changed")
    (source / "large").unlink()
    changed = run(*words, "--delete").splitlines()
    assert any(line.endswith("d0/e0/f0") for line in changed)
    assert any(line.startswith("*deleting") and line.endswith(" large") for line in changed)
    assert run(*words, "--delete") == ""


def test_rsync_in_place_and_with_partial_files(source, place):
    target = place / "large"
    run("rsync", "--inplace", "--no-whole-file", source / "large", target)
    with open(source / "large", "r+b") as file:
        file.seek(1 << 20)
        file.write(b"in the middle")
    run("rsync", "--inplace", "--no-whole-file", "--checksum", source / "large", target)
    assert target.read_bytes() == (source / "large").read_bytes()


def test_an_editor_saves_by_rename(place):
    path = place / "document"
    path.write_text("0\n")
    for version in range(1, 60):
        with open(place / ".document.tmp", "w") as file:
            file.write(f"{version}\n" * version)
            file.flush()
            os.fsync(file.fileno())
        os.rename(place / ".document.tmp", path)
        folder = os.open(place, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        assert path.read_text() == f"{version}\n" * version
    assert [entry.name for entry in place.iterdir()] == ["document"]


def test_a_reader_never_sees_half_of_a_save(place):
    path = place / "document"
    path.write_text("0" * 10_000)
    script = (
        "import os, sys\n"
        "for version in range(300):\n"
        "    with open(sys.argv[1] + '.tmp', 'w') as file:\n"
        "        file.write(str(version % 10) * 10_000)\n"
        "    os.rename(sys.argv[1] + '.tmp', sys.argv[1])\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", script, path])
    try:
        reads = 0
        while writer.poll() is None:
            text = path.read_text()
            assert text == text[0] * 10_000
            reads += 1
        assert writer.wait() == 0 and reads > 10
    finally:
        writer.kill()
        writer.wait()


def wheel(folder, count):
    """Creates a package of `count` modules for pip."""
    path = folder / "sample_package-1.0-py3-none-any.whl"
    about = "sample_package-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(count):
            archive.writestr(f"sample_package/m{number}.py", f"VALUE = {number}\n")
        archive.writestr("sample_package/__init__.py", "")
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: sample-package\n"
                         "Version: 1.0\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\n"
                         "Root-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    return path


def test_pip_installs_into_an_environment(mount, place, tmp_path):
    package, environment = wheel(tmp_path, mount.amount(50, 1_000)), place / "environment"
    # With pip it has 1,700 files, all from Python's own installation.
    run("python3", "-m", "venv", *mount.amount(["--without-pip"], []), environment)
    python = environment / "bin" / "python"
    pip = [*mount.amount([sys.executable], [python]), "-m", "pip", "--python", python]
    run(*pip, "install", "--quiet", "--no-index", package)
    said = run(python, "-c", "import sample_package.m7 as m; print(m.VALUE, m.__file__)")
    assert said.split()[0] == "7" and said.split()[1].startswith(str(environment))
    run(*pip, "check")
    run(*pip, "uninstall", "--quiet", "--yes", "sample_package")
    assert attempt(python, "-c", "import sample_package").returncode == 1


def test_a_tree_like_that_of_npm(mount, place):
    """Each package is created in a folder with a temporary name, then renamed, with links in
    `.bin`."""
    modules = place / "node_modules"
    (modules / ".bin").mkdir(parents=True)
    count = mount.amount(40, 1_500)
    for number in range(count):
        passing, package = modules / f".package-{number}-x7", modules / f"package-{number}"
        (passing / "lib").mkdir(parents=True)
        (passing / "package.json").write_text(f'{{"name": "package-{number}"}}')
        for part in range(5):
            (passing / "lib" / f"{part}.js").write_text(f"module.exports = {part}\n" * 20)
        if number % 4 == 3:
            nested = passing / "node_modules" / f"package-{number - 1}"
            nested.mkdir(parents=True)
            (nested / "package.json").write_text("{}")
        passing.rename(package)
        (modules / ".bin" / f"package-{number}").symlink_to(f"../package-{number}/lib/0.js")
    for number in range(count):
        assert (modules / ".bin" / f"package-{number}").read_text() == "module.exports = 0\n" * 20
    listed = run("find", modules, "-type", "f").splitlines()
    assert len(listed) == count * 6 + count // 4
    run("rm", "-r", modules)
    assert list(place.iterdir()) == []


def test_a_python_archive_and_a_tree_of_modes(mount, place, tmp_path):
    made = tmp_path / "made"
    for mode in range(0, 0o1000, mount.amount(7, 1)):
        path = made / f"{mode:o}"
        path.parent.mkdir(exist_ok=True)
        path.touch()
        path.chmod(mode)
    with tarfile.open(tmp_path / "archive.tar", "w") as archive:
        archive.add(made, arcname="made")
    with tarfile.open(tmp_path / "archive.tar") as archive:
        archive.extractall(place)
    assert tree(place / "made") == tree(made)

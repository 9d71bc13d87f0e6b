"""The Debian package, installed into a root of its own, started there, and removed."""

import json
import os
import re
import signal
import subprocess
import time
import urllib.request

import pytest

from podman import CHECKOUT, Podman, fresh_folder, required, scratch

ENDPOINT = "http://127.0.0.1:9700"


class Root:
    """The file system of a machine, and commands in it."""

    def __init__(self, folder):
        self.folder = folder

    def words(self, *words):
        # PATH and the language of the machine of the test are not those of the root.
        return ["chroot", str(self.folder), "/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
                "DEBIAN_FRONTEND=noninteractive", *[str(word) for word in words]]

    def run(self, *words, check=True):
        done = subprocess.run(
            self.words(*words), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=120, check=False,
        )
        assert not check or done.returncode == 0, f"{words}: {done.stdout}"
        return done.stdout

    def exists(self, name):
        return os.path.lexists(self.folder / name)


@pytest.fixture(scope="module")
def package():
    """The package of the program under test, with the list of its parts."""
    folder = fresh_folder(scratch() / "package")
    words = [required("ASHLAR_TEST_XTASK"), "dist", "--deb", "--program", required("ASHLAR_TEST_PROGRAM"),
             "--output", str(folder)]
    subprocess.run(words, cwd=CHECKOUT, check=True, timeout=300)
    (package,) = folder.glob("*.deb")
    return package


@pytest.fixture(scope="module")
def root(package):
    """A root of Debian with the package and what it depends on."""
    archive = Podman().kept / "package.tar"
    folder = fresh_folder(scratch() / "root")
    if not archive.exists():
        pytest.fail("the step `images` makes this root")
    subprocess.run(["tar", "-xf", archive, "-C", folder], check=True)
    for name in ("dev", "proc"):
        (folder / name).mkdir(exist_ok=True)
    subprocess.run(["mount", "--rbind", "/dev", folder / "dev"], check=True)
    subprocess.run(["mount", "-t", "proc", "proc", folder / "proc"], check=True)
    root = Root(folder)
    # Without the package, the root has none of the things that the tests below look for.
    assert "ashlar" not in root.run("getent", "passwd")
    (folder / "ashlar.deb").write_bytes(package.read_bytes())
    # Without waits for the disk: this root is thrown away.
    root.run("dpkg", "--force-unsafe-io", "--install", "/ashlar.deb")
    yield root
    subprocess.run(["umount", "--lazy", folder / "proc"], check=True)
    subprocess.run(["umount", "--lazy", folder / "dev"], check=True)


def test_the_package_makes_the_user_and_closes_its_folders(root):
    user = root.run("getent", "passwd", "ashlar").strip().split(":")
    assert user[5:] == ["/var/lib/ashlar", "/usr/sbin/nologin"]
    state = os.stat(root.folder / "var/lib/ashlar")
    assert (state.st_uid, state.st_mode & 0o7777) == (int(user[2]), 0o700)
    secrets = os.stat(root.folder / "etc/ashlar/credentials")
    assert (secrets.st_uid, secrets.st_mode & 0o7777) == (0, 0o700)


def test_the_package_has_its_files(root):
    listed = root.run("dpkg", "--listfiles", "ashlar").split()
    for name in ("/usr/lib/systemd/system/ashlar.service",
                 "/usr/lib/systemd/system/ashlar-mount@.service",
                 "/usr/share/man/man1/ashlar.1.gz", "/usr/share/man/man1/ashlar-serve.1.gz",
                 "/usr/share/bash-completion/completions/ashlar",
                 "/usr/share/zsh/vendor-completions/_ashlar",
                 "/usr/share/fish/vendor_completions.d/ashlar.fish",
                 "/usr/share/doc/ashlar/copyright"):
        assert name in listed
    conffiles = root.run("dpkg-query", "--show", "--showformat=${Conffiles}", "ashlar")
    assert re.match(r"\s*/etc/ashlar/config.toml [0-9a-f]{32}\s*$", conffiles)
    assert "complete" in (root.folder / "usr/share/bash-completion/completions/ashlar").read_text()


def test_the_list_of_parts_has_the_crates_of_the_program(package):
    parts = json.loads(package.with_suffix(".cdx.json").read_text())
    assert (parts["bomFormat"], parts["specVersion"]) == ("CycloneDX", "1.5")
    names = {part["name"] for part in parts["components"]}
    assert {"hyper", "tokio", "gateway", "store-sqlite"} <= names
    assert not names & {"proptest", "xtask", "faulty"}
    references = {part["bom-ref"] for part in parts["components"]}
    references.add(parts["metadata"]["component"]["bom-ref"])
    for edge in parts["dependencies"]:
        assert {edge["ref"], *edge["dependsOn"]} <= references


def test_the_installed_gateway_serves_as_its_user(root):
    with (scratch() / "installed.log").open("w") as log:
        gateway = subprocess.Popen(
            root.words("setpriv", "--reuid=ashlar", "--regid=ashlar", "--clear-groups",
                       "/usr/bin/ashlar", "serve", "--config", "/etc/ashlar/config.toml"),
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )
    try:
        limit = time.monotonic() + 60
        while True:
            try:
                with urllib.request.urlopen(f"{ENDPOINT}/-/ready", timeout=5) as answer:
                    assert answer.status == 200
                break
            except OSError:
                text = (scratch() / "installed.log").read_text()
                assert gateway.poll() is None and time.monotonic() < limit, text
                time.sleep(0.1)
        # The folder of the unit is in the configuration file.
        assert root.exists("var/lib/ashlar/meta.db")
        root.run("/usr/bin/ashlar", "health", "--config", "/etc/ashlar/config.toml")
    finally:
        gateway.send_signal(signal.SIGTERM)
    assert gateway.wait(timeout=60) == 0


def test_a_purge_removes_everything_that_the_package_made(root):
    # Runs last, in the order of this file. A removal keeps the configuration and the volume.
    root.run("dpkg", "--remove", "ashlar")
    assert root.exists("etc/ashlar/config.toml")
    assert root.exists("var/lib/ashlar/meta.db")
    root.run("dpkg", "--purge", "ashlar")
    assert not [name for name in ("etc/ashlar", "var/lib/ashlar", "usr/bin/ashlar") if root.exists(name)]
    assert "ashlar" not in root.run("getent", "passwd") + root.run("getent", "group")

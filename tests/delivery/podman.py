"""podman and buildah with storage, configuration and limits of their own.

No daemon and no registry of images takes part. Everything runs in namespaces that `cargo xtask test`
makes (mounts, processes, and for the tests also the network), so bridges, chains of iptables, mounts
and processes end with them. Image layers are kept in the build folder between runs.
"""

import os
import resource
import shutil
import stat
import subprocess
import sys
from pathlib import Path

COMMAND_SECONDS = 300

CHECKOUT = Path(__file__).resolve().parents[2]


def required(name):
    value = os.environ.get(name)
    if not value:
        sys.exit(f"set {name}: `cargo xtask test --only image` does")
    return value


class Podman:
    """The folders and the environment of podman, buildah and podman-compose."""

    def __init__(self):
        self.kept = Path(required("ASHLAR_TEST_IMAGES"))
        self.scratch = Path(required("ASHLAR_TEST_SCRATCH"))
        self.kept.mkdir(parents=True, exist_ok=True)
        self.scratch.mkdir(parents=True, exist_ok=True)
        self.environment = os.environ | self._configuration()

    def _configuration(self):
        storage, containers = self.scratch / "storage.conf", self.scratch / "containers.conf"
        # The state of containers is in the folder of this run, so a killed run leaves none.
        storage.write_text(
            f'[storage]\ndriver = "{self._driver()}"\n'
            f'graphroot = "{self.kept}/store"\nrunroot = "{self.scratch}/run"\n'
        )
        # podman's own limits need CAP_SYS_RESOURCE, which root of a container may lack.
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        processes = resource.getrlimit(resource.RLIMIT_NPROC)[1]
        processes = processes if processes > 0 else 20_000
        containers.write_text(
            '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\nruntime = "crun"\n'
            f'tmp_dir = "{self.scratch}/engine"\n'
            '[network]\nnetwork_backend = "netavark"\n[containers]\nlog_driver = "k8s-file"\n'
            f'default_ulimits = ["nofile={files}:{files}", "nproc={processes}:{processes}"]\n'
        )
        return {
            "CONTAINERS_STORAGE_CONF": str(storage),
            "CONTAINERS_CONF": str(containers),
            # podman-compose is in the environment of this interpreter.
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }

    def _driver(self):
        # The kernel refuses an overlay whose upper folder is on an overlay itself.
        kind = subprocess.run(
            ["stat", "--file-system", "--format", "%T", self.kept],
            capture_output=True, text=True, check=True,
        ).stdout.strip()
        return "vfs" if kind == "overlayfs" else "overlay"

    def run(self, *words, check=True, cwd=None, environment=None):
        """Runs a command, and returns its standard output. Its streams are pipes and a file, because
        podman changes the owner of a device that is a standard stream, such as /dev/null."""
        done = subprocess.run(
            [str(word) for word in words],
            input="", capture_output=True, text=True, timeout=COMMAND_SECONDS, cwd=cwd,
            env=self.environment | (environment or {}), check=False,
        )
        if check and done.returncode != 0:
            raise AssertionError(f"{words} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def podman(self, *words, check=True):
        return self.run("podman", *words, check=check)

    def inspect(self, container, form):
        return self.podman("inspect", "--format", form, container).strip()

    def logs(self, container):
        done = subprocess.run(
            ["podman", "logs", container], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, env=self.environment, check=False,
        )
        return done.stdout

    def remove_containers(self):
        """Removes all containers, their volumes and their networks."""
        self.podman("rm", "--all", "--force", "--time", "0", check=False)
        self.podman("volume", "rm", "--all", "--force", check=False)
        self.podman("network", "prune", "--force", check=False)


def enter_namespace():
    """Prepares the mount namespace of this process, which `unshare` has made."""
    # crun refuses the hybrid hierarchy of cgroups, so the second one is hidden here.
    unified = "/sys/fs/cgroup/unified"
    if os.path.ismount(unified):
        subprocess.run(["umount", unified], check=True)
    replace_null()
    # As systemd makes it: binds with `rshared` need a shared mount below.
    subprocess.run(["mount", "--make-rshared", "/"], check=True)


def replace_null():
    """Gives this namespace a /dev/null of its own. The standard input of a container is that device,
    and the runtime changes the owner of its standard streams to the user of the container."""
    folder = Path(required("ASHLAR_TEST_SCRATCH")) / "dev"
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755,size=64k", "dev", folder], check=True)
    os.mknod(folder / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    (folder / "null").chmod(0o666)
    subprocess.run(["mount", "--bind", folder / "null", "/dev/null"], check=True)


def remove_cgroups():
    """Removes the empty groups that podman leaves."""
    for folder in Path("/sys/fs/cgroup").glob("**/libpod_parent"):
        for inner in sorted(folder.glob("**/"), key=lambda path: len(path.parts), reverse=True):
            try:
                inner.rmdir()
            except OSError:
                pass


def fresh_folder(path):
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def scratch():
    """The folder of this run, which it removes at its end."""
    folder = Path(required("ASHLAR_TEST_SCRATCH"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder

"""Builds the images of the tests: `ashlar`, the last stage of the unchanged Dockerfile around the
program of the test run, and `ashlar-minio`, as compose.yaml names it.

The base image is made by mmdebstrap from Debian's packages and kept, so no registry is asked.
"""

import shutil
import subprocess
from pathlib import Path

from podman import CHECKOUT, Podman, enter_namespace, fresh_folder, remove_cgroups, required

BASE = "docker.io/library/debian:bookworm-slim"

# As the official image has it; without it apt leaves 90 MB of caches in each layer.
DOCKER_CLEAN = (
    'Dir::Cache::pkgcache "";\nDir::Cache::srcpkgcache "";\nAcquire::Languages "none";\n'
)

# Arguments that a release gives, so that the tests find them in the labels.
ARGUMENTS = {"VERSION": "1.2.3-test", "REVISION": "0123abc", "CREATED": "2026-01-02T03:04:05Z"}


def make_base(podman):
    """Makes the base image, unless it is there already."""
    if podman.podman("images", "--quiet", BASE).strip():
        return
    archive, folder = podman.kept / "slim.tar", fresh_folder(podman.scratch / "base")
    if not archive.exists():
        fresh = archive.with_suffix(".new.tar")
        excluded = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "man", "locale")]
        podman.run("mmdebstrap", "--mode=root", "--variant=minbase", *excluded, "bookworm", fresh)
        clean = folder / "etc/apt/apt.conf.d/docker-clean"
        clean.parent.mkdir(parents=True)
        clean.write_text(DOCKER_CLEAN)
        podman.run("tar", "--append", "-f", fresh, "-C", folder, "./etc/apt/apt.conf.d/docker-clean")
        fresh.rename(archive)
    podman.podman("import", "--quiet", "--change", 'CMD ["bash"]', archive, BASE)


def make_root(podman):
    """Makes the root in which the package is installed, unless it is there already."""
    archive = podman.kept / "package.tar"
    if archive.exists():
        return
    fresh = archive.with_suffix(".new.tar")
    podman.run("mmdebstrap", "--mode=root", "--variant=minbase", "--include=adduser,ca-certificates",
               "bookworm", fresh)
    fresh.rename(archive)


def build(podman, name, dockerfile, context, *options):
    podman.run(
        "buildah", "bud", "--layers", "--format", "docker", "--isolation", "chroot",
        "--pull=never", *options, "-t", name, "-f", dockerfile, context,
    )


def build_ashlar(podman, program):
    """Builds the image. A folder replaces the stage `build`; the owners of its files are kept."""
    prebuilt = fresh_folder(podman.scratch / "prebuilt")
    installed = prebuilt / "image/usr/local/bin/ashlar"
    installed.parent.mkdir(parents=True)
    shutil.copy(program, installed)
    installed.chmod(0o755)
    subprocess.run(["strip", installed], check=True)
    data = prebuilt / "image/data"
    data.mkdir(mode=0o700)
    shutil.chown(data, 65532, 65532)
    options = [f"--build-arg={name}={value}" for name, value in ARGUMENTS.items()]
    empty = fresh_folder(podman.scratch / "empty")
    options.append(f"--build-context=build={prebuilt}")
    build(podman, "ashlar", CHECKOUT / "Dockerfile", empty, *options)
    # Images in this format have no health check, so the one of compose.yaml is tested with it.
    container = podman.run("buildah", "from", "--pull-never", "ashlar").strip()
    podman.run("buildah", "commit", "--quiet", "--format", "oci", container, "ashlar-oci")
    podman.run("buildah", "rm", container)


def build_minio(podman, program):
    context = fresh_folder(podman.scratch / "minio")
    shutil.copy(program, context / "minio")
    build(podman, "ashlar-minio", Path(__file__).with_name("minio.Dockerfile"), context)


def build_context(podman):
    """Makes an image of the files that the stage `build` gets, by .dockerignore."""
    dockerfile = podman.scratch / "context.Dockerfile"
    dockerfile.write_text("FROM scratch\nCOPY . .\n")
    build(podman, "ashlar-context", dockerfile, CHECKOUT, f"--ignorefile={CHECKOUT}/.dockerignore")


def main():
    podman = Podman()
    enter_namespace()
    try:
        podman.remove_containers()
        make_base(podman)
        build_ashlar(podman, required("ASHLAR_TEST_PROGRAM"))
        build_minio(podman, required("ASHLAR_TEST_MINIO"))
        build_context(podman)
        make_root(podman)
        # Earlier images, whose names the new ones have taken.
        podman.podman("image", "prune", "--force", check=False)
    finally:
        remove_cgroups()


if __name__ == "__main__":
    main()

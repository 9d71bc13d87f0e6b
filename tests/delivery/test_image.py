"""The image as `docker build` makes it: its configuration, its layers, and the files that the build
gets."""

import json
import re
import tarfile

import pytest

from build import ARGUMENTS
from podman import CHECKOUT, fresh_folder

# Files of a layer that contain the time of the build.
TIMED = re.compile(r"(var/log/.*\.log|var/log/apt/.*|var/cache/(apt|ldconfig)/.+|.*-old|var/lib/apt/lists/.+)")


@pytest.fixture(scope="module")
def image(podman):
    (image,) = json.loads(podman.podman("image", "inspect", "ashlar"))
    return image


def export(podman, name):
    """Writes an image as an archive of docker, and returns the archive and the layers in order."""
    folder = fresh_folder(podman.scratch / f"export-{name}")
    archive = folder / "image.tar"
    podman.podman("save", "--format", "docker-archive", "--output", archive, name)
    with tarfile.open(archive) as outer:
        outer.extractall(folder, filter="tar")
    (manifest,) = json.loads((folder / "manifest.json").read_text())
    return [folder / layer for layer in manifest["Layers"]]


def test_the_linter_accepts_the_dockerfile(podman):
    podman.run("hadolint", CHECKOUT / "Dockerfile")


def test_the_image_runs_as_a_number_that_is_not_root(image):
    assert image["Config"]["User"] == "65532:65532"


def test_the_image_names_its_ports_and_its_version(image):
    config = image["Config"]
    assert set(config["ExposedPorts"]) == {"9700/tcp", "9701/tcp", "9702/tcp"}
    labels = config["Labels"]
    prefix = "org.opencontainers.image."
    for name, value in ARGUMENTS.items():
        assert labels[prefix + name.lower()] == value
    assert labels[prefix + "licenses"] == "Apache-2.0"
    assert labels[prefix + "title"] == "Ashlar"


def test_the_image_has_a_health_check_and_stops_by_sigterm(image):
    # podman and docker have different words for the same field.
    check = image.get("Healthcheck") or image["Config"]["Healthcheck"]
    assert check["Test"] == ["CMD", "/usr/local/bin/ashlar", "health"]
    assert image["Config"]["StopSignal"] == "SIGTERM"


def test_the_layer_of_packages_has_no_logs_and_caches(podman):
    layers = export(podman, "ashlar")
    # The base has one layer; the packages and the program follow.
    packages, program = layers[1], layers[2]
    with tarfile.open(packages) as layer:
        files = [entry.name for entry in layer.getmembers() if entry.isfile()]
    # A whiteout (`.wh.`) is the removal of a file of the base.
    timed = [name for name in files if TIMED.fullmatch(name) and "/.wh." not in name]
    assert not timed
    assert "etc/ssl/certs/ca-certificates.crt" in files
    with tarfile.open(program) as layer:
        owners = {entry.name: (entry.uid, entry.mode & 0o7777) for entry in layer.getmembers()}
    assert owners["data"] == (65532, 0o700)
    assert owners["usr/local/bin/ashlar"] == (0, 0o755)


def test_the_build_gets_the_members_of_the_workspace_and_no_other_files(podman):
    (layer,) = export(podman, "ashlar-context")
    with tarfile.open(layer) as files:
        names = {entry.name for entry in files.getmembers()}
    assert {".cargo/config.toml", "Cargo.toml", "Cargo.lock", "config/default.toml"} <= names
    manifests = {str(path.relative_to(CHECKOUT)) for path in CHECKOUT.glob("crates/*/Cargo.toml")}
    assert manifests <= names
    unwanted = ("target", ".git", "rust-toolchain.toml", "tests/clients")
    assert not [name for name in names if name.split("/")[0] in unwanted or name.startswith("tests/clients")]

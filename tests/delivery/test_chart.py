"""The Helm chart: its values, its objects, and the start of the program with them."""

import os
import re
import signal
import subprocess
import time
import tomllib
from pathlib import Path

import boto3
import pytest
import yaml

from podman import CHECKOUT, fresh_folder, required, scratch

CHART = CHECKOUT / "contrib/helm/ashlar"
# A helm that `go install` builds knows no version of Kubernetes.
KUBERNETES = ["--kube-version", "1.31.0"]
START_SECONDS = 60

SECRET = {"rootUser": "admin", "rootPassword": "rootsecret-1234"}
KEY = "ab" * 32
SINGLE = {"secret": SECRET}
SEVERAL = {
    "replicas": 3,
    "meta": "postgres://ashlar@postgres/ashlar",
    "blocks": "s3://bucket/prefix?endpoint=http://minio:9000&region=us-east-1",
    "secret": {**SECRET, "masterKey": KEY, "metaPassword": "m", "blocksSecretKey": "b"},
}
EVERYTHING = {
    **SEVERAL,
    "config": {"requests_max": 1024, "region": "eu-1", "domain": ["s3.example"], "peer_reads": False},
    "bootstrap": '[[bucket]]\nname = "photos"\n',
    "bootstrapSecret": "people",
    "tls": {"secretName": "certificate"},
    "environment": [{"name": "ASHLAR_LOG", "value": "debug"}],
    "metrics": {"serviceMonitor": {"enabled": True, "labels": {"team": "a"}}},
    "networkPolicy": {
        "enabled": True,
        "clients": [{"podSelector": {}}],
        "monitors": [{"namespaceSelector": {}}],
    },
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "podAnnotations": {"a": "b"},
}


def attempt(command, values, *arguments):
    """Runs helm on the chart with values. Returns the finished process."""
    file = fresh_folder(scratch() / "chart") / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    words = {"lint": ["lint", "--strict", CHART], "template": ["template", "store", CHART]}[command]
    return subprocess.run(
        [required("ASHLAR_TEST_HELM"), *words, "--values", file, *KUBERNETES, *arguments],
        env={**os.environ, "HOME": str(file.parent)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
    )


def rendered(values):
    """Returns the objects of a release with these values, by kind and name."""
    done = attempt("template", values)
    assert done.returncode == 0, done.stderr
    objects = [each for each in yaml.safe_load_all(done.stdout) if each]
    found = {(each["kind"], each["metadata"]["name"]): each for each in objects}
    assert len(found) == len(objects), "two objects have one name"
    return found


def container(objects):
    [container] = objects["Deployment", "store-ashlar"]["spec"]["template"]["spec"]["containers"]
    return container


def environment(objects):
    """Returns the variables of the container, with the values of the chart's Secret."""
    secret = objects.get(("Secret", "store-ashlar"), {}).get("stringData", {})
    found = {}
    for each in container(objects)["env"]:
        source = each.get("valueFrom", {}).get("secretKeyRef")
        if source is None:
            found[each["name"]] = each["value"]
        elif source["key"] in secret:
            found[each["name"]] = secret[source["key"]]
        else:
            assert source.get("optional"), f"the Secret has no {source['key']}"
    return found


@pytest.mark.parametrize("values", [SINGLE, SEVERAL, EVERYTHING], ids=["one", "several", "all"])
def test_the_chart_passes_the_strict_linter(values):
    done = attempt("lint", values)
    assert done.returncode == 0, done.stdout
    remarks = [line for line in done.stdout.splitlines() if line.startswith("[")]
    assert remarks == ["[INFO] Chart.yaml: icon is recommended"]


@pytest.mark.parametrize(
    "values, reason",
    [
        ({}, "there is no default password"),
        ({**SINGLE, "replicas": 2}, "several gateways need meta"),
        ({**SEVERAL, "blocks": ""}, "several gateways need meta"),
        ({**SEVERAL, "secret": SECRET}, "secret.masterKey"),
        ({**SINGLE, "meta": "sqlite:/data/meta.db"}, "/meta"),
        ({**SINGLE, "replica": 2}, "replica"),
        ({**SINGLE, "replicas": 0}, "/replicas"),
        ({"secret": {**SECRET, "rootPassword": "short"}}, "rootPassword"),
        ({**SINGLE, "service": {"type": "Ingress"}}, "/service/type"),
    ],
)
def test_wrong_values_are_refused_with_a_reason(values, reason):
    done = attempt("template", values)
    assert done.returncode != 0 and reason in done.stderr, done.stderr


def test_the_schema_knows_each_value():
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())

    def check(values, part, path):
        for name, value in values.items():
            assert name in part["properties"], f"{path}{name}"
            if isinstance(value, dict) and part["properties"][name].get("properties"):
                check(value, part["properties"][name], f"{path}{name}.")

    check(defaults, schema, "")
    assert set(schema["properties"]) - {"global"} == set(defaults)


def test_one_gateway_has_a_disk_that_outlives_the_release():
    objects = rendered(SINGLE)
    kinds = sorted(kind for kind, _ in objects)
    assert kinds == sorted(
        ["ConfigMap", "Deployment", "PersistentVolumeClaim", "Secret", "Service", "Service",
         "ServiceAccount"]
    )
    claim = objects["PersistentVolumeClaim", "store-ashlar"]
    assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    spec = objects["Deployment", "store-ashlar"]["spec"]
    assert spec["strategy"] == {"type": "Recreate"}, "SQLite has one process"
    [data] = [it for it in spec["template"]["spec"]["volumes"] if it["name"] == "data"]
    assert data["persistentVolumeClaim"] == {"claimName": "store-ashlar"}
    assert not any("metrics" in str(port) for port in objects["Service", "store-ashlar"]["spec"]["ports"])


def test_several_gateways_are_replaced_one_by_one():
    objects = rendered(EVERYTHING)
    assert not any(kind == "PersistentVolumeClaim" for kind, _ in objects)
    deployment = objects["Deployment", "store-ashlar"]["spec"]
    assert deployment["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    pod = deployment["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > 10 + 30
    budget = objects["PodDisruptionBudget", "store-ashlar"]["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    for selector in [
        budget["selector"]["matchLabels"],
        deployment["selector"]["matchLabels"],
        objects["Service", "store-ashlar"]["spec"]["selector"],
        objects["NetworkPolicy", "store-ashlar"]["spec"]["podSelector"]["matchLabels"],
    ]:
        assert selector and selector.items() <= labels.items()
    service = objects["Service", "store-ashlar-metrics"]["metadata"]["labels"]
    monitor = objects["ServiceMonitor", "store-ashlar"]["spec"]
    assert monitor["selector"]["matchLabels"].items() <= service.items()
    names = {port["name"] for port in container(objects)["ports"]}
    rules = objects["NetworkPolicy", "store-ashlar"]["spec"]["ingress"]
    assert {port["port"] for rule in rules for port in rule["ports"]} == names
    assert [rule["from"] for rule in rules] == [
        [{"podSelector": {}}], [{"namespaceSelector": {}}]
    ]


@pytest.mark.parametrize("values", [SINGLE, EVERYTHING], ids=["one", "all"])
def test_the_pod_has_no_rights_that_it_does_not_need(values):
    objects = rendered(values)
    pod = objects["Deployment", "store-ashlar"]["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 65532, "the user of the Dockerfile"
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container(objects)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    mounted = {each["name"] for each in container(objects)["volumeMounts"]}
    assert mounted == {each["name"] for each in pod["volumes"]}
    # The folder of a volume is open to other users, and the gateway refuses to keep secrets there.
    [data] = [each for each in container(objects)["volumeMounts"] if each["name"] == "data"]
    assert Path(environment(objects)["ASHLAR_DATA_DIR"]).parent == Path(data["mountPath"])


def test_other_settings_restart_the_pods():
    def checksum(values):
        template = rendered(values)["Deployment", "store-ashlar"]["spec"]["template"]
        return template["metadata"]["annotations"]

    one = checksum(SINGLE)
    assert one == checksum(SINGLE)
    assert one != checksum({**SINGLE, "config": {"region": "eu-1"}})
    assert one != checksum({"secret": {**SECRET, "rootPassword": "rootsecret-5678"}})


def test_the_program_accepts_the_settings_of_the_chart(tmp_path):
    objects = rendered(EVERYTHING)
    variables = environment(objects)
    data = objects["ConfigMap", "store-ashlar"]["data"]
    assert tomllib.loads(data["config.toml"]) == EVERYTHING["config"]
    for name, text in data.items():
        (tmp_path / name).write_text(text)
    local = {name: value.replace("/etc/ashlar/", f"{tmp_path}/") for name, value in variables.items()}
    done = subprocess.run(
        [required("ASHLAR_TEST_PROGRAM"), "check-config"],
        env=local, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )
    assert done.returncode == 0, done.stderr
    settings = tomllib.loads(done.stdout)
    assert settings["requests_max"] == 1024 and settings["domain"] == ["s3.example"]
    assert settings["listen"] == "0.0.0.0:9700" and settings["shutdown_delay"] == "10s"
    assert settings["meta"].startswith("postgres://") and settings["tls_cert"].endswith("tls.crt")
    # An unknown variable would have no effect, so each must be an option or a secret.
    usage = subprocess.run(
        [required("ASHLAR_TEST_PROGRAM"), "serve", "--help"],
        env={}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )
    known = set(re.findall(r"\[env: (\w+)", usage.stdout)) | {
        "ASHLAR_ROOT_USER", "ASHLAR_ROOT_PASSWORD", "ASHLAR_MASTER_KEY", "ASHLAR_META_PASSWORD",
        "ASHLAR_BLOCKS_ACCESS_KEY", "ASHLAR_BLOCKS_SECRET_KEY",
    }
    assert set(variables) <= known, "variables that the program does not have"


def test_a_gateway_serves_with_the_environment_of_the_chart(tmp_path):
    values = {
        **SINGLE,
        "bootstrap": '[[bucket]]\nname = "photos"\n\n[[user]]\nname = "anna"\nsecret_env = "ANNA"\n',
        "environment": [{"name": "ANNA", "value": "correct-horse"}],
        "shutdown": {"delaySeconds": 0, "drainSeconds": 5},
    }
    objects = rendered(values)
    for name, text in objects["ConfigMap", "store-ashlar"]["data"].items():
        (tmp_path / name).write_text(text)
    (tmp_path / "data").mkdir()
    moved = {"/etc/ashlar/": f"{tmp_path}/", "/data/": f"{tmp_path}/data/"}
    variables = environment(objects)
    for old, new in moved.items():
        variables = {name: value.replace(old, new) for name, value in variables.items()}
    log = open(tmp_path / "log", "w")
    gateway = subprocess.Popen(
        [required("ASHLAR_TEST_PROGRAM"), *container(objects)["args"]], env=variables, stderr=log
    )
    try:
        limit = time.monotonic() + START_SECONDS
        while '"serving"' not in (tmp_path / "log").read_text():
            assert gateway.poll() is None and time.monotonic() < limit, (tmp_path / "log").read_text()
            time.sleep(0.05)
        client = boto3.client(
            "s3", endpoint_url="http://127.0.0.1:9700", region_name="us-east-1",
            aws_access_key_id=SECRET["rootUser"], aws_secret_access_key=SECRET["rootPassword"],
        )
        assert [each["Name"] for each in client.list_buckets()["Buckets"]] == ["photos"]
        client.put_object(Bucket="photos", Key="a", Body=b"x")
    finally:
        gateway.send_signal(signal.SIGTERM)
        assert gateway.wait(60) == 0, (tmp_path / "log").read_text()


def test_the_chart_installs_the_program_of_its_checkout():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    workspace = tomllib.loads((CHECKOUT / "Cargo.toml").read_text())
    assert chart["appVersion"] == workspace["workspace"]["package"]["version"]

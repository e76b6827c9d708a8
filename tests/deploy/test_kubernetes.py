"""The Helm chart and the kustomizations are valid, agree with each other, and fit the code."""

import copy
import ipaddress
import json
import re
import tomllib
from typing import Any

import pytest
import yaml

from runward.operating.findings import METADATA_ADDRESSES
from runward.settings import Settings, find_unknown_variables
from tests.deploy.kubernetes import (
    CHART,
    CUSTOM_KINDS,
    Manifest,
    list_pods,
    list_versions,
    read_container,
    read_environment,
    read_manifests,
    render,
    run,
    validate,
)
from tests.support.services.service import ROOT

BASE = "base"
FEWEST_VALUES = "existing-secret-values.yaml"
ALL_VALUES = "everything-values.yaml"
SOURCES = (BASE, "overlays/production", FEWEST_VALUES, ALL_VALUES)
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")

every_source = pytest.mark.parametrize("source", SOURCES)


@every_source
def test_the_manifests_are_valid_in_each_version_of_kubernetes(source: str) -> None:
    manifests = [one for one in read_manifests(source) if one["kind"] not in CUSTOM_KINDS]
    oldest, *_, newest = list_versions()
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert chart["kubeVersion"] == f">={oldest}.0-0"
    page = (ROOT / "docs/how-to/kubernetes.md").read_text("utf-8")
    assert f"versions {oldest} to {newest}" in page
    errors = [
        f"{version}: {error}"
        for version in list_versions()
        for one in manifests
        for error in validate(one, version)
    ]
    assert errors == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "replica"), 2),
        (("spec", "template", "spec", "terminationGracePeriodSeconds"), "35"),
        (("spec", "template", "spec", "containers", 0, "readinesProbe"), {}),
    ],
)
def test_an_invalid_manifest_is_found(path: tuple[Any, ...], value: object) -> None:
    manifest = copy.deepcopy(list_pods(read_manifests(BASE))["worker"])
    parent: Any = manifest
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    assert all([*validate(manifest, version)] for version in list_versions())


@pytest.mark.parametrize("values", [FEWEST_VALUES, ALL_VALUES])
def test_helm_finds_no_error_in_the_chart(values: str) -> None:
    done = run("helm", "lint", "--strict", CHART, "--values", CHART / "ci" / values)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_chart_and_the_base_have_the_same_resources() -> None:
    chart, base = (_normalize(read_manifests(one)) for one in (FEWEST_VALUES, BASE))
    assert chart.keys() == base.keys()
    for name, manifest in chart.items():
        assert manifest == base[name], name


def _normalize(manifests: tuple[Manifest, ...]) -> dict[tuple[str, str], Manifest]:
    """Return the resources by kind and name, without the differences that the tools require."""
    found = copy.deepcopy(manifests)
    for owner in list_pods(found).values():
        container = read_container(owner)
        container["env"] = read_environment(container, found)
        container["envFrom"] = [one for one in container["envFrom"] if "secretRef" in one]
        container.pop("imagePullPolicy", None)
        owner["spec"]["template"]["metadata"].pop("annotations", None)
        if owner["kind"] == "Job":  # Helm's hooks run before the ServiceAccount exists.
            del owner["spec"]["template"]["spec"]["serviceAccountName"]
    for one in found:
        one["metadata"].pop("annotations", None)
        one["spec"] = _drop_release(one.get("spec", {}))
        one["metadata"] = _drop_release(one["metadata"])
        if one["spec"].get("type") == "ClusterIP":
            del one["spec"]["type"]
    return {
        (one["kind"], one["metadata"]["name"]): one for one in found if one["kind"] != "ConfigMap"
    }


def _drop_release(value: Any) -> Any:
    """Remove the labels that identify a release of the chart."""
    release = {"app.kubernetes.io/instance", "app.kubernetes.io/version"}
    release |= {"app.kubernetes.io/managed-by", "helm.sh/chart"}
    if isinstance(value, dict):
        return {k: _drop_release(v) for k, v in value.items() if k not in release}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return [_drop_release(one) for one in value]  # pyright: ignore[reportUnknownVariableType]
    return value


@every_source
def test_each_container_is_restricted_and_limited(source: str) -> None:
    pods = list_pods(read_manifests(source))
    assert pods.keys() == {"migrate", "api", "worker"}
    for command, owner in pods.items():
        pod = owner["spec"]["template"]["spec"]
        assert not pod["enableServiceLinks"]
        assert not pod["automountServiceAccountToken"]
        assert f"USER {pod['securityContext']['runAsUser']}:" in DOCKERFILE
        assert pod["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": 10001,
            "runAsGroup": 10001,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        container = read_container(owner)
        assert container["command"] == ["python", "-m", "runward", command]
        assert container["image"].endswith(f"runward:{VERSION}")
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"]
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        volumes = {one["name"]: one for one in pod["volumes"]}
        assert {"name": "tmp", "mountPath": "/tmp"} in container["volumeMounts"]
        assert volumes["tmp"]["emptyDir"]["sizeLimit"]


@every_source
def test_each_process_has_probes_at_its_port(source: str) -> None:
    manifests = read_manifests(source)
    paths = json.loads((ROOT / "openapi/openapi.json").read_text("utf-8"))["paths"]
    pods = list_pods(manifests)
    for command in ("api", "worker"):
        container = read_container(pods[command])
        [port] = container["ports"]
        for probe in PROBES:
            asked = container[probe]["httpGet"]
            assert asked["path"] in paths
            assert asked["path"] == ("/readyz" if probe == "readinessProbe" else "/livez")
            assert asked["port"] == port["name"]
    [port] = read_container(pods["api"])["ports"]
    assert f"RUNWARD_PORT={port['containerPort']} " in f"{DOCKERFILE} ".replace("\n", " ")
    [port] = read_container(pods["worker"])["ports"]
    environment = read_environment(read_container(pods["worker"]), manifests)
    assert environment["RUNWARD_WORKER_PORT"] == str(port["containerPort"])


@every_source
def test_the_variables_exist_and_have_valid_values(source: str) -> None:
    manifests = read_manifests(source)
    for owner in list_pods(manifests).values():
        environment = read_environment(read_container(owner), manifests)
        assert find_unknown_variables(environment) == []
        own = {k.removeprefix("RUNWARD_").lower(): v for k, v in environment.items()}
        settings = Settings.model_validate(own)
        assert str(settings.public_url).removeprefix("https://") in settings.hosts
        grace = owner["spec"]["template"]["spec"].get("terminationGracePeriodSeconds")
        if "worker" in owner["metadata"]["name"]:
            assert grace - 10 >= settings.drain_seconds.total_seconds() > grace - 12


@every_source
def test_the_selectors_find_the_pods(source: str) -> None:
    manifests = read_manifests(source)
    pods = list_pods(manifests)
    labels = {
        pods[command]["metadata"]["name"]: pods[command]["spec"]["template"]["metadata"]["labels"]
        for command in pods
    }
    ports = {
        pods[command]["metadata"]["name"]: {one["name"] for one in read_container(owner)["ports"]}
        for command, owner in pods.items()
        if command != "migrate"
    }
    selected: dict[str, set[str]] = {}
    for one in manifests:
        kind, name, spec = one["kind"], one["metadata"]["name"], one.get("spec", {})
        if kind in ("HorizontalPodAutoscaler", "ScaledObject"):
            assert spec["scaleTargetRef"]["name"] == name
            assert "replicas" not in pods[name.rpartition("-")[2]]["spec"]
        selector = spec.get("podSelector", spec.get("selector"))
        if kind in ("Job", "ServiceMonitor") or selector is None:
            continue
        chosen = selector if kind == "Service" else selector["matchLabels"]
        found = {pod for pod, own in labels.items() if chosen.items() <= own.items()}
        assert found == (labels.keys() if name not in labels else {name}), (kind, name)
        selected.setdefault(kind, set()).add(name)
        opened = [port for rule in spec.get("ingress", ()) for port in rule["ports"]]
        for port in opened:
            assert port["port"] in ports[name]
        if kind == "Service":
            assert {one["targetPort"] for one in spec["ports"]} <= ports[name]
    assert selected.keys() == {"Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy"}


@pytest.mark.parametrize("source", ["overlays/production", ALL_VALUES])
def test_prometheus_scrapes_the_services(source: str) -> None:
    manifests = read_manifests(source)
    [monitor] = (one for one in manifests if one["kind"] == "ServiceMonitor")
    chosen = monitor["spec"]["selector"]["matchLabels"]
    services = [one for one in manifests if one["kind"] == "Service"]
    assert all(chosen.items() <= one["metadata"]["labels"].items() for one in services)
    ports = {port["name"] for one in services for port in one["spec"]["ports"]}
    assert {one["port"] for one in monitor["spec"]["endpoints"]} == ports


@every_source
def test_no_pod_can_connect_to_the_credentials_of_a_cloud(source: str) -> None:
    policies = [one for one in read_manifests(source) if one["kind"] == "NetworkPolicy"]
    [egress] = (rule for one in policies for rule in one["spec"].get("egress", ()))
    blocks = [one["ipBlock"] for one in egress["to"] if "ipBlock" in one]
    for address in METADATA_ADDRESSES:
        [block] = (
            one for one in blocks if ipaddress.ip_network(one["cidr"]).version == address.version
        )
        excepted = [ipaddress.ip_network(one) for one in block["except"]]
        assert any(address in network for network in excepted), address


def test_all_files_name_the_version_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
    assert compose["x-runward"]["image"] == f"runward:{VERSION}"


def test_compose_reads_no_unknown_variable() -> None:
    """Compose also passes the variables in `.env` to the processes, which reject unknown ones."""
    compose = (ROOT / "docker-compose.yml").read_text("utf-8")
    names = re.findall(r"\$\{(\w+)", compose)
    assert "RUNWARD_SECRET_KEY" in names
    assert find_unknown_variables(names) == []


def test_the_chart_knows_the_configuration_variables() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    [known, _] = schema["properties"]["config"]["propertyNames"]["anyOf"]
    set_by_the_chart = {"host", "port", "worker_port", "data_dir"}
    public = {
        f"RUNWARD_{name.upper()}"
        for name, field in Settings.model_fields.items()
        if field.validation_alias is None
        and "SecretStr" not in str(field.annotation)
        and name not in set_by_the_chart
    }
    assert set(known["enum"]) == public


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("config.RUNWARD_LEASE=30", "RUNWARD_LEASE"),
        ("config.OPENAI_API_KEY=sk-test", "OPENAI_API_KEY"),
        ("config.DATABASE_URL=postgresql://postgres", "DATABASE_URL"),
        ("config.RUNWARD_PUBLIC_URL=", "Set config.RUNWARD_PUBLIC_URL"),
        ("config.RUNWARD_PUBLIC_URL=agents.example.com", "RUNWARD_PUBLIC_URL"),
        ("existingSecret=", "Set existingSecret, or set secrets.DATABASE_URL"),
        ("api.replica=3", "'replica' not allowed"),
        ("worker.resources.limits=null", "limits"),
    ],
)
def test_the_chart_rejects_values_that_cannot_work(option: str, message: str) -> None:
    done = render(FEWEST_VALUES, "--set-string", option)
    assert done.returncode != 0
    assert message in done.stderr


@pytest.mark.parametrize("name", ["metricsFrom", "egressTo"])
def test_the_chart_rejects_an_empty_list_that_would_allow_everything(name: str) -> None:
    done = render(FEWEST_VALUES, "--set-json", f"networkPolicy.{name}=[]")
    assert f"/networkPolicy/{name}': minItems" in done.stderr


def test_the_chart_rejects_an_old_cluster() -> None:
    done = render(FEWEST_VALUES, "--kube-version", "1.24.0")
    assert done.returncode != 0
    assert "kubeVersion" in done.stderr


def test_the_migration_runs_before_the_other_resources_exist() -> None:
    manifests = read_manifests(ALL_VALUES)
    secrets = [one for one in manifests if one["kind"] == "Secret"]
    hooked = [one for one in manifests if "helm.sh/hook" in one["metadata"].get("annotations", {})]
    assert {one["kind"] for one in hooked} == {"Secret", "Job"}
    assert {one["metadata"]["annotations"]["helm.sh/hook"] for one in hooked} == {
        "pre-install,pre-upgrade"
    }
    [copied] = (one for one in secrets if one in hooked)
    [kept] = (one for one in secrets if one not in hooked)
    assert copied["data"] == kept["data"]
    assert kept["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    pods = list_pods(manifests)
    for command, secret in (("migrate", copied), ("api", kept), ("worker", kept)):
        given, *others = read_container(pods[command])["envFrom"]
        assert given["secretRef"]["name"] == secret["metadata"]["name"]
        # Of two Secrets with a variable, Kubernetes uses the last.
        owner = [{"secretRef": {"name": "agents-owner"}}]
        assert others == (owner if command == "migrate" else [])
    assert re.fullmatch(r"-\d+", copied["metadata"]["annotations"]["helm.sh/hook-weight"])


def test_the_secrets_stay_out_of_the_pods() -> None:
    values = yaml.safe_load((CHART / "ci" / ALL_VALUES).read_text("utf-8"))["secrets"].values()
    others = [one for one in read_manifests(ALL_VALUES) if one["kind"] != "Secret"]
    assert [value for value in values if value in json.dumps(others)] == []


def test_the_notes_name_existing_resources() -> None:
    done = run(
        "helm", "install", "runward", CHART, "--dry-run=client", "--values",
        CHART / "ci" / ALL_VALUES,
    )  # fmt: skip
    _, _, notes = done.stdout.partition("\nNOTES:\n")
    names = {one["metadata"]["name"] for one in read_manifests(ALL_VALUES)}
    mentioned = set(re.findall(r"(?:deployment|service)/([\w-]+)", notes))
    assert mentioned
    assert mentioned <= names

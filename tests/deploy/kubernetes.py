"""The manifests in deploy/, rendered by Helm and kubectl, and Kubernetes' schemas of them."""

import json
import platform
import re
import subprocess
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml
from jsonschema_rs import Draft202012Validator, Registry

from tests.support.programs import missing
from tests.support.services.service import ROOT

Manifest: TypeAlias = dict[str, Any]

CHART: Final = ROOT / "deploy" / "helm" / "runward"
KUSTOMIZE: Final = ROOT / "deploy" / "kustomize"
CUSTOM_KINDS: Final = {"ScaledObject", "ServiceMonitor"}
"""Resources of KEDA and of the Prometheus Operator, for which Kubernetes has no schema."""
_INSTALLED: Final = ROOT / ".venv" / "kubernetes"
_SCHEMAS: Final = "kubernetes_validate/kubernetes-json-schema"


def run(program: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run `helm` or `kubectl`. Neither needs a cluster for the commands of these tests."""
    if not (_INSTALLED / program).exists():
        missing(f"{program} is not installed: make .venv/kubernetes/.installed")
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        missing(f"the installed {program} needs Linux on x86-64")
    return subprocess.run(
        [_INSTALLED / program, *arguments], capture_output=True, text=True, check=False, timeout=30
    )


def render(values: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Render the chart as the release `runward`, with a file of its folder `ci`."""
    return run("helm", "template", "runward", CHART, "--values", CHART / "ci" / values, *options)


@cache
def read_manifests(source: str) -> tuple[Manifest, ...]:
    """Return the resources of a kustomization (its folder in deploy/kustomize), or of the chart (a
    file of its folder `ci`)."""
    if source.endswith(".yaml"):
        done = render(source)
    else:
        done = run("kubectl", "kustomize", KUSTOMIZE / source)
    assert done.returncode == 0, done.stderr
    return tuple(one for one in yaml.safe_load_all(done.stdout) if one is not None)


def list_pods(manifests: tuple[Manifest, ...]) -> dict[str, Manifest]:
    """Return the Job and the Deployments, by the command of their container."""
    owners = (one for one in manifests if "template" in one.get("spec", {}))
    return {read_container(one)["command"][-1]: one for one in owners}


def read_container(owner: Manifest) -> Manifest:
    [container] = owner["spec"]["template"]["spec"]["containers"]
    return container


def read_environment(container: Manifest, manifests: tuple[Manifest, ...]) -> dict[str, str]:
    """Return the variables that are set by the container and its ConfigMaps."""
    maps = {one["metadata"]["name"]: one["data"] for one in manifests if one["kind"] == "ConfigMap"}
    names = [one["configMapRef"]["name"] for one in container["envFrom"] if "configMapRef" in one]
    given = {one["name"]: one["value"] for one in container.get("env", ())}
    return {key: value for name in names for key, value in maps[name].items()} | given


@cache
def list_versions() -> tuple[str, ...]:
    """Return the versions of Kubernetes with schemas, oldest first."""
    names = {name.split("/")[2] for name in _open_schemas().namelist() if _SCHEMAS in name}
    found = (re.fullmatch(r"v1\.(\d+)\.0-local-strict", name) for name in names)
    return tuple(f"1.{minor}" for minor in sorted(int(one[1]) for one in found if one))


def validate(manifest: Manifest, version: str) -> Iterator[str]:
    """Yield the errors of a manifest. Strict schemas also reject unknown fields."""
    # Schemas have names such as deployment-apps-v1 and service-v1.
    group = re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", manifest["apiVersion"])
    schema = _read_schema(version, f"{manifest['kind'].lower()}-{group}")
    registry = _read_definitions(version)
    for error in Draft202012Validator(schema, registry=registry).iter_errors(manifest):
        yield f"{manifest['kind']} {error.instance_path}: {error.message}"


@cache
def _open_schemas() -> zipfile.ZipFile:
    found = list(_INSTALLED.glob("kubernetes_validate-*.whl"))
    if not found:
        missing("Kubernetes' schemas are not installed: make .venv/kubernetes/.installed")
    return zipfile.ZipFile(found[0])


def _read_schema(version: str, name: str) -> Any:
    path = f"{_SCHEMAS}/v{version}.0-local-strict/{name}.json"
    return json.loads(_open_schemas().read(path))


@cache
def _read_definitions(version: str) -> Registry:
    name = "_definitions"
    return Registry([(f"json-schema:///{name}.json", _read_schema(version, name))])

"""The ZIP file of `runward doctor --bundle`, for reports of bugs. It contains no secrets and no
content of runs, but names of hosts, agents, tools and models."""

import json
import os
import platform
import zipfile
from dataclasses import asdict
from importlib.metadata import distributions
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import httpx2

from runward.operating.finding import Finding
from runward.operating.findings import describe_error
from runward.serve import describe_settings
from runward.settings import Settings
from runward.store import diagnosis, readiness
from runward.store.postgres.db import DATABASE_ERRORS, Database
from runward.store.readiness import UnmigratedDatabaseError
from runward.version import VERSION

MAX_METRICS_BYTES: Final = 4 << 20
METRICS_SECONDS: Final = 5.0


class Bundle:
    """Collects the parts of a bundle. A part that cannot be read contains the error instead."""

    def __init__(self) -> None:
        self._parts: dict[str, Any] = {"versions.json": _list_versions()}

    def add_settings(self, settings: Settings) -> None:
        self._parts["settings.json"] = describe_settings(settings)

    def add_findings(self, findings: list[Finding]) -> None:
        self._parts["findings.json"] = [asdict(one) for one in findings]

    async def add_database(self, database: Database) -> None:
        """Read the database. It can be unmigrated."""
        for name, read in (
            ("postgresql.json", diagnosis.read_server),
            ("deployment.json", diagnosis.read_deployment),
        ):
            try:
                async with database.pool.connect() as tx:
                    self._parts[name] = await read(tx)
            except (UnmigratedDatabaseError, *DATABASE_ERRORS) as error:
                self._parts[name] = {"error": describe_error(error)}

    def add_metrics(self, http: httpx2.Client) -> None:
        """Read the metrics of the process that serves the API."""
        text = bytearray()
        try:
            with http.stream("GET", "/metrics", timeout=METRICS_SECONDS) as response:
                for chunk in response.iter_bytes():
                    text += chunk[: MAX_METRICS_BYTES - len(text)]
                    if len(text) >= MAX_METRICS_BYTES:
                        break
        except httpx2.TransportError as error:
            text = bytearray(f"# {describe_error(error)}\n", "utf-8")
        self._parts["metrics.txt"] = bytes(text)

    def write(self, path: Path) -> None:
        """Write the file, which only its owner can read. Raises FileExistsError and OSError."""
        packed = BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, part in sorted(self._parts.items()):
                data = part if isinstance(part, bytes) else json.dumps(part, indent=2, default=str)
                archive.writestr(f"runward-doctor/{name}", data)
        private = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(private, "wb") as file:
            file.write(packed.getvalue())


def _list_versions() -> dict[str, Any]:
    packages = {one.name: one.version for one in distributions()}
    return {
        "runward": VERSION,
        "schema": readiness.list_revisions()[-1],
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "packages": dict(sorted(packages.items())),
    }

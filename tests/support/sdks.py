"""The SDKs, built, packed and installed into an empty project, as their users install them."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.support.packages import OFFLINE
from tests.support.programs import NODE_BINARIES, node_package
from tests.support.services.service import ROOT

SDKS: Final = ROOT / "sdks"
EXAMPLE: Final = ROOT / "examples" / "clients" / "typescript" / "node_modules"
COMPILER_OPTIONS: Final = (
    *("--module", "nodenext", "--target", "es2022", "--lib", "es2023", "--types", "node"),
    *("--strict", "--exactOptionalPropertyTypes"),
)


def install_typescript(project: Path) -> None:
    """Pack `@runward/client`, and install it into the empty folder `project`. Its neighbors there
    are the frameworks that it has handlers for."""
    (project / "package.json").write_text('{"private": true, "type": "module"}', "utf-8")
    pack = ("npm", "pack", "--silent", "--pack-destination", str(project))
    run_program(*pack, cwd=SDKS / "typescript")
    [package] = project.glob("*.tgz")
    run_program("npm", "install", "--offline", "--no-audit", "--no-fund", str(package), cwd=project)
    for name in ("express", "hono", "@hono"):
        (project / "node_modules" / name).symlink_to(node_package(name))
    (project / "node_modules" / "@types").symlink_to(EXAMPLE / "@types")


def install_python(project: Path) -> Path:
    """Build the packages of `runward-client` in `project`, and install the wheel into a folder of
    `project`, which is returned."""
    site = project / "site"
    build = ("hatchling", "build", "--directory", str(project))
    run_program(sys.executable, "-m", *build, cwd=SDKS / "python")
    [wheel] = project.glob("runward_client-*.whl")
    install = ("pip", "install", *OFFLINE, "--target", str(site), str(wheel))
    run_program(sys.executable, "-m", *install, cwd=project)
    return site


def compile_typescript(*files: Path) -> None:
    """Check the types of programs strictly, and compile them beside their sources."""
    names = [file.name for file in files]
    run_program(str(NODE_BINARIES / "tsc"), *COMPILER_OPTIONS, *names, cwd=files[0].parent)


def run_program(*command: str, cwd: Path) -> None:
    path = os.pathsep.join([str(NODE_BINARIES), str(EXAMPLE / ".bin"), os.environ["PATH"]])
    done = subprocess.run(
        command,
        cwd=cwd,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr

"""The operator's settings, from the environment of the service. README.md lists them."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from runward.tools import ToolError

SWITCHES = ("network", "web_search")
"""What a call can request if the operator allows it."""
SANDBOXES = ("read-only", "workspace-write", "danger-full-access")
DISABLED = ("apps", "daemon_auto_start", "plugins")
"""Of Codex's features: what leaves processes behind, and what asks other servers."""
KEY_VARIABLE = "CODEX_TOOL_API_KEY"
"""Under this name Codex itself gets the key, and the commands that it runs do not."""


@dataclass(frozen=True, slots=True)
class Request:
    """The options of one call. `schema`: the file with the JSON Schema of the final message."""

    thread_id: str | None = None
    images: tuple[Path, ...] = ()
    schema: Path | None = None
    network: bool = False
    web_search: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    """`secret` is the key's name for `ctx.secret`, which is the service's RUNWARD_SECRET_….
    `threads`: the folder that keeps threads, None if threads cannot be continued. `allowed`: the
    switches that calls can use."""

    root: Path
    command: str
    base_url: str
    secret: str
    model: str | None
    sandbox: str
    threads: Path | None
    allowed: frozenset[str]

    @classmethod
    def read(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Return the settings. Raises ToolError for a setting that the operator must correct."""
        root = environment.get("CODEX_TOOL_ROOT")
        if not root or not Path(root).is_dir():
            raise _not_set_up("CODEX_TOOL_ROOT must be a folder that exists")
        sandbox = environment.get("CODEX_TOOL_SANDBOX", "workspace-write")
        if sandbox not in SANDBOXES:
            raise _not_set_up(f"CODEX_TOOL_SANDBOX must be one of {', '.join(SANDBOXES)}")
        threads = environment.get("CODEX_TOOL_THREADS")
        if threads and (not Path(threads).is_dir() or _is_inside(threads, root)):
            raise _not_set_up(
                "CODEX_TOOL_THREADS must be a folder that exists outside of CODEX_TOOL_ROOT"
            )
        allowed = {one.strip() for one in environment.get("CODEX_TOOL_ALLOW", "").split(",")}
        if not allowed <= {*SWITCHES, ""}:
            raise _not_set_up(f"CODEX_TOOL_ALLOW must list only {', '.join(SWITCHES)}")
        return cls(
            root=Path(root).resolve(),
            command=environment.get("CODEX_TOOL_COMMAND", "codex"),
            base_url=environment.get("CODEX_TOOL_BASE_URL", "https://api.openai.com/v1"),
            secret=environment.get("CODEX_TOOL_SECRET", "OPENAI_API_KEY"),
            model=environment.get("CODEX_TOOL_MODEL"),
            sandbox=sandbox,
            threads=Path(threads).resolve() if threads else None,
            allowed=frozenset(allowed),
        )

    def check(self, request: Request) -> None:
        """Raise ToolError if the operator does not allow an option of the call."""
        for name in SWITCHES:
            if getattr(request, name) is True and name not in self.allowed:
                raise ToolError(f"The operator does not allow `{name}` here. Call without it.")
        if request.thread_id is not None and self.threads is None:
            raise ToolError("Threads cannot be continued here. Call without `thread_id`.")

    def arguments(self, workspace: Path, request: Request) -> list[str]:
        """Return the command line. The task is passed in standard input and the key in the
        environment, because every process of the machine can read a command line."""
        provider = "model_providers.runward"
        values: dict[str, str | bool] = {
            "model_provider": "runward",
            f"{provider}.name": "runward",
            f"{provider}.base_url": self.base_url,
            f"{provider}.wire_api": "responses",
            f"{provider}.env_key": KEY_VARIABLE,
            "shell_environment_policy.inherit": "core",
            "sandbox_workspace_write.exclude_slash_tmp": True,
            "sandbox_workspace_write.exclude_tmpdir_env_var": True,
            "analytics.enabled": False,
            "check_for_update_on_startup": False,
            "sandbox_workspace_write.network_access": request.network,
            "web_search": "live" if request.web_search else "disabled",
        }
        chosen = [f"{key}={json.dumps(value)}" for key, value in values.items()]  # valid TOML too
        return [
            *(self.command, "exec", "--json", "--color", "never"),
            *(() if self.threads else ("--ephemeral",)),
            *("--skip-git-repo-check", "--ignore-user-config"),
            *(part for feature in DISABLED for part in ("--disable", feature)),
            *("--sandbox", self.sandbox, "--cd", str(workspace)),
            *(part for value in chosen for part in ("--config", value)),
            *(() if self.model is None else ("--model", self.model)),
            *(() if request.schema is None else ("--output-schema", str(request.schema))),
            *(() if request.thread_id is None else ("resume",)),
            *(f"--image={image}" for image in request.images),
            *(() if request.thread_id is None else (request.thread_id,)),
            "-",
        ]


def workspace_in(root: Path, asked: str) -> Path:
    """Return the requested folder, created if it is missing. Raises ToolError if it is outside of
    the root, directly or through a symbolic link."""
    workspace = (root / asked).resolve()
    if workspace == root or not workspace.is_relative_to(root) or "\0" in asked:
        raise ToolError(
            f"The workspace must be the name of a folder, such as 'shop' or 'shop/web', and not "
            f"{asked!r}, which is not below the folder for workspaces."
        )
    try:
        workspace.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToolError(
            f"The workspace {asked!r} cannot be used as a folder: {error.strerror}."
        ) from error
    return workspace


def image_in(workspace: Path, asked: str) -> Path:
    """Return the image file. Raises ToolError if the workspace has no such file, or if a symbolic
    link leads out of the workspace."""
    image = (workspace / asked).resolve() if "\0" not in asked else workspace
    if not image.is_relative_to(workspace) or not image.is_file():
        raise ToolError(f"The workspace has no image {asked!r}.")
    return image


def _is_inside(folder: str, root: str) -> bool:
    return Path(folder).resolve().is_relative_to(Path(root).resolve())


def _not_set_up(what: str) -> ToolError:
    return ToolError(f"Codex is not set up here, and trying again will not help: {what}.")

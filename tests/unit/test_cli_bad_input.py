"""Whatever the commands are given, they end with a sentence and an exit code, never a traceback."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from runward.__main__ import app
from runward.cli.editor import edit_json
from runward.cli.options import read_yaml

NOWHERE = {"RUNWARD_URL": "http://127.0.0.1:9", "RUNWARD_KEY": "k"}
"""A request that is sent ends with exit code 3, because nothing answers."""
START = ("runs", "start", "hi", "--model", "offline:rules")
NOT_UTF8 = "caf\udce9"
"""How an argument that is not valid UTF-8 arrives."""


def invoked(*args: str, stdin: bytes | None = None, **env: str) -> Result:
    result: Any = CliRunner(env=NOWHERE | env).invoke(app, args, input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def refused(*args: str, stdin: bytes | None = None, **env: str) -> str:
    result = invoked(*args, stdin=stdin, **env)
    assert result.exit_code == 2, result.output
    return result.output


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_a_number_that_json_does_not_have_is_refused(number: str) -> None:
    said = refused(*START, "--context", f'{{"a": {number}}}')
    assert f"--context must be valid JSON: {number} is not a JSON number" in said


def test_json_that_is_nested_too_deeply_is_refused() -> None:
    assert "nested too deeply" in refused(*START, "--context", "[" * 100_000)


@pytest.mark.parametrize("days", ["inf", "nan", "-1", "1e300"])
def test_a_key_s_days_are_a_number_of_days(days: str) -> None:
    assert "at most 36500" in refused(
        "keys", "create", "ci", "--scope", "runs:read", "--expires-in-days", days
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "agents:\n- name: a\n  metadata: {1: x}",
            "the key 1 in agents.0.metadata is not a string",
        ),
        ("agents:\n- name: a\n  metadata: {yes: x}", "the key True in agents.0.metadata"),
        ("agents:\n- name: a\n  metadata: {b: {null: x}}", "the key None in agents.0.metadata.b"),
        ("agents:\n- name: a\n  metadata: {b: .nan}", "agents.0.metadata.b is nan"),
        ("agents:\n- name: a\n  metadata: {b: .inf}", "agents.0.metadata.b is inf"),
        (
            "agents:\n- name: a\n  metadata: {b: !!binary aGk=}",
            "agents.0.metadata.b has the type bytes",
        ),
        (
            "agents:\n- name: a\n  metadata: {b: !!timestamp 2026-01-01}",
            "metadata.b has the type date",
        ),
        ("agents: &a [*a]", "nested too deeply"),
        ("agents:\n- name: " + "1" * 5000, "is not valid YAML"),
    ],
)
def test_yaml_that_is_no_json_is_refused_with_its_place(
    tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / "agents.yaml"
    file.write_text(text)
    assert said in refused("agents", "apply", "-f", str(file))


def test_a_date_in_yaml_is_text(tmp_path: Path) -> None:
    file = tmp_path / "agents.yaml"
    file.write_text("since: 2026-01-02\nat: 2026-01-02 03:04:05\n")
    assert read_yaml(file) == {"since": "2026-01-02", "at": "2026-01-02 03:04:05"}


@pytest.mark.parametrize(
    "args",
    [
        ("runs", "start", "-", "--model", "offline:rules"),
        ("agents", "apply", "-f", "-"),
        ("secrets", "put", "NAME"),
    ],
)
def test_standard_input_that_is_not_utf_8_is_refused(args: tuple[str, ...]) -> None:
    assert "is not valid UTF-8" in refused(*args, stdin=b"caf\xe9")


@pytest.mark.parametrize(
    "args",
    [
        ("runs", "start", NOT_UTF8, "--model", "offline:rules"),
        ("runs", "show", NOT_UTF8),
        ("secrets", "delete", NOT_UTF8, "--yes"),
        ("runs", "list", "--key", NOT_UTF8),
        ("runs", "list", "--url", f"http://{NOT_UTF8}"),
    ],
)
def test_an_argument_that_is_not_utf_8_is_refused(args: tuple[str, ...]) -> None:
    refused(*args)


@pytest.mark.processes
def test_output_that_cannot_be_written_ends_the_command_with_a_sentence() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "runward", "--version"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "Cannot write the output: No space left on device.\n"


@pytest.mark.processes
def test_an_editor_that_deletes_the_file_decides_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VISUAL", "rm")
    with pytest.raises(typer.Exit) as ended:
        edit_json({"a": 1})
    assert ended.value.exit_code == 1
    assert "rm did not save the file" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", "n" * 201, NOT_UTF8])
def test_a_key_made_on_the_database_has_a_name_as_over_the_api(name: str) -> None:
    result = invoked(
        *("keys", "create", name, "--on-database"),
        DATABASE_URL="postgresql://nobody@127.0.0.1:9/none",
        RUNWARD_SECRET_KEY="x" * 32,
    )
    assert (result.exit_code, "1 to 200 characters" in result.output) == (1, True)

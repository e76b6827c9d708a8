"""docs/how-to/verify-webhooks.md: the function for each language accepts signed requests and
rejects all others."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from runward.tools import signing
from tests.api.project import Project
from tests.docs.blocks import Block, blocks
from tests.docs.story import Story
from tests.e2e.own_machine import needs

pytestmark = pytest.mark.timeout(180)

PAGE: Final = "docs/how-to/verify-webhooks.md"
BLOCKS: Final = tuple(block for block in blocks(PAGE) if block.language not in ("http", "json"))

PYTHON: Final = """
import json, sys

headers, file, secret = json.loads(sys.argv[1])
print(is_signed(headers, open(file, "rb").read(), secret))
"""
NODE: Final = """
import { readFileSync } from "node:fs";

const [headers, file, secret] = JSON.parse(process.argv[2]);
console.log(isSigned(headers, readFileSync(file), secret));
"""
GO: Final = """
package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
)

func main() {
	var given []json.RawMessage
	var headers map[string]string
	var file, secret string
	json.Unmarshal([]byte(os.Args[1]), &given)
	json.Unmarshal(given[0], &headers)
	json.Unmarshal(given[1], &file)
	json.Unmarshal(given[2], &secret)
	header := http.Header{}
	for name, value := range headers {
		header.Set(name, value)
	}
	body, _ := os.ReadFile(file)
	fmt.Println(IsSigned(header, body, secret))
}
"""
RUBY: Final = """
require "json"

headers, file, secret = JSON.parse(ARGV[0])
puts signed?(headers, File.binread(file), secret)
"""
PHP: Final = """
[$headers, $file, $secret] = json_decode($argv[1], true);
echo is_signed($headers, file_get_contents($file), $secret) ? "true" : "false";
"""
SHELL: Final = """
[ "$webhook_signature" = "$expected" ] && echo true || echo false
"""


def in_python(block: Block, folder: Path) -> list[str]:
    return [sys.executable, save(folder, "check.py", block.text + PYTHON)]


def in_node(block: Block, folder: Path) -> list[str]:
    return [needs("node", "nodejs"), save(folder, "check.mjs", block.text + NODE)]


def in_go(block: Block, folder: Path) -> list[str]:
    go, program = needs("go", "golang-go"), str(folder / "check")
    save(folder, "go.mod", "module check\n\ngo 1.19\n")
    save(folder, "webhook.go", block.text.replace("package webhook", "package main"))
    save(folder, "main.go", GO)
    subprocess.run([go, "build", "-o", program, "."], cwd=folder, check=True)
    return [program]


def in_ruby(block: Block, folder: Path) -> list[str]:
    return [needs("ruby", "ruby"), save(folder, "check.rb", block.text + RUBY)]


def in_php(block: Block, folder: Path) -> list[str]:
    return [needs("php", "php-cli"), save(folder, "check.php", block.text + PHP)]


def in_shell(block: Block, folder: Path) -> list[str]:
    return [needs("bash", "bash"), save(folder, "check.sh", block.text + SHELL)]


COMMANDS: Final[dict[str, Callable[[Block, Path], list[str]]]] = {
    "python": in_python,
    "js": in_node,
    "go": in_go,
    "ruby": in_ruby,
    "php": in_php,
    "bash": in_shell,
}


def save(folder: Path, name: str, text: str) -> str:
    file = folder / name
    file.write_text(text.lstrip("\n"), "utf-8")
    return str(file)


@dataclass(frozen=True, slots=True)
class Checker:
    command: list[str]
    folder: Path

    def accepts(self, headers: dict[str, str], body: bytes, secret: str) -> bool:
        file = self.folder / "body"
        file.write_bytes(body)
        values = {name.replace("-", "_"): value for name, value in headers.items()}
        done = subprocess.run(
            [*self.command, json.dumps([headers, str(file), secret])],
            env=os.environ | values | {"SECRET": secret, "body_file": str(file)},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip().lower() == "true"


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"{block.language}-{block.line}")
def test_the_documented_checks_of_a_signature_work(block: Block, tmp_path: Path) -> None:
    checker = Checker(COMMANDS[block.language](block, tmp_path), tmp_path)
    secret, other = signing.make_secret(), signing.make_secret()
    body = json.dumps({"text": "häßlich"}, ensure_ascii=False).encode()
    headers = signing.signed_headers([secret], "call_1", datetime.now(UTC), body)
    assert checker.accepts(headers, body, secret)
    assert not checker.accepts(headers, body + b" ", secret)
    assert not checker.accepts(headers, body, other)
    assert not checker.accepts({**headers, "webhook-id": "call_2"}, body, secret)
    if block.language == "bash":  # it shows the signature alone
        return
    both = signing.signed_headers([other, secret], "call_1", datetime.now(UTC), body)
    assert checker.accepts(both, body, secret)
    old = signing.signed_headers([secret], "call_1", datetime(2026, 1, 1, tzinfo=UTC), body)
    assert not checker.accepts(old, body, secret)
    for name in headers:
        rest = {key: value for key, value in headers.items() if key != name}
        assert not checker.accepts(rest, body, secret)
    for strange in ("", "soon", "-1", "1e9"):
        assert not checker.accepts({**headers, "webhook-timestamp": strange}, body, secret)
    for strange in ("", "v1,", "v1,ä", headers["webhook-signature"][:-1]):
        assert not checker.accepts({**headers, "webhook-signature": strange}, body, secret)


def test_verify_webhooks(project: Project, tmp_path: Path) -> None:
    project.tool("refund")
    with Story("docs/how-to/verify-webhooks.md", project.client, tmp_path) as page:
        assert page.http()["secret"].startswith("whsec_")
        for _ in BLOCKS:
            page.elsewhere("test_signatures.py")
        shown = page.json()
    sent_at = datetime.fromtimestamp(int(shown["webhook-timestamp"]), UTC)
    signed = signing.signed_headers(
        [shown["secret"]], shown["webhook-id"], sent_at, shown["body"].encode()
    )
    assert signed == {name: shown[name] for name in signed}

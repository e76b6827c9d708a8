"""How docs/how-to/webhooks.md checks a signature: in each of its languages it takes what is right,
and nothing else."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from runward.tools import signing
from tests.docs.blocks import blocks
from tests.e2e.own_machine import needs


def snippet(language: str) -> str:
    """How docs/how-to/webhooks.md checks a signature in that language."""
    return next(one.text for one in blocks("docs/how-to/webhooks.md") if one.language == language)


def accepts(language: str, headers: dict[str, str], body: bytes, secret: str, folder: Path) -> bool:
    file = folder / "body"
    file.write_bytes(body)
    given = json.dumps([headers, str(file), secret])
    code = snippet(language)
    match language:
        case "python":
            code += (
                "import json, sys\nheaders, file, secret = json.loads(sys.argv[1])\n"
                "print(is_signed(headers, open(file, 'rb').read(), secret))\n"
            )
            command = [sys.executable, "-c", code, given]
        case "js":
            code = 'import { readFileSync } from "node:fs";\n' + code
            code += (
                "const [headers, file, secret] = JSON.parse(process.argv[1]);\n"
                "console.log(isSigned(headers, readFileSync(file), secret));\n"
            )
            command = [needs("node", "nodejs"), "--input-type=module", "-e", code, given]
        case _:
            code += '[ "$webhook_signature" = "$right" ] && echo true || echo false'
            command = [needs("bash", "bash"), "-c", code]
    values = {name.replace("-", "_"): value for name, value in headers.items()}
    env = os.environ | values | {"SECRET": secret, "body_file": str(file)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return done.stdout.strip().lower() == "true"


@pytest.mark.parametrize("language", ["python", "js", "bash"])
def test_the_documented_checks_of_a_signature_work(language: str, tmp_path: Path) -> None:
    secret, other = signing.make_secret(), signing.make_secret()
    body = json.dumps({"text": "häßlich"}).encode()
    headers = signing.signed_headers([secret], "call_1", datetime.now(UTC), body)
    assert accepts(language, headers, body, secret, tmp_path)
    assert not accepts(language, headers, body + b" ", secret, tmp_path)
    assert not accepts(language, headers, body, other, tmp_path)
    assert not accepts(language, {**headers, "webhook-id": "call_2"}, body, secret, tmp_path)
    if language != "bash":  # it shows the signature alone
        old = signing.signed_headers([secret], "call_1", datetime(2026, 1, 1, tzinfo=UTC), body)
        assert not accepts(language, old, body, secret, tmp_path)
        both = signing.signed_headers([other, secret], "call_1", datetime.now(UTC), body)
        assert accepts(language, both, body, secret, tmp_path)

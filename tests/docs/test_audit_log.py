"""docs/how-to/audit-log.md."""

import json
import re
from pathlib import Path

from runward.domain.audit import AuditAction
from tests.api.project import Project
from tests.docs.blocks import ROOT
from tests.docs.story import Story

PAGE = "docs/how-to/audit-log.md"


def test_audit_log(project: Project, tmp_path: Path) -> None:
    client = project.key("admin", "tools:write")
    here = {name: str(tmp_path / name) for name in ("audit.jsonl", "verify_audit.py")}
    with Story("docs/how-to/audit-log.md", client, tmp_path, instead=here) as page:
        page.shows(page.http())
        # Texts and numbers of all kinds, which the script must write as Runward does.
        odd = {"größer \u2028\u007f😀": [0.1, 1e-7, 1e300, 2**60, 30.0, '\u0001"\\/', True, None]}
        client.call("POST", "/v1/agents", {"name": "odd", "model": "offline:rules", "metadata": {}})
        client.call(
            "POST",
            "/v1/tools",
            {
                "name": "odd",
                "url": "http://127.0.0.1:9/",
                "parameters": {"type": "object", "examples": [odd]},
            },
        )
        head = client.call("GET", "/v1/audit_log/head")
        assert f"with the numbers 1 to {head['number']}." in page.sh()
        assert f"The last hash is {head['hash']}." in page.sh()
        assert page.http() == head
        script = page.save_named()
        assert page.sh().strip() == head["hash"]
        exported = tmp_path / "audit.jsonl"
        lines = exported.read_text().splitlines()
        assert json.loads(lines[-1])["after"]["parameters"]["examples"]
        for name in json.loads(lines[1]):
            changed = json.loads(lines[1])
            changed[name] = f"{changed[name]}x"
            exported.write_text("\n".join([lines[0], json.dumps(changed), *lines[2:]]))
            assert "AssertionError" in page.run(f"python3 {script} {exported} 2>&1 || true"), name


def test_the_page_lists_every_action() -> None:
    table = (ROOT / PAGE).read_text("utf-8").partition("## Read the log")[0]
    assert set(re.findall(r"`([a-z_]+\.[a-z_]+)`", table)) == set(AuditAction)

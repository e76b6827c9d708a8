"""docs/how-to/rate-limits.md."""

from pathlib import Path

from tests.api.project import ALL_SCOPES, Project
from tests.docs.story import Story


def test_rate_limits(project: Project, tmp_path: Path) -> None:
    client = project.key(*ALL_SCOPES)
    with Story("docs/how-to/rate-limits.md", client, tmp_path) as page:
        urgent = page.http()
        assert (urgent["status"], urgent["priority"]) == ("completed", 10)
        assert page.http()["start_at"] == "2026-06-01T06:00:00Z"
        limits = page.http()
        assert limits["concurrency"] == [
            {"agent": "clerk", "tool": None, "key": None, "max": 2},
            {"agent": None, "tool": "refund", "key": None, "max": 5},
            {"agent": None, "tool": None, "key": "run.metadata.customer", "max": 1},
        ]
        # The limits that belong to the first key may be two seconds old.
        headers = project.key("runs:read").request("GET", "/v1/runs").headers
        for line in page.take("text").text.splitlines():
            name, _, value = line.partition(": ")
            assert value.partition(";t=")[0] == headers[name].partition(";t=")[0]
        [limited] = page.http()["keys"]
        assert limited["requests_per_minute"] == 60

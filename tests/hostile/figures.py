"""The figures of a run of this folder's tests, for docs/figures/hostile.json."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path


def record(**figures: int) -> None:
    """Print the figures. Merge them into `hostile.json` in the folder RUNWARD_FIGURES, if set."""
    print(*(f"{name}: {number}" for name, number in figures.items()), sep="\n")
    if folder := os.environ.get("RUNWARD_FIGURES"):
        path = Path(folder) / "hostile.json"
        known: dict[str, int] = json.loads(path.read_text())["figures"] if path.exists() else {}
        whole: dict[str, object] = {
            "part": "hostile",
            "date": f"{datetime.now(UTC):%Y-%m-%d}",
            "command": "make hostile",
            "figures": dict(sorted((known | figures).items())),
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(whole, indent=2) + "\n")

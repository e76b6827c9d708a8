"""Build the documentation as a site in dist/docs/site. A broken link ends the build.

The site also has the files outside docs/ that its pages link to, so that no link needs an address
of the repository: pages of examples become pages, and sources are copied as they are.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
STAGE = ROOT / "dist" / "docs"
PAGES = STAGE / "pages"
LINK = re.compile(r"(\]\()([^)#\s:]+)(?=[#)])")


def main() -> None:
    """Copy the pages and everything they link to, and run Zensical on the copy."""
    shutil.rmtree(STAGE, ignore_errors=True)
    pages = list(DOCS.rglob("*.md"))
    copied: set[Path] = set()
    while pages:
        page = pages.pop()
        if page in copied:
            continue
        copied.add(page)
        text = page.read_text("utf-8")
        target = _target(page)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(LINK.sub(lambda link, page=page: _rewrite(page, link), text), "utf-8")
        for _, path in LINK.findall(text):
            linked = (page.parent / path).resolve()
            if linked.suffix == ".md" and linked.is_file():
                pages.append(linked)
            elif linked.is_file():
                _target(linked).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(linked, _target(linked))
    shutil.copyfile(DOCS / "site" / "zensical.toml", STAGE / "zensical.toml")
    zensical = Path(sys.executable).with_name("zensical")
    sys.exit(subprocess.run([zensical, "build", "--strict"], cwd=STAGE, check=False).returncode)


def _target(file: Path) -> Path:
    """Return where a file of the repository is in the site's sources."""
    if file.is_relative_to(DOCS):
        return PAGES / file.relative_to(DOCS)
    return PAGES / "source" / file.relative_to(ROOT)


def _rewrite(page: Path, link: re.Match[str]) -> str:
    target = _target((page.parent / link[2]).resolve())
    return link[1] + os.path.relpath(target, _target(page).parent)


if __name__ == "__main__":
    main()

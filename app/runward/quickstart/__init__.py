"""`python -m runward serve`: everything for a first run, from an empty folder."""

from runward.quickstart.main import serve_everything

__all__ = ["serve_everything"]

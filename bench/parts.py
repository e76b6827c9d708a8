"""Parts of the benchmark that have a module of their own.

Each part starts its own `serve` process with `Sitting.serving`. It returns figures for the goals in
`bench/goals.py`, and optionally a section in Markdown.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from bench import flood, growth, long_runs, memory, profile, retention, scaling, workers
from bench.goals import Chapter
from bench.sitting import Sitting

CHAPTERS: Final[Mapping[str, Callable[[Sitting], Awaitable[Chapter]]]] = {
    "flood": flood.measure,
    "growth": growth.measure,
    "long": long_runs.measure,
    "memory": memory.measure,
    "profile": profile.measure,
    "retention": retention.measure,
    "scaling": scaling.measure,
    "workers": workers.measure,
}

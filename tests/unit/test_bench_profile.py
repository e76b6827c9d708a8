"""The samples of the benchmark's profile."""

from bench.profile import samples_by_part

SITE = "/venv/lib/python3.11/site-packages"
STACKS = [
    f"main (/app/runward/__main__.py);send ({SITE}/asyncpg/connection.py);dumps (/lib/json.py) 3",
    "main (/app/runward/__main__.py);write (/app/runward/api/events/open_streams.py) 2",
    "main (/app/runward/__main__.py);write (/app/runward/api/http/responses.py) 1",
    "main (/usr/lib/runpy.py) 4",
    "Thread._bootstrap (/lib/threading.py);beat (/app/runward/worker/leases.py) 100",
]


def test_a_sample_counts_for_the_innermost_function_of_a_known_part() -> None:
    assert samples_by_part(STACKS) == {
        "asyncpg": 3,
        "event streams": 2,
        "API: requests, lists, contract": 1,
        "other code": 4,
    }

"""The environment of the Python processes that the service starts."""

import os
import sys
from collections.abc import Mapping
from typing import Final

INHERITED_VARIABLES: Final = frozenset(
    {"HOME", "LANG", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "SHELL", "SSL_CERT_DIR"}
    | {"SSL_CERT_FILE", "TERM", "TMPDIR", "TZ", "USER"}
)
"""Names of variables that hold no secrets. Providers' keys and the service's own configuration are
left out."""


def child_environment() -> Mapping[str, str]:
    """Return the inherited variables and the service's own import path."""
    kept = {name: value for name, value in os.environ.items() if name in INHERITED_VARIABLES}
    return kept | {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}

"""Secrets that are created once and stored in the data folder."""

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

from pydantic import SecretStr

MIN_CHARACTERS: Final = 32


def load_secret_key(data_dir: Path) -> SecretStr:
    """Return the secret key of the embedded database. Create the key if it does not exist."""
    return load_or_create_secret(data_dir / "secret-key", partial(secrets.token_hex, 32))


def load_or_create_secret(path: Path, create: Callable[[], str]) -> SecretStr:
    """Return the text of the file. If the file does not exist, create it with permissions for its
    owner only. If several processes create it at once, all return the text of the first."""
    if not path.exists():
        with NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}-") as fresh:
            fresh.write(create() + "\n")
            fresh.flush()
            os.fsync(fresh.fileno())
            with suppress(FileExistsError):
                os.link(fresh.name, path)
    value = path.read_text().strip()
    if len(value) < MIN_CHARACTERS:
        raise SystemExit(
            f"{path} does not contain a key of {MIN_CHARACTERS} characters or more. Restore the "
            "file. If you delete the file, Runward creates a new key, and secrets that the old "
            "key encrypted are lost."
        )
    return SecretStr(value)

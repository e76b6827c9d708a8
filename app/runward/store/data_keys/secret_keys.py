"""The values of `RUNWARD_SECRET_KEY`. A value is a secret key or refers to one: `file:/PATH` to a
file, and `aws-kms:ARN` to a key of AWS KMS."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from runward.store.data_keys.wrapping import KeyProvider, KeyUnavailableError, LocalKey

FILE: Final = "file:"
AWS_KMS: Final = "aws-kms:"
MIN_KEY_CHARACTERS: Final = 32
"""Equal to `runward.settings.MIN_KEY_CHARACTERS`, which checks keys that are not in files."""
MAX_FILE_CHARACTERS: Final = 65_536


def open_providers(references: Iterable[str]) -> list[KeyProvider]:
    """Return the providers of keys. `references`: values of RUNWARD_SECRET_KEY. Raises
    KeyUnavailableError."""
    return list({one.id: one for one in map(_open_provider, references)}.values())


def _open_provider(reference: str) -> KeyProvider:
    if reference.startswith(AWS_KMS):
        return _load_kms()(reference.removeprefix(AWS_KMS))
    return LocalKey(_read_file(reference) if reference.startswith(FILE) else reference)


def is_reference(value: str) -> bool:
    """Return whether the value is not the secret key itself."""
    return value.startswith((FILE, AWS_KMS))


def read_local_key(reference: str) -> str | None:
    """Return the secret key, or None if it does not leave its provider. Raises
    KeyUnavailableError."""
    provider = _open_provider(reference)
    return provider.secret_key if isinstance(provider, LocalKey) else None


def _load_kms() -> Callable[[str], KeyProvider]:
    try:
        from runward.store.data_keys.aws_kms import AwsKmsKey  # noqa: PLC0415  # optional, and slow
    except ModuleNotFoundError as error:
        raise KeyUnavailableError(
            "A secret key is in AWS KMS, but boto3 is not installed. Install `runward[aws]`."
        ) from error
    return AwsKmsKey


def _read_file(reference: str) -> str:
    path = Path(reference.removeprefix(FILE))
    try:
        with path.open(encoding="utf-8") as file:
            key = file.read(MAX_FILE_CHARACTERS).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise KeyUnavailableError(
            f"The file {path} of the secret key cannot be read: {reason}. Correct the path in"
            " RUNWARD_SECRET_KEY or the permissions of the file."
        ) from error
    if len(key) < MIN_KEY_CHARACTERS:
        raise KeyUnavailableError(
            f"The file {path} does not contain a secret key of {MIN_KEY_CHARACTERS} characters or"
            " more. To create a key, run: openssl rand -hex 32"
        )
    return key

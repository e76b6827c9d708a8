"""Explanations of failed connections to the database."""

import errno
import socket
import ssl
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Final

from asyncpg import exceptions as driver  # pyright: ignore[reportMissingTypeStubs]

from runward.domain.errors import OperatorError
from runward.store.postgres.addresses import DatabaseAddress, DatabaseUrlError

_REFUSALS: Final = {
    "28P01": "rejects the user: {error}. Correct the user name or the password in {name}.",
    "28000": "rejects the user: {error}. Correct the user name or the password in {name}.",
    "3D000": "does not exist. Create the database, or correct its name in {name}.",
    "42501": "lacks a right: {error}. Make the user the owner of the database, or run there: "
    'GRANT CREATE ON SCHEMA public TO "{user}"',
}
"""Explanations by SQLSTATE."""
_OTHER_HOST: Final = (62, 64)
"""X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH of OpenSSL."""
_BUSY: Final = ("57P01", "57P03", "53300")
_UNREACHABLE: Final = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EADDRNOTAVAIL)


class DatabaseUnreachableError(OperatorError):
    """The database does not respond, or rejects this process."""


class DatabaseRefusedError(OperatorError):
    """The database responds and rejects this process, so a configuration variable is wrong."""


@contextmanager
def explain_connection_errors(
    address: DatabaseAddress, name: str = "DATABASE_URL"
) -> Generator[None]:
    """Raise errors of the connection as OperatorError, and all other errors unchanged. `name`: the
    variable that contains the address."""
    try:
        yield
    except OperatorError:
        raise
    except Exception as error:
        for cause in reversed(list(_list_causes(error))):
            if isinstance(cause, driver.ClientConfigurationError):
                problem = " ".join(str(cause).split()).rstrip(".")
                raise DatabaseUrlError(f"{name}: {problem}.") from error
            if (problem := _explain_refusal(cause, address, name)) is not None:
                raise DatabaseRefusedError(f"{address.location} {problem}") from error
            if (problem := _explain_outage(cause, address, name)) is not None:
                raise DatabaseUnreachableError(f"{address.location} {problem}") from error
        raise


def _list_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, the error that SQLAlchemy wrapped, and the driver's own error. The last one
    is the most specific."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = getattr(seen, "orig", None) or seen.__cause__


def _explain_refusal(error: BaseException, address: DatabaseAddress, name: str) -> str | None:
    match error:
        case ssl.SSLCertVerificationError():
            reason = error.verify_message.rstrip(".")
            remedy = (
                f"Correct the host in {name}"
                if error.verify_code in _OTHER_HOST
                else f"Set sslrootcert in {name} to a file with the certificates to trust"
            )
            return f"has a certificate that cannot be verified: {reason}. {remedy}."
        case ssl.SSLError():
            return f"failed to establish TLS: {error.reason}. Check sslmode in {name}."
        case ConnectionError() if "SSL upgrade" in str(error):
            return f"does not support TLS, which sslmode in {name} requires."
        case _ if "unsupported startup parameter" in str(error):
            return f"seems to be PgBouncer: {error}. Set RUNWARD_PGBOUNCER=true."
        case _:
            refusal = _REFUSALS.get(_read_sqlstate(error))
            return refusal and refusal.format(error=error, name=name, user=address.user)


def _explain_outage(error: BaseException, address: DatabaseAddress, name: str) -> str | None:
    match error:
        case socket.gaierror():
            return f"cannot be found: {error.strerror}. Correct the host in {name}."
        case TimeoutError():
            return (
                f"does not answer within {address.seconds:g} seconds. Check the host and the port"
                f" in {name}, and firewalls."
            )
        case ConnectionRefusedError() | FileNotFoundError():
            return (
                "refuses connections. Start the database, or correct the host and the "
                f"port in {name}."
            )
        case OSError() if error.errno in _UNREACHABLE or isinstance(error, ConnectionError):
            return f"cannot be reached: {error.strerror or error}"
        case _ if _read_sqlstate(error) in _BUSY:
            return f"does not accept connections at the moment: {error}"
        case _:
            return None


def _read_sqlstate(error: BaseException) -> str:
    return str(getattr(error, "sqlstate", None) or "")

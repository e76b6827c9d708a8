"""The server of a model: its address, its connections, and the headers of all its requests."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

import httpx2

from runward.egress.direct import DirectConnector, basic_authorization, find_proxy
from runward.egress.exchange import ResponseReader, add_body, format_head
from runward.egress.pool import OpenConnection, Origin, Pool
from runward.llm import failures
from runward.llm.sdk_clients import ENCODINGS

MAX_CONNECTIONS: Final = 1000
KEEP_ALIVE_SECONDS: Final = 5.0
AGENT: Final = "runward"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`origin`: the server, or its proxy. `head`: the beginning of all requests."""

    pool: Pool
    origin: Origin
    head: bytes

    @classmethod
    def open(cls, base_url: str, path: str, api_key: str, connect: OpenConnection | None) -> Self:
        """Return the endpoint `path` below `base_url`. The `openai` SDK provides the headers, with
        those of the environment for a server that the operator chose. `connect` connects to an
        address that the operator did not choose. Raises ModelError for an invalid address, or an
        invalid proxy."""
        import openai  # noqa: PLC0415

        certificates = httpx2.create_ssl_context()
        try:
            http = httpx2.AsyncClient(verify=certificates, trust_env=False)
            sdk = openai.AsyncOpenAI(api_key=api_key, base_url=base_url, http_client=http)
            url = sdk.base_url
            if url.scheme not in ("http", "https") or not url.raw_host:
                raise failures.misconfigured()
            host, tls = url.raw_host.decode(), url.scheme == "https"
            origin = Origin(tls, host, url.port or (443 if tls else 80))
            base, question, query = url.raw_path.decode().partition("?")
            target = f"{base.rstrip('/')}/{path}{question}{query}"
            headers = {
                "accept": "application/json",
                "content-type": "application/json",
                **({} if connect else _headers(sdk.default_headers)),
                **_headers(sdk.auth_headers),
                "accept-encoding": ENCODINGS,
                "user-agent": AGENT,
            }
            if url.userinfo:
                headers["authorization"] = basic_authorization(url.username, url.password)
            proxy = None if connect else find_proxy(origin)
            server = origin
            if proxy is not None and not tls:
                server, target = proxy.origin, f"http://{origin.authority}{target}"
                headers |= proxy.headers
            head = format_head("POST", target, origin.authority, headers)
        except (httpx2.InvalidURL, ValueError):
            raise failures.misconfigured() from None
        if connect is None:
            connect = DirectConnector(certificates, proxy if tls else None).connect
        pool = Pool(
            connect,
            limit=MAX_CONNECTIONS,
            limit_per_host=MAX_CONNECTIONS,
            idle_seconds=KEEP_ALIVE_SECONDS,
        )
        return cls(pool, server, head)

    async def post(self, body: bytes, reader: ResponseReader) -> None:
        """Send a request. Raises OSError, and the exceptions of `reader`."""
        await self.pool.exchange(self.origin, add_body(self.head, body), reader)

    async def aclose(self) -> None:
        self.pool.close()


def _headers(given: Mapping[str, object]) -> dict[str, str]:
    """Return the headers without the SDK's telemetry about this machine."""
    headers = {name.lower(): value for name, value in given.items() if isinstance(value, str)}
    return {name: value for name, value in headers.items() if not name.startswith("x-stainless-")}

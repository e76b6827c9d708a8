"""Conditional GET requests (RFC 9110, section 13): 304 for an answer that has not changed."""

from hashlib import blake2b

from fastapi import Request, Response


def apply_etag(request: Request, response: Response) -> Response:
    """Add an ETag to a whole 200 answer of a GET, or answer 304 if the client names it in
    `If-None-Match`. The ETag is weak, since the same JSON may be sent compressed. Streams have
    none."""
    body = getattr(response, "body", None)
    if request.method != "GET" or response.status_code != 200 or not isinstance(body, bytes):
        return response
    etag = f'W/"{blake2b(body, digest_size=16).hexdigest()}"'
    if etag.removeprefix("W/") in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers={"ETag": etag})
    response.headers["ETag"] = etag
    return response

"""An error, RFC 9457."""

from pydantic import ConfigDict

from runward.api.http.models import ResponseModel, with_example


class ProblemError(ResponseModel):
    """What is wrong with one value of the request."""

    path: str
    """Where: dotted for the body (`tools.0.name`, empty for the body itself), else with its place
    in front (`query.limit`, `header.Idempotency-Key`)."""
    message: str
    """What is expected there. It never repeats the value."""


class Problem(ResponseModel):
    """Why a request was refused. Compare `code`: it never changes, texts may. Some problems carry
    more members, such as `approval` where a decision came second."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra=with_example(
            type="urn:runward:problem:invalid_request",
            title="Unprocessable Entity",
            status=422,
            detail="The request is not valid; errors says what is wrong where.",
            code="invalid_request",
            request_id="req_5c0e3f6a7b9d4e1f8a2b3c4d5e6f7a8b",
            errors=[{"path": "tools.0", "message": "must be a string"}],
        ),
    )

    type: str
    """A URN that ends in the code."""
    title: str
    """The status in words."""
    status: int
    """The HTTP status."""
    detail: str
    """What happened, for a person."""
    code: str
    """What happened, for a program."""
    request_id: str
    """Also in `X-Request-Id` and in the service's log."""
    errors: list[ProblemError]
    """One entry for each wrong value; empty where no single value is wrong."""

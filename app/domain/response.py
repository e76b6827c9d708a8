"""What a model answered in one turn, whatever the vendor."""

from dataclasses import dataclass

from app.domain.items import Reasoning


@dataclass(frozen=True, slots=True)
class RequestedCall:
    """A call as the model wrote it: `arguments` is its raw text, the id may be empty.
    `truncated`: the response was cut off in it, so it must never run."""

    call_id: str
    name: str
    arguments: str
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens. `input` includes `cached_input`; `output` includes `reasoning`. `cost` in US dollars,
    as far as prices are known."""

    input: int = 0
    output: int = 0
    cached_input: int = 0
    reasoning: int = 0
    cost: float = 0.0

    @property
    def total(self) -> int:
        return self.input + self.output

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cached_input + other.cached_input,
            self.reasoning + other.reasoning,
            self.cost + other.cost,
        )


@dataclass(frozen=True, slots=True)
class ModelResponse:
    """`finish` is normalised: `stop`, `tool_calls`, `length`, `content_filter` or `other`."""

    text: str
    calls: tuple[RequestedCall, ...] = ()
    refusal: str | None = None
    reasoning: tuple[Reasoning, ...] = ()
    finish: str = "stop"
    usage: Usage = Usage()

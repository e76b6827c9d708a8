"""What a model answered in one turn, whatever the provider."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from runward.domain.run.items import HostedCall, Message, Native, Reasoning, join_text


@dataclass(frozen=True, slots=True)
class RequestedCall:
    """A call as the model wrote it: `arguments` is its raw text, the id may be empty.
    `truncated`: the response was cut off in it, so it must never run."""

    call_id: str
    name: str
    arguments: str
    truncated: bool = False
    native: Native | None = None


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
class Loss:
    """What a model was not told of a request. `part` names the part as the API does, `reason` is a
    sentence for people."""

    part: str
    reason: str


Output: TypeAlias = Message | Reasoning | HostedCall | RequestedCall


@dataclass(frozen=True, slots=True)
class ModelResponse:
    """`output` in the model's own order. `finish` is normalised: `stop`, `tool_calls`, `length`,
    `content_filter` or `other`. `losses`: those that show only once a particular model is asked."""

    output: tuple[Output, ...] = ()
    finish: str = "stop"
    usage: Usage = Usage()
    losses: tuple[Loss, ...] = ()

    @classmethod
    def of(
        cls,
        text: str = "",
        calls: Iterable[RequestedCall] = (),
        *,
        refusal: str | None = None,
        reasoning: Iterable[Reasoning] = (),
        finish: str = "stop",
        usage: Usage | None = None,
    ) -> "ModelResponse":
        """In the usual order: what it thought, what it said, what it asks for."""
        output: list[Output] = [*reasoning]
        if text:
            output.append(Message("assistant", text))
        if refusal is not None:
            output.append(Message("assistant", refusal, refusal=True))
        return cls((*output, *calls), finish, usage or Usage())

    @property
    def text(self) -> str:
        return "".join(join_text(one.content) for one in self._messages if not one.refusal)

    @property
    def refusal(self) -> str | None:
        """What it said instead of an answer."""
        refusals = [join_text(one.content) for one in self._messages if one.refusal]
        return "".join(refusals) if refusals else None

    @property
    def calls(self) -> tuple[RequestedCall, ...]:
        return tuple(one for one in self.output if isinstance(one, RequestedCall))

    @property
    def reasoning(self) -> tuple[Reasoning, ...]:
        return tuple(one for one in self.output if isinstance(one, Reasoning))

    @property
    def _messages(self) -> list[Message]:
        return [one for one in self.output if isinstance(one, Message)]

"""A model's response in one turn, independent of the provider."""

from collections.abc import Iterable
from typing import TypeAlias

from runward.domain.immutable import immutable
from runward.domain.run.items import HostedCall, Message, Native, Reasoning, join_text


@immutable
class RequestedCall:
    """A call as the model wrote it. `arguments` is its raw text, and the ID may be empty.
    `truncated`: the response ended inside the call, so it must not run."""

    call_id: str
    name: str
    arguments: str
    truncated: bool = False
    native: Native | None = None


@immutable
class Usage:
    """Numbers of tokens. `input` includes `cached_input`, and `output` includes `reasoning`. `cost`
    is in US dollars and covers only models with known prices."""

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


@immutable
class ReportedUsage:
    """The usage of `model` that a tool reports. `priced`: whether the tool reported the cost.
    Otherwise, Runward computes the cost."""

    model: str
    usage: Usage
    priced: bool = False


@immutable
class Loss:
    """A part of a request that the model did not receive. `part` is its name in the API, and
    `reason` is a sentence for people."""

    part: str
    reason: str


@immutable
class ReplacedCalls:
    """The calls that the model requested, before `hook` changed them."""

    hook: str
    calls: tuple[RequestedCall, ...]


Output: TypeAlias = Message | Reasoning | HostedCall | RequestedCall


@immutable
class ModelResponse:
    """A response. `output` is in the model's order. `finish` is one of `stop`, `tool_calls`,
    `length`, `content_filter` and `other`. `losses`: parts of the request that this model did not
    receive. `replaced`: None if no hook changed the calls."""

    output: tuple[Output, ...] = ()
    finish: str = "stop"
    usage: Usage = Usage()
    losses: tuple[Loss, ...] = ()
    replaced: ReplacedCalls | None = None

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
        """Return a response in the usual order: reasoning, text, calls."""
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
        """Return the text of the model's refusal, or None if the model did not refuse."""
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

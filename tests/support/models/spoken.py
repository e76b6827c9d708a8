"""What a scripted model says, whatever its provider's words for it, so that one conversation can be
told in every protocol.

    server.script("main", says(Thought("I add."), Call("c1", "add", '{"x": 1}')), says(Text("2")))

`ProviderServer`s take these as they are; `as_chat` and `as_responses` put them into the words of
the two servers of OpenAI's protocols, which can say more.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from tests.support.models import chat_server, responses_items, responses_server
from tests.support.serving import Hold

INPUT, CACHED, OUTPUT, THOUGHT = 50, 10, 20, 5
"""Tokens of every answer: the input includes the cached ones, the output those it thought with."""


@dataclass(frozen=True, slots=True)
class Text:
    value: str


@dataclass(frozen=True, slots=True)
class Thought:
    """What the model thought; the server signs it, where its provider does."""

    value: str


@dataclass(frozen=True, slots=True)
class Call:
    """`arguments` is raw text, as models write it, but for a provider whose calls hold an
    object."""

    id: str
    name: str
    arguments: str = "{}"


Said: TypeAlias = Text | Thought | Call
Ending: TypeAlias = Literal["done", "length", "refused"]


@dataclass(frozen=True, slots=True)
class Says:
    """`ending`: `length` is cut off by the limit of tokens, `refused` by the model or its provider;
    the text, if any, is then its refusal. `cut`: the connection breaks in the middle. `pieces`:
    into how many deltas each text is split. `hold`: waits there in the middle."""

    parts: tuple[Said, ...] = ()
    ending: Ending = "done"
    cut: bool = False
    pieces: int = 3
    hold: Hold | None = None

    @property
    def calls(self) -> list[Call]:
        return [part for part in self.parts if isinstance(part, Call)]

    @property
    def text(self) -> str:
        return "".join(part.value for part in self.parts if isinstance(part, Text))


@dataclass(frozen=True, slots=True)
class Fails:
    """`retry_after` is sent verbatim."""

    status: int
    message: str = "try again"
    retry_after: str | None = None


Reply: TypeAlias = Says | Fails


def says(*parts: Said | str) -> Says:
    return Says(tuple(Text(part) if isinstance(part, str) else part for part in parts))


def split(whole: str, count: int) -> list[str]:
    size = max(1, -(-len(whole) // max(1, count)))
    return [whole[at : at + size] for at in range(0, len(whole), size)]


def as_chat(reply: Reply) -> chat_server.Reply:
    """Chat Completions has no word for thoughts."""
    if isinstance(reply, Fails):
        return chat_server.HttpError(reply.status, reply.message, retry_after=reply.retry_after)
    refused = reply.ending == "refused"
    return chat_server.Answer(
        text=None if refused or not reply.text else reply.text,
        refusal=reply.text if refused else None,
        calls=tuple(chat_server.Call(c.id, c.name, c.arguments) for c in reply.calls),
        finish_reason="length" if reply.ending == "length" else None,
        pieces=reply.pieces,
        cut_after=2 if reply.cut else None,
        hold=reply.hold,
        hold_after=2,
    )


def as_responses(reply: Reply) -> responses_server.Reply:
    if isinstance(reply, Fails):
        return responses_server.HttpError(
            reply.status, reply.message, retry_after=reply.retry_after
        )
    return responses_server.Answer(
        outputs=tuple(_as_output(part, refused=reply.ending == "refused") for part in reply.parts),
        incomplete="max_output_tokens" if reply.ending == "length" else None,
        pieces=reply.pieces,
        cut_after=5 if reply.cut else None,
        hold=reply.hold,
        hold_after=5,
    )


def _as_output(part: Said, *, refused: bool) -> responses_items.Output:
    match part:
        case Text(value=value) if refused:
            return responses_items.Refusal(value)
        case Text(value=value):
            return responses_items.Text(value)
        case Thought(value=value):
            return responses_items.Reasoning((value,))
        case Call():
            return responses_items.Call(part.id, part.name, part.arguments)

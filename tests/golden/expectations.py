"""Where Runward's answer to a golden scenario is not the oracle's own, one by one, and why.

The oracle's `policy` says `match`, `improve` or `choice`. A scenario without an entry here has to
come out exactly as the oracle's did, save for four rules that hold for all (`test_golden.py`):
results stand in the order of the calls; an exception of the oracle is status `failed`, its
MaxTurnsExceeded is `incomplete`; raw arguments that are no JSON object go upstream as `{}`; no
`tool_choice` is the same as `auto`.
"""

import re
from dataclasses import dataclass, field
from typing import TypeAlias

LATER: dict[str, str] = {}
"""Groups whose features do not exist yet. To enable one, delete its line."""

UNKNOWN_OUTCOME = "may or may not have taken effect"


@dataclass(frozen=True, slots=True)
class Exactly:
    text: str

    def holds(self, text: str) -> bool:
        return text == self.text


@dataclass(frozen=True, slots=True)
class Begins:
    """…with `text`, and says `then` somewhere after it."""

    text: str
    then: str

    def holds(self, text: str) -> bool:
        return text.startswith(self.text) and self.then in text[len(self.text) :]


@dataclass(frozen=True, slots=True)
class Says:
    """Every pattern is found, upper or lower case."""

    patterns: tuple[str, ...]

    def holds(self, text: str) -> bool:
        return all(re.search(pattern, text, re.IGNORECASE) for pattern in self.patterns)


Wanted: TypeAlias = Exactly | Begins | Says


def says(*patterns: str) -> Says:
    return Says(patterns)


@dataclass(frozen=True, slots=True)
class Expectation:
    """What differs from the oracle. `results` by call id (`*`: an id that was made by Runward);
    `errors`: ids whose result is an error; `started`: ids sent in each round; `refused`: HTTP
    statuses of decisions that were refused."""

    reason: str
    results: dict[str, Wanted] = field(default_factory=dict[str, Wanted])
    errors: tuple[str, ...] = ()
    status: str | None = None
    output: str | None = None
    requests: int | None = None
    started: tuple[tuple[str, ...], ...] | None = None
    refused: tuple[int, ...] = ()


def _webhook_error(call_id: str, message: str) -> Expectation:
    return Expectation(
        "a webhook that answers 500 with a text declares that text: it is an error result that the "
        "model reads; the fixed text without it is for exceptions inside plugins",
        results={call_id: says(re.escape(message))},
        errors=(call_id,),
    )


def _timeout(tool: str) -> Expectation:
    return Expectation(
        "the oracle's text, then the sentence that nobody knows whether it happened, since a "
        "webhook is not idempotent unless it says so",
        results={"c1": Begins(f"Tool '{tool}' timed out after 0.05 seconds.", UNKNOWN_OUTCOME)},
        errors=("c1",),
    )


_JSON = "JSON for the model, never a language's repr"

EXPECTATIONS: dict[str, Expectation] = {
    "err-01": _webhook_error("c1", "db password is hunter2"),
    "err-04": _webhook_error("c1", "boom"),
    "err-05": _webhook_error("c1", "cancelled"),
    "apr-17": _webhook_error("c1", "boom"),
    "unk-01": Expectation(
        "an unknown name is an error result by default, and its siblings run",
        results={"c1": Exactly("a(1)"), "c2": says("'ghost'", r"\ba\b")},
        errors=("c2",),
        status="completed",
        output="done",
        requests=2,
        started=(("c1",),),
    ),
    "unk-02": Expectation(
        "the text also lists the tools that can be called",
        results={"c1": Begins("Tool 'ghost' not found.", "a")},
        errors=("c1",),
    ),
    "arg-01": Expectation(
        "the text says that the JSON is invalid, and where",
        results={"c1": says("json", r"\d")},
        errors=("c1",),
    ),
    "arg-04": Expectation(
        "the text says that an object was expected and what came",
        results={"c1": says("object", "array|list")},
        errors=("c1",),
    ),
    "arg-05": Expectation(
        "the tool's schema forbids other properties, so the call is not started",
        results={"c1": says(r"\by\b")},
        errors=("c1",),
        started=((),),
    ),
    "out-01": Expectation(_JSON, results={"c1": Exactly("null")}),
    "out-02": Expectation(_JSON, results={"c1": Exactly('{"k":1,"t":true}')}),
    "out-04": Expectation(_JSON, results={"c1": Exactly("3"), "c2": Exactly("false")}),
    "tmo-01": _timeout("a"),
    "tmo-04": _timeout("a"),
    "apr-20": _timeout("g"),
    "apr-13": Expectation(
        "a decision takes effect at once, so the first one wins; another is refused with 409",
        results={"c1": Exactly("g(1)")},
        started=((), ("c1",)),
        refused=(409,),
    ),
    "id-05": Expectation(
        "an empty id is replaced by one that Runward makes",
        results={"*": Exactly("a(1)")},
        status="completed",
        output="done",
        requests=2,
        started=(("*",),),
    ),
    "stop-05": Expectation(
        "an error never becomes the final output: the model goes on",
        results={"c1": says("boom")},
        errors=("c1",),
        output="never",
        requests=2,
    ),
    "grd-07": _webhook_error("c1", "boom"),
    "so-04": Expectation(
        "the tool's text does not fit the output's schema, so it does not become the final output: "
        "the loop goes on as after a failed repair",
        status="incomplete",
    ),
    "so-02": Expectation(
        "an answer that does not fit its schema ends the run as incomplete", status="incomplete"
    ),
}

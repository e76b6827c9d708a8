"""Chapters: several steps of a story in one rule. Random steps rarely come in an order that tests
more than one of them, such as a rotation between two calls of the same tool.
"""

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.stateful.expectation import Run, Tool
from tests.stateful.machine import DECISION, ENDING, WEBHOOK, Story

X = st.sampled_from("12")


class Chapters(Story):
    """Each chapter tells its steps one by one, like the rules that it is made of."""

    @rule(x=X, decision=DECISION, again=DECISION)
    def ask_and_decide(self, x: str, decision: str, again: str) -> None:
        if self._ask(x):
            self.decide(-1, decision)
            if self.runs[-1].closed:
                self.decide_again(-1, again)

    @rule(x=X, first=ENDING, second=ENDING)
    def ask_and_decide_at_once(self, x: str, first: str, second: str) -> None:
        if self._ask(x):
            self.decide_at_once(-1, first, second)

    @precondition(lambda self: self.changes < 2)
    @rule(x=X, deleted=st.booleans())
    def change_the_tool_that_is_asked_about(self, x: str, deleted: bool) -> None:  # noqa: FBT001
        if not self._ask(x):
            return
        if deleted:
            self.delete_tool("gate")
        else:
            self.change_policy("gate", gated=False)
            self.change_policy("gate", gated=True)
        self.decide(-1, "approve")

    @rule(x=X, again=st.sampled_from(("the same", "another")))
    def answer_later_and_twice(self, x: str, again: str) -> None:
        run = self._begin("later", x)
        if run is not None and run.phase == "callback":
            self.call_back_twice(-1, again)

    @precondition(lambda self: self.changes < 3)
    @rule(tool=WEBHOOK, x=X)
    def rotate_between_calls(self, tool: Tool, x: str) -> None:
        """Both workers may have read the tool by then."""
        if self._begin(tool, x) is not None:
            self.rotate_secret(tool)
            self._begin(tool, x)

    def _ask(self, x: str) -> bool:
        """Whether a new run waits for an approval."""
        run = self._begin("gate", x)
        return run is not None and run.phase == "approval"

    def _begin(self, tool: Tool, x: str) -> Run | None:
        before = len(self.runs)
        self.submit(tool, x)
        return self.runs[-1] if len(self.runs) > before else None

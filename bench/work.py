"""The work that is measured: user message, model, one webhook call, model, answer."""

from typing import Final

from bench.fake_model import Script, final_text

INSTRUCTIONS: Final = "You are a helpful assistant. Use the lookup tool when you need a fact."
PARAMETERS: Final = {
    "type": "object",
    "properties": {"query": {"type": "string"}},
    "required": ["query"],
}
EXPECTED: Final = final_text(Script().words)


class WrongAnswerError(Exception):
    """A run ended otherwise than it should: figures of such runs mean nothing."""


def prompt(number: int) -> str:
    return f"What is the answer to question {number}? Please look it up."


def check_output(output: object) -> None:
    """Raises WrongAnswerError."""
    if output != EXPECTED:
        raise WrongAnswerError(f"Not the expected output: {output!r}"[:500])

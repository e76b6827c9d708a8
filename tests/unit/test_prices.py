"""What an answer costs, and where its price comes from."""

import json
import subprocess
import sys

import pytest
from pydantic import ValidationError

from runward.domain.run.response import Usage
from runward.llm.prices import Price, Prices
from runward.settings import ModelPrice, Settings

MILLION = 1_000_000
OWN = {
    "openai:house-*": Price(1.0, 2.0),
    "openai:house-large-*": Price(3.0, 4.0),
    "openai:house-large-1": Price(5.0, 6.0, cached_input=0.5),
    "openai:gpt-4o": Price(7.0, 8.0),
    "offline:rules": Price(0.0, 9.0),
}


@pytest.mark.parametrize(
    ("model", "usage", "cost"),
    [
        ("openai:house-small", Usage(input=MILLION), 1.0),
        ("openai:house-small", Usage(output=MILLION), 2.0),
        ("openai:house-small", Usage(input=MILLION, cached_input=MILLION), 1.0),
        ("openai:house-large-2", Usage(MILLION, MILLION), 7.0),
        ("openai:house-large-1", Usage(MILLION, MILLION), 11.0),
        ("openai:house-large-1", Usage(MILLION, 0, cached_input=MILLION // 2), 2.75),
        ("openai:house-large-1", Usage(10, 0, cached_input=MILLION), 0.000005),
        ("openai:gpt-4o", Usage(MILLION), 7.0),
        ("offline:rules", Usage(0, MILLION), 9.0),
        ("openai:house-small", Usage(), 0.0),
    ],
)
def test_an_operator_s_own_price_comes_first(model: str, usage: Usage, cost: float) -> None:
    assert Prices(OWN).cost_usd(model, usage) == pytest.approx(cost)


@pytest.mark.parametrize(
    ("model", "usage", "cost"),
    [
        ("openai:gpt-4o-2024-08-06", Usage(MILLION), 2.5),
        ("openai:gpt-4o-2024-08-06", Usage(0, MILLION), 10.0),
        ("openai:gpt-4o-2024-08-06", Usage(MILLION, cached_input=MILLION), 1.25),
        ("openai:gpt-4o-2024-08-06", Usage(10, cached_input=MILLION), 0.0000125),
        ("openai-responses:gpt-4o-2024-08-06", Usage(MILLION), 2.5),
        ("anthropic:claude-sonnet-4-5", Usage(1000, 100), 0.0045),
        ("gemini:gemini-2.5-flash", Usage(1000, 100), 0.00055),
        ("bedrock:us.amazon.nova-lite-v1:0", Usage(1000, 100), 0.000084),
    ],
)
def test_a_known_model_costs_what_the_table_says(model: str, usage: Usage, cost: float) -> None:
    assert Prices().cost_usd(model, usage) == pytest.approx(cost)


@pytest.mark.parametrize("model", ["openai:house-small", "nobody:gpt-4o", "gpt-4o", "openai:", ""])
def test_a_model_without_a_price_costs_nothing_known(model: str) -> None:
    prices = Prices()
    assert prices.cost_usd(model, Usage(MILLION, MILLION)) is None
    assert prices.cost_usd(model, Usage(MILLION, MILLION)) is None, "also when asked again"


def test_the_offline_model_is_free() -> None:
    assert Prices().cost_usd("offline:rules", Usage(MILLION, MILLION)) == 0


async def test_the_table_can_be_loaded_ahead() -> None:
    prices = Prices()
    await prices.open()
    assert prices.cost_usd("openai:gpt-4o-2024-08-06", Usage(MILLION)) == 2.5


NO_NETWORK = """
import sys, threading
def refuse(event, args):
    assert not event.startswith("socket."), event
sys.addaudithook(refuse)
from runward.domain.run.response import Usage
from runward.llm.prices import Prices
assert "genai_prices" not in sys.modules
Prices().cost_usd("offline:rules", Usage(1, 1))
assert "genai_prices" not in sys.modules
assert Prices().cost_usd("openai:gpt-4o", Usage(1, 1)) > 0
assert threading.enumerate() == [threading.main_thread()]
"""


@pytest.mark.processes
def test_prices_are_loaded_late_and_never_fetched() -> None:
    """In a process of its own, where any use of a socket fails."""
    done = subprocess.run(
        [sys.executable, "-c", NO_NETWORK], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr


def settings() -> Settings:
    return Settings()  # pyright: ignore[reportCallIssue]  # from the environment


def test_prices_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    price = {"input": 1.25, "output": 10, "cached_input": 0.5}
    monkeypatch.setenv("RUNWARD_MODEL_PRICES", json.dumps({"openai:house-*": price}))
    assert settings().model_prices == {"openai:house-*": ModelPrice.model_validate(price)}
    monkeypatch.setenv("RUNWARD_MODEL_PRICES", "")
    assert settings().model_prices == {}


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"house": {"input": 1, "output": 1}}',
        '{"openai:house": {"input": 1}}',
        '{"openai:house": {"input": 1, "output": -1}}',
        '{"openai:house": {"input": 1, "output": NaN}}',
        '{"openai:house": {"input": 1, "output": 1, "per_call": 1}}',
    ],
)
def test_prices_that_cannot_be_meant_stop_the_start(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNWARD_MODEL_PRICES", text)
    with pytest.raises(ValidationError, match="model_prices"):
        settings()

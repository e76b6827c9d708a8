"""The requests that all programs in this folder send, and the lines that they print.

A program prints one JSON list for each check: the API, the model, the name of the check, and the
client's result. tests/e2e/test_tested_clients.py compares these lines.
"""

import json
import os
from typing import Any

BASE = os.environ["RUNWARD_URL"] + "/v1"
KEY = os.environ["RUNWARD_KEY"]
MODELS = ("offline:rules", "clerk")
"""The second is a registered agent."""
CASHIER = "cashier"
"""An agent with the tool `refund`, which requires approval."""
HELLO = "Hello."
ASK = 'get_weather(city="Rome")'
REFUND = "refund(amount=500)"


def weather(city: str) -> str:
    return f"sunny in {city}"


def report(api: str, model: str, check: str, result: Any) -> None:
    print(json.dumps([api, model, check, result]), flush=True)

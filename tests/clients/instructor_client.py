"""Instructor, with each of its modes that sends the schema to the model's API."""

import instructor
from openai import OpenAI
from pydantic import BaseModel
from shared import BASE, KEY, MODELS, report


class Refund(BaseModel):
    amount: int


MODES = {
    "chat": (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA),
    "responses": (instructor.Mode.RESPONSES_TOOLS,),
}


def check(api: str, mode: instructor.Mode, model: str) -> None:
    with OpenAI(base_url=BASE, api_key=KEY) as openai:
        client = instructor.from_openai(openai, mode=mode)
        refund = client.chat.completions.create(
            model=model,
            response_model=Refund,
            messages=[{"role": "user", "content": "Refund 50."}],
        )
    report(api, model, mode.value, refund.model_dump())


for api, modes in MODES.items():
    for mode in modes:
        for model in MODELS:
            check(api, mode, model)

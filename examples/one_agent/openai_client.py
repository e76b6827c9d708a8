"""Run an agent with OpenAI's SDK and the Responses API, and ask the user for the approval.

    pip install openai
    RUNWARD_KEY=rw_… python3 examples/one_agent/openai_client.py

The key needs the scopes runs:write and approvals:decide.
"""

import os

from openai import OpenAI

client = OpenAI(
    base_url=os.environ.get("RUNWARD_URL", "http://127.0.0.1:8080") + "/v1",
    api_key=os.environ["RUNWARD_KEY"],
)
response = client.responses.create(model="refund_clerk", input="Refund 500 euros for order A-1018.")
for item in response.output:
    if item.type == "mcp_approval_request":
        answer = input(f"Approve {item.name} {item.arguments}? [y/n] ")
        response = client.responses.create(
            model="refund_clerk",
            previous_response_id=response.id,
            input=[
                {
                    "type": "mcp_approval_response",
                    "approval_request_id": item.id,
                    "approve": answer == "y",
                }
            ],
        )
print(response.output_text)

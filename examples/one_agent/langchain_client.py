"""Run an agent with LangChain and the Chat Completions API. The request waits for the approval.

    pip install langchain-openai
    RUNWARD_KEY=rw_… python3 examples/one_agent/langchain_client.py

The key needs only the scope runs:write.
"""

import os

from langchain_openai import ChatOpenAI

chat = ChatOpenAI(
    model="refund_clerk",
    base_url=os.environ.get("RUNWARD_URL", "http://127.0.0.1:8080") + "/v1",
    api_key=os.environ["RUNWARD_KEY"],
)
print(chat.invoke("Refund 500 euros for order A-1018.").text)

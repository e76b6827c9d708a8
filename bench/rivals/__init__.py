"""The libraries and services that `make bench-rivals` compares with Runward."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True)
class Entry:
    """`name` is the name of the program, the lock file and the virtual environment."""

    name: str
    title: str
    package: str
    """Name of the package whose version the table shows."""

    @property
    def program(self) -> Path:
        return FOLDER / f"{self.name}.py"

    @property
    def lock(self) -> Path:
        return FOLDER / "requirements" / f"{self.name}.lock"


FOLDER: Final = Path(__file__).parent
OVER_HTTP: Final = "aegra"
RIVALS: Final = (
    Entry("absurd", "absurd", "absurd-sdk"),
    Entry("langgraph", "LangGraph + PostgreSQL checkpointer", "langgraph"),
    Entry("openai_agents", "OpenAI Agents SDK + SQLAlchemy session", "openai-agents"),
    Entry("pydantic_ai_dbos", "Pydantic AI + DBOS", "pydantic-ai-slim"),
    Entry(OVER_HTTP, "Aegra", "aegra-api"),
)

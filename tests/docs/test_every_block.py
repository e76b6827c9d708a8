"""Every block of code that people read is run, or held against the code, by a test."""

import ast
import re
from typing import Final

import pytest

from tests.docs.blocks import LANGUAGES, ROOT, blocks, pages
from tests.docs.not_run import NOT_RUN, reason

RUN_BY: Final = {
    "CONTRIBUTING.md": "tests/docs/test_setting_up.py::test_contributing",
    "README.md": "tests/e2e/test_readme.py::test_the_first_run_of_the_readme_works_as_written",
    "docs/how-to/agents.md": "tests/docs/test_people_and_agents.py::test_agents",
    "docs/how-to/approvals.md": "tests/docs/test_people_and_agents.py::test_approvals",
    "docs/explanation/architecture.md": "tests/docs/test_setting_up.py::test_architecture",
    "docs/how-to/client-tools.md": "tests/docs/test_people_and_agents.py::test_client_tools",
    "docs/reference/api-conventions.md": "tests/docs/test_runs_and_models.py::test_api_conventions",
    "docs/reference/errors.md": "tests/docs/test_runs_and_models.py::test_errors",
    "docs/how-to/kubernetes.md": "tests/docs/test_setting_up.py::test_kubernetes",
    "docs/how-to/systemd.md": "tests/docs/test_setting_up.py::test_systemd",
    "docs/how-to/deploying.md": "tests/docs/test_setting_up.py::test_deploying",
    "docs/how-to/operations.md": "tests/docs/test_operations.py::test_operations",
    "docs/how-to/monitoring.md": "tests/docs/test_setting_up.py::test_monitoring",
    "docs/how-to/rotate-the-secret-key.md": (
        "tests/docs/test_setting_up.py::test_rotate_the_secret_key"
    ),
    "docs/how-to/retention.md": "tests/docs/test_runs_and_models.py::test_retention",
    "docs/how-to/tracing.md": "tests/e2e/test_tracing.py::test_the_spans_of_a_run_that_waits",
    "docs/how-to/erase.md": "tests/docs/test_runs_and_models.py::test_erase",
    "docs/reference/events.md": "tests/docs/test_runs_and_models.py::test_events",
    "docs/how-to/executors.md": "tests/docs/test_tools_and_guards.py::test_executors",
    "docs/tutorials/getting-started.md": "tests/docs/test_setting_up.py::test_getting_started",
    "docs/tutorials/typescript-approval.md": "tests/e2e/test_typescript.py::test_the_tutorial",
    "docs/how-to/guardrails.md": "tests/docs/test_tools_and_guards.py::test_guardrails",
    "docs/how-to/hosted-tools.md": "tests/docs/test_tools_and_guards.py::test_hosted_tools",
    "docs/reference/guardrail-requests.md": (
        "tests/docs/test_tools_and_guards.py::test_guardrail_and_hook_requests"
    ),
    "docs/how-to/hooks.md": "tests/docs/test_tools_and_guards.py::test_hooks",
    "docs/how-to/limits.md": "tests/docs/test_runs_and_models.py::test_limits",
    "docs/how-to/long-running.md": "tests/docs/test_tools_and_guards.py::test_long_running",
    "docs/how-to/mcp-server.md": "tests/docs/test_runs_and_models.py::test_mcp_server",
    "docs/how-to/mcp.md": "tests/docs/test_runs_and_models.py::test_mcp",
    "docs/how-to/migrate-from-agents-sdk.md": (
        "tests/docs/test_migrations.py::test_from_the_agents_sdk"
    ),
    "docs/how-to/migrate-from-assistants.md": (
        "tests/docs/test_migrations.py::test_from_assistants"
    ),
    "docs/how-to/migrate-from-langgraph.md": ("tests/docs/test_migrations.py::test_from_langgraph"),
    "docs/how-to/models.md": "tests/docs/test_runs_and_models.py::test_models",
    "docs/how-to/plugins.md": "tests/docs/test_plugins.py::test_plugins",
    "docs/reference/plugin-api.md": "tests/docs/test_plugins.py::test_plugins",
    "docs/how-to/recipes.md": "tests/e2e/test_recipes.py::test_the_recipes",
    "docs/how-to/responses.md": "tests/docs/test_runs_and_models.py::test_responses",
    "docs/reference/chat-completions.md": (
        "tests/docs/test_runs_and_models.py::test_chat_completions"
    ),
    "docs/reference/rules.md": "tests/docs/test_tools_and_guards.py::test_rules",
    "docs/how-to/rate-limits.md": "tests/docs/test_rate_limits.py::test_rate_limits",
    "docs/how-to/audit-log.md": "tests/docs/test_audit_log.py::test_audit_log",
    "docs/how-to/budgets.md": "tests/docs/test_budgets.py::test_budgets",
    "docs/how-to/schedules.md": "tests/docs/test_schedules.py::test_schedules",
    "docs/how-to/sdks.md": "tests/e2e/test_sdks.py::test_the_page",
    "docs/how-to/secrets.md": "tests/docs/test_runs_and_models.py::test_secrets",
    "docs/how-to/sessions.md": "tests/docs/test_people_and_agents.py::test_sessions",
    "docs/how-to/verify-webhooks.md": "tests/docs/test_signatures.py::test_verify_webhooks",
    "docs/how-to/inline-tools.md": "tests/docs/test_tools_and_guards.py::test_inline_tools",
    "docs/how-to/webhook-endpoints.md": (
        "tests/docs/test_notifications.py::test_webhook_endpoints"
    ),
    "docs/how-to/webhooks.md": "tests/docs/test_tools_and_guards.py::test_webhooks",
    "docs/reference/webhook-requests.md": (
        "tests/docs/test_tools_and_guards.py::test_webhook_requests"
    ),
    "examples/README.md": "tests/docs/test_examples_page.py::test_the_examples",
    "examples/clients/README.md": "tests/e2e/test_clients.py::test_the_generated_clients",
    "examples/codex/README.md": "tests/docs/test_setting_up.py::test_the_example_of_codex",
    "examples/commands/README.md": "tests/docs/test_examples_page.py::test_commands",
    "examples/executors/README.md": "tests/docs/test_setting_up.py::test_the_example_of_executors",
    "examples/one_agent/README.md": (
        "tests/e2e/test_one_agent.py::test_five_clients_run_one_agent_and_wait_for_its_approval"
    ),
    "examples/plugins/README.md": "tests/docs/test_setting_up.py::test_the_example_of_plugins",
    "sdks/python/README.md": "tests/e2e/test_sdks.py::test_the_readme_of_python",
    "sdks/typescript/README.md": "tests/e2e/test_sdks.py::test_the_readme_of_typescript",
}
"""Pages that are told as a `Story`, which fails if it leaves out a block."""
RECORDED: Final = {"docs/reference/cli.md": "tests/e2e/test_cli*.py"}
"""Pages whose blocks are recordings, each below a comment with its name, by which one of these
tests compares it."""


def test_every_page_with_code_has_a_test() -> None:
    assert {page for page in pages() if blocks(page)} == {*RUN_BY, *RECORDED}


@pytest.mark.parametrize("page", RUN_BY)
def test_that_test_tells_the_page(page: str) -> None:
    file, _, name = RUN_BY[page].partition("::")
    module = ast.parse((ROOT / file).read_text("utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    [test] = [one for one in module.body if isinstance(one, functions) and one.name == name]
    assert f"Story('{page}'" in ast.unparse(test)


@pytest.mark.parametrize("page", RECORDED)
def test_every_recording_is_compared(page: str) -> None:
    tests = "".join(test.read_text("utf-8") for test in ROOT.glob(RECORDED[page]))
    compared = set(re.findall(r'compare\("([^"]+)"', tests))
    named = re.findall(r"<!-- recorded: (.+?) -->\n\n```", (ROOT / page).read_text("utf-8"))
    assert len(named) == len(blocks(page))
    assert set(named) == compared


@pytest.mark.parametrize("page", [page for page in pages() if blocks(page)])
def test_every_block_says_its_language(page: str) -> None:
    unknown = [str(block) for block in blocks(page) if block.language not in LANGUAGES]
    assert not unknown, f"{', '.join(unknown)}: say one of {', '.join(sorted(LANGUAGES))}"


def test_there_is_nothing_left_among_what_is_not_run() -> None:
    left = [block for page in pages() for block in blocks(page) if reason(block)]
    assert len(left) == len(NOT_RUN) < 28

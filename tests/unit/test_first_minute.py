"""What a person is told before and at the start: the banner, and what `doctor` finds."""

from pathlib import Path

import pytest
import typer

from runward.operating.environment import read_migration_url
from runward.operating.findings import check_settings, describe_error
from runward.quickstart.banner import Banner, configured_providers
from runward.settings import Settings
from runward.store.postgres.embedded import explain_initdb_failure

KEY = "k" * 32


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, ()),
        ({"openai_api_key": KEY}, ("openai", "openai-responses")),
        ({"anthropic_base_url": "https://models.example"}, ("anthropic",)),
        ({"gemini_api_key": KEY, "anthropic_api_key": KEY}, ("anthropic", "gemini")),
        ({"aws_access_key_id": KEY}, ()),
        ({"aws_access_key_id": KEY, "aws_secret_access_key": KEY}, ("bedrock",)),
        ({"aws_bearer_token_bedrock": KEY}, ("bedrock",)),
    ],
)
def test_the_banner_names_every_configured_provider(
    given: dict[str, str], named: tuple[str, ...]
) -> None:
    providers = configured_providers(Settings.model_validate(given))
    assert providers == named
    shown = Banner("http://127.0.0.1:8080", providers=providers).format()
    [models] = [line for line in shown.splitlines() if "Models" in line]
    assert models.endswith(", ".join(["needs no key)", *(f"{name}:NAME" for name in named)]))


@pytest.mark.parametrize(
    ("module", "status", "detail"),
    [
        ("tests.support.plugins.counter", "ok", "loaded: "),
        ("no_such_module", "fail", "no_such_module cannot be imported"),
        ("tests.support.services.client", "fail", "has no list"),
    ],
)
def test_doctor_loads_the_plugins_and_says_what_a_worker_would(
    module: str, status: str, detail: str
) -> None:
    settings = Settings.model_validate({"plugins": (module,)})
    [finding] = [one for one in check_settings(settings) if one.check == "plugins"]
    assert finding.status == status
    assert detail in finding.detail


DIRECT = "postgresql://db.example/runward"
POOLED = "postgresql://pgbouncer.example/runward"


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ({}, POOLED),
        ({"listen_url": DIRECT}, POOLED),
        ({"listen_url": DIRECT, "pgbouncer": "true"}, DIRECT),
    ],
)
def test_migrations_go_around_pgbouncer(given: dict[str, str], url: str) -> None:
    settings = Settings.model_validate({"DATABASE_URL": POOLED, **given})
    assert read_migration_url(settings) == url


def test_migrations_through_pgbouncer_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    settings = Settings.model_validate({"DATABASE_URL": POOLED, "pgbouncer": "true"})
    with pytest.raises(typer.Exit):
        read_migration_url(settings)
    assert "Set RUNWARD_LISTEN_URL" in capsys.readouterr().err


def test_a_full_disk_is_a_sentence_and_another_failure_of_initdb_is_shown_whole() -> None:
    full = "initdb: error: could not write to file: No space left on device\ninitdb: removing data"
    assert explain_initdb_failure(Path("/data"), full).startswith(
        "The disk that holds /data is full. "
    )
    other = "initdb: error: invalid locale name"
    assert explain_initdb_failure(Path("/data"), other).endswith(other)


@pytest.mark.parametrize(
    ("error", "reason"),
    [(TimeoutError(), "TimeoutError"), (OSError("lost\nDETAIL: more"), "lost")],
)
def test_the_doctor_says_why_the_database_failed_also_if_the_error_does_not(
    error: Exception, reason: str
) -> None:
    assert describe_error(error) == reason

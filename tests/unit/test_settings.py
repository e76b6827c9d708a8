"""The environment: what is refused at the start, and what callback URLs are made of."""

from typing import Any

import pytest
from pydantic import ValidationError

from runward.domain import retention
from runward.operating.environment import list_problems
from runward.settings import MAX_RETENTION_DAYS, Settings, find_unknown_variables


def read(monkeypatch: pytest.MonkeyPatch, **environment: str) -> Settings:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return Settings()  # pyright: ignore[reportCallIssue]  # from the environment


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("RUNWARD_PUBLIC_URL", ["example", "::1", "ftp://a", "http://", "http://0.0.0.0:80"]),
        ("RUNWARD_PUBLIC_URL", ["http://[::]", "http://a:0", "http://a:99999", "http://a/?b"]),
        ("RUNWARD_PUBLIC_URL", ["http://a b", "http://me@a", "http://a#b", "http://["]),
        ("RUNWARD_LOG_FORMAT", ["yaml"]),
        ("RUNWARD_LOG_LEVEL", ["loud"]),
        ("RUNWARD_DRAIN_SECONDS", ["-5", "nan", "inf", "1e300", "soon"]),
        ("RUNWARD_LEASE_SECONDS", ["0", "inf"]),
        ("RUNWARD_TOOL_TIMEOUT_SECONDS", ["0", "-1", "3601"]),
        ("RUNWARD_ALLOWED_PORTS", ["http", "0", "80-79", "65536", "80,,81", "1-2-3", "-"]),
        ("RUNWARD_ALLOWED_HOSTS", ["http://a", "a:80", "a/b", "a.*"]),
        ("RUNWARD_MAX_CONNECTIONS", ["0", "many"]),
        (
            "RUNWARD_SECRET_KEY",
            ["short", "file:key", "aws-kms:alias/runward", f"aws-kms:{'k' * 40}"],
        ),
        ("RUNWARD_PREVIOUS_SECRET_KEYS", ["short", f"{'k' * 32},short"]),
        ("OPENAI_BASE_URL", ["foo", "api.openai.com/v1"]),
        ("ANTHROPIC_BASE_URL", ["foo"]),
        ("GEMINI_BASE_URL", ["foo"]),
        ("BEDROCK_BASE_URL", ["foo"]),
    ],
)
def test_a_value_that_cannot_work_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, values: list[str]
) -> None:
    for value in values:
        with pytest.raises(ValidationError) as refused:
            read(monkeypatch, **{name: value})
        field = str(refused.value.errors()[0]["loc"][0])
        assert name in (field, f"RUNWARD_{field.upper()}"), value


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("RUNWARD_LOG_FORMAT", "yaml", "must be 'auto', 'json' or 'text'"),
        ("RUNWARD_DRAIN_SECONDS", "-5", "must be greater than or equal to 0 seconds"),
        ("RUNWARD_TOOL_TIMEOUT_SECONDS", "0", "must be greater than or equal to 0.01 seconds"),
        ("OPENAI_BASE_URL", "foo", "must be an address such as https://example.com"),
    ],
)
def test_a_refusal_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, line: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        read(monkeypatch, **{name: value})
    assert list_problems(refused.value) == [f"  {name}: {line}"]


def test_a_secret_key_can_be_in_a_file_or_in_kms(monkeypatch: pytest.MonkeyPatch) -> None:
    arn = "arn:aws:kms:eu-central-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
    found = read(
        monkeypatch,
        RUNWARD_SECRET_KEY=f"aws-kms:{arn}",
        RUNWARD_PREVIOUS_SECRET_KEYS=f"file:/run/secrets/key, {'k' * 32}",
    )
    assert found.list_secret_keys() == (f"aws-kms:{arn}", "file:/run/secrets/key", "k" * 32)


def test_a_port_that_is_chosen_later_needs_a_public_url(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValidationError, match="is required with RUNWARD_PORT=0"):
        read(monkeypatch, RUNWARD_PORT="0")
    settings = read(monkeypatch, RUNWARD_PORT="0", RUNWARD_PUBLIC_URL="https://a.example")
    assert settings.base_url == "https://a.example"


@pytest.mark.parametrize(
    ("environment", "url"),
    [
        ({}, "http://127.0.0.1:8080"),
        ({"HOST": "0.0.0.0"}, "http://127.0.0.1:8080"),
        ({"HOST": "::"}, "http://[::1]:8080"),
        ({"HOST": "::1", "PORT": "81"}, "http://[::1]:81"),
        ({"HOST": "box.local"}, "http://box.local:8080"),
        ({"PUBLIC_URL": "https://a.example/"}, "https://a.example"),
        ({"PUBLIC_URL": "https://a.example/runward//"}, "https://a.example/runward"),
        ({"PUBLIC_URL": "http://[::1]:81"}, "http://[::1]:81"),
    ],
)
def test_callback_urls_begin_with_an_address_that_works(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], url: str
) -> None:
    given = {f"RUNWARD_{name}": value for name, value in environment.items()}
    assert read(monkeypatch, **given).base_url == url


def test_words_are_read_in_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = read(monkeypatch, RUNWARD_LOG_LEVEL="WARNING", RUNWARD_LOG_FORMAT="Text")
    assert (settings.log_level, settings.log_format) == ("warning", "text")


def test_a_variable_that_does_not_exist_is_named_with_the_nearest() -> None:
    environment: dict[str, Any] = dict.fromkeys(
        ("RUNWARD_PUBLIC_ULR", "RUNWARD_ZZZ", "RUNWARD_SECRET_SHOP", "RUNWARD_KEY", "RUNWARD_HOST")
    )
    assert find_unknown_variables([*environment, "PATH", "DATABASE_URL"]) == [
        "RUNWARD_PUBLIC_ULR: this variable does not exist; did you mean RUNWARD_PUBLIC_URL?",
        "RUNWARD_ZZZ: this variable does not exist",
    ]


@pytest.mark.parametrize(
    ("environment", "hosts"),
    [
        ({}, {"localhost", "127.0.0.1", "::1"}),
        (
            {"HOST": "10.0.0.7", "PUBLIC_URL": "https://Runward.Example:8443"},
            {"localhost", "127.0.0.1", "::1", "10.0.0.7", "runward.example"},
        ),
        ({"ALLOWED_HOSTS": "A.example, *.b.example,[::2]"}, {"a.example", "*.b.example", "::2"}),
    ],
)
def test_hosts_are_those_that_are_allowed_or_else_the_service_s_own(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], hosts: set[str]
) -> None:
    given = {f"RUNWARD_{name}": value for name, value in environment.items()}
    assert read(monkeypatch, **given).hosts == hosts


def test_the_deployment_and_projects_have_the_same_maximum_retention() -> None:
    assert MAX_RETENTION_DAYS == retention.MAX_DAYS

"""The fixtures of `tests/api`: one service for all tests of a process, a project for each test."""

from tests.api import conftest

other = conftest.other
project = conftest.project

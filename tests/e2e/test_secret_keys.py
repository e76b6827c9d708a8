"""The secret key of a deployment changes while runs wait for callbacks."""

import pytest

from tests.e2e.conftest import Processes
from tests.e2e.test_later import call_back, for_later
from tests.support.models.chat_server import ModelServer
from tests.support.services.client import Client
from tests.support.services.service import SECRET_KEY, Service
from tests.support.tools.server import ToolServer

pytestmark = pytest.mark.timeout(180)

NEW_KEY = "another-secret-key-0123456789abcdef0123456789abcdef"
READS_NEW = {"RUNWARD_SECRET_KEY": SECRET_KEY, "RUNWARD_PREVIOUS_SECRET_KEYS": NEW_KEY}
WRITES_NEW = {"RUNWARD_SECRET_KEY": NEW_KEY, "RUNWARD_PREVIOUS_SECRET_KEYS": SECRET_KEY}


def expect_shared_keys(*services: Service) -> None:
    """Each process accepts the API keys that every process creates and digests again."""
    for made_by in services:
        with made_by.client() as operator:
            made = operator.new_project("rotating")
        with made:
            for service in (*services, *services):
                with Client(service.url, made.key) as client:
                    client.call("GET", "/v1/runs")


def test_processes_change_to_a_new_key_one_by_one(
    start: Processes, model: ModelServer, tools: ToolServer
) -> None:
    paying, worker, run_id, hit = for_later(start, model, tools)
    first = paying.api
    reads_new = start("api", env=READS_NEW)
    expect_shared_keys(first, reads_new)
    worker.terminate()
    worker = paying.worker(**READS_NEW)
    tools.witness = None  # it reads from the first process
    first.terminate()

    writes_new = start("api", env=WRITES_NEW)
    expect_shared_keys(reads_new, writes_new)
    assert call_back(hit, reads_new, status="progress", progress=0.5).status_code == 200
    with Client(writes_new.url, paying.client.key) as client:
        paying.client = client
        # A worker of the step before reads a signing secret that the new key encrypted.
        secret = client.call("POST", "/v1/tools/pay/rotate_secret")["secret"]
        tools.secrets("pay", secret)
        second = paying.accepted()
        worker.terminate()
        reads_new.terminate()

        paying.worker(**WRITES_NEW)
        _, later = tools.hits("pay")
        assert later.verified
        for one, waiting in ((hit, run_id), (later, second)):
            assert call_back(one, writes_new, status="completed", output="x").status_code == 200
            paying.finish(waiting)
        assert paying.broken(run_id, second) == []

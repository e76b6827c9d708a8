"""SIGTERM ends the process, whatever the other side of a connection does."""

import asyncio

from tests.hostile.peers import Peers
from tests.hostile.test_models import ENV_OF_PROVIDERS, MODELS
from tests.support.postgres import Databases
from tests.support.services.service import Service
from tests.unit.raw_server import Line

BOUND_SECONDS = 10
NEVER_SECONDS = 3600


async def stay_silent(line: Line) -> None:
    await line.request()
    await asyncio.sleep(NEVER_SECONDS)


def test_a_thread_that_waits_for_a_silent_model_does_not_keep_the_process(
    migrated_databases: Databases,
) -> None:
    """The client of Bedrock reads on a thread, which nobody can end."""
    with migrated_databases.migrated() as url, Peers({"model": (stay_silent,)}) as peers:
        peer = peers.servers["model"]
        env = ENV_OF_PROVIDERS | {
            "BEDROCK_BASE_URL": f"http://127.0.0.1:{peer.port}",
            "RUNWARD_DRAIN_SECONDS": "1",
        }
        with Service("serve", url, env=env) as service, service.client() as client:
            run = client.start_run(model=f"bedrock:{MODELS['bedrock']}")
            while not peer.requests:
                assert client.get_run(run["id"], wait=1)["status"] == "in_progress"
            assert service.terminate(BOUND_SECONDS) == 0

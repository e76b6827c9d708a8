"""The database of the deployment and its data keys, for commands that use them directly."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

from runward.operating.environment import ensure_secret_key, read_database_url
from runward.quickstart.local_secrets import load_secret_key
from runward.settings import Settings
from runward.store import migrations, readiness
from runward.store.data_keys.key_ring import KeyRing
from runward.store.data_keys.secret_keys import open_providers
from runward.store.postgres import embedded
from runward.store.postgres.db import Database, check_safety, open_database


@asynccontextmanager
async def open_deployment(settings: Settings) -> AsyncGenerator[tuple[Database, KeyRing]]:
    """Open the database in DATABASE_URL or the embedded database. `serve` may use the embedded
    database at the same time."""
    async with AsyncExitStack() as stack:
        if settings.database_url is None:
            data_dir = embedded.resolve_data_dir(settings.data_dir)
            server = await embedded.start(data_dir, report=lambda _: None)
            stack.push_async_callback(server.stop)
            url, secret = server.url, settings.secret_key or load_secret_key(data_dir)
            settings = settings.model_copy(update={"secret_key": secret})
            await migrations.upgrade(url, secret.get_secret_value())
        else:
            url = read_database_url(ensure_secret_key(settings))
        database = open_database(url, pool_size=1, through_pgbouncer=settings.pgbouncer)
        stack.push_async_callback(database.close)
        await check_safety(database)  # its error explains why the connection fails
        ring = KeyRing(database, open_providers(settings.list_secret_keys()))
        # A command can have an older configuration than the processes, which use the other keys.
        vault = await ring.open(keep_others=True)
        async with database.pool.begin() as tx:
            await readiness.prepare_database(tx, vault)
        yield database, ring

"""For pytest of dask's own tests (`-p tests.bridges.on_scaler`): what names no scheduler is computed on Scaler."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def on_scaler() -> Iterator[None]:
    import dask

    import scaler.integrations.dask
    from scaler import Client, SchedulerClusterCombo

    modules = ["dask.array", "dask.bag", "dask.dataframe"]
    with (
        SchedulerClusterCombo(2, logging_level="WARNING", preload=modules) as cluster,
        Client(cluster.get_address()) as client,
    ):
        get, calls = scaler.integrations.dask.get(client), []

        def counted(*arguments: object, **options: object) -> object:
            calls.append(1)
            return get(*arguments, **options)

        with dask.config.set(scheduler=counted):
            yield
        print(f"\n{len(calls)} graphs on Scaler")

"""Pools of other packages behind `scaler_cluster --engine module:factory`, as a user starts it: loky, MPI."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from scaler import Client
from tests.support.processes import command, free_address

pytestmark = [pytest.mark.more, pytest.mark.foreign]

LOKY, MPI = "loky:get_reusable_executor", "mpi4py.futures:MPIPoolExecutor"

AS_ROOT_OPEN_MPI_ASKS = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "MPI4PY_FUTURES_MAX_WORKERS": "2",
}


@pytest.fixture(params=[LOKY, MPI])
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    pytest.importorskip(request.param.partition(".")[0].partition(":")[0])
    if request.param == MPI and shutil.which("mpiexec") is None:
        pytest.skip("there is no MPI: install openmpi-bin")
    address = free_address()
    engine = ("--engine", request.param, "-n", "2")
    with (
        command("scheduler", address),
        command("cluster", address, *engine, env=AS_ROOT_OPEN_MPI_ASKS),
        Client(address) as client,
    ):
        yield client


def test_tasks_run_in_the_processes_of_the_pool(client: Client, request: pytest.FixtureRequest) -> None:
    assert client.map(divmod, [(number, 7) for number in range(50)]) == [divmod(n, 7) for n in range(50)]
    with pytest.raises(ZeroDivisionError):
        client.submit(divmod, 1, 0).result(timeout=90)
    assert client.submit(len, client.send_object(bytes(2_000_000))).result(timeout=90) == 2_000_000
    if LOKY in request.node.name:
        with pytest.raises(Exception, match="its process in the engine died"):
            client.submit(os._exit, 3).result(timeout=90)
        assert client.submit(abs, -1).result(timeout=90) == 1

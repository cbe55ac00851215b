"""Programs that gevent or eventlet has patched: refused in a sentence, or right."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from tests.support.processes import run_python

for library in ("gevent", "eventlet"):
    if importlib.util.find_spec(library) is None:  # only programs import them: eventlet warns that it is deprecated
        pytest.skip(f"{library} is not installed; make test-more installs it", allow_module_level=True)
pytestmark = [pytest.mark.more, pytest.mark.processes]

REFUSED = """
from scaler import AsyncClient, Client, Cluster, Scheduler, SchedulerClusterCombo
for make in (
    Client, lambda: Client(n_workers=1), lambda: Client(processes=False), lambda: Client("tcp://127.0.0.1:1"),
    AsyncClient,
    lambda: SchedulerClusterCombo(1), Scheduler, lambda: Cluster("tcp://127.0.0.1:1"),
):
    try:
        make()
    except ValueError as error:
        print(error)
"""
WORKS = """
import concurrent.futures, time
from scaler import Client
for options in {"n_workers": 2}, {"processes": False}:
    with Client(**options) as client:
        assert client.submit(abs, -1).result(30) == 1
        assert client.map(abs, [(number,) for number in range(1000)]) == list(range(1000))
        assert len(list(client.map_unordered(abs, [(number,) for number in range(1000)]))) == 1000
        futures = [client.submit(time.sleep, 0.01) for _ in range(20)]
        assert len(concurrent.futures.wait(futures, 30).done) == 20
        assert len(client.submit(bytes, 5_000_000).result(30)) == 5_000_000
        check(client)
print("ok")
"""
GEVENT = """
import gevent
def check(client):
    ticks = []
    ticking = gevent.spawn(lambda: [(ticks.append(1), gevent.sleep(0.01)) for _ in range(10_000)])
    gevent.get_hub().threadpool.apply(client.submit(time.sleep, 0.3).result)
    ticking.kill()
    assert ticks
"""
EVENTLET = """
import eventlet.tpool
def check(client):
    eventlet.tpool.execute(client.submit(time.sleep, 0.1).result)
"""
PATCH = {
    "gevent": "from gevent import monkey; monkey.patch_all({})",
    "eventlet": "import eventlet; eventlet.monkey_patch({})",
}


def run(folder: Path, program: str) -> str:
    done = run_python("-W", "ignore", "-c", program, folder=folder)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("library", "arguments", "what"),
    [
        ("gevent", "", "threading, select, queue, subprocess"),
        ("gevent", "thread=False, select=False, subprocess=False", "queue"),
        ("gevent", "thread=False, select=False, queue=False", "subprocess"),
        ("eventlet", "", "thread, select"),
        ("eventlet", "select=True", "select"),
    ],
)
def test_a_client_of_a_patched_program_is_refused(tmp_path: Path, library: str, arguments: str, what: str) -> None:
    errors = run(tmp_path, f"{PATCH[library].format(arguments)}\n{REFUSED}").splitlines()
    assert len(errors) == 8
    assert {error.partition(" in this program")[0] for error in errors} == {f"{library} has patched {what}"}


@pytest.mark.parametrize(("library", "check"), [("gevent", GEVENT), ("eventlet", EVENTLET)])
def test_a_client_works_with_the_patches_that_its_error_leaves(tmp_path: Path, library: str, check: str) -> None:
    error = run(tmp_path, f"{PATCH[library].format('')}\n{REFUSED}")
    found = re.search(r"call \S*patch\w*\((.*?)\)", error)
    assert found is not None
    assert run(tmp_path, f"{PATCH[library].format(found[1])}\n{check}{WORKS}") == "ok\n"


def test_a_task_that_patches_its_process_costs_no_other_task_but_those_with_clients(tmp_path: Path) -> None:
    program = """
from scaler import Client
def patches():
    from gevent import monkey
    monkey.patch_all()
def nests():
    return Client().submit(abs, -1).result(30)
with Client(n_workers=1) as client:
    client.submit(patches).result(30)
    assert client.map(abs, [(number,) for number in range(1000)]) == list(range(1000))
    assert len(client.submit(bytes, 5_000_000).result(30)) == 5_000_000
    print(client.submit(nests).exception(30))
"""
    assert run(tmp_path, program).startswith("gevent has patched threading, select, queue, subprocess in this program")

"""What starts with a client, and ends with it."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from scaler import starters
from scaler.client import Client, lifetime
from scaler.client.aio.client import AsyncClient
from scaler.config import ConfigError
from scaler.keys.folder import KeyFolder
from scaler.wire.messages.client import ClientDisconnect
from tests.support.fake_scheduler import FakeScheduler


class Cluster:
    """A local cluster at the address of the fake scheduler; it counts its shutdowns."""

    def __init__(self, scheduler: FakeScheduler) -> None:
        self.scheduler = scheduler
        self.shutdowns = 0
        self.settings: Mapping[str, Any] = {}
        self.had_goodbyes = 0

    def get_address(self) -> str:
        return self.scheduler.address

    def of(self, settings: Mapping[str, Any], logs_output: bool) -> Cluster:
        self.settings, self.logs_output = settings, logs_output
        return self

    def shutdown(self) -> None:
        self.shutdowns += 1
        self.had_goodbyes = len(self.scheduler.wait_for(ClientDisconnect))


@pytest.fixture
def cluster(scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """The cluster of clients without an address."""
    cluster = Cluster(scheduler)
    monkeypatch.delenv("SCALER_ADDRESS", raising=False)
    monkeypatch.setattr(starters, "local_cluster", cluster.of)
    return cluster


def test_without_an_address_a_local_cluster_lives_as_long_as_the_client(cluster: Cluster) -> None:
    client = Client()
    assert client.submit(abs, -1).result(10) == 1
    assert cluster.shutdowns == 0
    client.disconnect()
    client.disconnect()
    assert (cluster.shutdowns, cluster.had_goodbyes) == (1, 1)


def test_n_workers_starts_a_local_cluster_despite_an_address_in_the_environment(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCALER_ADDRESS", "tcp://127.0.0.1:1")
    with Client(n_workers=3) as client:
        assert client.submit(abs, -1).result(10) == 1
    assert (cluster.settings, cluster.shutdowns) == ({"n_workers": 3}, 1)
    assert cluster.logs_output


@pytest.fixture
def key_file(tmp_path: Path) -> str:
    """A key file with the address of a scheduler."""
    KeyFolder.make(tmp_path / "keys", ["tcp://127.0.0.1:2"])
    return str(tmp_path / "keys" / "client.json")


@pytest.mark.parametrize("make", [Client, AsyncClient])
def test_a_key_file_has_the_address_unless_one_is_given(
    key_file: str, monkeypatch: pytest.MonkeyPatch, make: Any
) -> None:
    monkeypatch.delenv("SCALER_ADDRESS", raising=False)
    assert "tcp://127.0.0.1:2" in repr(make(key_file=key_file))
    assert "tcp://127.0.0.1:3" in repr(make("tcp://127.0.0.1:3", key_file=key_file))
    monkeypatch.setenv("SCALER_KEY_FILE", key_file)
    assert "tcp://127.0.0.1:2" in repr(make())
    monkeypatch.setenv("SCALER_ADDRESS", "tcp://127.0.0.1:1")
    assert "tcp://127.0.0.1:1" in repr(make(key_file=key_file))
    assert lifetime.configured_address(key_file, {"n_workers": 1}) is None  # a key that is only in the environment


@pytest.mark.parametrize("make", [Client, AsyncClient])
def test_a_key_file_that_cannot_be_used_is_an_error(cluster: Cluster, key_file: str, tmp_path: Path, make: Any) -> None:
    with pytest.raises(ConfigError, match=r"nope\.json"):
        make(key_file="nope.json")
    for wrong in (3, "", True):
        with pytest.raises(ConfigError, match="key_file must be the path of a file"):
            make(key_file=wrong)
    for local in ({"n_workers": 1}, {"preload": ["json"], "keep": tmp_path}):
        with pytest.raises(ConfigError, match=f"key_file='{key_file}' .* {' '.join(f'{each}=,?' for each in local)}"):
            make(key_file=key_file, **local)
    with pytest.raises(ConfigError, match="processes=False to a local cluster"):
        Client(key_file=key_file, processes=False)
    KeyFolder.make(tmp_path / "others")
    with pytest.raises(ConfigError, match=r"client\.json has no address: give the address of the scheduler, too"):
        make(key_file=tmp_path / "others" / "client.json")


def test_the_local_cluster_of_a_client_that_prints_output_does_not_log_it(cluster: Cluster) -> None:
    with Client(stream_output=True) as client:
        assert client.submit(abs, -1).result(10) == 1
    assert not cluster.logs_output


@pytest.mark.parametrize("make", [Client, AsyncClient])
def test_a_number_of_workers_that_cannot_be_started_is_refused(cluster: Cluster, make: Any) -> None:
    for n_workers in (0, 1.5, True, "2", 70_000):
        with pytest.raises(ConfigError, match="n_workers must be"):
            make(n_workers=n_workers)
    with pytest.raises(ConfigError, match=r"n_workers=2 .*'tcp://127.0.0.1:1' .*remove n_workers or the address"):
        make("tcp://127.0.0.1:1", n_workers=2)
    assert cluster.shutdowns == 0


def test_a_setting_of_a_cluster_starts_a_local_one_despite_an_address_in_the_environment(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCALER_ADDRESS", "tcp://127.0.0.1:1")
    with Client(preload=["json"], logging_level="debug") as client:
        assert client.submit(abs, -1).result(10) == 1
    assert (cluster.settings, cluster.shutdowns) == ({"preload": ["json"], "logging_level": "debug"}, 1)


@pytest.mark.parametrize("make", [Client, AsyncClient])
def test_settings_of_a_local_cluster_that_cannot_work_are_refused(cluster: Cluster, make: Any) -> None:
    with pytest.raises(ConfigError, match="preload must be a list of str"):
        make(preload=[1])
    with pytest.raises(ConfigError, match=r"capabilities={'gpu': 2} .*'tcp://127.0.0.1:1' .*remove capabilities or"):
        make("tcp://127.0.0.1:1", capabilities={"gpu": 2})
    with pytest.raises(TypeError, match="'preloads'; did you mean 'preload'"):
        make(preloads=["json"])
    with pytest.raises(
        ConfigError, match=r"preload=\['json'\] applies to worker processes: remove it or processes=False"
    ):
        Client(processes=False, preload=["json"])
    assert cluster.shutdowns == 0


def test_the_local_cluster_of_a_client_without_references_ends(cluster: Cluster) -> None:
    assert Client().submit(abs, -1).result(10) == 1
    gc.collect()
    assert cluster.shutdowns == 1


def test_an_address_needs_no_local_cluster(cluster: Cluster, scheduler: FakeScheduler) -> None:
    with Client(scheduler.address) as client:
        assert client.submit(abs, -1).result(10) == 1
    assert cluster.shutdowns == 0


def test_a_client_needs_an_address_where_no_local_cluster_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCALER_ADDRESS", raising=False)
    monkeypatch.setattr(starters, "local_cluster", None)
    with pytest.raises(ConfigError, match="needs an address: pass one, or set SCALER_ADDRESS"):
        Client()


def test_a_client_without_references_disconnects(scheduler: FakeScheduler) -> None:
    future = Client(scheduler.address).submit(abs, -3)
    assert future.result(10) == 3
    del future
    gc.collect()
    scheduler.wait_for(ClientDisconnect)


@pytest.mark.processes
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_does_not_end_the_cluster_of_its_parent(cluster: Cluster) -> None:
    with Client() as client:
        pid = os.fork()
        if pid == 0:
            try:
                client.disconnect()
                client._finalizer()
            finally:
                os._exit(cluster.shutdowns)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert client.submit(abs, -1).result(10) == 1
    assert cluster.shutdowns == 1


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a working directory is not deleted, or is found again")
@pytest.mark.parametrize("address", [None, "tcp://127.0.0.1:1"])
def test_a_client_without_a_working_directory_is_an_error_that_says_so(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str | None
) -> None:
    """The library that reads the schemas would abort the program."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(FileNotFoundError, match="working directory of this process was deleted: change to one"):
        Client(address)


@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_keep_must_be_a_folder_which_is_checked_before_anything_starts(
    client: type[Client | AsyncClient], cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for keep in (True, 3, "", b"jobs", ["jobs"]):
        with pytest.raises(ConfigError, match=r"^keep must be the path of a folder for jobs, not "):
            client(keep=keep)  # type: ignore[arg-type]
    for place in ("file", "file/jobs", "dangling"):
        with pytest.raises(ConfigError, match=f"^keep must be .*, but {tmp_path}/(file|dangling) is not a folder"):
            client(keep=tmp_path / place)
    assert cluster.settings == {}

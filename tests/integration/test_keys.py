"""Schedulers with keys: real processes over TCP, each found, refused and ended as the pages say."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import pickle
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import zmq
from zmq.utils import z85
from zmq.utils.monitor import recv_monitor_message

from scaler import (
    AsyncClient,
    AuthenticationError,
    Client,
    ClientShutdownException,
    ConfigError,
    DisconnectedError,
    NotAllowedError,
)
from scaler.cluster.dashboard import PageProcess
from scaler.cluster.recorder import Recorder
from scaler.endpoint import Endpoint
from scaler.ids import random_id
from scaler.keys.finding import folder_for
from scaler.keys.folder import KeyFolder, KeyPair
from scaler.keys.key_file import KeyFile
from scaler.keys.private_files import write_private
from scaler.monitor.subscriber import Subscriber
from scaler.settings import ClusterConfig
from scaler.wire.codec.codec import encode_message
from scaler.wire.messages.client import ClientHello
from scaler.wire.messages.common import PROTOCOL_VERSION
from scaler.wire.messages.directions import AGENT_TO_SCHEDULER, CLIENT_TO_SCHEDULER
from scaler.wire.messages.worker import WorkerHello
from tests.support.keys import show
from tests.support.processes import Command, descendants, free_address, wait_until
from tests.support.timing import at_best
from tests.support.viewer import Viewer

SOON_SECONDS = 1.0
"""in which refusals and revocations are heard"""


def keys(*arguments: str) -> str:
    """Run `scaler_keys`; return what it prints."""
    command = [sys.executable, "-m", "scaler.cli.keys", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Site:
    """A scheduler with keys and a cluster of the same user, and what they say."""

    def __init__(self, home: Path) -> None:
        self.address, self.monitor = free_address(), free_address()
        keys("new", self.address, self.monitor)
        self.folder = folder_for(Endpoint.parse(self.address))
        self.commands: list[Command] = []
        self.elsewhere = home / "elsewhere"
        self.elsewhere.mkdir()
        self.scheduler = self.start("scheduler", self.address, "--no-protected", "--monitor-address", self.monitor)
        self.scheduler.wait_for("only programs with a key can connect")

    def start(self, module: str, *arguments: str, **options: Any) -> Command:
        command = Command(module, *arguments, **options)
        self.commands.append(command)
        return command

    def cluster(self, *arguments: str, **options: Any) -> Command:
        return self.start("cluster", self.address, "-n", "1", *arguments, **options)

    def allow(self, name: str, role: str = "client", *more: str) -> str:
        return keys("allow", name, "--role", role, "--folder", str(self.folder), *more).strip()

    def revoke(self, name: str) -> None:
        keys("revoke", name, "--folder", str(self.folder))

    def changed(self, label: str, /, **values: Any) -> str:
        """Return a copy of the file of a client with other values."""
        known = json.loads((self.folder / "client.json").read_text())
        file = self.elsewhere / f"{label}.json"
        file.touch(0o600)
        file.write_text(json.dumps(known | values))
        return str(file)

    def end(self) -> None:
        for command in reversed(self.commands):
            command.kill_all()


def nested() -> tuple[int, str]:
    with Client() as client:
        return client.submit(pow, 2, 10).result(), repr(client)


def wait_here(seconds: float) -> str:
    time.sleep(seconds)
    return "done"


def failure(run: Callable[[], Any]) -> tuple[BaseException, float]:
    """Return the error of a call, and after how long it came."""
    began = time.monotonic()
    with pytest.raises((AuthenticationError, DisconnectedError, ConfigError)) as failed:
        run()
    return failed.value, time.monotonic() - began


def use(*arguments: Any, **options: Any) -> int:
    with Client(*arguments, **options) as client:
        return client.submit(pow, 2, 10).result(timeout=30)


def refusal(text: str, address: str, file: str | None) -> float:
    """Return how long it takes until a client is refused, with this text."""
    error, seconds = failure(lambda: use(address, key_file=file))
    assert type(error) is AuthenticationError
    assert text in str(error)
    return seconds


@pytest.mark.thorough
def test_the_same_user_needs_no_option_and_other_users_name_a_key_file(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.cluster()
    assert use(site.address) == 1024
    with Client(site.address) as client:
        assert client.submit(nested).result()[0] == 1024
    file = site.allow("alice")
    monkeypatch.setenv("SCALER_KEY_FOLDER", str(site.elsewhere))
    assert use(site.address, key_file=file) == use(file) == use(Path(file)) == use(key_file=file) == 1024
    monkeypatch.setenv("SCALER_KEY_FILE", file)
    with Client() as client:
        assert (client.submit(pow, 2, 10).result(), site.address in repr(client)) == (1024, True)
    assert use(site.address) == 1024


@pytest.mark.thorough
def test_a_remote_cluster_names_its_key_file_and_its_tasks_have_clients(site: Site) -> None:
    file = site.allow("node7", "worker")
    site.cluster("--key-file", file, env={"SCALER_KEY_FOLDER": str(site.elsewhere)})
    with Client(site.address) as client:
        assert client.submit(nested).result()[0] == 1024


@pytest.mark.thorough
def test_a_refused_peer_learns_the_reason_within_a_second(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    stranger, other = KeyPair.new(), KeyPair.new()
    refused = {
        "is not on the list": site.changed("stranger", public=stranger.public, secret=stranger.secret),
        "is not the scheduler that the key in": site.changed("other", servers=[other.public]),
        "it was revoked": site.changed("revoked", **json.loads(Path(site.allow("bob")).read_text())),
    }
    site.revoke("bob")
    for text, file in refused.items():
        assert at_best(lambda text=text, file=file: refusal(text, site.address, file), SOON_SECONDS) < SOON_SECONDS  # type: ignore[misc]
    monkeypatch.setenv("SCALER_KEY_FOLDER", str(site.elsewhere))
    text = "accepts only peers with a key"
    assert at_best(lambda: refusal(text, site.address, None), SOON_SECONDS) < SOON_SECONDS


@pytest.mark.thorough
def test_an_async_client_is_refused_and_accepted_like_a_client(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.cluster()
    file = site.folder / "client.json"
    monkeypatch.setenv("SCALER_KEY_FOLDER", str(site.elsewhere))

    async def run() -> None:
        async with AsyncClient(file) as client:
            assert await client.submit(pow, 2, 10) == 1024
        async with AsyncClient(site.address) as client:
            with pytest.raises(AuthenticationError, match="accepts only peers with a key"):
                await client.submit(pow, 2, 10)

    asyncio.run(run())


def test_a_key_file_is_refused_for_another_role_and_if_other_users_can_read_it(site: Site) -> None:
    error, _ = failure(lambda: use(site.address, key_file=str(site.folder / "worker.json")))
    assert "is the key of a worker, which a client cannot use" in str(error)
    file = site.folder / "client.json"
    file.chmod(0o640)
    error, _ = failure(lambda: use(site.address, key_file=str(file)))
    assert "its mode is 640" in str(error)
    del error
    gc.collect()  # what they have left open would be a warning now, and warnings are errors
    cluster = site.cluster("--key-file", str(site.folder / "monitor.json"))
    cluster.wait_for("is the key of a monitor, which a worker cannot use")
    assert cluster.process.wait(30) == 2


@pytest.mark.thorough
def test_a_key_cannot_be_what_its_role_is_not_even_if_the_file_lies(site: Site) -> None:
    worker = json.loads((site.folder / "worker.json").read_text())
    client = json.loads((site.folder / "client.json").read_text())
    lying = site.changed("lying", public=worker["public"], secret=worker["secret"])
    error, _ = failure(lambda: use(site.address, key_file=lying))
    assert "the key of worker has the role worker, and a client needs the role client" in str(error)
    lying = site.changed("liar", public=client["public"], secret=client["secret"], role="worker")
    cluster = site.cluster("--key-file", lying, "--death-timeout-seconds", "5")
    cluster.wait_for("the key of client has the role client, and a cluster needs the role worker")
    assert cluster.process.wait(30) == 1


@pytest.mark.thorough
def test_revocation_ends_the_sessions_of_that_key_only_within_a_second(site: Site) -> None:
    site.cluster()
    names = iter("abcdefgh")

    def revoke() -> float:
        """Return how long her session goes on."""
        name = next(names)
        with Client(site.address) as ours, Client(site.allow(name)) as hers:
            her_task, our_tasks = hers.submit(wait_here, 60), [ours.submit(wait_here, 0.001) for _ in range(300)]
            wait_until(lambda: hers.story(her_task).state == "running", "her task to run")
            KeyFolder(site.folder).revoke(name, date.today())  # noqa: DTZ011 - as the command does
            began = time.monotonic()
            with pytest.raises(AuthenticationError, match="it was revoked"):
                her_task.result(timeout=30)
            taken = time.monotonic() - began
            assert {each.result(timeout=30) for each in our_tasks} == {"done"}  # her task gave up the only worker
            with pytest.raises(AuthenticationError, match="it was revoked"):
                hers.submit(pow, 2, 10)
        site.scheduler.wait_for(f"the key of {name} is no longer valid")
        return taken

    assert at_best(revoke, SOON_SECONDS) < SOON_SECONDS


def put_list(site: Site, text: str) -> None:
    write_private(site.folder / "allowed", text)


@pytest.mark.thorough
@pytest.mark.parametrize("trouble", ["folder", "digits", "mode"])
def test_revocation_works_after_the_list_could_not_be_read_and_holds_nothing_up(site: Site, trouble: str) -> None:
    site.cluster()
    file, place = site.allow("eve"), site.folder / "allowed"
    text = place.read_text()
    with Client(file) as hers:
        assert hers.submit(pow, 2, 10).result(timeout=60) == 1024
        if trouble == "folder":
            place.unlink()
            place.mkdir(0o700)
        elif trouble == "digits":
            put_list(site, f"{text}client zed {'a' * 40} tasks={'9' * 5000}\n")
        else:
            place.chmod(0o640)
        site.scheduler.wait_for("the list of keys cannot be read")
        assert hers.submit(pow, 2, 10).result(timeout=60) == use(file) == 1024, "the last good list holds"
        if place.is_dir():
            place.rmdir()
        put_list(site, text)
        site.scheduler.wait_for("the list of keys can be read again")
        site.revoke("eve")
        site.scheduler.wait_for("the key of eve is no longer valid")
        with pytest.raises(AuthenticationError, match="it was revoked"):
            hers.submit(pow, 2, 10).result(timeout=60)


@pytest.mark.thorough
def test_a_changed_role_or_owner_ends_the_sessions_of_that_line_and_of_no_other(site: Site) -> None:
    site.cluster()
    file, place = site.allow("boss", "admin"), site.folder / "allowed"
    with Client(file) as boss, Client(site.address) as other:
        assert boss.submit(pow, 2, 10).result(timeout=60) == other.submit(pow, 2, 10).result(timeout=60) == 1024
        put_list(site, place.read_text().replace("admin boss ", "client boss "))
        site.scheduler.wait_for("the key of boss is no longer valid")
        assert boss.submit(pow, 2, 10).result(timeout=60) == 1024, "it comes back as a client"
        with pytest.raises(NotAllowedError, match="the key of boss has the role client: only an admin may"):
            boss.restart_workers()
        put_list(site, place.read_text().replace("client boss ", "client clerk "))
        wait_until(lambda: site.scheduler.output.count("the key of boss is no longer valid") == 2, "its second end")
        assert boss.submit(pow, 2, 10).result(timeout=60) == 1024
        lines = place.read_text().splitlines(keepends=True)
        put_list(site, "".join(each if each[0] == "#" else each.replace("\n", " share=2\n") for each in lines))
        site.allow("zoe")
        use(site.folder / "zoe.json")  # the list has been read since
        assert other.submit(pow, 2, 10).result(timeout=60) == 1024
    assert site.scheduler.output.count("is no longer valid") == 2, "no other session has ended"


@contextlib.contextmanager
def let_in(
    context: zmq.Context[zmq.Socket[bytes]], file: KeyFile, address: str
) -> Iterator[tuple[zmq.Socket[bytes], zmq.Socket[bytes]]]:
    """Yield a connection that was let in and has sent nothing yet, and the events of its socket."""
    with context.socket(zmq.SUB if file.role == "monitor" else zmq.DEALER) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.RECONNECT_IVL, -1)
        show(socket, file)
        with socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED) as events:
            socket.connect(address)
            assert recv_monitor_message(events)["event"] == zmq.EVENT_HANDSHAKE_SUCCEEDED
            yield socket, events
            socket.disable_monitor()


def is_let_in(context: zmq.Context[zmq.Socket[bytes]], file: KeyFile, address: str) -> bool:
    """Return whether a connection with this key is let in."""
    try:
        with let_in(context, file, address):
            return True
    except AssertionError:  # it was hung up on
        return False


@pytest.mark.parametrize("change", ["revoked", "expired", "removed"])
@pytest.mark.parametrize("role", ["client", "worker", "monitor"])
def test_a_connection_accepted_before_its_key_was_revoked_gets_no_session_after_that(
    site: Site, role: str, change: str
) -> None:
    """Its first message comes when the key is not good any more: a hello, or what a viewer subscribes to."""
    file = KeyFile.read(Path(site.allow("eve", role)))
    versions = (PROTOCOL_VERSION, "0", "", "")
    hellos = {
        "client": (CLIENT_TO_SCHEDULER, ClientHello(*versions, random_id())),
        "worker": (AGENT_TO_SCHEDULER, WorkerHello(*versions, random_id(), "w", b"", agent_token=random_id())),
    }
    address = site.monitor if role == "monitor" else site.address
    with zmq.Context() as context, let_in(context, file, address) as (socket, events):
        lines = (site.folder / "allowed").read_text().splitlines(keepends=True)
        of_eve = [line for line in lines if file.public in line]
        if change == "revoked":
            site.revoke("eve")
        elif change == "expired":
            until = [line.replace("\n", " until=2020-01-01\n") if line in of_eve else line for line in lines]
            put_list(site, "".join(until))
        else:
            put_list(site, "".join(line for line in lines if line not in of_eve))
        zoe = KeyFile.read(Path(site.allow("zoe")))
        wait_until(lambda: is_let_in(context, zoe, site.address), "the list to be read")
        if role == "monitor":
            socket.setsockopt(zmq.SUBSCRIBE, b"")
        else:
            direction, hello = hellos[role]
            socket.send(encode_message(direction, [hello])[0])
        assert recv_monitor_message(events)["event"] == zmq.EVENT_DISCONNECTED
        assert not socket.poll(0), socket.recv_multipart()


@pytest.mark.thorough
def test_a_cluster_whose_key_is_revoked_ends_and_its_tasks_run_elsewhere(site: Site) -> None:
    lost = site.cluster("--key-file", site.allow("node7", "worker"))
    lost.wait_for("up: scheduler")
    with Client(site.address) as client:
        future = client.submit(wait_here, 1.0)
        wait_until(lambda: client.story(future).state == "running", "the task to run")
        site.revoke("node7")
        lost.wait_for("the cluster ends: the scheduler at")
        assert lost.process.wait(30) == 1
        site.cluster()
        assert future.result(timeout=60) == "done"


@pytest.mark.thorough
def test_only_an_admin_ends_the_scheduler(site: Site) -> None:
    with Client(site.folder / "client.json") as client, pytest.raises(ClientShutdownException, match="only an admin"):
        client.shutdown()
    with Client(site.folder / "admin.json") as client:
        client.shutdown()
    assert site.scheduler.process.wait(30) == 0


def restart_from_a_task() -> None:
    with Client() as client:
        client.restart_workers()


@pytest.mark.thorough
def test_only_an_admin_replaces_worker_processes_and_no_task_does(site: Site) -> None:
    site.cluster()
    with Client(site.folder / "client.json") as client:
        with pytest.raises(NotAllowedError, match="the key of client has the role client: only an admin may"):
            client.restart_workers()
        before = client.submit(os.getpid).result()
        with pytest.raises(NotAllowedError, match="only an admin may"):
            client.submit(restart_from_a_task).result()
        assert client.submit(os.getpid).result() == before
        with Client(site.address) as admin:
            admin.restart_workers()
        assert client.submit(os.getpid).result() != before


def test_a_task_is_no_admin_at_a_scheduler_without_keys() -> None:
    with Client(n_workers=1) as client:
        with pytest.raises(NotAllowedError, match="this is a client in a task: only an admin may"):
            client.submit(restart_from_a_task).result()
        client.restart_workers()


@pytest.mark.thorough
def test_viewers_on_tcp_need_a_key_that_may_watch(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    viewer = Subscriber(site.monitor, ["scheduler"])
    wait_until(viewer.receive, "news of the scheduler")
    viewer.close()
    file = site.allow("eve", "monitor")
    monkeypatch.setenv("SCALER_KEY_FOLDER", str(site.elsewhere))
    viewer = Subscriber(site.monitor, ["scheduler"], key_file=file)
    wait_until(viewer.receive, "news of the scheduler")
    site.revoke("eve")
    wait_until(lambda: (viewer.receive(), "revoked" in viewer.problem)[1], "its refusal")
    viewer.close()
    stranger = Subscriber(site.monitor, ["scheduler"])
    wait_until(lambda: (stranger.receive(), "only peers with a key" in stranger.problem)[1], "its refusal")
    stranger.close()
    top = Command("top", site.monitor, "--once", "--timeout", "20", "--key-file", str(site.folder / "monitor.json"))
    assert top.end() == 0
    assert "scheduler" in top.output
    top.kill_all()
    stream = Endpoint.parse(site.monitor).with_key(str(site.folder / "admin.json"))
    recorder = Recorder(stream, str(site.elsewhere / "run.json"))  # those of a client with this key
    recorder.stop()
    page_of_client = PageProcess(stream)
    url, token = page_of_client.url.split("?token=")
    wait_until(lambda: "scaler_workers 0" in asked(f"{url}metrics", token)[1], "the page has news of the scheduler")
    page_of_client.shutdown()
    sizes = ("--max", "1", "--each", "1", "--up", "true")
    page = site.start("ui", site.monitor, "--port", "0")
    scale = site.start("scale", site.address, *sizes, "--monitor-address", site.monitor)
    for command, text in ((page, "nothing is shown"), (scale, "no messages from the scheduler")):
        command.wait_for(f"{text}: the scheduler at {site.monitor} accepts only peers with a key")


def asked(url: str, token: str) -> tuple[int, str]:
    """Return what the server of the page answers to a program that knows its token."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.mark.thorough
def test_a_page_whose_key_is_revoked_stops_and_shows_the_reason(site: Site, tmp_path: Path) -> None:
    file, token_file = site.allow("eve", "monitor"), tmp_path / "token"
    page = site.start(
        "ui", site.monitor, "--port", "0", "--token-file", str(token_file), "--key-file", file,
        "--store", str(tmp_path / "history"),
    )  # fmt: skip
    url = page.wait_for("?token=").strip().partition("?")[0]
    token = token_file.read_text().strip()
    site.cluster()
    assert use(site.address) == 1024
    wait_until(lambda: "scaler_workers 1" in asked(f"{url}metrics", token)[1], "the page has news of the cluster")
    site.revoke("eve")
    wait_until(lambda: asked(f"{url}metrics", token)[0] == 403, "the page shows nothing any more")
    page.wait_for("nothing is shown: the scheduler at")
    for path in ("", "metrics", "static/app.js", "socket"):
        status, text = asked(url + path, token)
        assert status == 403
        assert "it was revoked" in text
        assert "it was revoked" not in asked(url + path, "wrong")[1]
    assert asked(f"{url}healthz", token) == (200, "ok\n")


def hold_a_client(sign: str) -> None:
    """Be a client until the end of the process."""
    with Client() as client:
        client.submit(pow, 2, 10)
        Path(sign).touch()
        time.sleep(60)


@pytest.mark.thorough
def test_clients_in_tasks_have_the_key_of_their_cluster_and_end_with_it(site: Site) -> None:
    cluster = site.cluster("--key-file", site.allow("node7", "worker"))
    sign = site.elsewhere / "sign"
    with Client(site.address) as client:
        future = client.submit(hold_a_client, str(sign))
        wait_until(sign.exists, "a client in a task")
        site.revoke("node7")
        wait_until(
            lambda: site.scheduler.output.count("is ended: the key of node7 is no longer valid") == 2,
            "the sessions of the cluster and of the client in its task have ended",
        )
        assert cluster.process.wait(30) == 1
        future.cancel()


@pytest.mark.thorough
def test_a_new_key_of_the_scheduler_loses_no_task(site: Site) -> None:
    site.cluster()
    with Client(site.address) as client:
        futures = [client.submit(wait_here, 0.01) for _ in range(50)]
        keys("rotate", "--folder", str(site.folder))
        site.scheduler.signal(signal.SIGTERM)
        assert site.scheduler.end() == 0
        again = site.start("scheduler", site.address)
        again.wait_for("only programs with a key can connect")
        assert [future.result(timeout=60) for future in futures] == ["done"] * 50
        assert client.submit(pow, 2, 10).result(timeout=60) == 1024
    assert use(site.address) == 1024


def secrets_of(folder: Path) -> set[str]:
    files = [json.loads(file.read_text()) for file in folder.glob("*.json")]
    server = json.loads((folder / "scheduler.key").read_text())
    return {file["secret"] for file in files} | {pair["secret"] for pair in server["keys"]}


@pytest.mark.thorough
def test_no_secret_is_in_logs_environments_or_command_lines(site: Site) -> None:
    """In command lines, environments, logs, texts, pickles, and what viewers hear."""
    cluster = site.cluster("--logging-level", "DEBUG")
    said: list[str] = []
    with Client(site.folder / "client.json") as client:
        viewer = Viewer(site.monitor, "")
        future = client.submit(nested)
        said.append(repr((client, future.result(), future, client.workers(), client.info(), client.story(future))))
        said.append(str(client.submit(os.environ.copy).result()))
        with pytest.raises(ZeroDivisionError) as failed:
            client.submit(divmod, 1, 0).result()
        said.append(repr(failed.value.__cause__))
        said += [pickle.dumps(each).decode("latin-1") for each in (client, client.info(), Endpoint.parse(site.address))]
        config = ClusterConfig(site.address, 1, key_file=str(site.folder / "worker.json"))
        said += [repr(config), config.to_json(), pickle.dumps(config).decode("latin-1")]
        heard = b""
        while b"\0" not in heard or len(heard) < 1000:  # some of what all topics have
            heard += b"\0".join(viewer.socket.recv_multipart())
        said.append(heard.decode("latin-1"))
        viewer.close()
        for pid in {site.scheduler.pid, cluster.pid, *descendants(cluster.pid)}:
            said += [Path(f"/proc/{pid}/{name}").read_text("latin-1") for name in ("cmdline", "environ")]
    said += [site.scheduler.output, cluster.output]
    secrets = secrets_of(site.folder)
    assert len(secrets) == 5
    assert not [secret for secret in secrets for text in said if secret in text]


def memory_of(pid: int) -> Iterator[bytes]:
    """Give what a core dump of a process would have."""
    with Path(f"/proc/{pid}/mem").open("rb", 0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            place, rights = line.split()[:2]
            begin, end = (int(number, 16) for number in place.split("-"))
            if rights.startswith("r") and "[v" not in line:  # the kernel's own pages cannot be read
                yield os.pread(memory.fileno(), end - begin, begin)


@pytest.mark.thorough
def test_the_memory_of_the_scheduler_has_its_own_secret_and_no_secret_of_its_peers(site: Site) -> None:
    clients = [site.allow("alice"), site.allow("bob")]
    for file in clients:
        with Client(file) as client:  # the workers are away: its task waits
            client.submit(pow, 2, 10)
    secrets = {Path(file).stem: json.loads(Path(file).read_text())["secret"] for file in clients}
    secrets["scheduler"] = json.loads((site.folder / "scheduler.key").read_text())["keys"][0]["secret"]
    forms = {form: name for name, secret in secrets.items() for form in (secret.encode(), z85.decode(secret))}
    found = {name for part in memory_of(site.scheduler.pid) for form, name in forms.items() if form in part}
    assert found == {"scheduler"}


def test_errors_of_scaler_keys_are_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "scaler.cli.keys"]
    env = {**os.environ, "SCALER_KEY_FOLDER": str(tmp_path)}
    for arguments, text in (
        (["list"], "there are no keys in"),
        (["new", "ipc:///tmp/x"], "keys are for TCP"),
        (["new", "nowhere"], "is not an address"),
        (["check", str(tmp_path / "none")], "No such file"),
        (["allow", "alice", "--role", "client", "--until", "soon"], "is not a date such as 2027-01-31"),
    ):
        done = subprocess.run([*command, *arguments], env=env, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode in (1, 2), arguments
        assert text in done.stderr.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []

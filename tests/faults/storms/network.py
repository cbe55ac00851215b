"""The networks of a storm: plain loopback, a proxy for each peer, or a network namespace for each host.

Namespaces are the real thing: each host has a cable to one switch, and the kernel drops, slows down and resets. They
need root, iproute2 and nftables, and what this kernel lacks (delays) is done by proxies. **Up** is from a host.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Sequence
from typing import Protocol

from tests.support.keys import make
from tests.support.processes import free_address
from tests.support.proxy import Proxy

SCHEDULER = "scheduler"
PORT = 7000


class Network(Protocol):
    """What faults may do to the network of one host."""

    listens: str

    def add(self, host: str) -> None: ...

    def prefix(self, host: str) -> Sequence[str]:
        """Return what runs a command on the host."""

    def address(self, host: str) -> str:
        """Return the scheduler's address, as the host has it."""

    def drop(self, host: str, up: bool, down: bool) -> None:
        """From now on, nothing passes in these directions."""

    def unplug(self, host: str) -> None:
        """The link of the host is down."""

    def heal(self, host: str) -> None: ...

    def reset(self, host: str) -> None:
        """All connections of the host end with a RST."""

    def close(self) -> None: ...


class Loopback:
    """No network at all: nothing can be cut."""

    def __init__(self) -> None:
        self.listens = free_address()

    def add(self, host: str) -> None: ...

    def prefix(self, host: str) -> Sequence[str]:
        return ()

    def address(self, host: str) -> str:
        return self.listens

    def drop(self, host: str, up: bool, down: bool) -> None:
        raise NotImplementedError

    def unplug(self, host: str) -> None:
        raise NotImplementedError

    def heal(self, host: str) -> None: ...

    def reset(self, host: str) -> None:
        raise NotImplementedError

    def close(self) -> None: ...


class Proxies:
    """A proxy between each peer and the scheduler."""

    def __init__(self, rate: float | None = None, delay: float = 0.0) -> None:
        self.listens = free_address()
        make(self.listens)  # proxies are there before the scheduler
        self._rate, self._delay = rate, delay
        self._proxies: dict[str, Proxy] = {}

    def add(self, host: str) -> None:
        if host != SCHEDULER:
            self._proxies[host] = Proxy(self.listens, self._rate, self._delay)

    def prefix(self, host: str) -> Sequence[str]:
        return ()

    def address(self, host: str) -> str:
        return self.listens if host == SCHEDULER else self._proxies[host].address

    def _of(self, host: str) -> list[Proxy]:
        return list(self._proxies.values()) if host == SCHEDULER else [self._proxies[host]]

    def drop(self, host: str, up: bool, down: bool) -> None:
        if host == SCHEDULER:  # its up is down for all others
            up, down = down, up
        for proxy in self._of(host):
            proxy.swallow(up, down)

    def unplug(self, host: str) -> None:
        self.drop(host, True, True)

    def heal(self, host: str) -> None:
        for proxy in self._of(host):
            proxy.pass_on()

    def reset(self, host: str) -> None:
        for proxy in self._of(host):
            proxy.reset()

    def close(self) -> None:
        for proxy in self._proxies.values():
            proxy.close()


class Namespaces:
    """A network namespace for each host, and one that is the switch between them."""

    def __init__(self, rate: float | None = None, loss: float = 0.0) -> None:
        self._name = f"storm{uuid.uuid4().hex[:6]}"
        self._rate, self._loss = rate, loss
        self._hosts: list[str] = []
        self._dropped: dict[str, tuple[bool, bool]] = {}
        self.listens = f"tcp://10.77.0.1:{PORT}"
        _run("ip", "netns", "add", self._switch)
        try:
            self._in_switch("ip", "link", "add", "dev", "switch", "type", "bridge")
            self._in_switch("ip", "link", "set", "dev", "switch", "up")
            self.add(SCHEDULER)
        except BaseException:
            self.close()
            raise

    @staticmethod
    @functools.cache
    def can_be_made() -> bool:
        """Return whether this user may make them here: in a container, root often may not."""
        if os.geteuid() != 0 or not all(shutil.which(each) for each in ("ip", "nft", "ss", "tc")):
            return False
        try:
            Namespaces().close()
        except RuntimeError:
            return False
        return True

    @property
    def _switch(self) -> str:
        return f"{self._name}-switch"

    def _in_switch(self, *command: str, text: str | None = None) -> None:
        _run("ip", "netns", "exec", self._switch, *command, text=text)

    def _port(self, host: str) -> str:
        return f"port{self._hosts.index(host) + 1}"

    def add(self, host: str) -> None:
        if host in self._hosts:
            return
        self._hosts.append(host)
        port, space = self._port(host), f"{self._name}-{host}"
        _run("ip", "netns", "add", space)
        _run(*f"ip link add dev cable netns {space} type veth peer name {port} netns {self._switch}".split())
        self._in_switch(*f"ip link set dev {port} master switch up".split())
        inside = [*self.prefix(host), "ip"]
        _run(*inside, "addr", "add", f"10.77.0.{len(self._hosts)}/24", "dev", "cable")
        _run(*inside, "link", "set", "dev", "cable", "up")
        _run(*inside, "link", "set", "dev", "lo", "up")
        if self._rate:
            shaping = f"root tbf rate {int(self._rate * 8)}bit burst 64kb latency 100ms".split()
            self._in_switch("tc", "qdisc", "add", "dev", port, *shaping)
            _run(*self.prefix(host), "tc", "qdisc", "add", "dev", "cable", *shaping)
        self._apply()

    def prefix(self, host: str) -> Sequence[str]:
        return ("ip", "netns", "exec", f"{self._name}-{host}")

    def address(self, host: str) -> str:
        return self.listens

    def drop(self, host: str, up: bool, down: bool) -> None:
        self._dropped[host] = (up, down)
        self._apply()

    def unplug(self, host: str) -> None:
        self._in_switch("ip", "link", "set", "dev", self._port(host), "down")

    def heal(self, host: str) -> None:
        self._in_switch("ip", "link", "set", "dev", self._port(host), "up")
        self._dropped.pop(host, None)
        self._apply()

    def reset(self, host: str) -> None:
        _run(*self.prefix(host), "ss", "-K", "-t", "state", "established", quiet=True)

    def _apply(self) -> None:
        """Write all rules of the switch at once. ARP passes, as it would if hosts were not neighbours."""
        rules = [f"ether type ip numgen random mod 1000 < {int(self._loss * 1000)} drop"] if self._loss else []
        for host, (up, down) in self._dropped.items():
            rules += [f"ether type ip iifname {self._port(host)} drop"] * up
            rules += [f"ether type ip oifname {self._port(host)} drop"] * down
        body = "\n".join(rules)
        self._in_switch(
            *("nft", "-f", "-"),
            text="add table bridge storm\ndelete table bridge storm\n"
            "table bridge storm {\nchain forward {\ntype filter hook forward priority 0;\n" + body + "\n}\n}\n",
        )

    def spaces(self) -> list[str]:
        """Return the names of its namespaces that are there."""
        found = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
        return [name for line in found.stdout.splitlines() if (name := line.split()[0]).startswith(self._name)]

    def close(self) -> None:
        for each in (*(f"{self._name}-{host}" for host in self._hosts), self._switch):
            deadline = time.monotonic() + 5
            while _spaces_hold(each) and time.monotonic() < deadline:
                time.sleep(0.05)
            with contextlib.suppress(RuntimeError):
                _run("ip", "netns", "del", each)


def _spaces_hold(space: str) -> bool:
    found = subprocess.run(["ip", "netns", "pids", space], capture_output=True, text=True, check=False)
    return bool(found.stdout.strip())


def _run(*command: str, text: str | None = None, quiet: bool = False) -> None:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode and not quiet:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")

"""Hellos: reads the hellos of peers for the acceptor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, islice, repeat
from typing import NamedTuple

from scaler.actors.vocabulary.events import PeerIdentity
from scaler.actors.vocabulary.needs import Offer
from scaler.actors.vocabulary.owners import Owner
from scaler.actors.vocabulary.peer import Peer
from scaler.amounts import AMOUNT_MOST
from scaler.ids import NO_ID, TaskId
from scaler.keys.allowed import AllowedKey
from scaler.keys.key_file import ADMIN, CLIENT, WORKER
from scaler.wire.messages.capabilities import from_text
from scaler.wire.messages.client import ClientHello
from scaler.wire.messages.columns import ROWS_MOST
from scaler.wire.messages.rows import row_ids
from scaler.wire.messages.worker import HELD_MOST, HELD_OWNER, HELD_RUN, RunCancel, WorkerHello

NAMES_LISTED = 8
"""Limit of the names of workers in one line of the log."""


def identity_of(hello: ClientHello | WorkerHello, owner: str = "") -> PeerIdentity:
    """Return the description of a peer from its hello and its owner."""
    if isinstance(hello, ClientHello):
        versions = hello.package_version, hello.python_version
        return PeerIdentity(hello.client_id, *versions, label=hello.label, owner=owner)
    names = names_of(hello)
    versions = hello.package_version, hello.python_version
    taking = names[: max(0, len(names) - hello.closed)]
    has = from_text(hello.capabilities)
    is_named_only, takes_rows = bool(hello.named_only), bool(hello.takes_rows)
    own = (hello.agent_id, *versions, taking, has)
    return PeerIdentity(*own, named_only=is_named_only, takes_rows=takes_rows, owner=owner)


def names_of(hello: WorkerHello) -> tuple[str, ...]:
    """Return the names of all workers of an agent, including the workers that take no tasks now."""
    return tuple(hello.worker_names.split(","))


class HeldRun(NamedTuple):
    """A run, or a row of a range, that an agent reports in its hello."""

    task_id: TaskId
    attempt: int
    worker: int
    owner: int
    is_row: bool = False
    """whether the agent has the run as a row of a range, and will send one result for all rows"""


def held_by(hello: WorkerHello) -> list[HeldRun]:
    """Return the runs in the hello of an agent, `HELD_MOST` at most, with one entry for each row of a range.

    The tag of the owner is 0 if the hello does not name the owner. A hello may name the running row of a range that has
    ended early twice: alone, and with the rows before.
    """
    owners = chain((tag for (tag,) in HELD_OWNER.iter_unpack(hello.held_owners)), repeat(0))
    runs = zip(HELD_RUN.iter_unpack(hello.held), owners, strict=False)
    rows = (
        HeldRun(row, attempt, worker, owner, n_rows > 0)
        for (task_id, attempt, worker, n_rows), owner in runs
        for row in row_ids(task_id, min(n_rows, ROWS_MOST))
    )
    held: dict[tuple[TaskId, int], HeldRun] = {}
    for run in islice(rows, HELD_MOST):
        if run.is_row or run[:2] not in held:
            held[run[:2]] = run
    return list(held.values())


def runs_of_workers(held: Iterable[HeldRun], workers: int) -> tuple[list[list[HeldRun]], list[RunCancel]]:
    """Return the held runs of each worker, and a `RunCancel` for each run of a worker that does not exist."""
    of_workers: list[list[HeldRun]] = [[] for _ in range(workers)]
    refused: list[RunCancel] = []
    for run in held:
        if run.worker < workers:
            of_workers[run.worker].append(run)
        else:
            refused.append(RunCancel(run.task_id, run.worker, run.attempt))
    return of_workers, refused


def listed(names: Sequence[str]) -> str:
    """Return names as text for the log: the first `NAMES_LISTED` names, and the number of further names."""
    rest = len(names) - NAMES_LISTED
    return ", ".join(names[:NAMES_LISTED]) + (f" and {rest} more" if rest > 0 else "") or "-"


def offer_of(identity: PeerIdentity, workers: int) -> Offer:
    """Return the resources of an agent's node: its capabilities, and its Python in unlimited amount."""
    amounts = dict(identity.capabilities)
    minor = ".".join(identity.python_version.split(".")[:2])
    if "." in minor and not identity.named_only:
        amounts.setdefault(f"python{minor}", AMOUNT_MOST)
    return Offer(tuple(sorted(amounts.items())), workers, identity.named_only)


def wrong_python(kind: str, own: str, of_workers: str) -> str:
    """Return the sentence that refuses a peer whose Python differs from that of the workers."""
    return (
        f"this {kind} runs Python {own}, the connected workers run Python {of_workers}: functions cannot "
        f"travel between them; run both with the same minor version of Python"
    )


def wrong_owner(owner: Owner, known: Owner | None) -> str:
    """Return why a hello may not resume the session of the owner `known` (None: no session); empty if the hello may."""
    return "" if known in (None, owner) else f"its id is in use by a peer that does not belong to {owner}"


def wrong_key(permit: AllowedKey | None, hello: ClientHello | WorkerHello) -> str:
    """Return why a key does not permit a hello; empty if the key does, or if no key is needed (`permit` is None)."""
    if permit is None:
        return ""
    if isinstance(hello, WorkerHello):
        is_allowed, what = permit.role == WORKER, "a cluster needs the role worker"
    elif hello.agent_token != NO_ID:  # the token is checked next
        is_allowed, what = permit.role == WORKER, "a client in a task needs the key of its cluster"
    else:
        is_allowed, what = permit.role in (CLIENT, ADMIN), "a client needs the role client"
    return "" if is_allowed else f"the key of {permit.name} has the role {permit.role}, and {what} (scaler_keys allow)"


def is_admin(permit: AllowedKey | None, hello: ClientHello | WorkerHello) -> bool:
    """Return whether the sender of a hello may do what affects other owners.

    A client with the role admin may, and any client where no key is needed: its user can read the scheduler's keys, or
    enter its ipc folder. Code in a task may not, because any client may have submitted that code.
    """
    is_in_task = hello.agent_token != NO_ID
    return isinstance(hello, ClientHello) and not is_in_task and (permit is None or permit.role == ADMIN)


def why_not_admin(peer: Peer, what: str) -> str:
    """Return why a peer may not do what only admins may do; empty if the peer may."""
    if peer.is_admin:
        return ""
    who = (
        "this is a client in a task"
        if peer.permit is None
        else f"the key of {peer.permit.name} has the role {peer.permit.role}"
    )
    return f"{who}: only an admin may {what}"


def language_of(hello: ClientHello | WorkerHello) -> str:
    """Return the programming language of a peer, for the log."""
    version = hello.python_version
    return f"Python {version}" if version[:1].isdigit() or not version else version


def python_of(hello: ClientHello | WorkerHello) -> str:
    """Return the minor version of Python of a peer, such as 3.11; empty for a peer that does not pickle."""
    minor = ".".join(hello.python_version.split(".")[:2])
    return minor if hello.cloudpickle_version and "." in minor else ""

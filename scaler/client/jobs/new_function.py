"""New function: replace the function of a job whose rows the program does not have.

Called by `Job.retry`, in the thread of the user. The scheduler keeps the rows and their results.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from scaler.client.core import Core
from scaler.client.jobs.comparing.fingerprint import differences, fingerprint
from scaler.client.jobs.in_use import jobs_of
from scaler.client.jobs.job_requests import Info, ask
from scaler.client.jobs.opening import PYTHON, JobWork, other_python, warn_not_compared
from scaler.client.link.requests import JobQuestion
from scaler.config import ConfigError
from scaler.errors import JobConflictError, JobError
from scaler.ids import PREFIX_BYTES
from scaler.texts import shown
from scaler.wire.messages.client import JobOpenFlags, JobVerb


def replace_function(core: Core, name: str, info: Info, work: bytes, fn: Callable[..., Any]) -> None:
    """Start a new version of a job with another function. If the function is the same, nothing changes.

    Args:
        work: the id of the job's record and the number of the work, as the caller knows them.

    Raises:
        JobConflictError: if another call uses or has changed the job, or another version of Python made it.
        JobError: if the job cannot be changed.
        TypeError, SerializeObjectError: as for `Client.map`.
    """
    link = core.link
    link.check_open()
    if link.is_nested:
        raise ConfigError("a task cannot change a job: return the rows from the task, and change the job outside")
    if not callable(fn):
        raise TypeError(f"retry(fn) takes a function, not {shown(fn)}: the job has the arguments of its rows")
    in_use = jobs_of(core)
    core.functions.look()
    function, sources = core.functions.get(fn), core.functions.sources()
    found = fingerprint(fn, sources, in_use.digest_of)
    refusal = f"the function of the job {name!r} cannot be replaced"
    if info["python"] != PYTHON:
        raise JobConflictError(f"{refusal}: {other_python(info)}")
    if not (found.not_compared or differences(info["fingerprint"], found.parts)):
        return
    if in_use.n_calls(name):
        raise JobConflictError(f"{refusal} now: another call of this program uses it")
    if name != info["name"]:  # an admin has named the owner, too
        raise JobError(f"{refusal}: only its owner, {info['owner']}, can replace it")
    terms = info["priority"], info["task_name"], bytes.fromhex(info["options"]), 0, 0
    kept = info["attended"], None, info["max_failures"]
    body = json.dumps(JobWork(name, fn, function, sources, (), terms, *kept).described(found.parts)).encode()
    new, flags = function.instruction, JobOpenFlags.NEW_VERSION | JobOpenFlags.SAME_ROWS
    record, known = work[:PREFIX_BYTES], int.from_bytes(work[PREFIX_BYTES:], "little")
    # The function comes first, so that a version always has one.
    ask(link, JobQuestion(JobVerb.OBJECT, name, 0, int(new.kind), new.object_id, new.frames, record))
    try:
        ask(link, JobQuestion(JobVerb.OPEN, name, known, flags, body, (), record))
    except JobConflictError:
        raise
    except JobError as error:
        raise JobError(f"{refusal} now: {error}") from None
    warn_not_compared(name, found)

"""Keyring: the keys that a peer tries at one scheduler, and why the scheduler refused them, if it did.

Belongs to a transport. The sockets of the transport try one key at a time, and report the result. A peer has several
keys if its host has several names, and while the key of the scheduler is being replaced. A peer that has a key never
connects without a key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import zmq

from scaler.config import ConfigError
from scaler.endpoint import Endpoint
from scaler.keys.key_file import KeyFile
from scaler.transport.admission.listener_probe import ListenerProbe

NO_LONGER_LISTED, NOT_LISTED = 500, 400
"""The ZAP status codes for refused keys: for a key that was accepted before, and for an unknown key."""

SILENT_REFUSALS = 3
"""The number of silent disconnections in a row that count as a refusal. A scheduler disconnects silently from a peer
that has a wrong public key of the scheduler. A scheduler that is ending also disconnects silently, but fewer times.
"""

_FROM_SCHEDULER = 2
"""The least weight (`Keyring._meaning`) of failures that only the scheduler of the key file can cause."""

_WITH_KEYS, _WITHOUT_KEYS = "CURVE", "NULL"
_MISMATCH = int(zmq.PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH)
_AUTH, _PROTOCOL = int(zmq.EVENT_HANDSHAKE_FAILED_AUTH), int(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL)
FAILURES = _AUTH | _PROTOCOL | int(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL)


class _Try(NamedTuple):
    """One key of the peer, with one public key that the scheduler may have."""

    file: KeyFile
    server: str


def _tries(keys: Sequence[KeyFile]) -> list[_Try]:
    return [_Try(key, server) for key in keys for server in key.servers]


class Keyring:
    """The keys that a peer tries at one address.

    Args:
        read: returns the keys, the likeliest first. If `read` returns no keys, the peer connects without a key. Called
            again when no key fits, because the scheduler's key may have been replaced.

    Raises:
        ConfigError: if the keys cannot be read.
    """

    def __init__(self, endpoint: Endpoint, read: Callable[[], Sequence[KeyFile]]) -> None:
        self._endpoint = endpoint
        self._read = read
        self._tries = _tries(read())
        self._probe = ListenerProbe(endpoint)
        self._at = 0
        self._silent = 0
        self._failed = 0
        self._best = (0, "")
        """the weight and the sentence of the most informative failed try so far"""
        self.refusal = ""
        """why this peer cannot connect, as a sentence for people; empty as long as the peer may succeed"""

    @property
    def is_refused_by_scheduler(self) -> bool:
        """Whether the scheduler itself refused all keys; if False, another program may listen at the address."""
        return bool(self.refusal) and self._best[0] >= _FROM_SCHEDULER

    def retry(self) -> None:
        """Try all keys again, if all were refused before."""
        if self.refusal:
            self.reset()

    def apply_to(self, socket: zmq.Socket[bytes]) -> None:
        """Set the key that is tried now on a socket that is not connected yet."""
        if self._tries:
            now = self._tries[self._at]
            socket.setsockopt_string(zmq.CURVE_SERVERKEY, now.server)
            socket.setsockopt_string(zmq.CURVE_PUBLICKEY, now.file.public)
            socket.setsockopt_string(zmq.CURVE_SECRETKEY, now.file.secret)

    def reset(self) -> None:
        """Forget all failures, because a key fits or all keys are tried again."""
        self._silent = self._failed = 0
        self._probe.mechanism = ""
        self._best = (0, "")
        self.refusal = ""

    def failed(self, event: int, value: int) -> None:
        """Handle a failed handshake, given the event of ZeroMQ that reports the failure, and the event's value."""
        asks_for = self._probe.mechanism
        is_mismatch = event == _PROTOCOL and value == _MISMATCH
        if not self._tries:
            if is_mismatch or asks_for == _WITH_KEYS:
                if not self._has_new_keys():  # the scheduler may have made some since
                    self.refusal = self._no_file()
            elif event not in (_AUTH, _PROTOCOL):
                self._probe.ask()
            return
        weight, sentence = self._meaning(event, value, has_no_keys=is_mismatch or asks_for == _WITHOUT_KEYS)
        if not weight:
            self._probe.ask()
            self._silent += 1
            if self._silent < SILENT_REFUSALS or asks_for != _WITH_KEYS:
                return  # a tunnel also disconnects all peers while its scheduler is down
        self._try_next(weight, sentence)

    def _try_next(self, weight: int, sentence: str) -> None:
        self._silent = 0
        if not self._best[1] or weight > self._best[0]:
            self._best = weight, sentence
        self._failed += 1
        n_tries = len(self._tries)
        # While a scheduler with a new key follows the one with the old key, each key may have met the other scheduler.
        is_over = self._failed >= n_tries and (n_tries == 1 or self._best[0] > 0 or self._failed >= 2 * n_tries)
        self._at = (self._at + 1) % n_tries
        if is_over and not self._has_new_keys():
            self.refusal = self._best[1]

    def _has_new_keys(self) -> bool:
        try:
            tries = _tries(self._read())
        except ConfigError:
            return False
        if {*tries} <= {*self._tries}:
            return False
        self._tries, self._at = tries, 0
        self.reset()
        return True

    def _meaning(self, event: int, value: int, *, has_no_keys: bool) -> tuple[int, str]:
        """Return the weight of a failure, and a sentence about it. A more informative failure has a greater weight."""
        file, at = self._tries[self._at].file, self._endpoint
        if event == _AUTH and value == NO_LONGER_LISTED:
            return 3, (
                f"the scheduler at {at} no longer accepts the key in {file}: it was revoked or has expired; ask an "
                "admin of the scheduler for a new one (scaler_keys allow)"
            )
        if event == _AUTH:
            return 2, (
                f"the key in {file} is not on the list of the scheduler at {at}, or has another role; ask an admin of "
                "the scheduler for another one (scaler_keys allow)"
            )
        if has_no_keys:
            return 1, (
                f"the program that listens at {at} has no keys, though {file} is a key for it: it is another program, "
                "or a scheduler without keys. Do not trust it before you know. If it is the scheduler, remove the file"
            )
        return 0, (
            f"the program at {at} is not the scheduler that the key in {file} is for: the scheduler has a new key, or "
            "it is another program; ask an admin of the scheduler for its present file"
        )

    def _no_file(self) -> str:
        return (
            f"the scheduler at {self._endpoint} accepts only peers with a key, and this user has none for it: ask an "
            "admin for a key file (scaler_keys allow), and name it as key_file, --key-file or SCALER_KEY_FILE"
        )

"""KeyRegistry: the keys that a scheduler accepts now, and the changes of the list of keys.

Called for each connection and each hello. The list is read again when the file has changed. An editor may empty the
file before it writes the keys. So a key that is missing in the file is removed only if it is still missing at the next
check. While the list cannot be read, the last good list is used, and an error is logged each minute.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from datetime import date

from scaler.actors.vocabulary.services import WriteAudit as Tell
from scaler.actors.vocabulary.services import no_audit
from scaler.config import ConfigError
from scaler.keys.allowed import KEY_SHOWN, AllowedKey, Lockout, OwnerTerms
from scaler.keys.folder import KeyFolder
from scaler.keys.key_file import ADMIN, CLIENT, MONITOR, WORKER
from scaler.process.allowance import Allowance
from scaler.transport.admission.authenticator import ACCEPTED, AdmissionKeys
from scaler.transport.admission.keyring import NO_LONGER_LISTED, NOT_LISTED

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.25
"""How often the scheduler checks whether the list has changed; a check takes some microseconds."""
TROUBLE_SECONDS = 60.0
"""The pause between two log lines about a list that cannot be read."""
REFUSALS_PER_SECOND, REFUSALS_BURST_SECONDS = 1.0, 20.0
"""The limit of logged refusals: the number per second, and how many seconds' worth may be logged at once."""


class KeyRegistry:
    """Decides which keys may connect to one scheduler, and which sessions must end.

    Args:
        audit: called for each accepted and each refused connection.

    Raises:
        ConfigError: if a file in the folder cannot be read, or other users have access to it.
    """

    def __init__(self, folder: KeyFolder, audit: Tell = no_audit) -> None:
        self._tell = audit
        self.folder = folder.path
        self._folder = folder
        self._secret = folder.pairs()[-1].secret
        self._seen = self._state()
        self._allowed = folder.allowed()
        self._day = _today()
        self._valid = self._valid_at(self._day)
        """role and owner of each key that was valid at the last check, or has been accepted since then"""
        self._unsettled: tuple[int, ...] = ()
        """the state of the list file at the last check, if known keys were missing in it; else empty"""
        self._trouble = ""
        """why the list cannot be read; empty if it can be read"""
        self._reported = 0.0
        self._has_changed = False
        """whether the list was read again since the last check"""
        self._has_new_terms = True
        """whether the list was read again since the last call of `take_terms`"""
        self._lines = Allowance(REFUSALS_PER_SECOND, REFUSALS_BURST_SECONDS, time.monotonic)
        self._omitted = 0
        folder.drop_old_pairs()

    def admission_keys(self, *roles: str) -> AdmissionKeys:
        """Return the keys of a socket: the scheduler's own secret, and checks that admit only keys of these roles."""
        return AdmissionKeys(
            self._secret,
            lambda public, address: self._judge(public, address, roles),
            lambda public: (permit := self.permit_of(public)) is not None and permit.role in roles,
        )

    def permit_of(self, public: str) -> AllowedKey | None:
        """Return the entry of a key in the list; None if the key is not on the list, was revoked or has expired."""
        key = self._allowed.get(public)
        return None if key is None or key.why_invalid(_today()) else key

    def lockout_of(self, owner: str) -> Lockout | None:
        """Return why an owner may not start anything; None if a key of that owner is valid. Thread-safe."""
        return self._allowed.lockout_of(owner, _today(), PEERS)

    def take_terms(self) -> dict[str, OwnerTerms]:
        """Return the share and quotas of each owner, from the owner's last line in the list; empty if they have not
        changed since the last call.
        """
        has_news, self._has_new_terms = self._has_new_terms, False
        return {key.name: key.terms for public, key in self._allowed.items() if public in self._valid and has_news}

    def _judge(self, public: str, address: str, roles: Collection[str]) -> int:
        if public not in self._allowed:
            self._read_again()  # it may have been created just now
        key = self._allowed.get(public)
        if key is None:
            self._log_refusal(address, "its key is not on the list" if public else "it has no key")
            return NOT_LISTED
        reason = key.why_invalid(_today())
        if reason:
            self._log_refusal(address, f"the key of {key.name} is no longer valid: {reason}")
            return NO_LONGER_LISTED
        if key.role not in roles:
            self._log_refusal(address, f"the key of {key.name} has the role {key.role}")
            return NOT_LISTED
        about = {"address": address, "owner": key.name, "role": key.role, "key": public[:KEY_SHOWN]}
        self._tell("admitted", address, **about)
        self._valid.setdefault(public, (key.role, key.name))
        return ACCEPTED

    def _log_refusal(self, address: str, reason: str) -> None:
        self._tell("refused", address, address=address, why=reason)
        if not self._lines.take(1):
            self._omitted += 1
            return
        more = f"; {self._omitted} earlier refusals were not logged" if self._omitted else ""
        logger.warning("refused a connection from %s: %s%s", address, reason, more)
        self._omitted = 0

    def look(self) -> frozenset[str]:
        """Read the list if it has changed. Return the keys whose sessions must end.

        These are keys that are no longer valid, or that have a new role or owner.
        """
        self._read_again(is_look=True)
        today = _today()
        if today == self._day and not self._has_changed:
            return frozenset()
        before, self._valid = self._valid, self._valid_at(today)
        self._day, self._has_changed = today, False
        return frozenset(public for public, line in before.items() if self._valid.get(public) != line)

    def _read_again(self, *, is_look: bool = False) -> None:
        state = self._state()
        if state == self._seen and not (self._trouble and is_look):
            return
        try:
            allowed = self._folder.allowed()
            if not allowed:
                raise ConfigError(f"{self._folder.list_path} has no key; to revoke a key, use scaler_keys revoke")
        except Exception as error:  # noqa: BLE001 - any error: the list must be read again later
            self._seen = state
            self._report(str(error) if isinstance(error, ConfigError) else repr(error))
            return
        if self._trouble:
            self._trouble = ""
            logger.info("the list of keys can be read again")
        is_edited = state[-1:] == self._seen[-1:] and not self._allowed.keys() <= allowed.keys()
        if is_edited and state != self._unsettled:
            self._unsettled = state if is_look else self._unsettled
            return
        self._seen, self._allowed = state, allowed
        self._has_new_terms = self._has_changed = True
        logger.info("the list of keys was read again: it has %d keys", len(allowed))

    def _report(self, trouble: str) -> None:
        """Log why the list cannot be read: at once if the reason is new, and then each minute."""
        now = time.monotonic()
        if trouble != self._trouble or now - self._reported >= TROUBLE_SECONDS:
            self._trouble, self._reported = trouble, now
            logger.error("the list of keys cannot be read, and the last good one is used: %s", trouble)

    def _valid_at(self, day: date) -> dict[str, tuple[str, str]]:
        return {public: (key.role, key.name) for public, key in self._allowed.items() if not key.why_invalid(day)}

    def _state(self) -> tuple[int, ...]:
        try:
            found = self._folder.list_path.stat()
        except OSError:
            return ()
        return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def _today() -> date:
    return date.fromtimestamp(time.time())  # noqa: DTZ012 - days of the local time zone


PEERS, VIEWERS = (CLIENT, WORKER, ADMIN), (MONITOR, ADMIN)
"""The roles whose keys are accepted: by the socket for peers, and by the socket for viewers."""

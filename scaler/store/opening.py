"""Opening: finds the limits of a store, from settings or from the resources of this host, and creates the store.

Called once by each agent that starts.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from scaler.config import ConfigError
from scaler.process.memory import free_bytes
from scaler.store.host_share import HostShare, folder_of_user
from scaler.store.spill_folder import SpillFolder, free_for_values, is_in_memory, remove_abandoned
from scaler.store.store import ValueStore
from scaler.wire.session.too_large import NO_LIMIT

logger = logging.getLogger(__name__)

USUAL_FOLDER = "/var/tmp"  # noqa: S108 - a folder of mode 0700 is made in it; unlike /tmp it is on a disk

REFRESHES = 256
"""How many times a store reads the reports of other stores while it fills its memory. Reading one takes about 20 us."""


def open_store(object_memory_bytes: int | None, spill_folder: str, spill_bytes: int | None) -> ValueStore:
    """Return a new store, and log its limits.

    Args:
        object_memory_bytes: the most bytes of values in shared memory; None: half of the memory that is free now.
        spill_folder: where unread values are spilled; empty: the default folder.
        spill_bytes: the most bytes of spilled values; None: as many as leave a tenth of the disk free; 0: never spill.

    Raises:
        ConfigError: if the folder cannot be used.
    """
    hot_most = object_memory_bytes or free_bytes() // 2
    folder, where = None, "none on disk"
    check_spill_folder(spill_folder, spill_bytes)
    if spill_bytes != 0:
        base = Path(spill_folder or USUAL_FOLDER)
        why_not = _why_not(base)
        if why_not:
            where = f"none on disk, because {why_not}"
        else:
            remove_abandoned(base)
            folder = SpillFolder(base, keeps_free=spill_bytes is None)
            where = f"{free_for_values(base) if spill_bytes is None else spill_bytes:,} on disk in {base}"
    logger.info(
        "objects: at most %s bytes in memory, %s; all clusters of the user share these limits", f"{hot_most:,}", where
    )
    return ValueStore(_share(hot_most // REFRESHES), hot_most, folder, NO_LIMIT if spill_bytes is None else spill_bytes)


def check_spill_folder(folder: str, spill_bytes: int | None) -> None:
    """Raise `ConfigError` if values are to be spilled, and the folder that a setting names is not writable."""
    if folder and spill_bytes != 0 and (why_not := _why_not(Path(folder))):
        raise ConfigError(f"spill_folder: {why_not}")


def _why_not(base: Path) -> str:
    """Return why values cannot be written to a folder; empty if values can be written."""
    if not base.is_dir():
        return f"{base} is not a folder" if base.exists() else f"the folder {base.absolute()} does not exist"
    if is_in_memory(base):
        return f"{base} is in memory (tmpfs), like the values themselves; name a folder on a disk"
    return "" if os.access(base, os.W_OK | os.X_OK) else f"{base} cannot be written to"


def _share(refresh_bytes: int) -> HostShare:
    try:
        return HostShare(folder_of_user(), refresh_bytes)
    except OSError as error:
        logger.warning(
            "this cluster does not see what other clusters of this user store, so its limits count only its own: %s",
            error,
        )
        return HostShare(None)

"""Edits: notices that a module was edited and reloaded here, while worker processes may have the old one.

Told of each function that is made ready. A function of a module travels by its name, so both versions are the same for
the cluster. Must never: hold up a call, or keep more than some functions in mind.
"""

from __future__ import annotations

import logging
from types import CodeType, FunctionType
from typing import Any

from scaler.ids import ObjectId

logger = logging.getLogger("scaler.client")

REMEMBERED_MOST = 512


class Edits:
    """The code of functions that were made ready."""

    def __init__(self) -> None:
        self._codes: dict[ObjectId, CodeType] = {}

    def look(self, function: Any, object_id: ObjectId) -> None:
        """Say so if a function with this pickle had other code before."""
        if type(function) is not FunctionType:
            return
        known = self._codes.get(object_id)
        if known == function.__code__:
            return
        if known is None and len(self._codes) >= REMEMBERED_MOST:
            self._codes.clear()
        self._codes[object_id] = function.__code__
        if known is not None:
            module = function.__module__
            logger.warning(
                "the module %s was edited and reloaded here, and worker processes that have imported it run the old "
                "code: send it along with client.upload(%s) or Client(modules=[%s]), or call client.restart_workers()",
                *(module, module.partition(".")[0], module.partition(".")[0]),
            )

"""A bridge whose library is not installed says which command installs it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

import pytest

from scaler import Client


def of_joblib() -> Any:
    return importlib.import_module("scaler.integrations.joblib")


def of_dask() -> Any:
    return importlib.import_module("scaler.integrations.dask").get(Client)


@pytest.mark.parametrize(("library", "bridge"), [("joblib", of_joblib), ("dask", of_dask)])
def test_a_bridge_names_the_package_to_install(
    library: str, bridge: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, f"scaler.integrations.{library}", raising=False)
    monkeypatch.setitem(sys.modules, library, None)  # as if it was not installed
    with pytest.raises(ModuleNotFoundError, match=rf"pip install 'scaler\[{library}\]'") as caught:
        bridge()
    assert str(caught.value.name).partition(".")[0] == library

"""Sizes, as users write them: everywhere the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaler.config import BYTES, ConfigError, Setting, read_size, size_text
from scaler.settings import PROCESSES, Settings
from scaler.settings.sources import gather

READ = {
    "0": 0, "4096": 4096, "12 B": 12, "1k": 2**10, "500G": 500 * 2**30, "500GB": 500 * 2**30, "500 GiB": 500 * 2**30,
    "1.5T": 3 * 2**39, " 2m ": 2**21, "0.3K": 307, "1.000000001G": 2**30 + 1,
}  # fmt: skip
SIZES = [(kind, row) for kind in PROCESSES for row in kind.rows() if row.unit == BYTES]
NAMES = [f"{kind.TABLE}-{row.name}" for kind, row in SIZES]


@pytest.mark.parametrize(("text", "size"), READ.items())
def test_units_of_sizes_are_powers_of_1024(text: str, size: int) -> None:
    assert read_size("it", text) == size
    assert read_size("it", size_text(size)) == size


@pytest.mark.parametrize(
    "text", ["", "G", "1.5", "-1", "1e9", "1,000", "²", "5X", "5 i", "5KG", "9" * 20, "1_000", "nan"]
)
def test_texts_that_are_no_sizes_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^it must be a whole number, or a number with K, M, G or T .*such as 64G"):
        read_size("it", text)


def test_settings_in_bytes_are_those_whose_names_end_in_bytes() -> None:
    names = {row.name for _, row in SIZES}
    assert len(names) > 10
    assert names == {row.name for kind in PROCESSES for row in kind.rows() if row.name.endswith("_bytes")}


@pytest.mark.parametrize(("kind", "row"), SIZES, ids=NAMES)
def test_each_setting_in_bytes_takes_a_size_wherever_it_is_set(
    kind: type[Settings], row: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = {"address": "ipc:///tmp/x", "service_name": "s"}
    expected = 500 * 2**30
    assert row.parse("500G") == expected  # the command line
    assert getattr(kind.of({**others, row.name: "500G"}), row.name) == expected  # code
    monkeypatch.setenv(row.variable, "500GiB")
    assert getattr(gather(kind, others), row.name) == expected
    monkeypatch.delenv(row.variable)
    monkeypatch.chdir(tmp_path)
    Path("scaler.toml").write_text(f'[{kind.TABLE}]\n{row.name} = "0.5 T"\n')
    assert getattr(gather(kind, others), row.name) == 2**39
    with pytest.raises(ConfigError, match=f"^{row.name} must be a whole number, or a number with K, M, G or T"):
        row.check("much")

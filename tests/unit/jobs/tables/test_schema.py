"""Databases of jobs: which ones are opened, and how much work their content can cause."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from scaler.jobs.tables import schema
from scaler.jobs.tables.schema import DAMAGED_TABLE, RecordError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    schema.create(tmp_path / "job.sqlite").close()
    return tmp_path / "job.sqlite"


def test_a_new_database_and_one_with_a_table_of_damaged_results_match_the_schema(file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.execute(f"ALTER TABLE results RENAME TO {DAMAGED_TABLE}9")
    connection.execute("DROP INDEX files")
    for statement in schema.RESULTS:
        connection.execute(statement)
    connection.close()
    schema.open_writing(file).close()
    schema.open_reading(file).close()


@pytest.mark.parametrize("name", ["damaged_9 (row)", "other (a)", "damaged_ (a)"])
def test_a_database_with_another_table_is_refused_and_the_table_is_named(file: Path, name: str) -> None:
    connection = sqlite3.connect(file)
    connection.execute(f"CREATE TABLE {name}")
    connection.close()
    with pytest.raises(RecordError, match=f"its table {name.split(maxsplit=1)[0]} is missing, different or extra"):
        schema.open_reading(file)


def test_reading_is_limited_in_steps_and_bytes_until_the_limits_are_lifted(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "READ_BYTES", 10_000_000)
    endless = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {})"
    connection = schema.open_writing(file)
    with pytest.raises(RecordError, match="takes more work than a database of its size can need"):
        connection.execute(f"{endless.format(10**12)} SELECT zeroblob(1000000) FROM n").fetchall()
    with pytest.raises(sqlite3.OperationalError) as interrupted:
        connection.execute(f"{endless.format(10**12)} SELECT count(*) FROM n").fetchall()
    assert "takes more work" in str(connection.explain(interrupted.value))
    connection.lift_limits()
    assert connection.execute(f"{endless.format(10**6)} SELECT count(*) FROM n").fetchone() == (10**6 + 1,)
    connection.close()

"""Hostile databases of `ds2 tune`: SQLite files whose rows, schema and pages are changed by structure.

Pages: https://www.sqlite.org/fileformat2.html. No trial is trained: each ends as one whose process failed.
"""

import sqlite3
import struct
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import optuna
from fuzz.kind import Files, Kind
from fuzz.mutations import NUMBERS
from helpers.studies import SPACE, write_study

from ds2.train.search_results import write_search_results
from ds2.train.study import Study, read_study
from ds2.train.tune import Tuner, readable_study

TRIALS = 4
PAGE, HEADER = 4096, 100  # bytes
STEPS = 1_000_000  # of SQLite's virtual machine
KEY = "optimizer.learning_rate"
FIELDS = ((16, 2), (18, 1), (19, 1), (20, 1), (24, 4), (28, 4), (32, 4), (36, 4), (40, 4), (44, 4), (52, 4), (56, 4))
ESCAPE = "/../../escaped"
TEXTS = (
    "",
    "x",
    ESCAPE,
    "ds2",
    "RUNNING",
    "WAITING",
    "COMPLETE",
    "FINITE",
    "NAN",
    "null",
    "[" * 5000,
    "9" * 5000,
    "a\0b",
)
JSON = ('{"name": "FloatDistribution", "attributes": {"low": 1e-300, "high": 1e300, "log": true}}', '{"name": "x"}')
HOSTILE: tuple[Any, ...] = (*TEXTS, *JSON, None, 0, 1, -1, 2**31, 2**63 - 1, 1e308, 1e-300, float("inf"), b"\xff", b"")
COUNT = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT"
SCHEMAS = (
    "DROP TABLE {table}",
    "DELETE FROM {table}",
    "ALTER TABLE {table} RENAME TO other",
    "ALTER TABLE {table} RENAME COLUMN {column} TO other",
    "ALTER TABLE {table} ADD COLUMN other GENERATED ALWAYS AS (zeroblob(1000000000))",
    "ALTER TABLE {table} RENAME TO other; CREATE VIEW {table} AS SELECT * FROM other",
    "ALTER TABLE {table} RENAME TO other; CREATE VIEW {table} AS SELECT * FROM {table}",
    "ALTER TABLE {table} RENAME TO other; CREATE VIEW {table} AS SELECT other.* FROM other, (" + COUNT + " x FROM c)",
    "ALTER TABLE {table} RENAME TO other; CREATE TABLE {table} ({column} TEXT)",
    "CREATE TRIGGER t AFTER INSERT ON {table} BEGIN INSERT INTO {table} SELECT * FROM {table}; END",
    "CREATE TRIGGER t AFTER UPDATE ON {table} BEGIN SELECT randomblob(1000000000); END",
    "CREATE TRIGGER t BEFORE INSERT ON {table} BEGIN SELECT sum(x) FROM (" + COUNT + " x FROM c); END",
    "CREATE VIRTUAL TABLE v USING fts5(x)",
    "PRAGMA writable_schema = 1; UPDATE sqlite_master SET rootpage = {page} WHERE name = '{table}'",
    "PRAGMA writable_schema = 1; UPDATE sqlite_master SET sql = replace(sql, 'INTEGER', 'TEXT') WHERE name = '{table}'",
    "PRAGMA writable_schema = 1; DELETE FROM sqlite_master WHERE name = '{table}'",
    "PRAGMA user_version = {page}",
    "INSERT INTO {table} SELECT NULL FROM {table}",
)


def seeds() -> list[Files]:
    """Two trials that ended, and one that an interrupted search was training."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "study.db")
        study = optuna.create_study(study_name="ds2", storage=f"sqlite:///{path}")
        kind: dict[str, optuna.distributions.BaseDistribution] = {
            KEY: optuna.distributions.CategoricalDistribution([1e-5, 1e-3])
        }
        params: dict[str, Any] = {KEY: 1e-3}
        states = optuna.trial.TrialState
        for wer, state in ((0.5, states.COMPLETE), (0.4, states.COMPLETE), (None, states.RUNNING)):
            reported: dict[int, float] = {} if wer is None else {1: wer}
            values: dict[str, Any] = {
                "value": wer,
                "intermediate_values": reported,
                "user_attrs": {"host": "x"},
                "state": state,
            }
            study.add_trial(optuna.create_trial(params=params, distributions=kind, **values))
        return [{"study.db": path.read_bytes()}]


def make(rng: Random, valid: list[Files]) -> Files:
    """Rows changed, the schema, or fields of the pages."""
    data = valid[0]["study.db"]
    for _ in range(rng.choice((1, 1, 3))):
        data = _with_pages(rng, data) if rng.random() < 0.4 else _with_statement(rng, data)
    return {"study.db": data}


def _with_statement(rng: Random, data: bytes) -> bytes:
    """One statement of SQL more; none where the file is too odd for it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "study.db")
        path.write_bytes(data)
        database = sqlite3.connect(path)
        database.set_progress_handler(lambda: 1, STEPS)  # what was put in before may never end
        try:
            tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            table = rng.choice(tables)
            column = rng.choice([row[1] for row in database.execute(f"PRAGMA table_info({table})")])
            if rng.random() < 0.7:
                where = rng.choice(("", f" WHERE rowid = {rng.randrange(1, 4)}"))
                database.execute(f'UPDATE OR REPLACE {table} SET "{column}" = ?{where}', (rng.choice(HOSTILE),))
                database.commit()
            else:
                statement = rng.choice(SCHEMAS).format(table=table, column=f'"{column}"', page=rng.choice(NUMBERS))
                database.executescript(statement)
        except (sqlite3.Error, IndexError, OverflowError):
            pass
        finally:
            database.close()
        return path.read_bytes()


def _with_pages(rng: Random, data: bytes) -> bytes:
    """An extreme number in a field of the header, or in the head, the pointers or the cells of a page's tree."""
    changed = bytearray(data)
    if rng.random() < 0.3:
        place, size = rng.choice(FIELDS)
    else:
        page = rng.randrange(max(1, len(data) // PAGE))
        start = page * PAGE + (HEADER if page == 0 else 0)
        (cells,) = struct.unpack_from(">H", data, start + 3)
        head = ((0, 1), (1, 2), (3, 2), (5, 2), (7, 1), (8, 4))
        pointers = tuple((8 + 2 * number, 2) for number in range(min(cells, 100)))
        place, size = rng.choice((*head, *pointers, *pointers))
        place += start
        if rng.random() < 0.4 and pointers:
            (cell,) = struct.unpack_from(">H", data, start + rng.choice(pointers)[0])
            place, size = page * PAGE + min(cell + rng.randrange(12), PAGE - 9), rng.choice((1, 1, 9))
    changed[place : place + size] = (rng.choice((*NUMBERS, rng.randrange(PAGE))) % 256**size).to_bytes(size, "big")
    return bytes(changed)


def enter(path: Path) -> None:
    """Continues the search, and writes its results; nothing lies outside of its folder afterwards."""
    tuner = Tuner(_plan(path.parent), path.parent)
    with mock.patch.object(sys, "executable", "/bin/false"):
        tuner.run()
    with readable_study(path.parent):
        write_search_results(tuner.study, tuner.plan.config, path.parent)
    assert not (path.parent.parent / "escaped").exists()


def _plan(folder: Path) -> Study:
    return read_study(write_study(folder, folder / "manifest.jsonl", f"trials = {TRIALS}\n{SPACE}"))


KIND = Kind(seeds, make, enter)

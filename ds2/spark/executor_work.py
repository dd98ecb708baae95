"""A column that a function of ds2 computes on Spark's executors, in Arrow batches."""

import importlib
import itertools
import json
import os
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.functions import arrow_udf
from pyspark.sql.types import DataType, StructType

from ds2.utils.errors import InputError

Row = dict[str, Any]
Settings = dict[str, Any]
Work = Callable[[Settings, Iterator[Row]], Iterator[Any | InputError]]  # a result for each row, in order


def computed(work: Work, settings: Settings, source: Column, kind: DataType) -> Column:
    """A struct of `result`, of type `kind`, and `error`: what `work` gives for each row of the struct `source`.

    Rows that are NULL stay NULL. The column is not deterministic for Spark's optimiser, so that it is computed once.

    Args:
        work: a function at the top of a module: executors import it, and with it the caches of that module.
        settings: JSON values.
    """
    place, values = f"{work.__module__}:{work.__name__}", json.dumps(settings, sort_keys=True)
    both = StructType().add("result", kind).add("error", "string")

    def run(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:  # travels by value: it must not refer to ds2
        try:
            from ds2.spark.executor_work import compute
        except ModuleNotFoundError as error:
            import sys

            raise RuntimeError(
                f"{error} on an executor, in {sys.executable}; install ds2 with the extra spark there, or ship an "
                "environment that has it by spark.archives, and name its Python in PYSPARK_PYTHON"
            ) from None
        yield from compute(place, values, both, batches)

    udf: Any = arrow_udf  # its type hints lack this form, of a function with type hints
    return udf(run, both).asNondeterministic()(source)


def compute(place: str, values: str, kind: DataType, batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
    """Runs on an executor: the results of all rows, in batches of the same sizes."""
    from pyspark.sql.pandas.types import to_arrow_type

    use_cores_of_task()
    module, _, name = place.partition(":")
    work: Work = getattr(importlib.import_module(module), name)
    sizes: deque[int] = deque()
    results = without_nulls(work, json.loads(values), rows(batches, sizes))
    arrow = to_arrow_type(kind)
    for first in results:
        size = sizes.popleft()
        while not size:  # an empty batch before that of the first result
            yield pa.array([], arrow)
            size = sizes.popleft()
        yield pa.array([first, *itertools.islice(results, size - 1)], arrow)
    yield from (pa.array([], arrow) for _ in sizes)


def rows(batches: Iterator[pa.Array], sizes: deque[int]) -> Iterator[Row | None]:
    """The rows of all batches one by one; the sizes of the batches that were begun go to `sizes`."""
    for batch in batches:
        sizes.append(len(batch))
        for value in batch:
            yield value.as_py()


def without_nulls(work: Work, settings: Settings, rows: Iterator[Row | None]) -> Iterator[Row | None]:
    """What `work`, which may read ahead, gives for each row, as a struct of result and error; None for None."""
    nulls: deque[bool] = deque()

    def present() -> Iterator[Row]:
        for row in rows:
            nulls.append(row is None)
            if row is not None:
                yield row

    for result in work(settings, present()):
        while nulls.popleft():
            yield None
        failed = isinstance(result, InputError)
        yield {"result": None if failed else result, "error": str(result) if failed else None}
    yield from (None for _ in nulls)


def use_cores_of_task() -> None:
    """One thread of torch for each core of the task: Spark runs a process for each task at a time."""
    import torch
    from pyspark import TaskContext

    context = TaskContext.get()
    torch.set_num_threads(context.cpus() if context is not None else len(os.sched_getaffinity(0)))

"""What all stages share: settings with defaults, getters and setters, and saving with the files that belong to them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.util import DefaultParamsReadable, DefaultParamsReader, DefaultParamsWritable, DefaultParamsWriter
from pyspark.sql import SparkSession

from ds2.spark import shipped_files
from ds2.utils.errors import ParameterError

text, number, whole = TypeConverters.toString, TypeConverters.toFloat, TypeConverters.toInt
flag, texts, numbers = TypeConverters.toBoolean, TypeConverters.toListString, TypeConverters.toListFloat


def path(value: str | Path) -> str:
    """Converts the path of a file."""
    return text(str(value) if isinstance(value, Path) else value)


def paths(values: list[str | Path]) -> list[str]:
    """Converts a list of paths of files."""
    return [path(value) for value in TypeConverters.toList(values)]


class Setting(Param[Any]):
    """A parameter of a stage, named after the attribute that it is assigned to; None by default where none is given."""

    def __init__(self, doc: str, convert: Callable[[Any], Any], default: Any = None):
        """`doc` says what it means, in which unit. A file, of `path` or `paths`, is saved within the stage."""
        super().__init__(Params._dummy(), "", doc, convert)
        self.default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @property
    def is_file(self) -> bool:
        """Whether its value is a path, or several, of files that a saved stage must contain."""
        return self.typeConverter in (path, paths)


class Stage(Params, DefaultParamsReadable["Stage"], DefaultParamsWritable):
    """A stage of pyspark.ml. For each Setting there are getNAME and setNAME, which returns the stage."""

    def __init__(self, **values: Any):
        """`values` of the settings, by name; None leaves a setting as it is.

        Raises:
            AttributeError: no such setting. TypeError: a value of the wrong type.
        """
        super().__init__()
        settings = [param for param in self.params if isinstance(param, Setting)]
        self._setDefault(**{setting.name: setting.default for setting in settings})
        self._set(**{name: value for name, value in values.items() if value is not None})

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in dir(cls):
            if isinstance(getattr(cls, name, None), Setting):
                title = name[0].upper() + name[1:]
                setattr(cls, f"get{title}", _getter(name))
                setattr(cls, f"set{title}", _setter(name))

    def value(self, name: str) -> Any:
        """The value of a setting, or its default."""
        return self.getOrDefault(name)

    def located(self, name: str) -> list[Path]:
        """The files of a setting."""
        value = self.value(name)
        return [Path(each) for each in ([value] if isinstance(value, str) else value or [])]

    def file_settings(self) -> list[str]:
        """The names of the settings that are files."""
        return [param.name for param in self.params if isinstance(param, Setting) and param.is_file]

    def shipped_settings(self, spark: SparkSession) -> dict[str, Any]:
        """The values of all settings; files are put on the executors, and stand as lists of names (see `shipped`).

        Raises:
            InputError: a file cannot be read.
        """
        values = {param.name: self.value(param.name) for param in self.params}
        return values | {
            name: [shipped_files.ship(spark, path) for path in self.located(name)] for name in self.file_settings()
        }

    def write(self) -> "StageWriter":
        """The writer of this stage."""
        return StageWriter(self)

    @classmethod
    def read(cls) -> "StageReader":
        """The reader of such a stage."""
        return StageReader(cls)


class StageWriter(DefaultParamsWriter):
    """Saves a stage with the bytes of its files."""

    instance: Stage

    def saveImpl(self, path: str) -> None:
        """Saves the parameters, and the files beside them."""
        super().saveImpl(path)
        if found := {name: paths for name in self.instance.file_settings() if (paths := self.instance.located(name))}:
            shipped_files.save(self.sparkSession, found, f"{path}/files")


class StageReader(DefaultParamsReader[Stage]):
    """Loads a stage; its files are written into a temporary folder of this process."""

    def load(self, path: str) -> Stage:
        """Loads the parameters, and the files beside them."""
        stage = super().load(path)
        if any(stage.located(name) for name in stage.file_settings()):
            table = self.sparkSession.read.parquet(f"{path}/files").orderBy("setting", "number", "at")
            for name, found in shipped_files.restore(table.toLocalIterator(), stage.file_settings()).items():
                single = isinstance(stage.value(name), str)
                stage._set(**{name: str(found[0]) if single else list(map(str, found))})
        return stage


def column_kind(dataset: Any, setting: str, name: str) -> str:
    """The type of a column, as Spark's simple string.

    Raises:
        ParameterError: naming the `setting`, where the table has no such column.
    """
    from pyspark.errors import AnalysisException

    try:
        return dataset.select(name).schema.fields[0].dataType.simpleString()
    except AnalysisException as error:
        there = ", ".join(dataset.columns)
        raise ParameterError(setting, f"the table has no column {name}; it has {there}") from error


def require_kind(dataset: Any, setting: str, name: str, kind: str) -> None:
    """Checks the type of a column.

    Raises:
        ParameterError: naming the `setting`, where the column is missing or of another type.
    """
    if (found := column_kind(dataset, setting, name)) != kind:
        raise ParameterError(setting, f"the column {name} must be {kind}, it is {found:.60}")


def _getter(name: str) -> Callable[[Stage], Any]:
    return lambda stage: stage.value(name)


def _setter(name: str) -> Callable[[Stage, Any], Stage]:
    return lambda stage, value: stage._set(**{name: value})

"""Sessions, with a one-line hint for each requirement that is missing."""

import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faintly import errors
from faintly.errors import FaintlyError, MissingDependency, Reject, Rejected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA = "Spark needs Java 17 or newer, and there is none; install openjdk-17-jre-headless, or "
# An executor's error comes as text: the last line of a traceback.
RAISED = re.compile(r"^faintly\.errors\.(\w+): (.*)$", re.MULTILINE)


def session(name: str = "faintly", **settings: Any) -> "SparkSession":
    """Return the session of spark-submit or of a notebook, or start a local one."""
    check()
    from pyspark.sql import SparkSession

    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # spark-submit knows its executors' Python itself
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    for setting, value in settings.items():
        builder = builder.config(setting.replace("__", "."), value)
    return builder.getOrCreate()


def check() -> None:
    """Raise `MissingDependency` where Spark or Java is missing."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise MissingDependency.of("this needs PySpark", "spark") from None
    home = os.environ.get("JAVA_HOME")
    found = (Path(home) / "bin" / "java").exists() if home else shutil.which("java")
    if not found:
        raise MissingDependency(JAVA + ("correct JAVA_HOME" if home else "set JAVA_HOME"))


@contextmanager
def job(spark: "SparkSession", what: str) -> Iterator[None]:
    """Name the job in Spark's UI, and raise our own errors of executors under their own types."""
    from pyspark.errors import PySparkException

    context = spark.sparkContext
    context.setJobDescription(f"faintly: {what}")
    try:
        yield
    except PySparkException as error:
        ours = _ours(str(error))
        if ours is None:
            raise
        raise ours from None
    finally:
        context.setJobDescription(None)


def _ours(text: str) -> FaintlyError | None:
    """Return the error of ours that a traceback ends with."""
    found = RAISED.findall(text)
    kind = getattr(errors, found[-1][0], None) if found else None
    if not isinstance(kind, type) or not issubclass(kind, FaintlyError):
        return None
    message = found[-1][1]
    if issubclass(kind, Rejected):
        code, _, rest = message.partition(": ")
        return kind(Reject(code), rest)
    return kind(message)

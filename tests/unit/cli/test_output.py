"""What commands share when they print."""

import pytest
from typer.testing import CliRunner

from faintly.cli import app
from faintly.cli.output import counted


def test_one_is_singular():
    said = [counted(count, "file") for count in (0, 1, 2, 1_000)]
    assert said == ["0 files", "1 file", "2 files", "1,000 files"]
    assert counted(2, "sketch", "sketches") == "2 sketches"


@pytest.mark.parametrize("spelling", ["--output", "--out", "-o"])
def test_the_folder_of_a_reproduction_has_three_spellings(spelling, monkeypatch, tmp_path):
    class Seen(Exception):
        pass

    def run(_names, _grid, out, **_options):
        raise Seen(out)

    monkeypatch.setattr("faintly.evaluation.reproduce.reproduce", run)
    done = CliRunner().invoke(app, ["reproduce", "all", spelling, str(tmp_path)])
    assert isinstance(done.exception, Seen)
    assert done.exception.args == (tmp_path,)

"""The options of `python -m evaluation`."""

import pytest
from typer.testing import CliRunner

from evaluation.command import app


@pytest.mark.parametrize("spelling", ["--output", "--out", "-o"])
def test_the_folder_of_a_reproduction_has_three_spellings(spelling, monkeypatch, tmp_path):
    class Seen(Exception):
        pass

    def run(_names, _grid, out, **_options):
        raise Seen(out)

    monkeypatch.setattr("evaluation.command.run_experiments", run)
    done = CliRunner().invoke(app, ["all", spelling, str(tmp_path)])
    assert isinstance(done.exception, Seen)
    assert done.exception.args == (tmp_path,)

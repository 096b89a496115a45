"""What commands share when they print."""

import pytest
from typer.testing import CliRunner

from faintly.cli import app
from faintly.cli.output import counted
from faintly.errors import InvalidInput


def test_one_is_singular():
    said = [counted(count, "file") for count in (0, 1, 2, 1_000)]
    assert said == ["0 files", "1 file", "2 files", "1,000 files"]
    assert counted(2, "sketch", "sketches") == "2 sketches"


@pytest.mark.parametrize(
    "command",
    [
        ["load", "--server", "http://127.0.0.1:1", "--singles", "--token-file"],
        ["load", "--server", "http://127.0.0.1:1", "--admin-credential-file"],
        ["load", "--server", "http://127.0.0.1:1", "--plan"],
        ["collection", "list", "--server", "http://127.0.0.1:1", "--credential-file"],
        ["serve", "--data", "none", "--config"],
        ["encode", "none.csv", "-o", "none.fnt", "--plan"],
        ["plan", "--protect", "event", "--epsilon=1", "--sparsity=4", "--clients=9", "--universe"],
    ],
    ids=lambda command: f"{command[0]} {command[-1]}",
)
def test_a_file_that_is_not_text_is_refused(command, tmp_path):
    file = tmp_path / "bytes"
    file.write_bytes(b"\xff\xfe")
    refused = CliRunner().invoke(app, [*command, str(file)]).exception
    assert type(refused) is not UnicodeDecodeError  # which is a ValueError, as InvalidInput is
    assert isinstance(refused, InvalidInput), refused

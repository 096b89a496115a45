"""The commands of docs/how-to/collect.md, run as they stand on the page."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "collect.md"


@pytest.mark.long
def test_the_page_runs_from_nothing_to_an_answer(port, tmp_path):
    if shutil.which("curl") is None:
        pytest.skip("the page uses curl, which is not installed")
    tools, folder = tmp_path / "tools", tmp_path / "empty"
    tools.mkdir()
    folder.mkdir()
    program = tools / "faintly"
    program.write_text(f"#!{sys.executable}\nfrom faintly.cli import main\nmain()\n")
    program.chmod(0o755)
    blocks = re.findall(
        r"^```console\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    commands = [line[2:] for block in blocks for line in block.splitlines() if line[:2] == "$ "]
    script = "\n".join(["set -eu", f"PATH={tools}:$PATH", *commands, "echo the end"])
    script = script.replace("8790", str(port)).replace(
        "curl -sS", "curl -sS --fail-with-body -w '\\n'"
    )
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert done.stdout.endswith("the end\n")
    assert "2,000 sealed reports, 0 pending: sound" in done.stdout
    assert "all 2,000 reports had arrived before" in done.stdout

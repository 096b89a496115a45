"""The commands of pages that end in a running collector, run as they stand on the page."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {
    "how-to/collect.md": (
        "2,000 sealed reports, 0 pending: sound",
        "all 2,000 reports had arrived before",
    ),
    "tutorial/first-collection.md": ("The smallest share that stands out", "3,000 reports"),
}


@pytest.mark.long
@pytest.mark.parametrize("name", PAGES)
def test_the_page_runs_from_nothing_to_an_answer(name, port, tmp_path):
    if shutil.which("curl") is None:
        pytest.skip("the page uses curl, which is not installed")
    tools, folder = tmp_path / "tools", tmp_path / "empty"
    tools.mkdir()
    folder.mkdir()
    program = tools / "faintly"
    program.write_text(f"#!{sys.executable}\nfrom faintly.cli import main\nmain()\n")
    program.chmod(0o755)
    blocks = re.findall(
        r"^```console\n(.*?)^```", (DOCS / name).read_text("utf-8"), re.MULTILINE | re.DOTALL
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
    for words in PAGES[name]:
        assert words in done.stdout

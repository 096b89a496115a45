"""The files of packaging/ are what the programs that read them expect."""

import json
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "packaging" / "faintly.service"


def test_every_file_names_the_same_version():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    package = json.loads((ROOT / "clients/js/package.json").read_text())
    assert package["version"] == version
    for name in ("baselines", "collector"):
        project = tomllib.loads((ROOT / name / "pyproject.toml").read_text())["project"]
        assert project["version"] == version
    assert f"faintly=={version}" in project["dependencies"]
    assert f"faintly-{version}.tgz" in (ROOT / "docs/how-to/javascript.md").read_text()
    assert f"\n## {version}" in (ROOT / "CHANGELOG.md").read_text()


def verified(folder, text):
    """Return what systemd says about a unit; an empty list if it has nothing to say."""
    unit = folder / "faintly.service"
    unit.write_text(text, encoding="utf-8")
    command = ["systemd-analyze", "verify", "--man=no", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return [line for line in done.stderr.splitlines() if "faintly.service" in line]


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None,
    reason="systemd is not installed; scripts/system_packages.sh installs it",
)
def test_systemd_knows_every_line_of_the_unit(tmp_path):
    program = tmp_path / "faintly"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    text = UNIT.read_text(encoding="utf-8").replace("/opt/faintly/bin/faintly", str(program))
    assert verified(tmp_path, text) == []
    assert verified(tmp_path, text.replace("ProtectHome=", "ProtectHouse="))  # a mutant

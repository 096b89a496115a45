"""Where the JavaScript client is, and Node to run it; without Node its tests are left out."""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

CLIENT = Path(__file__).parents[1] / "clients" / "js"
OLDEST = 20
LEFT_OUT = "left out, no Node 20 or newer: run scripts/install_js.sh"


@cache
def find_node() -> str | None:
    """Return Node, beside this Python or on the path, if it is new enough."""
    beside = shutil.which("node", path=str(Path(sys.executable).parent))
    found = beside or shutil.which("node")
    if found is None:
        return None
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
    return found if int(said.lstrip("v").split(".")[0]) >= OLDEST else None


def node() -> str:
    """Return Node, or leave the test out; where FAINTLY_NEED_JS is set, as in CI, fail."""
    found = find_node()
    if found is None:
        if os.environ.get("FAINTLY_NEED_JS"):
            pytest.fail(LEFT_OUT)
        pytest.skip(LEFT_OUT)
    return found

"""The contract about numpy names every package that the project may install, new ones too."""

import re
import tomllib
from itertools import chain
from pathlib import Path

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_every_package_beside_numpy_is_forbidden_to_the_client():
    settings = tomllib.loads(PYPROJECT.read_text())
    project, contracts = settings["project"], settings["tool"]["importlinter"]["contracts"]
    extras = {**project["optional-dependencies"], "dev": []}  # tools that no room would import
    named = chain(project["dependencies"], *extras.values())
    modules = {re.match(r"[\w-]+", one)[0].replace("-", "_") for one in named}
    (contract,) = [one for one in contracts if one["name"].endswith("numpy and nothing else")]
    assert "faintly.client" in contract["source_modules"]
    assert modules - set(contract["forbidden_modules"]) == {"numpy"}

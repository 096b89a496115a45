"""The page about Python has every public name, with an example that the checks run."""

import re
from pathlib import Path

import pytest

import faintly

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "api.md"
TEXT = PAGE.read_text(encoding="utf-8")
CODE = "\n".join(re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL))


@pytest.mark.parametrize("name", faintly.__all__)
def test_a_public_name_is_described_and_used(name):
    assert re.search(rf"^::: faintly\.{name}$", TEXT, re.MULTILINE)
    assert re.search(rf"\bfaintly\.{name}\b", CODE)


def test_the_page_has_no_other_names():
    assert sorted(re.findall(r"^::: faintly\.(\w+)$", TEXT, re.MULTILINE)) == sorted(
        faintly.__all__
    )

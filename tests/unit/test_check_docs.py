"""The check of the documents notices what has drifted, and nothing else."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "check_docs.py"


@pytest.fixture
def script(monkeypatch, tmp_path):
    """Return the script, for a repository in an empty folder."""
    spec = importlib.util.spec_from_file_location("check_docs", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    monkeypatch.setattr(script, "ROOT", tmp_path)
    return script


@pytest.fixture
def check(script, tmp_path):
    """Return a function from the text of a page to what is wrong with its code."""

    def of(text: str) -> list[str]:
        page = tmp_path / "page.md"
        page.write_text(text, encoding="utf-8")
        return list(script.check_code(page))

    return of


CODE = "```python\nprint('one  ')\nprint(1 + 1)\n```\n"


def test_what_the_code_prints_may_be_shown(check):
    assert check(f"{CODE}\n```text\none\n2\n```\n") == []


@pytest.mark.parametrize(
    ("shown", "line", "drift"),
    [
        ("one\n3\n", 8, "shows '3', the code prints '2'"),
        ("one\n", 8, "shows 'nothing', the code prints '2'"),
        ("one\n2\n3\n", 9, "shows '3', the code prints 'nothing'"),
        ("", 7, "shows 'nothing', the code prints 'one'"),
    ],
)
def test_a_block_that_has_drifted_is_found(check, shown, line, drift):
    assert check(f"{CODE}\n```text\n{shown}```\n") == [f"page.md:{line}: the page {drift}"]


def test_a_block_shows_what_the_code_right_before_it_printed(check):
    second = "```python\nprint('more')\n```\n"
    page = f"{CODE}{second}```text\nmore\n```\n"
    assert check(page) == []
    assert len(check(page.replace("```text\nmore", "```text\none\n2\nmore"))) == 1


def test_text_after_words_is_no_output(check):
    assert check(f"{CODE}\nA file looks so:\n\n```text\na,b\n```\n") == []


def test_code_that_fails_is_found_with_its_line(check):
    assert check("# Page\n\n```python\n1 / 0\n```\n") == [
        "page.md:4: ZeroDivisionError: division by zero"
    ]


def test_a_path_that_is_gone_is_found(script, tmp_path):
    for name in ("scripts", "src/faintly/client"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "src/faintly/client/push.py").touch()
    page = tmp_path / "page.md"
    page.write_text(
        "`client/push.py` `src/faintly/client/push.py` `people/ana.csv`\n"
        "`client/store.py`, and `scripts/gone.py`",
        encoding="utf-8",
    )
    assert list(script.check_paths(page)) == [
        "page.md:2: there is no client/store.py",
        "page.md:2: there is no scripts/gone.py",
    ]

"""The pages say what the collector does: every address, every code and every setting."""

import re
from pathlib import Path

import pytest

from faintly.wire import problems
from faintly_collector.http.app import build
from faintly_collector.http.settings import Settings
from faintly_collector.storage.store import Store

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "http.md"
TEXT = PAGE.read_text(encoding="utf-8")
KINDS = [kind for kind in vars(problems).values() if isinstance(kind, problems.Kind)]
ROW = re.compile(r"^\| `(GET|POST|PUT|DELETE) (\S+)` \| (\w+) \|", re.MULTILINE)


def test_every_code_is_on_the_page_as_it_is():
    rows = re.findall(r"^\| `([A-Z_]+)` \| (\d+) \| (.*) \|$", TEXT, re.MULTILINE)
    documented = {code: (int(status), hint) for code, status, hint in rows}
    assert documented == {kind.code: (kind.status, kind.hint) for kind in KINDS}
    assert len({kind.code for kind in KINDS}) == len(KINDS)


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    with Store.open(folder) as store:
        return build(store, Settings(data=folder)).control.openapi()["paths"]


def test_every_address_is_on_the_page(paths):
    served = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    pairs = (
        (method, path.replace("{c}", "/v1/collections/{digest}"))
        for method, path, _ in ROW.findall(TEXT)
    )
    assert set(pairs) == served


def test_every_setting_is_on_the_page():
    page = (PAGE.parents[1] / "how-to" / "operate.md").read_text(encoding="utf-8")
    table = page.partition("| setting | default | meaning |")[2].partition("\n\n")[0]
    cells = re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE)
    assert {name for cell in cells for name in re.findall(r"`(\w+)`", cell)} == set(
        Settings.model_fields
    )

"""faintly ledger FILE shows the accounts and changes nothing."""

import json

from typer.testing import CliRunner

from faintly import Client
from faintly.cli import app
from faintly.client import Ledger

RUN = CliRunner()


def test_it_shows_every_account(plan_of, bounded, squeeze_plan, tmp_path):
    path = tmp_path / "ledger"
    ledger = Ledger(path, {"event": (9, "0.001")})
    Client(plan_of("event", 0.3), ledger=ledger).report([1], epoch=4)
    Client(squeeze_plan, policy=bounded, ledger=ledger).report([1])
    before = path.read_bytes()
    shown = json.loads(RUN.invoke(app, ["ledger", str(path), "--json"]).output)
    assert shown["charges"] == 2
    assert shown["accounts"] == [
        {"account": "event", "epsilon": "1.3", "delta": "1e-06"},
        {"account": "user", "epsilon": "unbounded", "delta": "unbounded"},
        {"account": "l1:64", "epsilon": "unbounded", "delta": "unbounded"},
    ]
    assert {plan["last_epoch"] for plan in shown["plans"]} == {0, 4}
    assert all(plan["report_kept"] for plan in shown["plans"])
    text = RUN.invoke(app, ["ledger", str(path)]).output
    assert "2 charges" in text
    assert "unbounded" in text
    assert path.read_bytes() == before
    path.write_bytes(b"".join(before.splitlines(keepends=True)[:2]))
    cut = RUN.invoke(app, ["ledger", str(path)])
    assert "has lost lines" in str(cut.exception)


def test_it_says_what_is_wrong(tmp_path):
    missing = RUN.invoke(app, ["ledger", str(tmp_path / "none")])
    assert missing.exit_code == 1
    assert "cannot read the ledger" in str(missing.exception)
    (tmp_path / "other").write_text("no ledger\n")
    other = RUN.invoke(app, ["ledger", str(tmp_path / "other")])
    assert "line 1 of the ledger is damaged" in str(other.exception)

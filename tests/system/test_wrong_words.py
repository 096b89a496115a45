"""What people get wrong at the command line: one sentence, a status, and no traceback."""

from pathlib import Path

import pytest

PLAN = ["plan", "--protect", "event", "--epsilon", "4", "--sparsity", "2"]
ROWS = "user,site\nann,tea\nann,milk\nbob,tea\nann,tea\n"


@pytest.fixture
def files(faintly, tmp_path: Path) -> None:
    """Write rows, a plan for any text, one for numbers, reports and a sketch."""
    (tmp_path / "rows.csv").write_text(ROWS)
    faintly(*PLAN, "--clients", "50", "--universe", "open", "-o", "plan.json")
    faintly(*PLAN, "--clients", "5_0", "--universe", "1k", "-o", "numbers.json")
    encode = ["encode", "--plan", "plan.json", "rows.csv", "--duplicates", "once"]
    faintly(*encode, "-o", "reports.fnt")
    faintly("aggregate", "--plan", "plan.json", "reports.fnt", "-o", "sketch.fns")


WRONG = [
    ("encode --plan plan.json rows.csv -o x", "line 5 of rows.csv: this client already holds"),
    ("encode --plan plan.json rows.csv -o x", "--duplicates"),
    (
        "encode --plan numbers.json rows.csv --duplicates once -o x",
        "line 2 of rows.csv: item is text, and the plan's keys are the numbers 0..999; plan with",
    ),
    ("encode --plan plan.json rows.csv --client whom -o x", "has no column whom"),
    ("encode --plan plan.json nowhere.csv -o x", "no file or dataset 'nowhere.csv'"),
    ("encode --plan sketch.fns rows.csv -o x", "sketch.fns: this is a sketch; give the plan"),
    ("encode --plan rows.csv rows.csv -o x", "rows.csv: the plan is not JSON, see line 1"),
    ("query reports.fnt tea", "reports.fnt: these are reports; aggregate them first"),
    ("query plan.json tea", "plan.json: this is a plan; a sketch is what"),
    ("top reports.fnt", "these are reports; aggregate them first"),
    ("merge reports.fnt -o x", "these are reports; aggregate them first"),
    ("aggregate --plan plan.json sketch.fns -o x", "sketch.fns: this is a sketch already"),
    ("audit --plan reports.fnt", "reports.fnt: these are reports; give the plan"),
    ("serve", "name the folder to keep everything in: --data DIR"),
    ("serve --data d --tls-cert c.pem --tls-key k.pem", "TLS certificate c.pem or its key k.pem"),
    (
        "push reports.fnt --server https://127.0.0.1:1 --ca-file ca.pem",
        "there is no file ca.pem with certificates",
    ),
]
UNREADABLE = [
    ("plan --protect event --universe open --clients 50kk", "50kk is not a whole number; write it"),
    ("plan --protect event --universe open --clients 5,00", "5,00 is not a whole number"),
    ("plan --protect event --universe open --clients 0.5", "0.5 is not a whole number"),
    ("plan --protect event --universe open --epsilon much", "much is not a number; write it like"),
    ("plan --protect event --universe open --epsilon nan", "nan is not a number"),
    ("simulate --plan plan.json --data rows.csv --runs 0", "0 is too small; the least is 1"),
    (
        "collection create plan.json --server http://127.0.0.1:1 --epoch first",
        "first is not a whole number; write it like",
    ),
    (
        "simulate --plan plan.json --data rows.csv --duplicates twice",
        "twice is not one of refuse, once, sum",
    ),
]


def test_a_wrong_file_or_row_is_named_with_what_to_do(faintly, files):
    for words, sentence in WRONG:
        refused = faintly(*words.split(), status=1)
        assert sentence in refused.err, words
        assert refused.err.startswith("error: ")
        assert refused.err.count("\n") == 1, words
        assert "Traceback" not in refused.err


def test_numbers_that_are_none_are_told_how_to_be_written(faintly, files):
    for words, sentence in UNREADABLE:
        refused = faintly(*words.split(), status=2)
        assert sentence in refused.err, words
        assert "Traceback" not in refused.err


@pytest.mark.parametrize("written", ["50k", "50_000", "50,000", "5e4", "0.05m", "50000"])
def test_numbers_are_read_as_people_write_them(faintly, written):
    made = faintly(*PLAN, "--clients", written, "--universe", "1,000", "--json").json
    assert made["plan"]["clients"] == 50_000
    assert made["plan"]["universe"]["size"] == 1_000


def test_a_query_of_text_in_numbers_says_what_the_keys_are(faintly, tmp_path):
    (tmp_path / "rows.csv").write_text("client,item\n1,2\n2,3\n")
    faintly(*PLAN, "--clients", "2", "--universe", "10", "-o", "plan.json")
    faintly("encode", "--plan", "plan.json", "rows.csv", "-o", "r.fnt")
    faintly("aggregate", "--plan", "plan.json", "r.fnt", "-o", "s.fns")
    refused = faintly("query", "s.fns", "tea", status=1)
    assert "the keys of this plan are the numbers 0..9; 'tea' is not one of them" in refused.err


def test_encode_takes_several_files_and_means_are_over_the_plans_clients(faintly, files, tmp_path):
    (tmp_path / "more.tsv").write_text("User\tSite\neve\ttea\n")
    encode = ["encode", "--plan", "plan.json", "rows.csv", "more.tsv", "--duplicates", "sum"]
    assert faintly(*encode, "-o", "r.fnt", "--json").json["reports"] == 50
    alone = faintly(*encode, "--no-pad", "-o", "r.fnt", "--json").json
    assert (alone["reports"], alone["with_data"]) == (3, 3)

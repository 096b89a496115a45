"""The page under /demo: off unless asked for, and only the files of its folder."""

import pytest

from faintly.errors import InvalidInput


@pytest.fixture
def folder(tmp_path):
    page = tmp_path / "page"
    page.mkdir()
    (page / "index.html").write_text("<p>hello</p>")
    (page / "demo.js").write_text("1")
    (page / "plan.json").write_text("{}")
    (page / ".hidden.js").write_text("secret")
    (tmp_path / "secret.js").write_text("secret")
    return page


def test_there_is_no_page_unless_asked_for(web):
    assert web("GET", "/demo/").status_code == 404


def test_the_page_and_its_files_are_served(make_web, folder):
    web = make_web(demo=folder)
    assert web("GET", "/demo").headers["location"] == "/demo/"
    page = web("GET", "/demo/")
    assert page.text == "<p>hello</p>"
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert web("GET", "/demo/demo.js").headers["content-type"].startswith("text/javascript")


def test_nothing_else_is(make_web, folder):
    web = make_web(demo=folder)
    others = "plan.json .hidden.js ../secret.js %2e%2e%2fsecret.js ..%5csecret.js x"
    for name in others.split():
        assert web("GET", f"/demo/{name}").status_code == 404, name


def test_a_folder_without_a_page_is_refused(make_web, tmp_path):
    with pytest.raises(InvalidInput, match=r"there is no page .*index\.html"):
        make_web(demo=tmp_path)

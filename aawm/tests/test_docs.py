"""The site: every page is reached, no link is broken, pictures have words, nothing is fetched, and search knows what a rollout is."""

import functools
import http.server
import importlib.util
import json
import re
import threading
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import nbformat
import pytest

from aawm.errors import BadData, EnvironmentProblem
from aawm import site
from aawm.lessons.copies import find_lessons
from aawm.tests.conftest import ROOT, note_requests

MISSING = [name for name in ("sphinx", "myst_nb", "furo") if importlib.util.find_spec(name) is None]
NEEDED = f"building the site needs {', '.join(MISSING)}: run `make docs` once, or pip install --editable '.[docs]'"


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    return site.write_pages(tmp_path_factory.mktemp("site") / "pages", ROOT)


def notebooks(pages):
    return {
        path.relative_to(pages).as_posix(): nbformat.read(path, as_version=4)
        for path in pages.rglob("*.ipynb")
    }


def test_every_notebook_has_a_page_and_every_page_is_in_the_sidebar(pages):
    wanted = {
        path.relative_to(ROOT / "nbs").as_posix()
        for path in (ROOT / "nbs").rglob("*.ipynb")
        if ".ipynb_checkpoints" not in path.parts
    }
    assert wanted == set(notebooks(pages))
    text = json.loads((pages / "index.ipynb").read_text())["cells"][-1]["source"]
    listed = set(re.sub("[<>]", " ", "".join(text)).split())
    for path in pages.rglob("*"):
        name = path.relative_to(pages)
        if path.suffix in (".md", ".ipynb") and name.name != "index.ipynb":
            inside = (path.parent / "index.md").exists() and name.name != "index.md"
            above = path.parent.parent / "index.md"  # a room inside a room
            inside = inside or (above.exists() and f"{path.parent.name}/index" in above.read_text().split())
            # a folder of the repository, found by its link
            reached = inside or "orphan: true" in path.read_text()
            assert reached or name.with_suffix("").as_posix() in listed, name


def test_neighbours_have_different_titles(pages):
    for contents in pages.rglob("index.md"):
        if (contents.parent / "00_overview.ipynb").is_file():
            title = contents.read_text().splitlines()[0].lstrip("# ")
            assert title != nbformat.read(
                contents.parent / "00_overview.ipynb", as_version=4
            ).cells[0].source.splitlines()[0].lstrip("# ")


def test_code_folds_and_the_library_begins_with_trials(pages):
    assert "Fold code" in (pages / "_static/site.js").read_text()
    sidebar = json.loads((pages / "index.ipynb").read_text())["cells"][-1]["source"]
    assert re.search(r"<sim/index>.*<data/index>.*00_errors", "".join(sidebar), re.DOTALL)


def test_pictures_have_words_and_lessons_no_answers(pages):
    lessons = {f"lessons/{path.name}" for path in find_lessons(ROOT / "nbs" / "lessons")}
    assert lessons <= set(notebooks(pages))
    for name, page in notebooks(pages).items():
        for cell in page.cells:
            if any("image/png" in output.get("data", {}) for output in cell.get("outputs", ())):
                assert len(cell.metadata["mystnb"]["image"]["alt"]) > 40, name
            assert "BEGIN SOLUTION" not in cell.source or name not in lessons, name
            assert not cell.source.startswith("#|"), name
    figures = (pages / "figures.md").read_text()
    assert all(len(alt) > 40 for alt in re.findall(r"!\[([^\]]*)\]\(\S*fig\d\.png\)", figures))


def test_the_wings_show_their_figures(pages):
    figures = (pages / "figures.md").read_text()
    for wing, profile in (("infant", "quick"), ("marple", "quick")):
        assert f"(repository/figures/{wing}/{profile}/accuracy.png)" in figures
        page = notebooks(pages)[f"paper/{wing}/accuracy.ipynb"]
        assert any("image/png" in output.get("data", {}) for cell in page.cells for output in cell.get("outputs", ()))


def write_page(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text)]), path)


def test_what_editors_keep_beside_notebooks_is_no_page(tmp_path):
    for name in ("index", "room/a", ".ipynb_checkpoints/index", "room/.ipynb_checkpoints/a"):
        write_page(tmp_path / "nbs" / f"{name}.ipynb", "# A\n\n> Promise.")
    pages = site.write_pages(tmp_path / "pages", tmp_path)
    assert {path.relative_to(pages).as_posix() for path in pages.rglob("*.ipynb")} == {"index.ipynb", "room/a.ipynb"}
    assert not any("checkpoints" in (pages / name).read_text() for name in ("index.ipynb", "room/index.md"))


def test_a_link_that_leads_nowhere_is_refused(tmp_path):
    write_page(tmp_path / "nbs" / "index.ipynb", "# A\n\n> Promise.\n\n[b](b.ipynb)")
    with pytest.raises(BadData, match="nbs/index.ipynb has a link to b.ipynb"):
        site.write_pages(tmp_path / "pages", tmp_path)


def test_without_its_tools_the_site_says_what_to_install(monkeypatch):
    monkeypatch.setattr(site.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EnvironmentProblem, match="make docs"):
        site.build_site()


class Quiet(http.server.SimpleHTTPRequestHandler):
    "Serves files and says nothing."

    def log_message(self, *words):
        pass


class Page(HTMLParser):
    "Links, pictures and places of a page."

    def __init__(self, path):
        super().__init__()
        self.links = []
        self.pictures = []
        self.places = {"", "top"}
        self.fetched = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.places |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if tag == "img":
            self.pictures.append((given.get("src", ""), given.get("alt") or ""))
        fetched = given.get("src") if tag in (
            "img", "script", "iframe", "source"
        ) else given.get("href") if tag == "link" else None
        if fetched:
            self.fetched.append(fetched)


@pytest.fixture(scope="module")
def html(tmp_path_factory):
    "The built site."
    if MISSING:
        pytest.skip(NEEDED)
    return site.build_site(tmp_path_factory.mktemp("built") / "site", ROOT).parent


@pytest.mark.slow
def test_the_site_is_whole(html):
    pages = {path: Page(path) for path in html.rglob("*.html")}
    assert {"index.html", "figures.html", "search.html", "viz/05_player.html"} <= {
        path.relative_to(html).as_posix() for path in pages
    }
    broken = []
    wordless = []
    outside = []
    for path, page in pages.items():
        here = path.relative_to(html).as_posix()
        for link in [*page.links, *page.fetched]:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https") and link in page.fetched and "icon" not in link:
                outside.append((here, link))
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file() or (
                target in pages and parts.fragment and unquote(parts.fragment) not in pages[target].places
            ):
                broken.append((here, link))
        wordless += [
            (here, source) for source, words in page.pictures if len(words) < 10 or words.strip() in source
        ]
    assert (broken, wordless, outside) == ([], [], [])
    index = (html / "searchindex.js").read_text(encoding="utf-8")
    assert '"rollout"' in index or "rollout:" in index


@pytest.mark.slow
def test_the_site_in_a_browser(browser, html):
    handler = functools.partial(Quiet, directory=str(html))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        home = f"http://127.0.0.1:{server.server_port}/"
        page = browser.new_page(viewport={"width": 1300, "height": 1000})
        page.set_default_timeout(120_000)
        faults = []
        note_requests(page, faults, home)
        page.on(
            "response",
            lambda response: faults.append(
                f"{response.status} {response.url}"
            ) if response.status >= 400 else None
        )
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(f"{home}figures.html")
        pictures = page.locator("article img")
        assert pictures.count() >= 5
        for k in range(pictures.count()):
            pictures.nth(k).scroll_into_view_if_needed()
            assert pictures.nth(k).evaluate(
                "picture => picture.decode().then(() => picture.naturalWidth)"
            ) > 300
        for name in ("viz/05_player.html", "lessons/index.html", "models/10_your_own_model.html"):
            page.goto(home + name)
            assert page.locator("h1").count() >= 1
        assert faults == []
        page.close()

"""The site: lessons show no answers, no link is broken, pictures have words, nothing is fetched, and search knows what a rollout is."""

import importlib.util
import runpy
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import nbformat
import pytest

from aawm.lessons.copies import find_lessons
from aawm.tests.conftest import ROOT

MISSING = [name for name in ("sphinx", "myst_nb", "furo") if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"the site needs {', '.join(MISSING)}: pip install --editable '.[docs]'")


@pytest.fixture(scope="module")
def conf():
    return runpy.run_path(str(ROOT / "docs/conf.py"))


def test_pages_have_no_answers_and_no_marks(conf):
    names = [path.relative_to(ROOT / "nbs").with_suffix("").as_posix() for path in find_lessons(ROOT / "nbs/lessons")]
    for name in [*names, "sim/00_overview", "models/01_base"]:
        cells = nbformat.reads(conf["page"](name), as_version=4).cells
        assert not any("BEGIN SOLUTION" in cell.source or cell.source.startswith("#|") for cell in cells)
    assert any(cell.source.startswith("<iframe") for cell in nbformat.reads(conf["page"]("sim/00_overview"), as_version=4).cells)


def test_figures_are_shown_as_executed(conf):
    for name in ("paper/fig3", "paper/infant/accuracy", "paper/marple/accuracy"):
        cells = nbformat.reads(conf["page"](name), as_version=4).cells
        assert any("image/png" in output.get("data", {}) for cell in cells for output in cell.get("outputs", ()))


def test_links_lead_somewhere(conf):
    folder = ROOT / "nbs/sim"
    moved = conf["moved_links"]("[a](../index.ipynb#x) [b](../../CITATION.cff) `[c](d)` ![p](../../figures/seeds/fig3.png)", folder, ROOT / "nbs")
    assert moved == f"[a](index.ipynb#x) [b]({conf['REPOSITORY']}CITATION.cff) `[c](d)` ![p](../figures/seeds/fig3.png)"
    with pytest.raises(Exception, match="a link to nowhere.ipynb"):
        conf["moved_links"]("[a](nowhere.ipynb)", folder, folder)


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
    "The built site, without the pages that move."
    out = tmp_path_factory.mktemp("site")
    command = ["-m", "sphinx", "-q", "-W", "--keep-going", "-D", "html_extra_path=", "-d", str(out / "trees"), "-c", "docs", "nbs", str(out / "html")]
    subprocess.run([sys.executable, *command], cwd=ROOT, check=True)
    return out / "html"


@pytest.mark.slow
def test_the_site_is_whole(html):
    pages = {path: Page(path) for path in html.rglob("*.html")}
    assert {"index.html", "search.html", "paper/fig3.html", "viz/05_player.html"} <= {
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
        wordless += [(here, source) for source, words in page.pictures if len(words) < 10 or words.strip() in source]
    assert (broken, wordless, outside) == ([], [], [])
    index = (html / "searchindex.js").read_text(encoding="utf-8")
    assert '"rollout"' in index or "rollout:" in index

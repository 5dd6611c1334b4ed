"""How Sphinx makes the site from the notebooks in `nbs`, for `make docs`; nothing is fetched from elsewhere when a page is read."""

import os
import re
from pathlib import Path

import nbformat
from sphinx.errors import ExtensionError

import aawm
from aawm.lessons.copies import kind_of, student_copy

ROOT = Path(__file__).parents[1]
NBS = ROOT / "nbs"
REPOSITORY = "https://github.com/aawm/aawm/blob/main/"

project, author, language = "aawm", "the aawm contributors", "en"
version = release = aawm.__version__
extensions = ["myst_nb"]
root_doc = "index"
exclude_patterns = ["**.ipynb_checkpoints", "study/assets", "studies/real"]
nb_execution_mode = "off"
nb_merge_streams = True
nb_ipywidgets_js: dict = {}
myst_heading_anchors = 3
suppress_warnings = ["myst.header", "mystnb.unknown_mime_type"]
html_theme = "furo"
html_title = f"aawm {version}"
html_copy_source = html_show_sphinx = html_show_copyright = False
html_permalinks_icon = "#"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_extra_path = ["../_docs/extra"]  # pages that move, as `make docs` writes them

FIGURES = {"paper": "seeds", "paper/infant": "infant/quick", "paper/marple": "marple/quick"}  # where executed notebooks lie
WITH_A_TRIAL = ("sim/00_overview", "evaluation/00_overview", "viz/05_player")  # open with a trial that moves
TRIAL = '<iframe src="../trial.html" title="A trial that moves" width="100%" height="720" loading="lazy" style="border:0"></iframe>'
CHALLENGE = '**Can you do better?** <a href="challenge.html">Six trials, two minutes.</a>'
SIDEBAR = {  # caption -> pages; an overview holds the pages of its room
    "To read": "lessons/00_overview guides/00_overview glossary",
    "The library, from trials to figures": "sim/00_overview data/00_overview events/00_overview models/00_overview "
    "training/00_overview evaluation/00_overview viz/00_overview infant/00_overview marple/00_overview study/00_overview "
    "runs/00_overview bench*/00_overview studies/00_overview",
    "What makes figures and artefacts": "paper/* paper/*/* pipeline/* pipeline/*/*",
    "Common ground": "[0-9]*",
}


def toctree(pages: str, caption: str = "") -> nbformat.NotebookNode:
    "Return a cell with a list of pages for the sidebar."
    options = [":hidden:", ":glob:", ":titlesonly:", *[f":caption: {caption}"][: len(caption)]]
    return nbformat.v4.new_markdown_cell("\n".join(["```{toctree}", *options, "", *pages.split(), "```"]))


def moved_links(text: str, folder: Path, page_folder: Path) -> str:
    "Turn links as seen from a folder into those of a page; what is neither page nor picture leads to the repository."

    def turn(match: re.Match) -> str:
        target = match.group(1)
        if target is None or re.match(r"[a-z]+:|#", target):
            return match.group(0)
        name, mark, place = target.partition("#")
        path = (folder / name).resolve()
        if not path.exists():
            raise ExtensionError(f"a page of {page_folder.relative_to(ROOT)} has a link to {target}, which is not there; mend it")
        if path.suffix in (".png", ".gif") or path.suffix == ".ipynb" and path.is_relative_to(NBS):
            return f"]({os.path.relpath(path, page_folder)}{mark}{place})"
        return f"]({REPOSITORY}{path.relative_to(ROOT)})"

    return re.sub(r"```.*?```|`[^`\n]*`|\]\(([^)\s]+)\)", turn, text, flags=re.DOTALL)


def page(docname: str) -> str:
    "Return a notebook as the site shows it: figures as executed, lessons without answers, no marks of nbdev."
    place = Path(docname)
    folder = (NBS / docname).parent
    executed = ROOT / "figures" / FIGURES.get(place.parent.as_posix(), "none") / f"{place.name}.ipynb"
    shown = executed if executed.exists() else NBS / f"{docname}.ipynb"
    notebook = nbformat.reads(shown.read_text(encoding="utf-8"), as_version=4)
    if any(map(kind_of, notebook.cells)):
        whole = notebook
        notebook = student_copy(whole)
        first = next((k for k, cell in enumerate(whole.cells) if kind_of(cell)), len(whole.cells))
        for cell, before in zip(notebook.cells[:first], whole.cells):
            cell.update({"outputs": before.outputs} if cell.cell_type == "code" else {})
    notebook.cells = [cell for cell in notebook.cells if not re.match(r"#\|\s*default_exp", cell.source)]
    said = ""
    cells = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            said = " ".join(re.sub(r"\]\([^)]*\)|[][`*_|#>-]", " ", cell.source).split())[:200]
            cell.source = moved_links(cell.source, folder, folder)
            cells.append(cell)
            continue
        cell.source = re.sub(r"^#\|.*\n?", "", cell.source, flags=re.MULTILINE)
        for output in cell.get("outputs", ()):
            if "text/markdown" in output.get("data", {}):
                output.data["text/markdown"] = moved_links(output.data["text/markdown"], shown.parent, folder)
                if "remove-input" in cell.metadata.get("tags", ()):  # what the cell writes is text of the page
                    cells.append(nbformat.v4.new_markdown_cell(output.data["text/markdown"]))
            if any(kind.startswith("image/") for kind in output.get("data", {})):
                alt = output.metadata.get("image/png", {}).get("alt")
                cell.metadata["mystnb"] = {"image": {"alt": alt or f"Picture drawn by the code above. {said}"}}
        cells += [] if "remove-input" in cell.metadata.get("tags", ()) else [cell]
    notebook.cells = cells
    if docname in WITH_A_TRIAL or docname == "index":
        notebook.cells.insert(1, nbformat.v4.new_markdown_cell(CHALLENGE if docname == "index" else TRIAL))
    if docname == "index":
        notebook.cells += [toctree(pages, caption) for caption, pages in SIDEBAR.items()]
    elif place.name == "00_overview":
        deeper = "*/00_overview" if any(folder.glob("*/00_overview.ipynb")) else "*/[0-9]*"
        notebook.cells.append(toctree(f"* {deeper}" if any(folder.glob(f"{deeper}.ipynb")) else "*"))
    notebook.metadata["language_info"] = {"name": "python", "pygments_lexer": "ipython3"}
    return nbformat.writes(notebook)


def setup(app) -> None:
    "Have Sphinx show each notebook as `page` gives it."

    def read(app, docname: str, source: list) -> None:
        source[0] = page(docname)

    app.connect("source-read", read)

"""No answer is lost: hosts that fail, tabs that are dropped, several people at one computer, codes that are refused."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from aawm.files import FORMULA
from aawm.study.build import build_study
from aawm.study.score import read_answers, read_key, simulate_answers

FETCH = "window.saveAnswers = (csv, code) => fetch('save', { method: 'POST', body: csv });"
REPLIES = {"saves": (200, '{"success": true}'), "500": (500, "no space"), "lies": (200, '{"success": false}'), "text": (200, "thanks")}


class Host(ThreadingHTTPServer):
    "A host that serves a study with its own script, as the study's README tells, and takes answers as it is told to."

    daemon_threads = True

    def __init__(self, page: str):
        super().__init__(("127.0.0.1", 0), Reply)
        self.page, self.script, self.mode, self.taken, self.asked = page, FETCH, "saves", [], 0
        self.release = threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def address(self, query: str = "") -> str:
        return f"http://127.0.0.1:{self.server_port}/{query}"


class Reply(BaseHTTPRequestHandler):
    def answer(self, status: int, text: str, kind: str = "text/html; charset=utf-8"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(text.encode())

    def do_GET(self):
        page = self.server.page.replace("default-src 'none'", "default-src 'none'; connect-src 'self'", 1)
        self.answer(200, page.replace("<!-- A host", f"<script>{self.server.script}</script><!-- A host", 1))

    def do_POST(self):
        server, csv = self.server, self.rfile.read(int(self.headers["Content-Length"])).decode()
        server.asked += 1
        mode = server.mode
        if mode.startswith("hangs"):
            server.release.wait(60)
            mode = mode.removeprefix("hangs, then ")
        if mode in ("saves", "text"):
            server.taken.append(csv)
        self.answer(*REPLIES[mode], "application/json")

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory, arena_store):
    place = tmp_path_factory.mktemp("a study")
    build_study(arena_store, place / "study", "pickups", trials=2, seed=1, speed=100)
    return place / "study"


@pytest.fixture(scope="module")
def key(folder):
    return read_key(folder)


@pytest.fixture
def host(folder):
    opened = Host((folder / "index.html").read_text(encoding="utf-8"))
    yield opened
    opened.release.set()
    opened.shutdown()


@pytest.fixture
def context(browser):
    opened = browser.new_context(viewport={"width": 400, "height": 800}, accept_downloads=True)
    opened.set_default_timeout(20_000)
    yield opened
    opened.close()


def record(key, left: int, participant="ann", run="run1", **others) -> str:
    "What this browser keeps of somebody who has all but the last answers: a script that puts it there."
    given = [row for row in simulate_answers(key, participant, 1)]
    rows = [{name: row[name] for name in ("trial", "kind", "place", "position", "answer", "confidence", "rt", "replays")} for row in given]
    kept = {
        "participant": participant, "run": run, "rows": rows[: len(rows) - left], "revision": len(rows) - left, "handed": 0, "filed": 0,
        "blurs": 0, "reloads": 0, "comment": "", "finished": False, "screen": "400x800", "started": "2025-01-01T10:00:00.000Z",
        "order": [item.trial for item in key.items if item.kind != "practice"],
    } | others  # fmt: skip
    name = f"aawm study {key.study} {run}"
    return f"if (!localStorage.getItem({name!r})) localStorage.setItem({name!r}, {json.dumps(json.dumps(kept))});"


def opened(context, address, *scripts):
    page = context.new_page()
    page.on("pageerror", lambda fault: pytest.fail(str(fault)))
    for script in scripts:
        page.add_init_script(script)
    page.goto(address)
    return page


def press(page, text: str) -> None:
    page.get_by_role("button", name=text, exact=True).click()


def answer_next(page) -> None:
    "Answer the drawing that is shown, or go on from a page without a question."
    page.wait_for_selector(".study-next:not([disabled]), .study-answers button:not([disabled])")
    if page.locator(".study-sure input").count():
        page.locator(".study-answers button").first.click()
        page.locator(".study-sure input").fill("80")
    page.locator(".study-next").click()


def kept(page) -> list:
    "What this browser keeps."
    return page.evaluate("Object.values(localStorage).map((text) => JSON.parse(text))")


def warns(page) -> bool:
    "Would leaving ask first?"
    return page.evaluate("!dispatchEvent(new Event('beforeunload', { cancelable: true }))")


def saved_file(page, tmp_path, link=".study-download"):
    with page.expect_download() as saving:
        page.locator(link).click()
    file = tmp_path / saving.value.suggested_filename
    saving.value.save_as(file)
    return file


def people(key, place, *texts) -> dict:
    "Who is scored, by how many answers, where a host kept each of these files."
    files = [place / f"kept-{number}.csv" for number in range(len(texts))]
    for file, text in zip(files, texts):
        file.write_text(text, encoding="utf-8", newline="")
    return read_answers(files, key, []).groupby("participant").size().to_dict()


def end(page) -> None:
    "Answer all that is left."
    while not page.locator(".study-download").count():
        answer_next(page)


HOSTS = {  # how a host fails -> its script, its mode, what is said
    "answers 500": (FETCH, "500", "500 no space"),
    "lies: success is false": (FETCH, "lies", '"success":false'),
    "hangs": (FETCH, "hangs, then saves", "no reply for 20 seconds"),
    "is offline": (FETCH, "saves", "no network"),
    "forgets return": ("window.saveAnswers = (csv) => { fetch('save', { method: 'POST', body: csv }); };", "500", "did not confirm"),
    "throws": ("window.saveAnswers = () => { throw new Error('no jatos'); };", "saves", "no jatos"),
    "refuses": ("window.saveAnswers = async () => ({ ok: false, status: 507 });", "saves", "507"),
}


@pytest.mark.parametrize("name", HOSTS)
def test_a_host_that_fails_loses_nothing(context, host, key, tmp_path, name):
    host.script, host.mode, said = HOSTS[name]
    page = opened(context, host.address(), record(key, 2, handed=5))
    page.clock.install()
    press(page, "Go on where I was")
    context.set_offline(name == "is offline")
    answer_next(page)
    page.clock.fast_forward(20_000)
    page.wait_for_selector("text=Not handed over yet")
    answer_next(page)
    page.wait_for_selector(".study-not_saved")
    assert said in page.inner_text(".study-state") and "save the file" in page.inner_text(".study-state")
    assert warns(page) and len(kept(page)[0]["rows"]) == 7, "nothing is saved, all is kept"
    file = saved_file(page, tmp_path)
    page.wait_for_selector("text=Saved as a file.")
    assert not warns(page) and not host.taken, "the click saved it"
    # the host is mended: the same page hands over without a click
    host.mode = "saves"
    page.evaluate("() => { " + FETCH + " }")
    context.set_offline(False)
    host.release.set()
    page.clock.fast_forward(15_000)
    page.wait_for_selector("text=/^Saved\\.$/")
    assert people(key, tmp_path, file.read_text(encoding="utf-8"), *host.taken) == {"ann": 7}, "one person, however often handed over"


def test_a_reply_of_the_web_confirms_where_its_text_does_not_say_otherwise(context, host):
    page = opened(context, host.address())
    ask = """(text) => HandOver.prototype.confirm.call({ say: (name) => name }, new Response(text)).then(() => true, () => false)"""
    for text in ("", "thanks", "null", "{}", "[]", '{"ok": true}', '{"status": "success"}', '{"status": 201, "error": null}'):
        assert page.evaluate(ask, text), text
    for text in ("false", '{"ok": false}', '{"ok": true, "success": false}', '{"error": "full"}', '{"status": "error"}', '{"status": "Failed"}', '{"status": 507}',
                 "<!DOCTYPE html><title>Log in</title>", "\n<br />\n<b>Warning</b>: no space"):  # fmt: skip
        assert not page.evaluate(ask, text), text


LATE = "window.calls = []; window.saveAnswers = (csv) => new Promise((done, fail) => calls.push({ csv, done, fail }));"


def test_late_replies_neither_undo_nor_lose_what_is_saved(context, host, key):
    host.script = LATE
    page = opened(context, host.address(), record(key, 1, handed=6))
    page.clock.install()
    press(page, "Go on where I was")
    answer_next(page)
    page.wait_for_selector("text=Saving")
    for calls in (2, 3):
        page.clock.fast_forward(20_000)
        page.wait_for_selector("text=no reply for 20 seconds")
        page.clock.fast_forward(15_000)
        page.wait_for_function(f"() => calls.length === {calls}")
    page.evaluate("calls[1].done(true)")
    page.wait_for_selector("text=/^Saved\\.$/")
    page.evaluate("calls[0].fail(new Error('late')); calls[2].fail(new Error('later'))")
    page.clock.run_for(60_000)
    assert page.inner_text(".study-state") == "Saved." and not warns(page)
    page.locator("#comment").type("one")
    page.clock.run_for(1000)
    page.wait_for_function("() => calls.length === 4")
    page.locator("#comment").type(" and two")
    page.clock.fast_forward(20_000)
    page.wait_for_selector(".study-not_saved")
    page.clock.fast_forward(15_000)
    page.wait_for_function("() => calls.length === 5")
    page.evaluate("calls[4].done({ ok: true })")
    page.wait_for_selector("text=/^Saved\\.$/")
    page.evaluate("calls[3].done({ ok: true })")  # the older table came through last: the newer one is handed over again
    page.wait_for_function("() => calls.length === 6")
    assert "one and two" in page.evaluate("calls[5].csv") and page.inner_text(".study-state") == "Saved."


@pytest.mark.parametrize("query", ["", "?Participant=ann"])
def test_a_dropped_tab_goes_on_without_consent(context, host, key, tmp_path, query):
    page = opened(context, host.address(query))
    press(page, "I agree to take part")
    while not (kept(page) and len(kept(page)[0]["rows"]) == 2):
        answer_next(page)
    code = kept(page)[0]["participant"]
    page.close()
    page = opened(context, host.address(query))
    page.wait_for_selector(f"text=/Code {code}, .*keeps 2 answers/")
    assert page.get_by_text("Consent").count() == 0
    press(page, "Go on where I was")
    page.wait_for_selector(".study-next")
    page.reload()
    page.wait_for_selector("text=keeps 2 answers")
    press(page, "Go on where I was")
    end(page)
    page.wait_for_selector("text=/^Saved\\.$/")
    assert people(key, tmp_path, *host.taken) == {code: 7} and code == query[13:] or len(code) == 10
    assert len(host.taken) >= 7, "after each answer"


def test_a_page_from_disk_goes_on_too(context, folder, key, tmp_path):
    address = (folder / "index.html").as_uri()
    damaged = "".join(f"localStorage.setItem('aawm study {key.study} {n}', {text!r});" for n, text in enumerate(("{", "null", '{"rows": 1}')))
    page = opened(context, address, record(key, 1), damaged)
    assert not warns(page), "there is nothing to lose"
    press(page, "Go on where I was")
    end(page)
    assert warns(page) and "Nothing was sent" in page.inner_text("body")
    page.close()
    page = opened(context, address)
    press(page, "Go on where I was")
    assert len(read_answers([saved_file(page, tmp_path)], key)) == 7 and not warns(page)


def test_people_at_one_computer_do_not_mix(context, host, key, tmp_path):
    page = opened(context, host.address("?participant=bob"), record(key, 1), record(key, 3, "cai", "run2"))
    page.wait_for_selector("text=Consent")
    press(page, "I agree to take part")
    end(page)
    page.wait_for_selector("text=/^Saved\\.$/")
    page = opened(context, host.address())
    page.wait_for_selector("text=Code ann")
    assert page.get_by_text("Code cai").count() == 1 and page.get_by_text("Code bob").count() == 0
    page.locator("p", has_text="Code cai").get_by_role("button").click()
    end(page)
    page.wait_for_selector("text=/^Saved\\.$/")
    press(page, "I am somebody else")
    press(page, "I agree to take part")
    end(page)
    page.wait_for_selector("text=/^Saved\\.$/")
    counted = people(key, tmp_path, *host.taken)
    assert set(counted) > {"bob", "cai"} and "ann" not in counted and list(counted.values()) == [7, 7, 7]
    assert sorted(len(one["rows"]) for one in kept(page)) == [6, 7, 7, 7], "what ann left is still there"
    # one link with one code for all
    page = opened(context, host.address("?participant=cai"))
    press(page, "I am somebody else")
    page.get_by_label("Please type the code").fill("dee")
    press(page, "Continue")
    press(page, "I agree to take part")
    answer_next(page)
    assert "dee" in {one["participant"] for one in kept(page)}
    page.on("dialog", lambda dialog: dialog.accept())
    page = opened(context, host.address("?participant=ann"))
    page.wait_for_selector("text=keeps 6 answers")


def test_a_second_tab_takes_over_and_the_first_says_so(context, host, key, tmp_path):
    first = opened(context, host.address("?participant=ann"), record(key, 3))
    press(first, "Go on where I was")
    answer_next(first)
    second = opened(context, host.address("?participant=ann"))
    press(second, "Go on where I was")
    first.wait_for_selector("text=goes on in another tab")
    end(second)
    second.wait_for_selector("text=/^Saved\\.$/")
    assert people(key, tmp_path, *host.taken) == {"ann": 7}


@pytest.mark.parametrize("code", ["Ann%20M%C3%BCller", "{{PROLIFIC_PID}}", "", "x" * 41])
def test_a_refused_code_is_said_and_asked_for(context, host, key, code):
    page = opened(context, host.address(f"?participant={code}"))
    page.wait_for_selector("text=cannot be used")
    page.get_by_label("Please type the code").fill("no good")
    press(page, "Continue")
    assert page.get_by_text("cannot be used").count() == 1
    page.get_by_label("Please type the code").fill(" ann_2 ")
    press(page, "Continue")
    press(page, "I agree to take part")
    page.wait_for_selector(".study-text")
    assert [one["participant"] for one in kept(page)] == ["ann_2"]
    page = opened(context, host.address(f"?participant={code}"))
    press(page, "I have no code")
    page.wait_for_selector("text=Consent")


def test_a_comment_is_kept_as_it_is_typed(context, host, key, tmp_path):
    page = opened(context, host.address("?participant=ann"), record(key, 1))
    press(page, "Go on where I was")
    answer_next(page)
    text = ' =1+1;@x, "quoted" row,participant,trial\n-and a second line ' + 1000 * "long "
    page.locator("#comment").fill(text)
    page.close(run_before_unload=False)
    page = opened(context, host.address("?participant=ann"))
    press(page, "Go on where I was")
    assert page.locator("#comment").input_value() == text
    page.wait_for_selector("text=/^Saved\\.$/")
    (tmp_path / "taken.csv").write_text(host.taken[-1], encoding="utf-8", newline="")
    for file in (saved_file(page, tmp_path), tmp_path / "taken.csv"):
        assert read_answers([file], key).comment.unique().tolist() == [" ".join(FORMULA.sub(r"\1\2'", text).split())], "one line, and no formula"


def test_a_browser_without_storage_still_hands_over(context, host, key, tmp_path):
    no_storage = "for (const name of ['localStorage', 'sessionStorage']) Object.defineProperty(window, name, { get() { throw new Error('no'); } });"
    page = opened(context, host.address("?participant=ann"), no_storage)
    press(page, "I agree to take part")
    end(page)
    page.wait_for_selector("text=/^Saved\\.$/")
    assert people(key, tmp_path, *host.taken) == {"ann": 7}


def test_answers_are_deleted_where_a_person_asks(context, host, key):
    page = opened(context, host.address(), record(key, 1))
    page.on("dialog", lambda dialog: dialog.accept())
    press(page, "Go on where I was")
    end(page)
    press(page, "Delete my answers from this browser")
    page.wait_for_selector("text=deleted from this browser")
    assert kept(page) == [] and not warns(page)

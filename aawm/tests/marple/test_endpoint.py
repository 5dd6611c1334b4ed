"""A language model by one command, against a server in these tests that answers well, late, wrongly, with 429 and with 500."""

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from aawm import cli, marple
from aawm.errors import AawmError, BadData, EnvironmentProblem, Interrupted, UsageError
from aawm.marple.endpoint import Endpoint, request_all, request_answer, collect_prompts, tally
from aawm.marple.language import (
    Answer, Recorded, final_state, language_method, paper_prompt, read_two_numbers, share_of,
)
from aawm.marple.pairs import Plan, open_pairs
from aawm.marple.vocabulary import ACTIONS

pytest.importorskip("openai")


def chat(text, finish="stop", refusal=None):
    choice = {
        "index": 0, "message": {"role": "assistant", "content": text, "refusal": refusal},
        "finish_reason": finish
    }
    usage = {"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105}
    return 200, {
        "id": "x", "object": "chat.completion", "created": 0, "model": "small", "choices": [choice],
        "usage": usage
    }


@contextmanager
def server(*replies):
    "A server that gives these replies in turn, again and again: (status, body), or seconds to wait before a good one."
    asked = []
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                asked.append(request | {"key": self.headers["Authorization"]})
                reply = replies[(len(asked) - 1) % len(replies)]
            if isinstance(reply, float):
                time.sleep(reply)
                reply = chat("A: 80\nB: 20")
            status, body = reply
            content = (body if isinstance(body, str) else json.dumps(body)).encode()
            try:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("retry-after-ms", "1")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
            except OSError:  # nobody waits any more
                pass

        def log_message(self, *words):
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{httpd.server_port}/v1", asked
    finally:
        httpd.shutdown()
        httpd.server_close()


GOOD = chat("A goes there.\nA: 80\nB: 20")
WRONG = {"error": {"message": "no", "type": "x"}}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return marple.generate_pairs(tmp_path_factory.mktemp("runs") / "store", 2, houses=1, progress=False)


def infer(store, *words):
    done = CliRunner().invoke(
        cli.app, ["marple", "infer", str(store), "--method", "llm", "--no-progress", *map(str, words)]
    )
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def ask(url, text="hello", **settings):
    endpoint = Endpoint(url, "small", **settings)
    return request_answer(endpoint.client(), endpoint, text)


@pytest.mark.parametrize("bad", [(429, WRONG), (500, WRONG), (503, "<html>")], ids=["429", "500", "503"])
def test_a_request_refused_for_a_while_is_repeated(bad):
    with server(bad, bad, GOOD) as (url, asked):
        assert ask(url).text.endswith("B: 20") and len(asked) == 3
    with server(bad) as (url, asked), pytest.raises(
        EnvironmentProblem, match=f"status {bad[0]} after 3 tries"
    ) as raised:
        ask(url, tries=3)
    assert len(asked) == 3 and "\n" not in str(raised.value)


def test_a_late_answer_is_asked_again_and_a_dead_address_said():
    with server(1.0, GOOD) as (url, asked):
        assert ask(url, patience=0.3).text and len(asked) == 2
    with server(2.0) as (url, asked), pytest.raises(EnvironmentProblem, match="no answer within 0.2 s"):
        ask(url, patience=0.2, tries=1)
    with pytest.raises(EnvironmentProblem, match="nobody answers there"):
        ask("http://127.0.0.1:9/v1", tries=1)


@pytest.mark.parametrize("reply, fault, words", [((401, WRONG), UsageError, "OPENAI_API_KEY"), *(((status, WRONG), UsageError, "not accepted: ") for status in (400, 404, 413, 422)),
                                                 ((200, {"hello": 1}), EnvironmentProblem, "no choices")])
def test_what_does_not_get_better_is_said_at_once(reply, fault, words):
    with server(reply) as (url, asked), pytest.raises(fault, match=words) as raised:
        ask(url)
    assert len(asked) == 1 and "\n" not in str(raised.value)


def message(body, finish):
    status, reply = chat("", finish)
    reply["choices"][0]["message"] = body
    return status, reply


PARTS = [{"type": "thinking", "thinking": [{"type": "text", "text": "A: 1\nB: 99"}]}, {"type": "text", "text": "A: 80\nB: 20"}]


@pytest.mark.parametrize("body, finish, text", [({"role": "assistant", "content": PARTS}, "stop", "A: 80\nB: 20"), (None, "content_filter", ""),
                                                ({"role": "assistant"}, "length", "")], ids=["parts", "null", "bare"])
def test_a_message_has_parts_or_is_missing(body, finish, text):
    with server(message(body, finish)) as (url, _):
        assert ask(url) == Answer(text, finish, 100, 5)


def test_the_key_comes_from_the_environment_and_settings_arrive(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    with server(GOOD) as (url, asked):
        ask(url)
        ask(url, request={"max_completion_tokens": 99, "reasoning_effort": "low"})
    assert asked[0]["key"] == "Bearer secret"
    sent = [{name: value for name, value in request.items() if name not in ("key", "messages")} for request in asked]
    assert sent == [
        {"model": "small", "temperature": 0.5, "max_tokens": 1024},
        {"model": "small", "max_completion_tokens": 99, "reasoning_effort": "low"},
    ]


def test_ten_trials_with_every_kind_of_answer(store, tmp_path):
    "All prompts are answered; what cannot be read is counted and stands for 50; recorded answers give the same scores."
    replies = (
        GOOD, (429, WRONG), chat("A: 60\nB: 40"), chat(None, refusal="No."), chat("I think that", "length"),
        (500, WRONG), chat("It was A.")
    )
    record = tmp_path / "answers.jsonl"
    # one at a time: a second try meets the next reply, and no two faults follow each other
    options = ("--answers", record, "--completions", 1, "--examples", 0, "--concurrency", 1)
    with server(*replies) as (url, asked):
        done = infer(store, "--endpoint", url, "--model", "small", *options, "--out", tmp_path / "one.csv")
    prompts = len(collect_prompts(open_pairs(store), style="paper", examples=0))
    counts = {
        name: int(count)
        for count, name in (part.split(" ", 1) for part in done.stdout.splitlines()[0].split("; "))
    }
    assert (
        counts["prompts"] == counts["answers"] == prompts and 100 <= prompts <= 110
        and counts["tokens in"] == 100 * prompts
    )
    assert counts["read"] + counts["refused"] + counts["cut short"] + counts["unreadable"] == prompts
    assert min(
        counts["read"], counts["refused"], counts["cut short"], counts["unreadable"]
    ) > 0 and len(asked) > prompts
    again = infer(store, *options, "--out", tmp_path / "two.csv")
    assert again.stdout.splitlines()[0] == done.stdout.splitlines()[0]
    one, two = (pd.read_csv(tmp_path / name) for name in ("one.csv", "two.csv"))
    pd.testing.assert_frame_equal(one, two)
    assert set(one.rule) == {"ratio"} and set(one.said_a.round(2)) <= {
        0.2, 0.4, 0.5, 0.6, 0.8
    }, "an answer of 80 is scored .8"


def test_a_stopped_run_asks_only_what_is_missing(tmp_path):
    prompts = [f"prompt {k}" for k in range(20)]
    asked = []
    path = tmp_path / "answers.jsonl"

    def ask(text):
        if len(asked) == 7:
            raise KeyboardInterrupt
        asked.append(text)
        return Answer("Answer: 70")

    with pytest.raises(Interrupted, match="run the same command"):
        request_all(Recorded(path, about={"model": "m"}), ask, prompts, 1, 1, False)
    path.write_text(path.read_text() + '{"prompt": "half a li')  # as a kill leaves it
    kept = Recorded(path, about={"model": "m"})
    there = sum(map(len, kept.kept.values()))
    assert there == len(asked) == 7
    request_all(kept, lambda text: asked.append(text) or Answer("Answer: 70"), prompts, 1, 4, False)
    assert sorted(asked) == sorted(prompts) and tally(Recorded(path), prompts, 1)["read"] == 20
    with pytest.raises(UsageError, match="another file of answers"):
        Recorded(path, about={"model": "other"})
    path.write_text(path.read_text() + '{"prompt": 3}\n')
    with pytest.raises(BadData, match="line 22 is no recorded answer"):
        Recorded(path)


def test_answers_on_their_way_when_a_request_fails_are_kept(tmp_path):
    path = tmp_path / "answers.jsonl"
    path.touch()  # empty: its first line is yet to come
    failing = threading.Event()

    def ask(text):
        if text == "bad":
            failing.set()
            raise EnvironmentProblem("status 500")
        failing.wait()
        time.sleep(0.3)
        return Answer("Answer: 70")

    with pytest.raises(EnvironmentProblem, match="status 500"):
        request_all(Recorded(path, about={"model": "m"}), ask, ["good", "bad", "late"], 1, 2, False)
    kept = Recorded(path, about={"model": "m"})
    assert [kept.missing(text, 1) for text in ("good", "bad")] == [0, 1]
    with pytest.raises(UsageError, match="another file of answers"):
        Recorded(path, about={"model": "other"})


def test_options_of_other_methods_and_rules_are_refused(store):
    for words, text in (
        (("--rule", "exact"), "does not fit"), (("--policy", "shipped"), "belongs to"),
        (("--endpoint", "http://x"), "--model"), (("--endpoint", "x", "--model", "m"), "must begin"),
        (("--prompt", "papr"), "paper"),
        (("--endpoint", "http://x", "--model", "m", "--request", "temperature=1"), "--request is no JSON")
    ):
        with pytest.raises(AawmError, match=text) as raised:
            infer(store, *words)
        assert "\n" not in str(raised.value)


def test_the_papers_prompt_names_no_mission_and_its_end_no_place():
    pair = Plan(1, houses=1, scenarios=("shower",)).pair(0)
    evidence = tuple(marple.look(run, 9, "V+A+L") for run in pair.runs)
    texts = [paper_prompt(evidence, pair.scenario.query, first, 1) for first in (0, 1)]
    assert not any(
        name in text for name in marple.MISSIONS for text in texts
    ) and texts[0] != texts[1] and "Example 1" in texts[0]
    end = final_state(pair.house, pair.scenario.query)
    assert "agent" not in end and sum(
        piece["state"].get("toggleable", False)
        for room in end["rooms"]
        for piece in room["furnitures"]
        if piece["type"] == "shower"
    ) == 1
    assert paper_prompt(evidence[::-1], pair.scenario.query, 1, 0) == paper_prompt(
        evidence, pair.scenario.query, 0, 0
    )
    with pytest.raises(UsageError, match="where a thing is put"):
        final_state(pair.house, (pair.house.objects[0].kind, ACTIONS.index("drop")))


def test_both_numbers_of_an_answer_are_read(tmp_path):
    assert read_two_numbers("A: 10\nB: 30\nSo finally\n**A: 60%**\n**Agent B: 20/100**") == 0.75
    assert read_two_numbers("<think>\nA: 10\nB: 90\n</think>\nA: 60\n\nB: 20\nSo it was A.") == 0.75
    odd = ("A: 50", "A: 0\nB: 0", "A: 101\nB: 1", "", "A: high\nB: low", "A: -90\nB: 10", "A: .9\nB: 10")
    cut = ("<think>Suppose\nA: 90\nB: 10\nbut then", "First\nA: 90\nB: 10\nRather\nA: 20\nB", "B: 40\nno.\nA: 80", "A: 90\nB: 10\nA: 20\nB")
    for text in odd + cut:
        with pytest.raises(BadData):
            read_two_numbers(text)
    for answer in (Answer("A: 90\nB: 10", "length"), Answer("A: 90\nB: 10", "refusal"), Answer("A: 90\nB: 10", "MAX_TOKENS")):
        with pytest.raises(BadData):
            share_of(answer, "paper")
    pair = Plan(1, houses=1).pair(0)
    evidence = tuple(marple.look(run, 3) for run in pair.runs)
    method = language_method(
        lambda text: Answer("A: 90\nB: 10"), tmp_path / "a.jsonl", 2, style="paper", examples=0
    )
    p, swapped = (method(pair.house, shown, pair.scenario.query, ()) for shown in (evidence, evidence[::-1]))
    assert np.isclose(sum(p), 1) and max(p) == 0.9 and p == swapped[::-1]


def test_a_whole_last_answer_without_a_line_break_is_kept(tmp_path):
    path = tmp_path / "answers.jsonl"
    prompts = ["one", "two", "three"]
    first = Recorded(path, lambda text: f"answer {text}", {"model": "m"})
    for text in prompts[:2]:
        first.answers(text, 1)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])  # as an editor may save it
    assert Recorded(path).answers("two", 1)[0].text == "answer two" and path.read_bytes() == whole
    path.write_bytes(whole[:-1])
    again = Recorded(path, lambda text: f"new {text}", {"model": "m"})
    assert [again.answers(text, 1)[0].text for text in prompts] == ["answer one", "answer two", "new three"]
    assert path.read_bytes().startswith(whole) and [
        Recorded(path).missing(text, 1) for text in prompts
    ] == [0, 0, 0]
    path.write_bytes(whole[:-2])  # cut short
    assert [Recorded(path).missing(text, 1) for text in prompts[:2]] == [0, 1]

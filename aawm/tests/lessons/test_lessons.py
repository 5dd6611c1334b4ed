"""Lessons: students' copies hold no solution and fail with helpful words, instructors' copies pass, and usual mistakes are named."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import numpy as np
import pytest
import torch
from nbclient import NotebookClient

from aawm import __version__
from aawm.errors import BadData
from aawm.lessons import checks
from aawm.lessons.copies import (BEGIN, END, build_lessons, find_lessons, instructor_copy, kind_of, student_copy)
from aawm.schema import ENTITIES, GOAL, positions
from aawm.tests.conftest import ROOT, leave

LESSONS = find_lessons(ROOT / "nbs" / "lessons")


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    return build_lessons(tmp_path_factory.mktemp("course"), ROOT / "nbs" / "lessons")[0]


def executed(path):
    "The copy after all its cells have been run, errors or not."
    copy = nbformat.read(path, as_version=4)
    NotebookClient(
        copy, timeout=1800, kernel_name="python3", allow_errors=True,
        resources={"metadata": {"path": str(ROOT)}}
    ).execute()
    return copy


def errors(cell):
    return [f"{output.ename}: {output.evalue}" for output in cell.get("outputs", ()) if output.output_type == "error"]


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_no_solution_is_in_a_students_copy(course, lesson):
    made = {
        name: nbformat.read(course / name / lesson.stem / lesson.name, as_version=4)
        for name in ("student", "instructor")
    }
    assert made["student"].cells.pop(0).id == "setup"
    exercises = 0
    for student, instructor in zip(made["student"].cells, made["instructor"].cells, strict=True):
        assert not student.get("outputs") and not instructor.get("outputs")
        assert student.metadata.get("nbgrader") == instructor.metadata.get("nbgrader")
        if kind_of(student) == "exercise":
            exercises += 1
            solution = instructor.source.split(BEGIN)[1].split(END)[0]
            lines = [line.strip() for line in solution.splitlines() if len(line.strip()) > 12]
            assert lines and not any(line in student.source for line in lines)
            assert "raise NotImplementedError()" in student.source and student.source.startswith(("def ", "class "))
        elif kind_of(student) == "written":
            assert student.source != instructor.source
        else:
            assert student.source == instructor.source
    names = [cell.metadata.nbgrader.grade_id for cell in made["student"].cells if "nbgrader" in cell.metadata]
    assert exercises >= 2 and len(set(names)) == len(names)
    assert sum(kind_of(cell) == "check" for cell in made["student"].cells) == exercises


@pytest.mark.slow
@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_students_copy_fails_with_helpful_words_and_instructors_passes(course, lesson):
    student = executed(course / "student" / lesson.stem / lesson.name)
    for cell in (cell for cell in student.cells if kind_of(cell) == "check"):
        assert len(errors(cell)) == 1 and "is not solved yet: write your own lines in" in errors(cell)[0], (
            cell.source, errors(cell)
        )
    traces = [output.traceback for cell in student.cells for output in cell.get("outputs", ()) if output.output_type == "error"]
    assert all(len("\n".join(trace).splitlines()) == 1 for trace in traces), "an open exercise says one line"
    instructor = executed(course / "instructor" / lesson.stem / lesson.name)
    assert [fault for cell in instructor.cells for fault in errors(cell)] == []
    assert all(cell.outputs for cell in instructor.cells if kind_of(cell) == "check")


# what a check needs besides the exercise
OF_THE_LESSON = {"05_when_is_the_goal_knowable": {"shown": range(6)}}


def checked(path):
    "What each check of a copy says, nothing where it is passed: imports, exercises and checks are run, and no trial is simulated."
    cells = [
        cell
        for cell in nbformat.read(path, as_version=4).cells
        if cell.cell_type == "code" and cell.id != "setup"
    ]
    names = dict(OF_THE_LESSON.get(path.stem, {}))
    said = []
    for cell in cells[:1] + [cell for cell in cells[1:] if kind_of(cell)]:
        code = "\n".join(line for line in cell.source.splitlines() if not line.startswith("%"))
        if kind_of(cell) != "check":
            exec(code, names)
            continue
        try:
            exec(code, names)
            said.append("")
        except checks.Wrong as fault:
            said.append(str(fault))
    return said


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_checks_pass_the_solved_copy_and_say_what_the_unsolved_one_lacks(course, lesson):
    solved, unsolved = (checked(course / copies / lesson.stem / lesson.name) for copies in ("instructor", "student"))
    assert len(solved) == len(unsolved) >= 3 and not any(solved), solved
    for number, words in enumerate(unsolved, 1):
        assert words.startswith(f"Exercise {number} is not solved yet: write your own lines in `") and "\n" not in words


def test_the_course_has_all_lessons():
    assert [path.stem[:2] for path in LESSONS] == ["01", "02", "03", "04", "05", "06", "07", "08", "09", "10"]
    page = (ROOT / "nbs" / "lessons" / "for_instructors.ipynb").read_text()
    assert all(page.count(path.stem) >= 3 for path in LESSONS), "the course's table, and links to open it"


def nearer(change):
    "An answer to lesson 5, exercise 2, from the distances `[step, object]` and the number of steps."

    def approached(shown, agent, steps):
        place = positions(shown)
        return int(np.argmin(change(np.linalg.norm(place[:, :3] - place[:, [ENTITIES.index(agent)]], axis=-1), steps)))

    return approached


def open_ended(low, high, least):
    return "supported" if low >= least else "contradicted" if high < least else "undecided"


def spoil(states, least):
    states[:, :3] += 1
    return states


def grow(step, before, now, horizon):
    return torch.stack([step(before, now) for _ in range(horizon)], 1)


TABLES = {name: check for name, check in vars(checks).items() if hasattr(check, "right")}


@pytest.mark.parametrize("check", TABLES.values(), ids=TABLES)
def test_the_right_answer_passes_and_each_usual_mistake_earns_its_own_words(check, capsys):
    answers = lambda given: given if callable(given) else lambda *asked: given
    check(answers(check.right))
    assert ": right" in capsys.readouterr().out
    for words, mistake in check.mistakes.items():
        with pytest.raises(checks.Wrong) as fault:
            check(answers(mistake))
        assert str(fault.value).endswith(words)


MISTAKES = {  # those that no table holds: what is wrong -> check, the answer, words of the message
    "on the floor": (checks.check_delivered, lambda p: (np.linalg.norm((p - GOAL)[..., [0, 2]], axis=-1) < 2).any(-1), "held high above the goal"),
    "ends compared": (checks.check_moved, lambda p, t: np.linalg.norm(p[..., -1, :] - p[..., 0, :], axis=-1) > t, "it ends where it began"),
    "was there": (checks.check_entered, lambda p: (np.linalg.norm(p - GOAL, axis=-1) < 2).any(-1), "it was there already"),
    "changes its input": (checks.check_nearly, spoil, "changes the array it is given"),
    "same start": (checks.check_unroll, grow, "every step is predicted from the same start"),
    "hidden step": (checks.check_frozen, lambda s, c, h: s[:, c, None].expand(-1, h, -1), "the last is context - 1"),
    "no such object": (lambda f: checks.check_guesses(f, 2), lambda: [0, 3], "0, 1 or 2"),
    "by shares": (checks.check_approached, nearer(lambda apart, steps: apart[-1] / apart[-1 - steps]), "count the metres"),
    "one context": (checks.check_straight_on, lambda s, c, h: s[:, 3, None] + 5.0 * torch.arange(1, h + 1)[None, :, None] + 0 * s[:, :1], "one context"),
    "missing end": (checks.check_verdict, open_ended, "where a number is missing"),
}


@pytest.mark.parametrize("check, answer, words", MISTAKES.values(), ids=MISTAKES)
def test_a_usual_mistake_is_named(check, answer, words):
    with pytest.raises(AssertionError) as fault:
        check(answer)
    assert words in str(fault.value), str(fault.value)


def test_a_check_speaks_to_a_student():
    with pytest.raises(checks.Wrong) as fault:
        checks.check_height(lambda states, entity: states[:, 9])
    assert (
        "index 9 is out of bounds" in str(fault.value)
        and "The line: `checks.check_height(lambda" in str(fault.value)
    )
    assert str(fault.value) in fault.value._render_traceback_()[0], "in a notebook the words stand alone"
    for check, answer, words in (
        (checks.check_two_winners, lambda table: 3, "give two names"),
        (checks.check_frozen, lambda states, context, horizon: [1], "expected a tensor"),
        (checks.check_pairs, lambda states: (1, 2, 3), "expected a tensor"),
        (checks.check_ade, lambda said, true: [[1.0], [1.0, 2.0]], "expected numbers"),
        (checks.check_straight_on, lambda states, *given: states.zero_(), "change a copy of it, `.clone()`"),
    ):
        with pytest.raises(checks.Wrong, match="Exercise") as fault:
            check(answer)
        assert words in str(fault.value)


def bootstrap(first, second, draws, seed, together=True, ends=(2.5, 97.5)):
    random = np.random.default_rng(seed)
    size = len(first)
    rows = random.integers(size, size=(draws, size))
    others = rows if together else random.integers(size, size=(draws, size))
    return tuple(np.percentile(first[rows].mean(1) - second[others].mean(1), ends).tolist())


class Passes:
    "What a student could write to pass every check by one line."

    def __getattr__(self, name):
        return lambda *answers: None


def test_a_check_cell_takes_no_students_check():
    for path in LESSONS:
        for cell in student_copy(nbformat.read(path, as_version=4)).cells:
            if kind_of(cell) == "check":
                name = re.search(r"(\w+)\.check_", cell.source).group(1)
                answer = re.search(r"\((\w+)", cell.source.splitlines()[-1]).group(1)
                with pytest.raises((AssertionError, AttributeError)):
                    exec(cell.source, {name: Passes(), answer: None, "shown": []})


def test_a_students_copy_installs_the_package_where_it_is_missing():
    first = student_copy(nbformat.read(LESSONS[0], as_version=4)).cells[0].source
    assert "find_spec" in first and re.search(rf"aawm@([0-9a-f]{{40}}|v{re.escape(__version__)})'\n", first), "a commit, or a release"


def test_an_interval_is_told_from_others():
    checks.check_interval(bootstrap)
    for words, change in (
        ("of each model apart", {"together": False}), ("one standard error", {"ends": (16, 84)}),
        ("is 90 %", {"ends": (5, 95)})
    ):
        with pytest.raises(AssertionError, match=words):
            checks.check_interval(lambda *given, change=change: bootstrap(*given, **change))
    with pytest.raises(AssertionError, match="every seed gives the same"):
        checks.check_interval(lambda first, second, draws, seed: bootstrap(first, second, draws, 0))
    checks.check_interval(lambda *given: np.array(bootstrap(*given)))  # two numbers in an array will do


def test_a_broken_lesson_is_refused(tmp_path, capsys):
    cell = nbformat.v4.new_code_cell(f"{BEGIN}\n1\n{END}")
    with pytest.raises(BadData, match="cell 0: a solution and the tag 'exercise' must come together"):
        student_copy(nbformat.v4.new_notebook(cells=[cell]))
    written = nbformat.v4.new_markdown_cell("the answer", metadata={"tags": ["written"]})
    assert "answer" in student_copy(nbformat.v4.new_notebook(cells=[written])).cells[1].source
    assert instructor_copy(nbformat.v4.new_notebook(cells=[written])).cells[0].source == "the answer"
    (tmp_path / "file").write_text("here")
    assert leave("lessons", "--out", tmp_path / "file") == 2 and "choose another folder" in capsys.readouterr().err


@pytest.mark.slow
def test_nbgrader_grades_solved_and_unsolved_copies_outside_a_clone(tmp_path):
    "One shared folder, nothing simulated or trained for it: solved copies have every point that a check gives, unsolved ones none."
    pytest.importorskip("nbgrader", reason="grading needs nbgrader: pip install nbgrader, in an environment of its own")
    from nbgrader.api import Gradebook

    course = build_lessons(tmp_path / "course", ROOT / "nbs" / "lessons", data=True)
    shared = sorted(path.name for path in (course / "lesson_data").iterdir())
    # nbgrader calls programs beside it
    active = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for lesson in LESSONS:
        grade = [sys.executable, "-m", "nbgrader"]
        subprocess.run(
            [*grade, "generate_assignment", lesson.stem, "--force"], cwd=course, env=active, check=True,
            capture_output=True, timeout=600
        )
        for who, copies in (("solved", "instructor"), ("unsolved", "student")):
            place = course / "submitted" / who / lesson.stem / lesson.name
            place.parent.mkdir(parents=True)
            shutil.copy(course / copies / lesson.stem / lesson.name, place)
        subprocess.run(
            [*grade, "autograde", lesson.stem], cwd=course, env=active, check=True, capture_output=True,
            timeout=3600
        )
        checks_of = sum(kind_of(cell) == "check" for cell in nbformat.read(lesson, as_version=4).cells)
        with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as book:
            scores = {one.student.id: one.score for one in book.assignment_submissions(lesson.stem)}
        assert scores == {"solved": checks_of, "unsolved": 0}, lesson.stem
    assert sorted(
        path.name for path in (course / "lesson_data").iterdir()
    ) == shared, "a lesson simulates or trains nothing"

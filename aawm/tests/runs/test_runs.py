"""The runner: what is done is skipped, what is killed goes on, what is mistyped stops before any work."""

import contextlib
import errno
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
import yaml

from aawm import cli, data, runs
from aawm.errors import AawmError, BadData, EnvironmentProblem, Refused, UsageError
from aawm.files import content_hash
from aawm.runs import cluster, jobs
from aawm.runs import plan, plan_table, profile_values
from aawm.runs.jobs import is_done, run_job
from aawm.tests.conftest import ROOT, heed_interrupt


def write_notebook(path: Path, parameters: str, code: str) -> None:
    cells = [nbformat.v4.new_code_cell(parameters, metadata={"tags": ["parameters"]}), nbformat.v4.new_code_cell(code)]
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)


@pytest.fixture
def repository(tmp_path, monkeypatch):
    "A small repository of its own: numbers are drawn, doubled one by one, and added up. Each run of a notebook leaves a line in `log`."
    (tmp_path / "settings.ini").write_text("[DEFAULT]\nlib_name = aawm\n")
    log = "from pathlib import Path\nopen('log', 'a').write(Path(output).name + '\\n')\nPath(output).parent.mkdir(parents=True, exist_ok=True)\n"
    write_notebook(
        tmp_path / "nbs/draw.ipynb", "output: str = 'x'\nnumber: int = 1",
        log + "Path(output).write_text(str(number))"
    )
    write_notebook(
        tmp_path / "nbs/double.ipynb", "source: str = 'x'\noutput: str = 'y'\nfactor: int = 2",
        log + "import time, multiprocessing\nlock = multiprocessing.get_context('spawn').Lock()\nwhile Path('hold').exists():\n    time.sleep(0.05)\nPath(output).write_text(str(factor * int(Path(source).read_text())))",
    )
    write_notebook(
        tmp_path / "nbs/add.ipynb", "folder: str = 'x'\noutput: str = 'y'",
        log + "Path(output).write_text(str(sum(int(p.read_text()) for p in sorted(Path(folder).glob('double-*')))))",
    )
    manifest = {
        "profiles": {"small": {"number": 5, "factors": [2, 3], "seed": 0}},
        "jobs": {
            "draw": {
                "notebook": "nbs/draw.ipynb", "code": ["schema"],
                "parameters": {"output": "data/$profile/number", "number": "$number"},
                "outputs": ["data/$profile/number"]
            },
            "double": {
                "each": {"factor": "$factors"}, "needs": ["draw"], "notebook": "nbs/double.ipynb",
                "code": ["schema"],
                "parameters": {
                    "source": "data/$profile/number", "output": "data/$profile/double-$factor",
                    "factor": "$factor"
                },
                "outputs": ["data/$profile/double-$factor"]
            },
            "figure": {
                "needs": ["double"], "notebook": "nbs/add.ipynb", "code": ["errors"],
                "executed": "figures/$profile/add.ipynb",
                "parameters": {"folder": "data/$profile", "output": "figures/$profile/sum.csv"},
                "outputs": ["figures/$profile/sum.csv"]
            }
        }
    }
    (tmp_path / "nbs/paper").mkdir()
    (tmp_path / "nbs/paper/paper.yaml").write_text(yaml.safe_dump(manifest, sort_keys=False))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def logged(repository: Path) -> list:
    return sorted((repository / "log").read_text().split())


def test_runs_once_and_again_only_what_changed(repository):
    runs.reproduce("small", workers=2, progress=False)
    assert (repository / "figures/small/sum.csv").read_text() == "25"
    assert logged(repository) == ["double-2", "double-3", "number", "sum.csv"]
    runs.reproduce("small", workers=2, progress=False)
    assert len(logged(repository)) == 4, "all is done"

    (repository / "figures/small/sum.csv").unlink()
    runs.reproduce("small", workers=1, progress=False)
    assert logged(repository).count("sum.csv") == 2 and len(logged(repository)) == 5

    manifest = (repository / "nbs/paper/paper.yaml")
    manifest.write_text(manifest.read_text().replace("- 3\n", "- 7\n"))
    runs.reproduce("small", workers=1, progress=False)
    assert (
        repository / "figures/small/sum.csv"
    ).read_text() == "45", "the output of a job that left the plan is not drawn"
    assert logged(repository).count("double-2") == 1 and logged(repository).count("double-7") == 1
    assert [path.name.split("-")[:2] for path in (repository / "data/small/replaced").iterdir()] == [["double", "3"]]


def test_a_second_paper_has_its_own_manifest_folders_and_rules(repository, monkeypatch, capsys):
    other = yaml.safe_load(
        (repository / "nbs/paper/paper.yaml").read_text().replace(
            "data/$profile", "data/other/$profile"
        ).replace("figures/", "figures/other/")
    )
    other |= {
        "data": "data/other/$profile", "figures": "figures/other/$profile", "rules": "other_rules",
        "packages": ["numpy"]
    }
    (repository / "nbs/paper/other").mkdir()
    (repository / "nbs/paper/other/paper.yaml").write_text(yaml.safe_dump(other, sort_keys=False))
    rules = "from aawm.errors import UsageError\ndef is_offered(factor=0): return factor != 3\ndef check_values(values):\n"
    (repository / "other_rules.py").write_text(
        rules + "    if values['number'] > 9: raise UsageError('number is above 9')\n"
    )
    monkeypatch.syspath_prepend(repository)
    figures = runs.reproduce("small", workers=1, progress=False, paper="other")
    assert figures == repository / "figures/other/small" and (figures / "sum.csv").read_text() == "10" and (
        figures / "add.ipynb"
    ).is_file()
    assert sorted(path.name for path in (repository / "data/other/small/done").iterdir()) == [
        "double-2.json", "draw.json", "figure.json"
    ]
    assert not (repository / "data/small").exists() and not (repository / "figures/small").exists()
    with pytest.raises(UsageError, match="above 9"):
        runs.reproduce("small", {"number": 10}, progress=False, paper="other")
    with pytest.raises(SystemExit) as left:
        cli.main(["reproduce", "--paper", "othr", "--profile", "small"])
    assert left.value.code == 2 and "did you mean 'other'" in capsys.readouterr().err


@pytest.mark.parametrize("change, said", [({"need": ["draw"]}, "jobs.figure.need|figure.need is not a known field"), ({"needs": ["drw"]}, "did you mean 'draw'"), ({"outputs": "sum.csv"}, "outputs")])
def test_a_manifest_with_a_mistake_in_a_job_is_refused(repository, change, said):
    file = repository / "nbs/paper/paper.yaml"
    manifest = yaml.safe_load(file.read_text())
    manifest["jobs"]["figure"] |= change
    file.write_text(yaml.safe_dump(manifest, sort_keys=False))
    with pytest.raises(AawmError, match=said) as fault:
        plan_table("small")
    assert "\n" not in str(fault.value)


def test_a_job_that_is_done_is_not_run_again(repository):
    values = runs.profile_values("small")
    job = runs.plan(values)[0]
    assert run_job(job, values) > 0 and run_job(job, values) == 0, "a scheduler may ask twice"
    assert logged(repository) == ["number"]


def test_a_worker_that_sees_another_folder_is_refused(repository, monkeypatch):
    values = runs.profile_values("small")
    job = runs.plan(values)[0]
    monkeypatch.setattr("dask.distributed.get_worker", lambda: SimpleNamespace(address="tcp://away:1", name="away"))
    fault = jobs.work(job, values, ())
    assert isinstance(fault, EnvironmentProblem) and str(fault).startswith(f"tcp://away:1 works in {repository}; start")
    assert not (repository / "log").exists() and not job.kept.exists()


def test_a_figure_s_record_changes_with_one_byte_of_equal_length(repository):
    file = repository / "nbs/paper/paper.yaml"
    manifest = yaml.safe_load(file.read_text())
    manifest["jobs"]["figure"]["parameters"]["record"] = "figures/$profile/sum.json"
    file.write_text(yaml.safe_dump(manifest, sort_keys=False))
    write_notebook(
        repository / "nbs/add.ipynb", "folder: str = 'x'\noutput: str = 'y'\nrecord: str = 'z'",
        "from pathlib import Path\nPath(output).write_text('drawn')"
    )
    runs.reproduce("small", workers=1, progress=False)
    made = repository / "data/small/double-2"
    told = json.loads((repository / "figures/small/sum.json").read_text())["inputs_sha256"]
    assert told["double-2"] == {"data/small/double-2": content_hash(made)}
    stat = made.stat()
    made.write_text("11")  # it was 10
    os.utime(made, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert told["double-2"] != {"data/small/double-2": content_hash(made)}, "the bytes count, not their number or their date"
    assert not is_done(runs.plan(runs.profile_values("small"))[1]), "a changed input is made again"


def test_a_kernel_listens_on_no_port(repository):
    "Two runs at once cannot meet on a port, and the folder of the kernel's sockets goes with it."
    told = "from ipykernel.connect import get_connection_info\nprint(get_connection_info(unpack=True)['transport'], get_connection_info(unpack=True)['ip'])"
    write_notebook(repository / "nbs/ask.ipynb", "number: int = 1", told)
    done = runs.run_notebook("nbs/ask.ipynb", repository / "asked.ipynb", {})
    transport, place = nbformat.read(done, as_version=4).cells[-1].outputs[0].text.split()
    assert transport == "ipc" and not Path(place).parent.exists()


def test_a_notebook_with_merge_marks_is_one_line_and_a_byte_order_mark_is_read(repository):
    write_notebook(repository / "nbs/odd.ipynb", "number: int = 1", "print(number)")
    path = repository / "nbs/odd.ipynb"
    text = path.read_text()
    path.write_text(text.replace('"cells"', '<<<<<<< ours\n"cells"', 1))
    with pytest.raises(BadData, match="odd.ipynb is no readable notebook .*line [0-9]+") as raised:
        runs.run_notebook(path, repository / "odd_done.ipynb", {"number": 2})
    assert "\n" not in str(raised.value)
    path.write_text("\ufeff" + text, encoding="utf-8")
    done = runs.run_notebook(path, repository / "odd_done.ipynb", {"number": 2})
    assert nbformat.read(done, as_version=4).cells[-1].outputs[0].text == "2\n"


def start(repository: Path, *words) -> subprocess.Popen:
    command = [sys.executable, "-m", "aawm.cli", "reproduce", "--profile", "small", "--no-progress", *words]
    return subprocess.Popen(
        command, cwd=repository, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, preexec_fn=heed_interrupt
    )


def wait_for(condition, seconds: float = 600.0) -> None:  # a guard against waiting for ever
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)


def test_killed_run_goes_on_and_a_second_one_is_refused(repository):
    (repository / "hold").touch()
    first = start(repository)
    wait_for(lambda: (repository / "log").exists() and "double-2" in logged(repository))
    with pytest.raises(Refused, match=f"process {first.pid} "):
        runs.reproduce("small", progress=False)
    first.send_signal(signal.SIGKILL)
    first.wait()
    (repository / "hold").unlink()
    again = start(repository)
    output, _ = again.communicate(timeout=600)
    assert again.returncode == 0, output
    assert (repository / "figures/small/sum.csv").read_text() == "25"
    assert logged(repository).count("number") == 1, "what was done stays done"
    assert not list(repository.rglob("*.failed.ipynb")) and not list(repository.rglob(".part-*"))


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_says_how_to_go_on(repository, how):
    (repository / "hold").touch()
    other = socket.socket()  # another run's port, which is nothing to warn about
    with contextlib.suppress(OSError):  # somebody holds it already
        other.bind(("127.0.0.1", 8787))
        other.listen()
    run = start(repository)
    wait_for(lambda: (repository / "log").exists() and "double-2" in logged(repository))
    run.send_signal(how)
    output, _ = run.communicate(timeout=600)
    assert run.returncode == 6 and "jobs to do; the same command goes on" in output, output
    assert "semaphore" not in output and "port" not in output.lower(), output
    (repository / "hold").unlink()  # what it started ends too
    other.close()


def smoke_keys() -> dict:
    return {job.name: job.key for job in plan(profile_values("smoke"))}


@pytest.fixture(scope="module")
def before() -> dict:
    return smoke_keys()


def changed_jobs(before, after) -> set:
    "The kinds and models of the jobs before the figures that run again."
    return {
        f"{name.split()[0]} {name.split()[-1]}"
        for name in before
        if before[name] != after[name] and not name.startswith("figure")
    }


def of_models(models: set) -> set:
    "The jobs that stand on the training of these models; the cards tell of all weights."
    return {
        f"{kind} {model}" for kind in ("train", "weights", "evaluate") for model in models
    } | ({"cards cards"} if models else set())


@pytest.mark.parametrize(
    "module, models",
    [
        ("models/sgnet", {"sgnet"}),
        ("models/oracle", {"oracle"}),
        ("models/multistep", {"multistep_predictor", "multistep_delta", "oracle"}),
        ("models/rssm", {"rssm_discrete", "rssm_continuous", "sgnet"}),
        ("models/base", "all"),
        ("training/loop", "all"),
        ("training/check", set()),
        ("training/presets", set()),
    ],
)
def test_a_change_of_code_trains_again_what_it_concerns(module, models, before, monkeypatch):
    from aawm.runs import sources

    source = (ROOT / f"aawm/{module}.py").read_text(encoding="utf-8")
    original = sources.read_module

    def changed(file, when):
        imports, mark, registered = original(file, when)
        return imports, f"{mark} changed" if file.read_text(encoding="utf-8") == source else mark, registered

    monkeypatch.setattr(sources, "read_module", changed)
    values = profile_values("smoke")
    plain = {f"{kind} {kind}" for kind in ("evaluate_plain", "evaluate_visit_worlds") if module == "models/base"}
    assert changed_jobs(before, smoke_keys()) == of_models(set(values["models"]) if models == "all" else models) | plain


def test_a_change_of_one_preset_trains_that_model_again(before, monkeypatch):
    from aawm.training import PRESETS

    settings, training = PRESETS["smoke"]["sgnet"]
    monkeypatch.setitem(PRESETS["smoke"], "sgnet", (settings | {"latents": 3}, training))
    assert changed_jobs(before, smoke_keys()) == of_models({"sgnet"})


def test_a_model_from_outside_counts_by_its_own_file_and_what_it_takes_from_ours(tmp_path, monkeypatch):
    from aawm.runs.paper import model_modules, part_digest

    path = tmp_path / "outer.py"
    path.write_text("from aawm.models.multistep import MultistepDelta\n\n\nclass Mine(MultistepDelta):\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert set(model_modules("outer:Mine")) == {"outer", *model_modules("multistep_delta")}
    before = part_digest("model", "outer:Mine")
    path.write_text(path.read_text().replace("pass", "share = 2"))
    assert part_digest("model", "outer:Mine") != before


# elsewhere


@pytest.mark.parametrize(
    ("text", "message"),
    [("que: short", "dask_jobqueue refuses: .*'que'"), ("jobs: 0", "at least 1"), ("memory: much", "dask_jobqueue refuses"), ("]", "cannot read"), ("", "needs at least")],
)
def test_a_wrong_cluster_file_stops_before_anything_is_submitted(tmp_path, text, message):
    whole = "" if not text else "jobs: 1\ncores: 2\nmemory: 1GB\n"
    (tmp_path / "cluster.yaml").write_text(whole.replace(f"{text.split(':')[0]}: ", "#") + text)
    with pytest.raises(AawmError, match=message) as fault:
        cluster.connect(scheduler=str(tmp_path / "cluster.yaml"))
    assert fault.value.exit_code in (2, 3)


def test_without_slurm_and_without_a_scheduler_it_says_so(monkeypatch):
    monkeypatch.setattr(cluster.shutil, "which", lambda name: None)
    with pytest.raises(EnvironmentProblem, match="no `sbatch` here"):
        cluster.connect(scheduler="slurm")
    with pytest.raises(EnvironmentProblem, match="no dask scheduler answers"):
        cluster.connect(scheduler="tcp://127.0.0.1:1", patience=0.2)


@pytest.mark.slow
def test_jobs_are_submitted_and_given_back(repository, monkeypatch):
    "A `sbatch` that starts the job at once on this machine, and a `scancel` that ends it."
    commands = repository / "bin"
    commands.mkdir()
    (commands / "sbatch").write_text(
        f"#!/bin/bash\ncp $1 {repository}/job-$$\nsetsid bash {repository}/job-$$ > {repository}/log-$$ 2>&1 &\necho $! >> {repository}/jobs\necho Submitted batch job $!\n"
    )
    (commands / "scancel").write_text(
        f"#!/bin/bash\nfor job in $@; do kill -- -$job; echo $job >> {repository}/cancelled; done\n"
    )
    for command in commands.iterdir():
        command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
    (repository / "slurm.yaml").write_text("jobs: 2\ncores: 1\nprocesses: 1\nmemory: 2GB\nwalltime: '00:10:00'\n")
    runs.reproduce("small", scheduler="slurm.yaml", progress=False)
    assert (repository / "figures/small/sum.csv").read_text() == "25"
    with pytest.raises(SystemExit) as end:
        cli.main(
            [
                "generate", "trials", "--trials", "6", "--fidelity", "planar", "--scheduler", "slurm.yaml",
                "--no-progress"
            ]
        )
    assert not end.value.code
    here = data.generate("here", 6, workers=1, fidelity="planar", progress=False)
    assert data.open_trials("trials").attrs["data_hash"] == data.open_trials(here).attrs["data_hash"]
    jobs = (repository / "jobs").read_text().split()
    assert len(jobs) >= 2 and {*(repository / "cancelled").read_text().split()} == {*jobs}
    wait_for(
        lambda: not any(
            Path(f"/proc/{job}").exists() and "Z" not in Path(f"/proc/{job}/stat").read_text().split()[2]
            for job in jobs
        )
    )


# how a run ends


def test_all_failures_are_named_at_once_and_in_the_end(repository, capsys):
    for name in ("double", "add"):
        write_notebook(
            repository / f"nbs/{name}.ipynb",
            "source: str = 'x'\noutput: str = 'y'\nfactor: int = 2\nfolder: str = 'z'",
            "raise RuntimeError(f'no {factor} today')"
        )
    with pytest.raises(
        AawmError,
        match="^2 jobs failed: double .*no [23] today.*; double .*no [23] today.*; 3 of 4 jobs are not done"
    ):
        runs.reproduce("small", workers=2, progress=False)
    lines = [line for line in capsys.readouterr().out.splitlines() if "FAILED" in line]
    assert len(lines) == 2 and all(
        "double-" in line and ".failed.ipynb)" in line for line in lines
    ), "with reason and path"


class Stubborn:
    "A client whose cluster does not close."

    cluster = None

    def close(self, timeout):
        raise TimeoutError("timed out after 5 s.")


@pytest.mark.parametrize("outcome", [None, ValueError("the outcome")])
def test_closing_never_replaces_an_outcome(monkeypatch, capsys, outcome):
    monkeypatch.setattr(cluster, "connect", lambda scheduler, **options: Stubborn())
    with contextlib.suppress(ValueError) if outcome is None else pytest.raises(
        ValueError, match="the outcome"
    ), cluster.connected("tcp://anywhere:1"):
        if outcome:
            raise outcome
    assert "did not close (timed out after 5 s.)" in capsys.readouterr().err


def test_a_job_whose_kernel_dies_is_tried_once_more(repository, capsys):
    dies = "from pathlib import Path\nimport os\nfirst = not Path('shot').exists()\nPath('shot').touch()\nif first:\n    os._exit(137)\n"
    write_notebook(
        repository / "nbs/draw.ipynb", "output: str = 'x'\nnumber: int = 1",
        dies + "Path(output).parent.mkdir(parents=True, exist_ok=True)\nPath(output).write_text(str(number))"
    )
    runs.reproduce("small", workers=1, progress=False, only=("draw",))
    assert (repository / "data/small/number").read_text() == "5" and "FAILED" not in capsys.readouterr().out


@pytest.mark.parametrize("fault, message, tries", [
    (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), "the kernel did not come up", 2),
    (OSError(errno.ENOSPC, "No space left on device"), "No space left on device", 1),
    (PermissionError(errno.EACCES, "Permission denied", "draw.ipynb"), "Permission denied", 1),
])
def test_a_kernel_that_never_came_up_is_tried_again_and_a_file_that_cannot_be_written_is_not(repository, monkeypatch, fault, message, tries):
    calls = []

    def fail(*arguments, **options):
        calls.append(arguments)
        raise fault

    monkeypatch.setattr("papermill.execute_notebook", fail)
    with pytest.raises(AawmError, match=f"^draw: .*{message}.*; 4 of 4 jobs are not done"):
        runs.reproduce("small", workers=1, progress=False)
    assert len(calls) == tries


def test_each_worker_has_a_gpu_of_its_own(repository, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    manifest = repository / "nbs/paper/paper.yaml"
    manifest.write_text(manifest.read_text().replace("factor: $factor\n", "factor: $factor\n      device: cuda\n"))
    write_notebook(
        repository / "nbs/double.ipynb", "source: str = 'x'\noutput: str = 'y'\nfactor: int = 2\ndevice: str = 'cpu'",
        "import os, time\nfrom pathlib import Path\nPath(output).write_text(os.environ['CUDA_VISIBLE_DEVICES'])\n"
        "while len(list(Path(output).parent.glob('double-*'))) < 2:\n    time.sleep(0.05)"
    )
    runs.reproduce("small", workers=2, progress=False, only=("double",))
    assert {path.read_text() for path in (repository / "data/small").glob("double-*")} == {"3", "5"}


COUNTS = """import time
from pathlib import Path
open('log', 'a').write(Path(output).name + '\\n')
Path(output).parent.mkdir(parents=True, exist_ok=True)
kept = Path(output).with_name('steps-' + Path(output).name)
done = int(kept.read_text()) if kept.exists() else 0
for step in range(done + 1, 10):
    time.sleep(0.1)
    part = kept.with_name('part-' + kept.name)  # a kernel outlives its killed worker for a moment, beside its successor
    part.write_text(str(step))
    part.replace(kept)
    while step == 3 and not kept.with_name('lost-' + Path(output).name).exists():
        time.sleep(0.05)
"""


@pytest.mark.slow
def test_workers_that_are_lost_at_a_third_of_each_job_end_in_the_same_figure(repository):
    "As SLURM takes jobs away: each goes on from its checkpoint at another worker."
    from dask.distributed import LocalCluster

    for name, work in {"draw": "str(number)", "double": "str(factor * int(Path(source).read_text()))"}.items():
        page = nbformat.read(repository / f"nbs/{name}.ipynb", as_version=4)
        write_notebook(repository / f"nbs/{name}.ipynb", page.cells[0].source, COUNTS + f"Path(output).write_text({work})")
    stop = threading.Event()

    def take_away():
        while not stop.wait(0.05):
            for kept in (repository / "data/small").glob("steps-*"):
                name = kept.name.removeprefix("steps-")
                holder = repository / f"data/small/running/{name.replace('number', 'draw')}/.holder.json"
                lost = kept.with_name(f"lost-{name}")
                if kept.read_text() == "3" and not lost.exists() and holder.exists():
                    os.kill(json.loads(holder.read_text())["process"], signal.SIGKILL)
                    lost.touch()

    thread = threading.Thread(target=take_away)
    thread.start()
    try:
        with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL) as other:
            runs.reproduce("small", scheduler=other.scheduler_address, progress=False)
    finally:
        stop.set()
        thread.join()
    assert (repository / "figures/small/sum.csv").read_text() == "25"
    assert logged(repository) == sorted(["number", "double-2", "double-3"] * 2 + ["sum.csv"])


def test_a_cluster_that_gives_no_workers_is_named(repository, monkeypatch, capsys):
    from dask.distributed import LocalCluster

    monkeypatch.setattr(jobs, "MINUTE", 0.2)
    with LocalCluster(n_workers=0, processes=False, threads_per_worker=1, dashboard_address=None) as empty:
        late = threading.Timer(1.5, empty.scale, [1])
        late.start()
        runs.reproduce("small", scheduler=empty.scheduler_address, only=("draw",))
        late.join()
    assert "gives no worker" in capsys.readouterr().out and logged(repository) == ["number"]


def test_the_plan_of_a_gpu_adds_up_and_says_what_is_estimated():
    "By the table on the page of presets: an hour and a bit, of which event models and what follows share six processes."
    table = plan_table("gpu")
    minutes = (table.seconds / 60).groupby(table.job.str.split().str[0]).sum().astype(float)
    waits = table.job.str.contains("^train .*(?:event_transformer|strong_oracle)")
    alone = float(table.seconds[waits].sum()) / 60
    cells = json.loads((ROOT / "nbs/training/06_presets.ipynb").read_text(encoding="utf-8"))["cells"]
    page = [float(row) for cell in cells for row in re.findall(r"(?m)^\| .* \| (\d+) \| .*(?:estimated|measured|before)", "".join(cell["source"]))]
    made = minutes.pop("trials") + minutes.pop("test_trials")
    graphs = minutes.pop("train") - alone
    assert page == pytest.approx([made, graphs, alone / 6, minutes.sum() / 6], abs=1)
    assert 65 < sum(page) < 75 and set(table.source) <= {"estimated", "measured"}


def test_a_plan_needs_no_torch():
    "So it answers within two seconds, on whatever scheduler."
    code = "import sys\nfrom aawm.cli import main\ntry:\n    main(['reproduce', '--scheduler', 'slurm', '--plan'])\nexcept SystemExit as left:\n    assert not left.code\n"
    heavy = "print([name for name in ('torch', 'dask', 'nbformat', 'papermill', 'mujoco') if name in sys.modules], file=sys.stderr)"
    run = subprocess.run([sys.executable, "-c", code + heavy], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stderr.strip() == "[]"
    table = plan_table("quick")
    assert len(table) == len(plan(profile_values("quick"))) and (table.seconds.isna() | (table.seconds > 0)).all()
    assert all(job in run.stdout for job in table.job) and "NaN" not in run.stdout and "min of one worker" in run.stdout


def test_only_what_is_named_runs_with_what_it_needs_under_a_name_of_its_own(repository, capsys):
    folder = runs.reproduce("small", workers=1, progress=False, only=("double 2",), name="two")
    assert folder == repository / "figures/small-custom-two" and logged(repository) == ["double-2", "number"]
    assert not (folder / "cost.json").exists(), "a part has no cost of the whole"
    with pytest.raises(UsageError, match="unknown job 'dubble'"):
        runs.reproduce("small", progress=False, only=("dubble",))
    with pytest.raises(UsageError, match="cannot name a run"):
        runs.reproduce("small", progress=False, name="../away")

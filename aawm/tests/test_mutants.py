"Faults put into scores, labels, sampling and choices, one at a time: a test must notice each."

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1]
EVALUATION = "aawm/tests/evaluation/test_evaluation.py"
LEDGER = "aawm/tests/test_ledger.py"
CLAIMS = "aawm/tests/evaluation/test_claims.py"
EXCHANGE = "aawm/tests/evaluation/test_exchange.py"
EVENT = "aawm/tests/models/test_event_model.py"
MUTANTS = {  # name -> module, its text, what stands there instead, tests that must notice
    "a context as long as the trial is predicted": ("evaluation/tasks.py", "plan.context >= STEPS", "plan.context > STEPS + 9", EXCHANGE, "contexts"),
    "a delivery in the first step is left out": ("evaluation/tasks.py", "(inside < plan.context)", "(inside <= plan.context)", EVALUATION, "began_before"),
    "every delivery is true": ("evaluation/tasks.py", "EVERY == carried[:, None]", "EVERY >= 0", EVALUATION, "single_goal_agrees"),
    "recall counts what was called": ("evaluation/intervals.py", '"recall": lambda: (true & called, true)', '"recall": lambda: (called, true)', EVALUATION, "moves_and_errors"),
    "false positives count what is true": ("evaluation/intervals.py", '(~true & called, ~true)', '(true & called, ~true)', EVALUATION, "single_goal_agrees"),
    "F1 is halved": ("evaluation/intervals.py", '"f1": lambda: (2 * (true & called)', '"f1": lambda: ((true & called)', EVALUATION, "moves_and_errors"),
    "broken rollouts are right": ("evaluation/scores.py", "np.where(failed[0], ~rows.truth", "np.where(failed[0], rows.truth", EVALUATION, "no_score_rises"),
    "broken rollouts have no error": ("evaluation/scores.py", "error[broken] = np.inf", "error[broken] = 0.0", EVALUATION, "nan_in_a_rollout"),
    "the order of goals is turned round": ("evaluation/intervals.py", "np.argsort(-score", "np.argsort(score", EVALUATION, "single_goal_agrees"),
    "one step of the future is shown": ("evaluation/rollouts.py", "place[:, None] >= requests.context", "place[:, None] > requests.context", EVALUATION, "future_is_hidden"),
    "rollouts are laid a step early": ("evaluation/rollouts.py", "np.clip(step - context, 0", "np.clip(step - context + 1, 0", EXCHANGE, "laid_after"),
    "goals are far from the observer": ("events/labels.py", "goal_distance(xyz) < radius", "goal_distance(xyz) > radius", EVALUATION, "single_goal_agrees"),
    "staying at the goal is entering it": ("events/labels.py", "& ~inside[..., :-1]", "& inside[..., :-1]", EXCHANGE, "rests_at_the_goal"),
    "what rests is moved": ("events/labels.py", "(length > threshold)", "(length < threshold)", EVALUATION, "moves_and_errors"),
    "carried objects are far from robots": ("events/labels.py", "length_of(apart) < NEAR", "length_of(apart) > NEAR", "aawm/tests/events/test_events.py", "released_codes"),
    "latents are sampled at their least": ("models/base.py", "return logits.argmax(-1)", "return logits.argmin(-1)", "aawm/tests/models/test_models.py", ""),
    "comparisons are not corrected": ("ledger.py", "(len(ordered) - least + 1) *", "1 *", LEDGER, "partial_probabilities"),
    "differences are sums": ("ledger.py", "replace(self + other * -1", "replace(self + other * 1", LEDGER, "paired"),
    "precision is recall": ("evaluation/intervals.py", '"precision": lambda: (true & called, called)', '"precision": lambda: (true & called, true)', CLAIMS, "goes_its_way"),
    "the worse rollouts go on": ("models/event/sampling.py", "(scores / SOFTNESS)", "(scores / -SOFTNESS)", EVENT, "in_proportion"),
    "what is not wanted counts as likely": ("models/event/sampling.py", "torch.where(gain > 0", "torch.where(gain < 0", EVENT, "after_a_choice"),
    "the agent that is less likely is planned": ("models/event/sampling.py", "argmax(1), len(AGENTS)", "argmin(1), len(AGENTS)", EVENT, "is_planned"),
    "what has happened stays planned": ("models/event/sampling.py", "ahead & ~torch.stack", "ahead | torch.stack", EVENT, "crossed_out"),
    "guidance leads away from the plan": ("models/event/network.py", "((1 + guidance) * logits[0]).sub_(", "((1 - guidance) * logits[0]).add_(", EVENT, "guidance_raises"),
    "rollouts from outside keep their order": ("evaluation/exchange.py", "rollouts[np.argsort(answered)]", "rollouts[np.sort(answered)]", EXCHANGE, "any_order"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_text_of_each_fault_is_there_once(name):
    module, text, *_ = MUTANTS[name]
    assert (PACKAGE / module).read_text().count(text) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_each_fault_is_noticed(name, tmp_path):
    module, text, instead, tests, which = MUTANTS[name]
    shutil.copytree(PACKAGE, tmp_path / "aawm", ignore=shutil.ignore_patterns("__pycache__"))
    path = tmp_path / "aawm" / module
    path.write_text(path.read_text().replace(text, instead))
    command = [
        sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", tests,
        *(["-k", which] if which else [])
    ]
    run = subprocess.run(
        command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert run.returncode == 1, f"no test notices that {name}: {run.stdout[-600:]}"

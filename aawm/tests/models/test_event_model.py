"The Event Transformer: the contract, its labels against the rules, and what its rollouts may not do."

import dataclasses

import numpy as np
import pytest
import torch
import xarray
from hypothesis import given, settings
from hypothesis import strategies as st

from aawm.errors import UsageError
from aawm.events import carries, path_goal_entries, pickups
from aawm.events.tensors import (
    EVENT_KINDS, FAR, carries as carries_of_tensors, near_goal, onsets, path_ahead, steps_to,
)
from aawm.models import Context, build
from aawm.models.event import sampling
from aawm.models.event.features import (LANDMARKS, PUSHED, STILL, Scene, features, holders)
from aawm.models.event.intents import NO_LANDMARK, hindsight_intents
from aawm.models.event.loss import event_labels
from aawm.models.event.network import (
    EVENT_THRESHOLD, NEVER_AGAIN, SPANS, EventProbabilities, plan_facts, span_of,
)
from aawm.models.event.sampling import (
    begin_futures, expected_event_score, grasped_at_end, sample_futures, sample_next
)
from aawm.models.event.tokens import fit_codebooks, tokenise
from aawm.models.streams import streams_of
from aawm.schema import AGENTS, GOAL, OBJECT_INDEX, POSITION, STEPS, flatten, unflatten
from aawm.sim import simulate
from aawm.training import PRESETS, fit, load_run, preset_settings
from aawm.training.check import check_model

SMALL = {"width": 32, "layers": 1, "motions": 64, "carries": 48}


@pytest.fixture(scope="module")
def simulated():
    return [
        simulate(scenario, seed, "planar")
        for scenario, seed in (("gathering_static", 1), ("multistep_static", 2), ("gathering_random", 5))
    ]


@pytest.fixture(scope="module")
def trials(simulated):
    return torch.as_tensor(np.stack([trial.states[::5] for trial in simulated]))


@pytest.fixture(scope="module")
def model(trials):
    torch.manual_seed(0)
    built = build("event_transformer", **SMALL)
    built.calibrate(flatten(trials))
    return built


@pytest.mark.slow
@pytest.mark.parametrize("name", ["event_transformer", "strong_oracle"])
def test_the_contract_is_kept(name):
    report = check_model(name, settings=SMALL)
    warned = {name for name, outcome, _ in report.lines if outcome == "warning"}
    assert report.passed and warned <= {"another device", "CPU and GPU agree"}, report
    assert build(name).privileged == (("end_state",) if name == "strong_oracle" else ())
    with pytest.raises(UsageError, match="variant"):
        build(name, "published")


def test_features_do_not_look_ahead_and_know_no_left_from_right(trials):
    steps = torch.arange(STEPS)
    before = torch.cat([trials[:, :1], trials[:, :-1]], 1)
    seen = features(trials, before, trials[:, 0], steps)
    cut = features(trials[:, :100], before[:, :100], trials[:, 0], steps[:100])
    assert (torch.allclose(seen[:, :, :100], cut, atol=1e-5) and seen.isfinite().all() and seen.abs().max() < 20)
    mirrored = trials * torch.tensor([-1.0, 1, 1, 1, -1, -1, 1])
    assert (holders(mirrored) == holders(trials)).all()


def test_labels_are_those_of_the_rules(trials):
    begun = onsets(trials)
    assert (begun[:, :, 0].any(-1).any(1).numpy() == pickups(trials.numpy())).all()
    assert begun.any(-1).any(1)[:, 1].any(), "something is brought to the observer in these trials"
    paths = np.moveaxis(trials[:, :, OBJECT_INDEX, POSITION].double().numpy(), 2, 1)
    assert (begun[:, :, 1].any(-1).any(1).numpy() == path_goal_entries(paths)).all()
    assert torch.equal(onsets(trials[:, :, [0, 1, 2, 4, 3]]), begun.flip(1)), "who did it goes with the robot"
    ahead = steps_to(begun)
    for trial, agent, kind, thing, step in begun.nonzero().tolist():
        assert ahead[trial, agent, kind, thing, step - 1] == 1
    assert (ahead[..., -1] >= FAR - STEPS).all()
    assert span_of(torch.tensor([1, SPANS[0], SPANS[0] + 1, SPANS[-1], FAR])).tolist() == [
        0, 0, 1, len(SPANS) - 1, NEVER_AGAIN
    ]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    step=st.sampled_from([0.002, 0.02, 0.2]),
    digits=st.sampled_from([2, 12]),  # rounded, so that heights tie
    still=st.floats(0, 0.5),
    steps=st.integers(1, 80),
)
def test_carries_are_those_of_the_scores_on_any_path(seed, step, digits, still, steps):
    draw = np.random.default_rng(seed)
    change = draw.normal(0, step, (6, steps, 5, 7)) * (draw.random((6, steps, 5, 1)) > still)
    states = np.cumsum(change, 1).round(digits)
    states[..., 1] = np.abs(states[..., 1])  # on the ground or above
    path = np.linalg.norm(np.diff(states, axis=1)[:, :, :3, :3], axis=-1).sum(1)
    assert np.allclose(path_ahead(torch.as_tensor(states))[..., 0], path)
    assert np.array_equal(carries_of_tensors(torch.as_tensor(states)), carries(states))
    states[draw.random(states.shape) < 0.001] = draw.choice([np.nan, np.inf, -np.inf])
    states = states.astype(np.float32)
    with np.errstate(invalid="ignore"):
        assert np.array_equal(carries_of_tensors(torch.as_tensor(states)), carries(states.astype(np.float64)))


def test_who_holds_is_near_and_what_rests_is_held_by_nobody(trials):
    holder = holders(trials)
    scene = Scene.of(trials)
    distance = (scene.objects[:, :, :, None, [0, 2]] - scene.place[:, :, None]).norm(dim=-1)[:, :-1]
    held = (holder > STILL) & (holder < PUSHED)
    assert held.any() and (distance.gather(-1, (holder - 1).clamp(0, 1)[..., None])[..., 0][held] < 0.8).all()
    assert (trials[:, 1:, :3] - trials[:, :-1, :3])[..., POSITION].norm(dim=-1)[holder == STILL].max() <= 1e-3


def test_tokens_follow_a_trial_and_keep_its_events(simulated, trials):
    codebooks = fit_codebooks(trials, 320, 192)
    torch.manual_seed(0)
    for noise, most in ((0.0, 0.25), (0.02, 0.5)):
        followed = tokenise(trials, codebooks, noise)
        assert (followed.states - trials)[..., 3:, POSITION].norm(dim=-1).max() < most
        found = onsets(followed.states).any(-1).any(1)  # trial, kind, object
        for number, trial in enumerate(simulated):
            for event in trial.events.event:
                kind, _, thing = event.partition("_")
                assert kind not in EVENT_KINDS or found[number, EVENT_KINDS.index(kind), int(thing)], (number, event)


def test_robots_head_for_what_they_then_do(simulated, trials):
    found = hindsight_intents(trials, holders(trials))
    for number, trial in enumerate(simulated):
        for frame, agent, event in trial.events.itertuples(index=False):
            kind, _, thing = event.partition("_")
            if kind in EVENT_KINDS:
                segments = found.intent[number, max(0, frame // 5 - 25) : frame // 5, agent]
                wanted = LANDMARKS.index(f"obj{thing}" if kind == "pickup" else "observer")
                assert (segments == wanted).sum() > 5, (number, event)
    static = list(simulated[0].roles).index("static")
    assert (found.intent[0, :, static] == NO_LANDMARK).all() and not found.ends[0, :, static].any()


def test_the_future_whose_events_are_expected_is_chosen(trials):
    last = trials[1:2, 30]
    left = torch.tensor([STEPS - 31])
    futures = torch.stack([trials[1:2, 31:], last[:, None].expand(-1, STEPS - 31, -1, -1)], 1)
    truth = event_labels(trials[1:2, 30:]).at(0)
    sure = torch.full((1, *truth.time.shape[1:4], NEVER_AGAIN + 1), -5.0).scatter(-1, truth.time, 5.0)
    moved = truth.moved[..., 0].float() * 10 - 5
    fit = expected_event_score(EventProbabilities(sure.log_softmax(-1), moved), last, futures, left)
    other = expected_event_score(surely(moved=-5.0), last, futures, left)
    assert fit[0, 0] > fit[0, 1] and other[0, 1] > other[0, 0]
    # past the end of the trial
    longer = torch.cat([futures, futures[:, :, -1:].expand(-1, -1, 50, -1, -1) + 1], 2)
    assert torch.allclose(
        expected_event_score(EventProbabilities(sure.log_softmax(-1), moved), last, longer, left), fit
    )


def surely(*events, moved=0.0):
    "Events that are all but certain in the next 20 steps: `(agent, kind, object)`; nothing else is."
    time = torch.full((1, len(AGENTS), len(EVENT_KINDS), 3, NEVER_AGAIN + 1), -9.0)
    time[..., NEVER_AGAIN] = 5.0
    for agent, kind, thing in events:
        time[0, agent, EVENT_KINDS.index(kind), thing, 2] = 9.0
    return EventProbabilities(time.log_softmax(-1), torch.full((1, 3), moved))


def test_what_is_in_hand_at_the_end_of_a_context_is_known_and_no_pickup(trials):
    holder = holders(trials)
    held = (holder > STILL) & (holder < PUSHED)
    low = trials[:, 2:, :3, 1] < 0.1
    # just grasped, and lifted after the context
    row, step, thing = (held[:, 1:] & ~held[:, :-1] & low).nonzero()[0].tolist()
    lengths = torch.full((len(trials),), step + 3)
    known = grasped_at_end(trials, lengths)
    assert known[row, holder[row, step + 1, thing] - 1, thing] and known.sum() <= len(AGENTS) * len(trials)
    last = trials[row, step + 2][None]
    future = trials[row, step + 3 :][None, None]
    left = torch.tensor([STEPS - step - 3])
    expected = surely(moved=-9.0)
    charged, free = (
        expected_event_score(expected, last, future, left, held_at_start=hand)
        for hand in (None, known[row].any(0)[None])
    )
    assert torch.isclose(
        free - charged, torch.tensor(EVENT_THRESHOLD), atol=1e-3
    ), "to carry on is not charged as a pickup that nobody expected"
    high = trials[row, step + 5][None], trials[row, step + 6 :][None, None], left - 3
    alone, known_held = (
        expected_event_score(expected, *high, held_at_start=hand) for hand in (None, known[row].any(0)[None])
    )
    assert torch.equal(
        alone, known_held
    ), "what is aloft when the context ends does not rise: the rule itself sees no pickup"


def seeded(states, lengths, seed=1):
    "The context of some trials `[B, T, 5, 7]`, with random numbers of a seed."
    return Context(flatten(states), lengths, streams_of(torch.Generator().manual_seed(seed), len(states)))


def test_the_future_with_the_highest_score_is_the_rollout(model, trials, monkeypatch):
    futures = torch.randn(3, 4, 20, 5, 7)
    scores = torch.tensor([[0.0, 1, 2, 3], [-1, -2, -3, -4], [0, 5, 0, 1]])

    def with_known_scores(model, context, horizon, samples):
        "Futures whose scores are known; trials come sorted by their contexts."
        assert samples == 4
        rows = (context.lengths - 40) // 10
        return futures[rows, :, :horizon], scores[rows]

    monkeypatch.setattr("aawm.models.event.model.sample_futures", with_known_scores)
    monkeypatch.setattr(model, "config", dataclasses.replace(model.config, samples=4))
    for context in ([40, 50, 60], [60, 40, 50]):
        rows = (torch.tensor(context) - 40) // 10
        given = model.rollout(flatten(trials), torch.tensor(context), 20)
        assert torch.equal(unflatten(given), futures[rows, scores[rows].argmax(-1)]), context


def test_the_better_rollouts_replace_the_others(model, trials, monkeypatch):
    context = torch.tensor([40, 60, 80])
    pieces = {}
    monkeypatch.setattr(sampling, "SOFTNESS", 0.01)
    for every in (0, 30):
        monkeypatch.setattr(model, "config", dataclasses.replace(model.config, resample_every=every))
        pieces[every], _ = sample_futures(model, seeded(trials[:, :80], context), 40, 8)
    never, once = ({tuple(row.flatten().tolist()) for row in pieces[every][1, :, :30]} for every in (0, 30))
    assert len(never) == 8 and 1 <= len(once) < 8 and once < never, "before resampling, some of the eight"
    ends = {tuple(row.flatten().tolist()) for row in pieces[30][1]}
    assert len(ends) == 8, "and from there on each goes its own way"


def test_it_learns_in_bfloat16_and_the_loss_is_in_nats_of_tokens(model, trials):
    batch = {"states": flatten(trials)}
    model.eval()
    exact, parts = model.loss(batch)
    with torch.autocast("cpu", torch.bfloat16):
        rough, _ = model.loss(batch)
    assert abs(float(exact.detach() - rough.detach())) < 0.05 * float(exact.detach())
    assert torch.isclose(exact.detach(), sum(parts.values()))
    # untrained: guessing, busy steps count up to five times
    assert 2 * np.log(64) < float(parts["motion"]) < 5 * 1.2 * 2 * np.log(64)
    model.train()


def test_a_short_run_can_be_read_back(tmp_path, trials):
    split = ["train", "train", "validation"]
    store = xarray.Dataset(
        {"state": (("trial", "step", "entity", "feature"), trials.numpy()), "split": ("trial", split)},
        attrs={"data_hash": "of three trials"}
    )
    settings, training = preset_settings("smoke", "strong_oracle")
    training = dataclasses.replace(training, steps=2, batch=2, log_every=1)
    fit(
        "strong_oracle", store, tmp_path, model_settings=settings, training_settings=training, device="cpu",
        progress=False
    )
    read = load_run(tmp_path)
    given = {"end_state": flatten(trials)[:, -1]}
    future = read.rollout(flatten(trials), 40, 5, mode=True, privileged=given)
    assert (future.isfinite().all() and read.codebooks.motion[1:].any() and read.config.samples == settings["samples"])
    for preset in PRESETS:
        given = preset_settings(preset, "event_transformer")
        assert given == preset_settings(preset, "strong_oracle"), "the same network, given the end"


def test_planned_events_reach_intents_and_motions_but_no_expectations(model, trials):
    shown = trials[:, :40]
    start = trials[:, 0]
    hidden = model.read(shown, None)[0].transpose(1, 2)
    read = model.read_landmarks(hidden, shown, start, None)
    plan = torch.zeros(3, 40, 2, 3, plan_facts(torch.zeros(2, 2, 3)).shape[-1], requires_grad=True)
    intents = model.network.intents.logits(hidden, read, plan)
    events = model.network.events(read)
    intended = model.condition(hidden, shown, start, intents.argmax(-1), plan)
    for told in (intents, intended):
        assert torch.autograd.grad(told.sum(), plan, retain_graph=True)[0].any()
    assert torch.autograd.grad(events.time.sum(), plan, allow_unused=True)[0] is None


def test_what_has_happened_is_crossed_out_of_the_plan(model, trials, monkeypatch):
    seen = []
    context = torch.tensor([40, 40, 40])
    sample = sampling.sample_step
    everything = torch.ones(3, len(AGENTS), len(EVENT_KINDS), 3, dtype=torch.bool)
    monkeypatch.setattr(sampling, "planned_events", lambda *rest: everything)

    def picks_up_and_brings(model, states, *rest):
        "In the second step the second agent takes the first object, in the fourth the third object is with the observer."
        after, motion, held = sample(model, states, *rest)
        held = torch.zeros_like(held)
        held[:, 1, 0] = len(seen) >= 1
        after = after.clone()
        after[:, :3, POSITION] = torch.tensor([3.0, 0.0, 3.0])
        if len(seen) >= 3:
            after[:, 2, POSITION] = torch.tensor(GOAL)
        seen.append(futures.ahead[0].clone())
        return after, motion, held

    monkeypatch.setattr(sampling, "sample_step", picks_up_and_brings)
    outset, futures = begin_futures(model, seeded(trials[:, :40], context), 6)
    futures.held[:] = False
    with torch.no_grad():
        for step in range(1, 7):
            sample_next(outset, futures, step)
    pickup, goal = (EVENT_KINDS.index(kind) for kind in ("pickup", "goal"))
    assert seen[1].all() and not seen[2][
        1, pickup, 0
    ] and seen[2].sum() == 11, "the second agent's pickup is done, the first one's not"
    assert not seen[4][:, goal, 2].any() and seen[4].sum() == 9, "whoever was to bring it, it is there"
    assert near_goal(futures.now[:, OBJECT_INDEX, POSITION])[:, 2].all()


def test_steps_out_of_reach_of_the_windows_are_not_read(model, trials, monkeypatch):
    narrow = build("event_transformer", **SMALL | {"window": 20})  # one layer: a step reads the 20 up to its own
    narrow.load_state_dict(model.state_dict())
    whole, cut, short = (narrow.read(trials[:, :90], None, first)[0][:, :, -1] for first in (0, 70, 71))
    assert (torch.allclose(cut, whole, atol=1e-5) and (short - whole).abs().max() > 10 * (cut - whole).abs().max())
    context = torch.tensor([90, 80, 99])
    read = narrow.read
    steps = []
    monkeypatch.setattr(narrow, "read", lambda states, end, first: steps.append(first) or read(states, end, first))
    futures = narrow.rollout(flatten(trials), context, 10, mode=True)
    monkeypatch.setattr(sampling, "steps_in_reach", lambda lengths, c: 0)
    assert torch.allclose(
        narrow.rollout(flatten(trials), context, 10, mode=True), futures, atol=1e-5
    ) and steps == [80 - 1 - 19, 0]

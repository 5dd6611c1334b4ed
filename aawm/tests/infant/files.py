"Episodes as released files, so that every trap can be set in one."

import gzip
import json
from collections import Counter

import numpy as np

from aawm.infant.released import CODES, OWN_SHAPE, RECTANGLES
from aawm.infant.stage import ANGLE, COLORS, LIT, VISIBLE


def thing_of(one, state):
    place = state[:2].astype(int)
    if one.kind in RECTANGLES:
        sides = {"spinner": [10, 40], "door": [10, 20], "slab": [40, 10]}.get(one.kind, [50, 50])
        if one.kind == "spinner":
            return [place.tolist(), sides, int(state[ANGLE])]
        return [[int(place[0]) - sides[0] // 2, int(place[1]) - sides[1] // 2], sides, list(one.color)]
    turn = str(state[ANGLE]) if one.kind in OWN_SHAPE else ""
    color = COLORS["lit"] if state[LIT] else one.color
    return [(place - one.half_size).tolist(), one.half_size, f"./shapes/{one.kind}/{one.shape}{turn}.png", list(color)]


def frame_of(cast, states, walls, tiles):
    seen = {}
    for one, state in zip(cast, states):
        if state[VISIBLE]:
            seen.setdefault(one.kind, []).append(thing_of(one, state))
    first = {kind: things[0] for kind, things in seen.items()}
    return {
        "size": [200, 200], "walls": walls, "fuse_walls": tiles, "objects": seen.get("object", []), "agent": first.get("agent", []),
        "pin": first.get("key", []), "key": first.get("lock", []), "home": first.get("home", []), "door": first.get("door", []),
        "other_agents": seen.get("agent", [])[1:], "paddle": first.get("spinner", []), "blocking": seen.get("under", []),
        "occluder": seen.get("slab", []) + seen.get("over", []),
    }


def rectangles(cells):
    return [[[20 * row, 20 * column], [20, 20]] for row, column in np.argwhere(cells).tolist()]


def content_of(video):
    "A video as a file has it: trials, each a list of frames."
    return [
        [frame_of(video.cast, states, rectangles(trial.walls), rectangles(trial.gate > k)) for k, states in enumerate(trial.states)]
        for trial in video.trials
    ]


def write_files(videos, folder, compress=True):
    "Videos as files, a digit in the name for each further condition of an item."
    folder.mkdir(exist_ok=True)
    counts = Counter()
    for video in videos:
        number = counts[video.item, video.member]
        counts[video.item, video.member] += 1
        data = json.dumps(content_of(video)).encode()
        path = folder / f"{video.item:06d}{CODES[video.set]}{number or ''}{video.member}.json{'.gz' * compress}"
        path.write_bytes(gzip.compress(data, mtime=0) if compress else data)
    return folder

"The authors' formats: nothing hostile runs, nothing damaged passes for whole, and what goes round comes back the same."

import io
import json
import pickle
import re
import shutil
import struct
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import aawm
from aawm.data import (
    export_released,
    import_raw,
    import_released,
    multi_goal_trials,
    open_events,
    open_trials,
    single_goal_trials,
    verify,
)
from aawm.data.authors.pickles import TABLE_NAMES, TORCH_MAGIC, TORCH_PROTOCOL, read_pickle, read_table_record
from aawm.data.authors.released import read_data_file
from aawm.errors import AawmError, BadData, Refused
from aawm.tests.conftest import FIXTURES, ROOT, leave, turn

HERE = FIXTURES / "authors"
AGENTS = {3434: 0, 1212: 1}

# pandas itself reads them back; the importer reads them with any version
by_pandas = pytest.mark.skipif(
    pd.__version__ < "3", reason="the pair was pickled by pandas 3, which older ones cannot load"
)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    "The small pair of files that the released code wrote: data, information."
    folder = tmp_path_factory.mktemp("pair")
    with zipfile.ZipFile(HERE / "released.zip") as archive:
        archive.extractall(folder)
    return folder / "swm_data" / "swm_data.pkl", folder / "swm_data" / "swm_data_exp_info.pkl"


@pytest.fixture(scope="module")
def store(pair, tmp_path_factory):
    return import_released(*pair, tmp_path_factory.mktemp("store") / "trials", progress=False)


# what is in the files is in the store


@by_pandas
def test_the_store_holds_what_the_files_hold(pair, store):
    trials = open_trials(store)
    events = open_events(store)
    subsets, information = (pickle.loads(path.read_bytes()) for path in pair)
    states = subsets[0].dataset.tensors[0].numpy()
    assert np.array_equal(states.reshape(-1, 300, 5, 7), trials.state.values)
    for subset, split in zip(subsets, ("train", "val")):
        part = information[split]
        rows = np.array(subset.indices)
        assert list(trials.name.values[rows]) == part["exp_names"]
        assert np.array_equal(trials.pickup_step.values[rows], part["pickup_timepoints"])
        assert np.array_equal(trials.goal_step.values[rows], part["goal_timepoints"])
        assert np.array_equal(np.flatnonzero(single_goal_trials(trials)[rows]), part["single_goal_trajs"])
        assert np.array_equal(np.flatnonzero(multi_goal_trials(trials)[rows]), part["multi_goal_trajs"])
        assert set(trials.split.values[rows]) == {"train" if split == "train" else "validation"}
        for trial, log in zip(rows, part["event_logs"]):
            own = events[events.trial == trial]
            assert bool(trials.has_log.values[trial]) == (log is not False)
            if isinstance(log, pd.DataFrame):
                assert own.event.tolist() == log.Event.tolist() and own.frame.tolist() == log.Frame.tolist()
                assert own.agent.tolist() == [AGENTS[number] for number in log.Agent]
    assert trials.published_validation.values.tolist() == information["val"]["indices"]
    assert verify(store)["trials"] == 7


@pytest.mark.parametrize("table", sorted((HERE / "tables").glob("*.pkl")), ids=lambda path: path.stem)
def test_event_logs_of_older_pandas(table):
    data = table.read_bytes()
    logs = [read_table_record(log, table.name) for log in read_pickle(data, TABLE_NAMES, table.name)]
    assert [list(log) for log in logs] == [["Agent", "Event", "Frame"]] * 4
    assert [log["Frame"].tolist() for log in logs] == [[77, 216, 259], [], [5, 9], [216, 259]]
    assert logs[0]["Event"].tolist() == ["collision", "pickup_1", "goal_2"] and logs[0]["Agent"].tolist() == [
        3434, 1212, 3434
    ]


# round trips


@by_pandas
def test_released_to_store_to_released(pair, store, tmp_path):
    out = export_released(store, tmp_path / "out")
    for name, path in zip(("swm_data.pkl", "swm_data_exp_info.pkl"), pair):
        one, other = (pickle.loads(file.read_bytes()) for file in (path, out / name))
        if isinstance(one, dict):
            assert repr(one) == repr(other)
        else:
            assert torch.equal(
                one[0].dataset.tensors[0], other[0].dataset.tensors[0]
            ) and other[0].dataset is other[1].dataset
            assert [subset.indices for subset in one] == [subset.indices for subset in other]
    assert sorted(path.name for path in out.iterdir()) == ["swm_data.pkl", "swm_data_exp_info.pkl"]


def test_simulated_trials_come_back_the_same_but_for_seeds_and_kinds(arena_store, tmp_path):
    released = export_released(arena_store, tmp_path / "released")
    again = import_released(
        released / "swm_data.pkl", released / "swm_data_exp_info.pkl", tmp_path / "again", progress=False
    )
    here, there = open_trials(arena_store), open_trials(again)
    for name in ("state", "pickup_step", "goal_step", "name", "scenario", "split", "has_log"):
        assert (here[name].values == there[name].values).all(), name
    assert open_events(arena_store).equals(open_events(again)) and (there.seed == -1).all()


# hostile and damaged files


def say(value) -> bytes:
    "The instructions that put a constant, a tuple, a list or a dict on the stack; bytes are taken as instructions."
    if isinstance(value, bytes):
        return value
    if isinstance(value, (tuple, list)):
        before, after = (b"(", b"t") if isinstance(value, tuple) else (b"](", b"e")
        return before + b"".join(map(say, value)) + after
    if isinstance(value, dict):
        return b"}(" + b"".join(say(key) + say(item) for key, item in value.items()) + b"u"
    file = io.BytesIO()
    pickler = pickle.Pickler(file, protocol=2)
    pickler.fast = True  # remembers nothing
    pickler.dump(value)
    return file.getvalue()[2:-1]


def say_call(module: str, name: str, arguments=()) -> bytes:
    return f"c{module}\n{name}\n".encode() + say(tuple(arguments)) + b"R"


def say_object(module: str, name: str, state) -> bytes:
    return f"c{module}\n{name}\n".encode() + b")\x81" + say(state) + b"b"


def storage(count: int = 0, **changes: bytes) -> bytes:
    "What torch writes before the numbers of a storage: five pickles, of which some may be others."
    sizes = {"protocol_version": TORCH_PROTOCOL, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}
    record = say(("storage", b"ctorch\nFloatStorage\n", "0", "cpu", count, None)) + b"Q"
    parts = {"magic": say(TORCH_MAGIC), "version": say(TORCH_PROTOCOL), "sizes": say(sizes), "record": record, "keys": say(["0"])} | changes
    return b"".join(b"\x80\x02" + part + b"." for part in parts.values()) + struct.pack("<q", count)


def attempt(data, information, folder):
    "Import a pair given as bytes; the fault, or `None`. Checks that nothing is left."
    paths = folder / "data.pkl", folder / "data_exp_info.pkl"
    for path, content in zip(paths, (data, information)):
        path.write_bytes(content)
    fault = None
    try:
        import_released(*paths, folder / "out", progress=False)
    except AawmError as raised:
        fault = raised
        assert "\n" not in str(fault)
    left = sorted(path.name for path in folder.iterdir() if path not in paths)
    assert left == ([] if fault else ["out"]) and not MARKER.exists()
    if not fault:
        verify(folder / "out")
    return fault


def attempt_in_little_memory(data, information, folder, name):
    "Import a pair that must not make the reader take much memory; the fault, or `None`."
    tracemalloc.start()
    try:
        fault = attempt(data, information, folder)
        assert tracemalloc.get_traced_memory()[1] < 2e6 + 20 * (len(data) + len(information)), name
    finally:
        tracemalloc.stop()
    return fault


MARKER = Path("/tmp/aawm-hostile-marker")
COMMAND = f"touch {MARKER}"
CALLS = {  # what a hostile file may ask for; each would leave the marker or do worse
    "os.system": (COMMAND,),
    "posix.system": (COMMAND,),
    "os.popen": (COMMAND,),
    "subprocess.Popen": (["touch", str(MARKER)],),
    "builtins.eval": (f"__import__('os').system('{COMMAND}')",),
    "builtins.exec": (f"import os; os.system('{COMMAND}')",),
    "builtins.open": (str(MARKER), "w"),
    "builtins.getattr": ("", "format"),
    "builtins.__import__": ("antigravity",),
    "__builtin__.eval": (COMMAND,),
    "importlib.import_module": ("this",),
    "pickle.loads": ("",),
    "torch.load": (str(MARKER),),
    "torch.hub.load": ("a", "b"),
    "numpy.load": (str(MARKER), None, True),
    "numpy.testing._private.utils.runstring": ("open('x','w')", {}),
    "pandas.read_pickle": (str(MARKER),),
    "types.FunctionType": (None, {}),
    "ctypes.CDLL": ("libc.so.6",),
    "operator.attrgetter": ("system",),
    "copyreg._reconstructor": (None, None, None),
    "torch.storage.os.system": (COMMAND,),  # by way of a module that is on the list
}


def data_file(raw=storage(), tensor=None, dataset=None, offset=0, shape=(0, 300, 35), strides=(10500, 35, 1), indices=()):
    "A data file of which parts are other than they should be; bytes are instructions."
    tensor = tensor or say_call(
        "torch._utils", "_rebuild_tensor_v2",
        [
            say_call("torch.storage", "_load_from_bytes", [b"\x8e" + struct.pack("<Q", len(raw)) + raw]),
            offset, shape, strides, False, say_call("collections", "OrderedDict")
        ]
    )
    dataset = (dataset or say_object("torch.utils.data.dataset", "TensorDataset", {"tensors": (tensor,)}) + b"q\x00")
    subset = [
        say_object("torch.utils.data.dataset", "Subset", {"dataset": which, "indices": list(indices)})
        for which in (dataset, b"h\x00")
    ]
    return b"\x80\x04" + say(subset) + b"."


def information_file(**changes):
    "An information file of no trials, with some entries changed."
    steps = say_call("numpy._core.multiarray", "_reconstruct", [b"cnumpy\nndarray\n", (0,), b"C\x01b"])
    part = {"indices": [], "exp_names": [], "event_logs": [], "pickup_timepoints": steps, "goal_timepoints": steps}
    part |= {"single_goal_trajs": [], "multi_goal_trajs": []} | changes
    return b"\x80\x04" + say({"train": part, "val": part, "data_columns": list(aawm.schema.COLUMNS)}) + b"."


def call_of(name):
    module, _, function = name.rpartition(".")
    return say_call(module, function, CALLS[name])


CARRIERS = {
    "bare": lambda evil: (b"\x80\x04" + evil + b".", None),
    "as the set of trials": lambda evil: (data_file(dataset=evil), None),
    "as an index": lambda evil: (data_file(indices=[evil]), None),
    "in the tensor storage": lambda evil: (data_file(storage(magic=evil)), None),
    "for the storage's record": lambda evil: (data_file(storage(record=evil)), None),
    "as an event log": lambda evil: (None, information_file(event_logs=[evil])),
}


@pytest.mark.parametrize("carrier", CARRIERS)
def test_calls_are_refused_by_name_and_never_made(pair, carrier, tmp_path):
    whole = [path.read_bytes() for path in pair]
    for name in CALLS:
        files = [given or own for given, own in zip(CARRIERS[carrier](call_of(name)), whole)]
        fault = attempt(*files, tmp_path)
        assert isinstance(fault, Refused) and f"asks for {name}," in str(fault), (name, fault)


SUBSET = b"ctorch.utils.data.dataset\nSubset\n"
TEXT = say("x")
DOUBLED = b")" + b"".join(b"q%c" % i + b"h%c" % i + b"\x86" for i in range(40))
EVIL = {  # tricks that need no name off the list
    "old instance": b"(ios\nsystem\n.",
    "old object": b"(" + SUBSET + b"o.",
    "keywords": SUBSET + b")}\x92.",
    "registry": b"\x82\x01.",
    "big registry": b"\x84\x01\x00\x00\x00.",
    "outside": b"Pabc\n.",
    "outside by value": TEXT + b"Q.",
    "buffer": b"\x97.",
    "state of a class": SUBSET + b"}b.",
    "state twice": SUBSET + b")\x81}b}b.",
    "state of a list": b"]}b.",
    "call of a text": TEXT + b")R.",
    "call of a call": SUBSET + b")R)R.",
    "arguments as a list": SUBSET + b"]R.",
    "name from a call": SUBSET + b")R" + TEXT + b"\x93.",
    "items of an object": SUBSET + b")R(" + TEXT + TEXT + b"u.",
    "extending an object": SUBSET + b")R(" + TEXT + b"e.",
    "tuple for a key": b"}" + DOUBLED + TEXT + b"s.",
    "numbers for keys": b"}(" + b"".join(say(i * ((1 << 61) - 1)) + b"N" for i in range(50)) + b"u.",
    "set": b"\x8f.",
    "memo far ahead": b"]r\xff\xff\xff\x7f.",
    "memo ahead": b"]q\x05.",
    "huge bytes": b"\x8e" + b"\xff" * 7 + b"\x0f.",
    "huge text": b"\x8d" + b"\xff" * 7 + b"\x0f.",
    "huge array": b"\x96" + b"\xff" * 7 + b"\x0f.",
    "huge frame": b"\x95" + b"\xff" * 7 + b"\x0f.",
    "huge number": b"\x8b\xff\xff\xff\x7f.",
    "deep": b"(" * 50_000 + b".",
    "pile": b"N" * 200_000 + b".",
    "doubling": b"N" + b"2" * 200_000 + b".",
    "objects": b"]" + b"]0" * 200_000 + b".",
    "dicts": b"](" + b"}" * 3000 + b"e" + b"(" + b"}" * 3000 + b"e.",
    "old numbers": b"I" + b"9" * 100_000 + b"\n.",
}


@pytest.mark.parametrize("places", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_tricks_and_bombs_are_refused(pair, tmp_path, places):
    "By day each in one of three places, at night in all."
    whole = [path.read_bytes() for path in pair]
    for number, (name, code) in enumerate(EVIL.items()):
        # a storage may refer to itself by value
        within = data_file(storage(magic=code if name != "outside by value" else b"P" + code))
        carried = ((b"\x80\x04" + code, whole[1]), (whole[0], b"\x80\x04" + code), (within, whole[1]))
        for files in (carried * 2)[number % 3 :][:places]:
            fault = attempt_in_little_memory(*files, tmp_path, name)
            assert isinstance(fault, (Refused, BadData)), (name, fault)


def array_of(shape, dtype="i8", content=b"C\x08aaaaaaaa"):
    kind = (say_call("numpy", "dtype", [dtype, False, True]) + say((3, "<", None, None, None, -1, -1, 0)) + b"b")
    bare = say_call("numpy.core.multiarray", "_reconstruct", [b"cnumpy\nndarray\n", (0,), b"C\x01b"])
    return bare + say((1, shape, kind, False, content)) + b"b"


def test_sizes_that_lie_are_refused(pair, tmp_path):
    whole = [path.read_bytes() for path in pair]
    one = storage(1) + b"aaaa"
    log = say_call(
        "pandas.core.indexes.base", "_new_Index",
        [b"cpandas\nRangeIndex\n", {"start": 0, "stop": 1 << 60, "step": 1}]
    )
    manager = say_call("pandas.core.internals.managers", "BlockManager", [(), [log, log]])
    table = b"cpandas\nDataFrame\n)\x81" + say({"_mgr": manager}) + b"b"
    files = [
        (data_file(one, shape=(1 << 30, 300, 35), strides=(0, 0, 0)), whole[1]),
        (data_file(one, shape=(1 << 30, 300, 35)), whole[1]),
        (data_file(one, shape=(1, 1, 1), strides=(1 << 40, 1, 1), offset=1 << 40), whole[1]),
        (data_file(storage(1 << 40), shape=(1, 300, 35)), whole[1]),
        (data_file(storage(-1)), whole[1]),
        (data_file(b"PK\x03\x04" + b"a" * 500), whole[1]),
        (data_file(b""), whole[1]),
        (data_file(), whole[1]),
        (whole[0], information_file(pickup_timepoints=array_of((1 << 31, 3)))),
        (whole[0], information_file(indices=array_of((1 << 31,)))),
        (whole[0], information_file(indices=array_of((1,), "O8", [("a",)]))),
        (whole[0], information_file(indices=array_of((1,), "V1000000000"))),
        (whole[0], information_file(event_logs=[table])),
        (whole[0], information_file(event_logs=["something"])),
        (whole[0], information_file(exp_names=["gathering_static_/../../etc"])),
    ]
    for i, both in enumerate(files):
        assert isinstance(attempt_in_little_memory(*both, tmp_path, i), (Refused, BadData)), i


def test_files_cut_short_anywhere_are_bad_data(pair, tmp_path):
    whole = [path.read_bytes() for path in pair]
    random = np.random.default_rng(0)
    for which in (0, 1):
        for size in [0, 1, 2, *random.integers(3, len(whole[which]), 25), len(whole[which]) - 1]:
            files = list(whole)
            files[which] = files[which][:size]
            fault = attempt(*files, tmp_path)
            assert type(fault) is BadData, (which, size, fault)


def flipped(content, place, bit):
    changed = bytearray(content)
    changed[place] ^= 1 << bit
    return bytes(changed)


def numbers_of(path, content):
    "Where in a data file its numbers are, and how many bytes they take."
    tensor = read_data_file(path)[0].transpose(0, 2, 1)  # as they lie there
    return content.index(tensor.tobytes()), tensor.nbytes


def test_flipped_bits_of_the_data_file_are_found(pair, store, tmp_path):
    "Outside the numbers every flip is found or harmless; within them, those that make an impossible state."
    whole = [path.read_bytes() for path in pair]
    random = np.random.default_rng(1)
    start, size = numbers_of(pair[0], whole[0])
    numbers = range(start, start + size)
    around = [at for at in range(len(whole[0])) if at not in numbers]
    accepted = 0
    for at in random.choice(around, 60, replace=False):
        fault = attempt(flipped(whole[0], at, random.integers(8)), whole[1], tmp_path)
        accepted += fault is None
        if fault is None:
            assert open_trials(tmp_path / "out").attrs["data_hash"] == open_trials(store).attrs["data_hash"]
            shutil.rmtree(tmp_path / "out")
    assert accepted < 15  # keys of storages, sizes of types
    values = np.frombuffer(whole[0], "<f4", size // 4, start)
    for at in random.choice(np.array(numbers[3::4])[(np.abs(values) > 0.01) & (np.abs(values) < 1.9)], 10):
        # the highest bit of the exponent, which is 0 below 2
        assert type(attempt(flipped(whole[0], at, 6), whole[1], tmp_path)) is BadData


def test_flipped_bits_of_the_information_file_are_found(pair, store, tmp_path):
    "What the file says twice is compared; a flip that passes changes nothing, or one name or event that nothing else tells of."
    whole = [path.read_bytes() for path in pair]
    random = np.random.default_rng(2)
    hashes = {"same": 0, "other": 0, "found": 0}
    for at in random.choice(len(whole[1]), 100, replace=False):
        fault = attempt(whole[0], flipped(whole[1], at, random.integers(8)), tmp_path)
        if fault is None:
            same = open_trials(tmp_path / "out").attrs["data_hash"] == open_trials(store).attrs["data_hash"]
            hashes["same" if same else "other"] += 1
            shutil.rmtree(tmp_path / "out")
        hashes["found"] += fault is not None
    assert hashes["found"] >= 60 and hashes["other"] <= 10


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_end_in_a_fault(data):
    with pytest.raises((BadData, Refused)):
        read_pickle(b"\x80\x04" + data + b"\xff", TABLE_NAMES, "bytes")


def test_a_zip_bomb_is_refused_and_a_damaged_zip_is_bad(tmp_path):
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("swm_data.pkl", bytes(20_000_000))
        archive.writestr("swm_data_exp_info.pkl", b"x")
    with pytest.raises(Refused, match="would grow"):
        import_released(tmp_path / "bomb.zip", out=tmp_path / "out", progress=False)
    whole = (HERE / "released.zip").read_bytes()
    (tmp_path / "flipped.zip").write_bytes(flipped(whole, len(whole) // 2, 3))
    with pytest.raises(BadData):
        import_released(tmp_path / "flipped.zip", out=tmp_path / "out", progress=False)
    assert not (tmp_path / "out").exists() and not list(tmp_path.glob(".part*"))


def test_the_command_line_tells_refusal_from_damage(pair, tmp_path, capsys):
    hostile = tmp_path / "hostile.pkl"
    cut = tmp_path / "cut.pkl"
    hostile.write_bytes(b"\x80\x04" + call_of("os.system") + b".")
    cut.write_bytes(pair[0].read_bytes()[:1000])
    assert leave("import-released", hostile, pair[1], "--out", tmp_path / "out", "--no-progress") == 7
    assert "os.system" in capsys.readouterr().err
    assert leave("import-released", cut, pair[1], "--out", tmp_path / "out", "--no-progress") == 3
    assert leave("import-released", tmp_path / "none.pkl", "--out", tmp_path / "out") == 2
    assert leave("import-released", HERE / "released.zip", "--out", tmp_path / "out", "--no-progress") == 0
    assert leave("export-released", tmp_path / "out", tmp_path / "again") == 0
    with zipfile.ZipFile(HERE / "raw.zip") as archive:
        archive.extractall(tmp_path)
    assert leave("import-raw", tmp_path / "raw", "--out", tmp_path / "back", "--no-progress") == 0
    assert "3 trials" in capsys.readouterr().out


# faults of single trials


def test_trials_with_a_fault_are_listed_or_left_out(pair, store, tmp_path):
    numbers = bytearray(pair[0].read_bytes())
    start, size = numbers_of(pair[0], numbers)
    for trial in (0, 2):
        at = start + trial * size // 7
        numbers[at : at + 4] = struct.pack("<f", np.nan)
    (tmp_path / "data.pkl").write_bytes(numbers)
    with pytest.raises(BadData, match="trial 0 step 0 obj0: not finite.*trial 2 step 0 obj0: not finite"):
        import_released(tmp_path / "data.pkl", pair[1], tmp_path / "out", progress=False)
    rest = import_released(tmp_path / "data.pkl", pair[1], tmp_path / "out", skip_bad=True, progress=False)
    kept = open_trials(rest)
    before = open_trials(store)
    assert verify(rest)["trials"] == 5 and sum(kept.attrs["counts"]["rejected"].values()) == 2
    assert kept.name.values.tolist() == np.delete(before.name.values, [0, 2]).tolist()
    rows = [before.name.values[trial] for trial in before.published_validation.values if trial not in (0, 2)]
    assert [kept.name.values[trial] for trial in kept.published_validation.values] == rows


# raw trials


@pytest.fixture
def raw(tmp_path):
    with zipfile.ZipFile(HERE / "raw.zip") as archive:
        archive.extractall(tmp_path)
    return tmp_path / "raw"


def change_rows(change):
    "Another table of what is seen, made from the rows of the first, its head among them."
    def apply(folder):
        file = folder / "trial_obs.csv"
        file.write_text("\n".join(change(file.read_text().splitlines())) + "\n")

    return apply


def change_cell(row, column, value):
    def change(rows):
        cells = rows[row].split(",")
        cells[column] = value
        return [*rows[:row], ",".join(cells), *rows[row + 1 :]]

    return change_rows(change)


def write_to(name, text):
    return lambda folder: (folder / name).write_text(text)


def log_of(*rows, head="Agent,Event,Frame"):
    return write_to("event_log.csv", "\n".join([head, *rows]) + "\n")


RAW_FAULTS = {
    "trial_obs.csv has 1499 rows": change_rows(lambda rows: rows[:-1]),
    "trial_obs.csv has 48 columns": change_rows(lambda rows: [rows[0].rpartition(",")[0], *rows[1:]]),
    "trial_obs.csv has 49 columns, expected 49: 2 is 'obj0_y'": change_rows(
        lambda rows: [rows[0].replace("obj0_x,obj0_y", "obj0_y,obj0_x"), *rows[1:]]
    ),
    "frame 1499 agent1: not finite": change_rows(lambda rows: [*rows[:-1], ",".join(rows[-1].split(",")[:38])]),
    "cannot be read": change_rows(lambda rows: [*rows[:700], rows[700] + ",1,2", *rows[701:]]),
    "no number in obj1_z": change_cell(5, 12, "1;5"),
    "frame 9 obj0: not finite or beyond 7": change_cell(10, 2, "9.5"),
    "unknown event 'dance_1'": log_of("3434,dance_1,5"),
    "unknown agent 7": log_of("7,collision,5"),
    "frame outside 0-1499": log_of("3434,collision,1500"),
    "delivered at step 1, picked up at -1": log_of("3434,goal_1,5"),
    "event_log.csv cannot be read": log_of("3434,goal_1"),
    "event_log.csv has columns": log_of("3434,1", head="Agent,Frame"),
    "trial_obs.csv has frame 1499 in row 0": change_rows(lambda rows: [rows[0], *rows[:0:-1]]),
    "trial_obs.csv has frame 0 in row 1": change_rows(lambda rows: [rows[0], *rows[1:2] * 1500]),
    "where whole numbers are expected": log_of("3434,collision,139.7"),
    "the line 3434,collision,139 twice": log_of("3434,collision,139", "3434,collision,139"),
    "no trial_obs.csv": lambda folder: (folder / "trial_obs.csv").unlink(),
    "no pair of behaviours": lambda folder: folder.rename(folder.with_name("walking_talking_1-1-2023-1-1"))
}


@pytest.mark.parametrize("message", turn(RAW_FAULTS, 3))
def test_bad_raw_trials_are_listed_and_skipped_if_asked(raw, message, tmp_path):
    RAW_FAULTS[message](next(raw.glob("leader*")))
    with pytest.raises(BadData, match="1 of 3 trials are bad.*" + re.escape(message)):
        import_raw(raw, tmp_path / "out", progress=False)
    assert not (tmp_path / "out").exists()
    rest = import_raw(raw, tmp_path / "out", skip_bad=True, progress=False)
    assert verify(rest)["trials"] == 2 and sum(open_trials(rest).attrs["counts"]["rejected"].values()) == 1


@pytest.mark.slow
def test_raw_trials_are_the_same_for_any_number_of_processes(tmp_path):
    stores = [
        import_raw(ROOT / "data/sample", tmp_path / name, workers=workers, progress=False)
        for name, workers in (("one", 1), ("two", 2))
    ]
    assert json.loads((stores[0] / "manifest.json").read_text()) == json.loads(
        (stores[1] / "manifest.json").read_text()
    )


# the library unpickles nothing


def test_nothing_in_the_package_unpickles():
    root = Path(aawm.__file__).parent
    words = r"pickle\.load|Unpickler|find_class|read_pickle\(|allow_pickle\s*=\s*True|weights_only\s*=\s*False|joblib\.load|marshal\.load|shelve|dill|np\.load\("
    # their read_pickle is the restricted one, which takes harmless instructions from the library's machine
    own = {"data/authors/pickles.py": {"read_pickle(", "Unpickler", "find_class"}}
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if name.startswith("tests/") or name == "_modidx.py":  # the index of names runs nothing
            continue
        text = re.sub(r"np\.load\([^)]*allow_pickle=False\)", "", path.read_text(encoding="utf-8"))
        found = set(re.findall(words, text)) - own.get(name, set())
        assert not found, (name, found)
        for call in re.findall(r"torch\.load\([^\n]*", text):
            assert "weights_only=True" in call, (name, call)

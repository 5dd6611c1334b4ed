"What the program lists is what the package holds, and takes no heavy import."

import subprocess
import sys

from aawm.evaluation import TASKS
from aawm.evaluation.tasks import find_tasks
from aawm.models import MODELS, variants_of
from aawm.runs.by_hand import model_lines, preset_lines, task_lines
from aawm.training import PRESETS


def test_lists_read_from_source_say_what_the_package_holds():
    lines = model_lines()
    own = {name: kind for name, kind in MODELS.items() if kind.__module__.startswith("aawm.models")}
    assert list(lines) == sorted(own)
    for name, kind in own.items():
        given = f" (given {', '.join(kind.privileged)})" if kind.privileged else ""
        assert lines[name] == f"{', '.join(variants_of(name))}{given}: {kind.__doc__.strip().splitlines()[0]}"
    for name, preset in PRESETS.items():
        steps = [training.steps for _, training in preset.values()]
        assert preset_lines().pop(name) == f"{' to '.join(map(str, sorted({min(steps), max(steps)})))} training steps, {len(steps)} models"
    assert list(preset_lines()) == list(PRESETS)
    assert task_lines() == {task.name: f"{task.measure}; {task.figure}" for task in find_tasks(TASKS)}


def test_lists_import_neither_torch_nor_pandas():
    code = """if True:
        import sys
        import aawm
        own = [name for name in sys.modules if name.startswith("aawm.")]
        from aawm.runs.by_hand import LISTS, list_names
        assert all(list_names(name) for name in LISTS)
        import aawm.cli
        print(*own, *{"torch", "pandas", "xarray", "matplotlib"} & {*sys.modules})
    """
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert sorted(run.stdout.split()) == ["aawm.errors", "aawm.on_demand"]

"What the program lists is what the package holds, and starting it takes no heavy import."

import subprocess
import sys

from aawm.models import MODELS
from aawm.runs.catalog import list_names
from aawm.training import PRESETS


def test_lists_say_what_the_package_holds():
    own = sorted(name for name, kind in MODELS.items() if kind.__module__.startswith("aawm.models"))
    assert set(own) <= set(list_names("models"))
    for name in own:
        assert list_names("models")[name].endswith(f": {MODELS[name].__doc__.strip().splitlines()[0]}")
    for name, preset in PRESETS.items():
        assert list_names("presets")[name].endswith(f" training steps, {len(preset)} models")


def test_the_program_starts_without_heavy_imports():
    code = """if True:
        import sys
        import aawm
        own = [name for name in sys.modules if name.startswith("aawm.")]
        import aawm.cli
        print(*own, *{"torch", "pandas", "xarray", "matplotlib"} & {*sys.modules})
    """
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []

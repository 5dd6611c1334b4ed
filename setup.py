"""Installation, read from settings.ini (the one place where names, versions and requirements stand)."""
import shutil
from configparser import ConfigParser
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

config = ConfigParser(delimiters=["="])
config.read("settings.ini", encoding="utf-8")
settings = config["DEFAULT"]


class WithNotebooks(build_py):
    "A wheel brings along all notebooks, with what lies beside them, and the trained weights: `aawm.files.resolve` finds them there."

    def run(self):
        super().run()
        for folder in ("nbs", "data/weights") if not self.editable_mode else ():
            brought = Path(self.build_lib, "aawm", folder)
            shutil.rmtree(brought, ignore_errors=True)
            if Path(folder).is_dir():
                shutil.copytree(folder, brought, ignore=shutil.ignore_patterns(".*", "__pycache__"))


setup(
    name=settings["lib_name"],
    version=settings["version"],
    description=settings["description"],
    long_description=Path("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    author=settings["author"],
    author_email=settings["author_email"],
    license="MIT",
    url=settings["git_url"],
    cmdclass={"build_py": WithNotebooks},
    packages=find_packages(include=["aawm", "aawm.*"], exclude=["aawm.tests", "aawm.tests.*"]),
    package_dir={"": "."},
    package_data={"aawm": ["py.typed"]},
    python_requires=f">={settings['min_python']}",
    install_requires=settings["requirements"].split(),
    extras_require={
        name.removesuffix("_requirements"): words.split() for name, words in settings.items() if name.endswith("_requirements")
    },
    entry_points={"console_scripts": settings["console_scripts"].split(), "nbdev": ["aawm=aawm._modidx:d"]},
)

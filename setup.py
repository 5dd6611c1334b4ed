"""Installation, read from settings.ini (the one place where names, versions and requirements stand)."""
import re
import shutil
from configparser import ConfigParser
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

config = ConfigParser(delimiters=["="])
config.read("settings.ini", encoding="utf-8")
settings = config["DEFAULT"]
REPOSITORY = settings["git_url"]
SITE = settings["doc_host"] + settings["doc_baseurl"]


def description() -> str:
    "README, its pictures and links as addresses: a package index has no files beside it."
    text = Path("README.md").read_text(encoding="utf-8")
    pictures = REPOSITORY.replace("//github.com", "//raw.githubusercontent.com") + f"/{settings['branch']}/"
    text = re.sub(r"(!\[[^\]]*\]\()(?!\w+:|#)", rf"\g<1>{pictures}", text)
    return re.sub(r"(\]\()(?!\w+:|#)", rf"\g<1>{REPOSITORY}/blob/{settings['branch']}/", text)


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
    long_description=description(),
    long_description_content_type="text/markdown",
    author=settings["author"],
    author_email=settings["author_email"],
    license_expression="MIT",
    license_files=["LICENSE", "nbs/study/assets/jspsych-license.txt"],
    keywords=settings["keywords"].split(),
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Framework :: Jupyter",
        "Intended Audience :: Education",
        "Intended Audience :: Science/Research",
        "Operating System :: OS Independent",
        *(f"Programming Language :: Python :: 3.{minor}" for minor in range(11, 15)),
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
    project_urls={
        "Documentation": SITE, "Source": REPOSITORY, "Issues": f"{REPOSITORY}/issues",
        "Changelog": f"{REPOSITORY}/blob/{settings['branch']}/CHANGELOG.md",
    },
    cmdclass={"build_py": WithNotebooks},
    packages=find_packages(include=["aawm", "aawm.*"], exclude=["aawm.tests", "aawm.tests.*"]),
    package_dir={"": "."},
    package_data={"": ["*.pyi"], "aawm": ["py.typed"]},
    python_requires=f">={settings['min_python']}",
    install_requires=settings["requirements"].split(),
    extras_require={
        name.removesuffix("_requirements"): words.replace("aawm[all]", settings["all_requirements"]).split()
        for name, words in settings.items() if name.endswith("_requirements")
    },
    entry_points={"console_scripts": settings["console_scripts"].split(), "nbdev": ["aawm=aawm._modidx:d"]},
)

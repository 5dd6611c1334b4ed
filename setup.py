"""Installation, read from settings.ini (the one place where names, versions and requirements stand)."""
from configparser import ConfigParser
from pathlib import Path

from setuptools import find_packages, setup

config = ConfigParser(delimiters=["="])
config.read("settings.ini", encoding="utf-8")
settings = config["DEFAULT"]

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
    packages=find_packages(include=["aawm", "aawm.*"]),
    package_data={"aawm": ["py.typed"], "aawm.tests": ["data/**/*"]},
    python_requires=f">={settings['min_python']},<3.13",
    install_requires=settings["requirements"].split(),
    extras_require={name: settings[f"{name}_requirements"].split() for name in ("dev", "docs", "browser")},
    entry_points={"console_scripts": settings["console_scripts"].split(), "nbdev": ["aawm=aawm._modidx:d"]},
)

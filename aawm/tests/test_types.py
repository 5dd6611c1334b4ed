"""The types of the library are true: every code of mypy is on, for every module."""

import sys

import mypy.api

from aawm.tests.conftest import ROOT


def test_types_are_true(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "stdout", sys.__stdout__)
    report, faults, code = mypy.api.run([])
    assert code == 0, report[-4000:] + faults

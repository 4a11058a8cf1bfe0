"""Every example in a docstring gives what it shows."""

import doctest
import importlib
import pkgutil

import pytest

import lookahead
import lookahead.cli
import lookahead.plugins

MODULES = [
    f"{package.__name__}.{module.name}"
    for package in (lookahead, lookahead.plugins, lookahead.cli)
    for module in pkgutil.iter_modules(package.__path__)
    if not module.ispkg
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_are_true(name) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder()
    found = sum(len(each.examples) for name in MODULES for each in finder.find(importlib.import_module(name)))
    assert found > 100

"""The mutants name places and tests that exist, so that `make mutants` finds them."""

import re

import pytest

from tests.faults.mutants import ROOT, Mutant, mutants


def test_names_are_used_once() -> None:
    names = [mutant.name for mutant in mutants()]
    assert names == sorted(set(names), key=names.index)
    assert names


@pytest.mark.parametrize("mutant", mutants(), ids=lambda mutant: mutant.name)
def test_its_place_and_its_tests_exist(mutant: Mutant) -> None:
    source = (ROOT / mutant.file).read_text()
    assert source.count(mutant.text) == 1
    assert mutant.replacement != mutant.text
    assert mutant.cargo or mutant.pytest
    for filter_ in mutant.cargo:
        function = filter_.rsplit("::")[-1]
        files = (ROOT / "rust").rglob("*.rs")
        assert any(re.search(rf"\bfn {function}\b", path.read_text()) for path in files), filter_
    for argument in mutant.pytest:
        path, _, function = argument.partition("::")
        if path.endswith(".py"):
            text = (ROOT / path).read_text()
            assert not function or re.search(rf"\bdef {re.escape(function.partition('[')[0])}\b", text), argument

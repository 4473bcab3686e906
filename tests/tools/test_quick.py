"""The tests that `make quick` chooses."""

from __future__ import annotations

from tools import quick

TEXTS = {
    "tests/run/test_state.py": "from tabapp.run.record.state import reduce\n",
    "tests/run/record/test_folder.py": "from tabapp.run.record import events as ev, folder\n",
    "tests/plugins/trees/test_trees.py": "from tabapp_plugins.trees.extra_trees import ExtraTrees\n",
}


def test_tests_that_import_a_module_are_chosen():
    assert quick.tests_of(["tabapp/run/record/state.py"], TEXTS) == ["tests/run/test_state.py"]
    assert quick.tests_of(["tabapp/run/record/folder.py"], TEXTS) == ["tests/run/record/test_folder.py"]
    assert quick.tests_of(["plugins/trees/extra_trees.py"], TEXTS) == ["tests/plugins/trees/test_trees.py"]
    assert quick.tests_of(["README.md", "tabapp/run/record/origin.py"], TEXTS) == []


def test_a_changed_test_is_chosen_and_a_common_module_runs_the_tests_of_its_room():
    assert quick.tests_of(["tests/run/test_state.py"], TEXTS) == ["tests/run/test_state.py"]
    many = {f"tests/run/test_{i}.py": "import tabapp.run.record.events\n" for i in range(9)}
    assert quick.tests_of(["tabapp/run/record/events.py"], many | TEXTS) == ["tests/run/record/test_folder.py"]

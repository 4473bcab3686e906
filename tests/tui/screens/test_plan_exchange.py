"""Plans from elsewhere: presets, the editor and pasted commands."""

from __future__ import annotations

import pytest

from tabapp.run.record import events as ev
from tabapp.tui.session.plan import exchange, presets
from tests.tui import recordings
from tests.tui.driver import drive
from tests.tui.planning import answer, enter, says, sent


async def test_a_preset_is_saved_and_used_without_columns_that_the_table_lacks(tmp_path, monkeypatch):
    monkeypatch.setattr(presets, "config_folder", lambda: tmp_path / "config")
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        options = {"budget": 60.0, "models": ["lightgbm", "npt:small"], "group": "Pclass", "name": "mine"}
        driver.app.change_plan(options)
        await answer(driver)
        await driver.press("P")
        await enter(driver, "save")
        await driver.sees("A name. The preset has all options")
        await enter(driver, "two models")
        await says(driver, "Saved the preset two models")
        text = (tmp_path / "config" / "presets" / "two models.toml").read_text()
        assert text.endswith('budget = "1m"\nmodels = ["lightgbm", "npt:small"]\ngroup = "Pclass"\n')
        await driver.press("P")
        await enter(driver, "two")
        await driver.until(lambda: len(driver.commands()) == 2)
        expected = {"budget": 60.0, "models": ["lightgbm", "npt:small"], "group": "Pclass"}
        assert {name: sent(driver)[name] for name in expected} == expected
        assert "name" not in sent(driver)
        await answer(driver)
        (tmp_path / "config" / "presets" / "other.toml").write_text('quality = "fast"\ngroup = "patient"\n')
        await driver.press("P")
        await enter(driver, "other")
        await driver.until(lambda: len(driver.commands()) == 3)
        assert sent(driver) == {"quality": "fast"}
        await says(driver, "the preset does not set --group")
        (tmp_path / "config" / "presets" / "broken.toml").write_text("folds = 1\n")
        await answer(driver)
        await driver.press("P")
        await enter(driver, "broken")
        await says(driver, "The preset broken: line 1: --folds 1 is not valid")
        await driver.press("P")
        await enter(driver, "delete")
        await driver.sees("Delete a preset")
        await enter(driver, "broken")
        await says(driver, "Deleted the preset broken")
        assert presets.preset_names() == ["other", "two models"]


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden"])
def test_a_preset_is_a_plain_file(name):
    with pytest.raises(Exception, match="cannot be the name of a preset"):
        presets.check_name(name)


async def test_the_plan_is_edited_as_text(tmp_path, monkeypatch):
    edits = iter([("# seed =", "seed = 7\nfolds = 1"), ("folds = 1", "folds = 4")])

    def edit(file):
        old, new = next(edits)
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))
        return ""

    class Suspended:
        def __enter__(self):
            return None

        def __exit__(self, *error):
            return None

    monkeypatch.setattr(exchange, "_edit", edit)
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        monkeypatch.setattr(driver.app, "suspend", Suspended)
        await driver.press("E")
        await driver.sees("--folds 1 is not valid", "Edit it again")
        assert driver.commands() == []
        await driver.press("e")
        await driver.until(driver.commands)
        assert sent(driver)["seed"] == 7
        assert sent(driver)["folds"] == 4
        assert sent(driver)["budget"] is None or sent(driver)["budget"] == recordings.BUDGET
        assert "executor" not in sent(driver)
        await driver.write(ev.PlanRefused(message="Too few rows for 4 folds."))
        await driver.sees("Too few rows for 4 folds.", "Edit it again")


async def test_a_pasted_command_fills_the_plan(tmp_path, monkeypatch):
    table = tmp_path / "titanic.csv"
    table.write_text("a,b\n1,2\n")
    async with drive(tmp_path, monkeypatch, recordings.opening(), data=str(table)) as driver:
        await driver.paste(
            f"tabapp --auto '{table}' --target Survived --budget 90s --kind Pclass=categorical --folds 7"
        )
        await driver.until(driver.commands)
        options = sent(driver)
        expected = {"target": "Survived", "budget": 90.0, "kinds": {"Pclass": "categorical"}, "folds": 7, "seed": 0}
        assert {name: options[name] for name in expected} == expected
        await answer(driver, budget=90.0)
        await says(driver, "The plan is that of the pasted command. u undoes it.")
        await driver.paste("tabapp --auto x.csv --fold 3")
        await says(driver, "There is no option --fold; did you mean '--folds'?")
        await driver.paste(f"tabapp --auto '{table}' --executor ray")
        await says(driver, "--executor is chosen when a run is created")
        assert len(driver.commands()) == 1

"""Bundles whose members lie, with correct checksums, are refused in one sentence that names the member."""

import os
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from safetensors.numpy import load, save
from tabapp_plugins._shared.tree_arrays import Trees

from tabapp.bundle.files.archive import open_archive
from tabapp.bundle.files.contents import open_bundle
from tabapp.bundle.prediction.load import load_bundle
from tabapp.bundle.writing.write import write_bundle
from tabapp.errors import BundleError
from tabapp.models import registry
from tests.bundle.making import fit_candidate, make_contents, register_linear, text_table
from tests.bundle.test_load import members_of, with_manifest, write_zip

FEATURES = "features/000/features.json"
FOREST = "models/random_forest-0/0/trees.safetensors"
LINEAR = "models/linear-0/0/linear.safetensors"


@pytest.fixture(scope="module")
def members(tmp_path_factory):
    """The members of a bundle of a forest and a linear model."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        register_linear(monkeypatch)
        folder = tmp_path_factory.mktemp("made")
        contents = make_contents(folder / "plain")
        frame, candidates = text_table("binary"), []
        for name in ("random_forest", "linear"):
            plugin = registry.get(name)
            params = plugin.params_type(n_trees=3) if name == "random_forest" else plugin.params_type()
            candidates.append(
                fit_candidate(folder / name, plugin, params, frame, contents.schema, 0.5, folder / "features")
            )
        path = folder / "made.tabapp"
        write_bundle(path, replace(contents, candidates=candidates))
    return members_of(path)


def refused(place, members, name, content):
    """The sentence that refuses the members with one replaced, or None if they are accepted."""
    changed = with_manifest(members, lambda manifest, members: members.update({name: content}))
    try:
        load_bundle(write_zip(place, changed.items()))
    except BundleError as error:
        return str(error)
    return None


def assert_all_refused(place, members, name, contents):
    wrong = {}
    folder = name.rsplit("/", 1)[0]
    for case, content in contents.items():
        sentence = refused(place, members, name, content)
        if sentence is None or "\n" in sentence or folder not in sentence:
            wrong[case] = sentence
    assert wrong == {}


def test_the_made_bundle_is_accepted(members, tmp_path):
    assert load_bundle(write_zip(tmp_path / "a.tabapp", members.items())).drift == 0


@pytest.mark.parametrize("kind", ["fifo", "device", "folder"])
def test_a_path_that_is_no_regular_file_is_refused_at_once(tmp_path, kind):
    path = {"fifo": tmp_path / "pipe", "device": "/dev/zero", "folder": tmp_path}[kind]
    if kind == "fifo":
        os.mkfifo(path)
    with pytest.raises(BundleError, match="Cannot read"), open_archive(path):
        pass


@pytest.mark.parametrize("seed", [-1, 2**31, 2**70])
def test_a_seed_that_no_run_has_is_refused(members, tmp_path, seed):
    changed = with_manifest(members, lambda manifest, members: manifest.update(seed=seed))
    with pytest.raises(BundleError, match=r"its manifest\.json is not valid \(.*seed"):
        open_bundle(write_zip(tmp_path / "a.tabapp", changed.items()))


def test_lying_feature_states_are_refused(members, tmp_path):
    state = msgspec.json.decode(members[FEATURES])
    cases = {}
    for field in ("kept_numeric", "indicators", "kept_categorical"):
        for value in (-1, 10**6, 2**40, state[field][0] if state[field] else 10**7):
            cases[field, value] = {**state, field: [*state[field], value]}
    for field in ("numeric", "categorical", "cardinalities", "sources"):
        cases[field] = {**state, "spec": {**state["spec"], field: state["spec"][field][:-1]}}
    for i, step in enumerate(state["steps"]):
        others = [other for j, other in enumerate(state["steps"]) if j != i]
        cases["unknown", i] = {**state, "steps": [*others, {**step, "column": "nowhere"}]}
        cases["twice", i] = {**state, "steps": [*state["steps"], step]}
        cases["removed", i] = {**state, "steps": others}
    assert_all_refused(
        tmp_path / "a.tabapp",
        members,
        FEATURES,
        {case: msgspec.json.encode(changed) for case, changed in cases.items()},
    )


def changed_arrays(content, metadata=None):
    """Each array of a file removed, renamed, cut, of another type, and not finite or out of range."""
    arrays = load(content)
    cases = {}
    for name, array in arrays.items():
        rest = {key: value for key, value in arrays.items() if key != name}
        changes = {"cut": array[:-1], "flat": array.ravel()[None, None]}
        other = np.float32 if array.dtype == np.float64 else np.float64
        changes["type"] = array.astype(other if array.dtype.kind == "f" else np.int8)
        if array.size and array.dtype.kind == "f" and name != "threshold":
            changes["infinite"] = np.full_like(array, np.inf)
            changes["nan"] = np.full_like(array, np.nan)
        for case, value in changes.items():
            if len(array) or case in ("type", "flat"):
                cases[name, case] = save({**rest, name: np.ascontiguousarray(value)}, metadata)
        cases[name, "removed"] = save(rest, metadata)
        cases[name, "renamed"] = save({**rest, f"{name}x": array}, metadata)
    return cases


def test_lying_linear_models_are_refused(members, tmp_path):
    assert_all_refused(tmp_path / "a.tabapp", members, LINEAR, changed_arrays(members[LINEAR]))


def test_lying_trees_are_refused(members, tmp_path):
    metadata = {"grown": '{"classes": [0, 1], "baseline": []}'}
    arrays = load(members[FOREST])
    cases = changed_arrays(members[FOREST], metadata)
    feature, roots = arrays["feature"], arrays["roots"]
    for value in (0, 1):
        cases["feature", value] = save({**arrays, "feature": np.full_like(feature, value)}, metadata)
    for value in (-1, 10**6, 2**31 - 1):
        marks = np.where(feature > 0, value, 0).astype(np.int32)
        cases["feature", value] = save({**arrays, "feature": marks}, metadata)
    cases["leaves first"] = save({**arrays, "feature": np.sort(feature)}, metadata)
    for name, changed in (
        ("later", roots + 1),
        ("equal", roots * 0),
        ("beyond", roots * 10**6),
        ("reversed", roots[::-1]),
    ):
        cases["roots", name] = save({**arrays, "roots": np.ascontiguousarray(changed.astype(np.int32))}, metadata)
    cases["shares", "negative"] = save({**arrays, "value": -1 - arrays["value"]}, metadata)
    cases["shares", "too large"] = save({**arrays, "value": 2 + arrays["value"]}, metadata)
    for classes in ("[0]", "[1, 0]", "[0, 2]", "[-1, 0]", "[0, 1, 2]"):
        cases["classes", classes] = save(arrays, {"grown": f'{{"classes": {classes}, "baseline": []}}'})
    cases["no metadata"] = save(arrays)
    assert_all_refused(tmp_path / "a.tabapp", members, FOREST, cases)


def wide(arrays):
    """The arrays of a forest of two classes as they were saved up to format version 5."""
    trees = Trees.from_saved(arrays)
    value = np.zeros((len(trees.left), 2), dtype=np.float32)
    value[trees.is_leaf] = np.hstack([1 - arrays["value"], arrays["value"]])
    right = np.where(trees.is_leaf, trees.left, trees.left + 1)
    return {
        "feature": trees.feature,
        "threshold": np.where(trees.is_leaf, 0, trees.threshold).astype(np.float32),
        "missing_left": trees.missing_left,
        "children": np.column_stack([trees.left, right]).astype(np.int32),
        "value": value,
        "roots": trees.roots,
        "depths": np.zeros(len(trees), dtype=np.int32),
    }


def test_lying_trees_of_older_versions_are_refused(members, tmp_path):
    metadata = {"grown": '{"classes": [0, 1], "baseline": []}'}
    arrays = wide(load(members[FOREST]))
    cases = changed_arrays(save(arrays), metadata)
    children = arrays["children"]
    for value in (-1, 0, len(children), 2**31 - 1):
        cases["children", value] = save({**arrays, "children": np.full_like(children, value)}, metadata)
    for value in (-1, 10**6):
        cases["feature", value] = save({**arrays, "feature": np.full_like(arrays["feature"], value)}, metadata)
    assert_all_refused(tmp_path / "a.tabapp", members, FOREST, cases)


def test_the_saved_depth_of_trees_is_not_used(members, tmp_path):
    arrays = wide(load(members[FOREST]))
    deep = {**arrays, "depths": np.full_like(arrays["depths"], 2**31 - 1)}
    content = save(deep, {"grown": '{"classes": [0, 1], "baseline": []}'})
    assert refused(tmp_path / "a.tabapp", members, FOREST, content) is None


@pytest.mark.parametrize("times", [2, 50_000])
def test_a_fold_listed_several_times_is_refused(members, tmp_path, times):
    ensemble = msgspec.json.decode(members["ensemble.json"])
    ensemble["candidates"][0]["folds"] *= times
    changed = with_manifest(
        members, lambda manifest, members: members.update({"ensemble.json": msgspec.json.encode(ensemble)})
    )
    with pytest.raises(BundleError, match=rf"lists '.*' {times:,} times"):
        open_bundle(write_zip(tmp_path / "a.tabapp", changed.items()))


@pytest.mark.parametrize("removed", [["sample.csv"], ["sample_output.csv"], ["sample.csv", "sample_output.csv"]])
def test_a_bundle_without_its_sample_is_refused(members, tmp_path, removed):
    def remove(manifest, members):
        manifest["members"] = [each for each in manifest["members"] if each["path"] not in removed]
        for name in removed:
            del members[name]

    path = write_zip(tmp_path / "a.tabapp", with_manifest(members, remove).items())
    for read in (open_bundle, load_bundle):
        with pytest.raises(BundleError, match=f"has no {removed[0]}, which tests") as caught:
            read(path)
        assert "\n" not in str(caught.value)


def test_samples_that_do_not_test_the_bundle_are_refused(members, tmp_path):
    """No rows, too many rows, and outputs of other rows, classes or values."""
    (header, *rows), output = members["sample.csv"].splitlines(), members["sample_output.csv"]
    output_header, *output_rows = output.splitlines()
    names = [*output_header.split(b",")[:-1], b"probability_other"]
    first = output_rows[0].split(b",")[0]
    cases = {
        ("sample.csv", "no rows"): header,
        ("sample.csv", "too many rows"): b"\n".join([header, *rows * 1000]),
        ("sample.csv", "not a table"): b"",
        ("sample.csv", "other rows"): b"\n".join([header, *rows[1:]]),
        ("sample_output.csv", "no rows"): output_header,
        ("sample_output.csv", "other rows"): b"\n".join([output_header, *output_rows[1:]]),
        ("sample_output.csv", "other classes"): b"\n".join([b",".join(names), *output_rows]),
        ("sample_output.csv", "not numbers"): b"\n".join([output_header, *[first + b",x,y"] * len(output_rows)]),
        ("sample_output.csv", "missing"): b"\n".join([output_header, *[first + b",,"] * len(output_rows)]),
        ("sample_output.csv", "nan"): b"\n".join([output_header, *[first + b",nan,nan"] * len(output_rows)]),
    }
    accepted = {}
    for (name, case), content in cases.items():
        sentence = refused(tmp_path / "a.tabapp", members, name, content)
        if sentence is None or "\n" in sentence or "sample" not in sentence:
            accepted[name, case] = sentence
    assert accepted == {}

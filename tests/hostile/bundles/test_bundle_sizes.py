"""Networks, neighbors, boosted trees and texts with false sizes: a bundle allocates only what its bytes pay for.

All of them have correct checksums. They are refused in one sentence that names the member, in seconds and little memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import msgspec
import numpy as np
import polars as pl
import pytest
from safetensors.numpy import load, save

from tabapp.bundle.confined.box import load_boxed
from tabapp.bundle.files.contents import open_bundle
from tabapp.bundle.prediction.load import TOLERANCE, load_bundle
from tabapp.bundle.prediction.local import load_features, load_model
from tabapp.bundle.writing.write import write_bundle
from tabapp.data.infer import infer_schema
from tabapp.errors import BundleError
from tabapp.models import registry
from tests.bundle.making import fit_candidate, make_contents, register_linear, text_table
from tests.bundle.test_load import members_of, with_manifest, write_zip
from tests.hostile.bundles.test_bundle_contents import changed_arrays
from tests.waiting import HANG_SECONDS

MODELS = {
    "resnet": {"n_layers": 1, "max_epochs": 1},
    "node": {"n_trees": 8, "depth": 2, "max_epochs": 1},
    "tabr": {"width": 16, "max_epochs": 1},
    "npt": {"d_embedding": 8, "n_layers": 2, "n_heads": 2, "n_steps": 4, "n_evaluations": 1},
    "k_neighbors": {},
    "hist_gradient_boosting": {"n_trees": 3},
}
WORDS = ("amber", "basalt", "cedar", "delta", "ember", "fjord", "grove", "heath", "islet", "juniper")


def table_with_text(n_rows=160):
    """The table of the tests with a column of free text."""
    generator = np.random.default_rng(5)
    notes = [" ".join(generator.choice(WORDS, size=9)) for _ in range(n_rows)]
    return text_table("binary", n_rows).with_columns(note=pl.Series(notes))


def make(folder, models):
    """Write a bundle of models with equal weights; returns its path."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        register_linear(monkeypatch)
        contents = make_contents(folder / "plain")
    frame = table_with_text()
    schema = infer_schema(frame, target="outcome")
    candidates = []
    for name, changes in models.items():
        plugin = registry.get(name)
        params = plugin.params_type(**changes)
        share = 1 / len(models)
        candidates.append(fit_candidate(folder / name, plugin, params, frame, schema, share, folder / "features"))
    contents = replace(contents, schema=schema, candidates=candidates, sample=frame.head(7))
    write_bundle(folder / "made.tabapp", contents)
    return folder / "made.tabapp"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A bundle of all these models."""
    return make(tmp_path_factory.mktemp("sizes"), MODELS)


@pytest.fixture(scope="module")
def members(made):
    return members_of(made)


def folder_of(model):
    return f"models/{model}-0/0"


class Loader:
    """Loads one folder of a bundle with one changed file, as `load_predictor` does for all of them."""

    def __init__(self, made, place):
        contents = open_bundle(made)
        self.schema = contents.schema
        self.candidates = {fold.model: each for each in contents.ensemble.candidates for fold in each.folds}
        self.features = {fold.model: fold.features for each in contents.ensemble.candidates for fold in each.folds}
        self.place = place
        for name, content in members_of(made).items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(content)

    def load(self, folder):
        if folder in self.features.values():
            load_features(self.schema, self.place / folder, folder, "the bundle")
            return
        features = self.features[folder]
        spec = load_features(self.schema, self.place / features, features, "the bundle").spec
        load_model(self.schema, self.candidates[folder], spec, self.place / folder, folder, "the bundle")

    def sentence(self, name, content):
        """The sentence that refuses a member with other content, or None."""
        kept = (self.place / name).read_bytes()
        (self.place / name).write_bytes(content)
        try:
            self.load(name.rsplit("/", 1)[0])
        except BundleError as error:
            return str(error)
        finally:
            (self.place / name).write_bytes(kept)
        return None

    def assert_all_refused(self, name, contents):
        wrong = {}
        for case, content in contents.items():
            sentence = self.sentence(name, content)
            if sentence is None or "\n" in sentence or name.rsplit("/", 1)[0] not in sentence:
                wrong[case] = sentence
        assert wrong == {}


@pytest.fixture(scope="module")
def loader(made, tmp_path_factory):
    return Loader(made, tmp_path_factory.mktemp("unpacked"))


def test_the_made_bundle_is_accepted(made, loader):
    loaded = load_bundle(made)
    assert loaded.drift == 0
    kinds = {column.name: column.kind for column in loaded.contents.schema.columns}
    assert kinds["note"] == "text"
    for folder in (*loader.candidates, *loader.features.values()):
        loader.load(folder)


def with_field(record, path, value):
    """A copy of a JSON record with one field replaced, whose path is "a.b"."""
    copy = msgspec.json.decode(msgspec.json.encode(record))
    *parents, last = path.split(".")
    part = copy
    for parent in parents:
        part = part[parent]
    assert last in part, path
    part[last] = value
    return msgspec.json.encode(copy)


SIZES = {
    "resnet": ["params.n_layers", "params.width", "sizes.n_numeric", "sizes.d_out", "sizes.n_classes"],
    "node": ["params.n_layers", "params.n_trees", "params.depth", "params.extra_channels", "sizes.n_numeric"],
    "tabr": ["params.width", "params.n_encoder_blocks", "params.n_predictor_blocks", "sizes.n_numeric"],
    "npt": ["params.n_layers", "params.d_embedding", "attributes.n_numeric"],
}


@pytest.mark.parametrize("model", SIZES)
def test_false_sizes_of_networks_are_refused(members, loader, model):
    name = f"{folder_of(model)}/model.json"
    record = msgspec.json.decode(members[name])
    cases = {}
    for path in SIZES[model]:
        for value in (-1, 2_000_000, 10**9, 2**31 - 1, 2**62):
            cases[path, value] = with_field(record, path, value)
    field = "attributes.n_levels" if model == "npt" else "sizes.cardinalities"
    for value in ([10**9], [2**62], [3] * 100_000, []):
        cases[field, len(value), sum(value)] = with_field(record, field, value)
    loader.assert_all_refused(name, cases)


@pytest.mark.parametrize("model", SIZES)
def test_weights_that_lie_are_refused(members, loader, model):
    name = f"{folder_of(model)}/weights.safetensors"
    arrays = load(members[name])
    chosen = sorted(arrays, key=lambda key: (arrays[key].size, key))[-1]
    rest = {key: value for key, value in arrays.items() if key != chosen}
    values = arrays[chosen]
    cases = {
        "removed": save(rest),
        "renamed": save({**rest, "other": values}),
        "cut": save({**rest, chosen: np.ascontiguousarray(values[:-1])}),
        "type": save({**rest, chosen: values.astype(np.float32 if values.dtype == np.float64 else np.float64)}),
        "infinite": save({**rest, chosen: np.full_like(values, np.inf)}),
        "nan": save({**rest, chosen: np.full_like(values, np.nan)}),
        "more": save({**arrays, "more": values}),
        "truncated": members[name][:-8],
        "header": (2**40).to_bytes(8, "little") + members[name][8:],
        "empty": b"",
    }
    loader.assert_all_refused(name, cases)


def test_false_rows_of_retrieval_networks_are_refused(members, loader):
    name = f"{folder_of('tabr')}/weights.safetensors"
    arrays = load(members[name])
    cases = {}
    for part in ("numeric", "categorical", "target", "weight"):
        key = f"candidates.{part}"
        values = arrays[key]
        for case, changed in {
            "fewer": values[:-1],
            "none": values[:0],
            "twice": np.concatenate([values, values]),
            "columns": np.repeat(values[..., None], 2, axis=-1),
        }.items():
            cases[part, case] = save({**arrays, key: np.ascontiguousarray(changed)})
    for value in (-1, 10**6, 2**31 - 1):
        cases["codes", value] = save(
            {**arrays, "candidates.categorical": np.full_like(arrays["candidates.categorical"], value)}
        )
    for value in (-1.0, 2.0, 0.5):
        cases["classes", value] = save(
            {**arrays, "candidates.target": np.full_like(arrays["candidates.target"], value)}
        )
    loader.assert_all_refused(name, cases)


def test_false_contexts_of_npt_are_refused(members, loader):
    name = f"{folder_of('npt')}/context.safetensors"
    arrays = load(members[name])
    n_rows = len(arrays["source"])
    cases = {
        "2,000 times its contexts": np.tile(arrays["draws"], (2000, 1)),
        "more rows than stored": np.tile(arrays["draws"], (1, 3)),
        "out of range": arrays["draws"] + n_rows,
        "negative": arrays["draws"] - n_rows,
        "none": arrays["draws"][:0],
    }
    contents = {case: save({**arrays, "draws": np.ascontiguousarray(draws)}) for case, draws in cases.items()}
    contents["levels"] = save({**arrays, "categorical": arrays["categorical"] + 10**6})
    contents["rows"] = save({**arrays, "numeric": np.ascontiguousarray(arrays["numeric"][:-1])})
    loader.assert_all_refused(name, contents)


def test_false_neighbors_are_refused(members, loader):
    name = f"{folder_of('k_neighbors')}/rows.safetensors"
    arrays = load(members[name])
    cases = changed_arrays(members[name])
    cases["weights"] = save({**arrays, "weight": -arrays["weight"]})
    cases["classes"] = save({**arrays, "known": arrays["known"] + 2})
    cases["columns"] = save({**arrays, "rows": np.ascontiguousarray(arrays["rows"][:, :-1])})
    cases["no rows"] = save({**arrays, **{key: arrays[key][:0] for key in ("rows", "known", "weight")}})
    loader.assert_all_refused(name, cases)
    described = f"{folder_of('k_neighbors')}/model.json"
    record = msgspec.json.decode(members[described])
    fields = {("n_neighbors", n): with_field(record, "params.n_neighbors", n) for n in (0, -1)}
    fields |= {("std", std): with_field(record, "target.std", std) for std in (0.0, -1.0)}
    loader.assert_all_refused(described, fields)


def test_false_boosted_trees_are_refused(members, loader):
    name = f"{folder_of('hist_gradient_boosting')}/trees.safetensors"
    arrays = load(members[name])
    described = {"grown": json.dumps({"classes": [0, 1], "baseline": [0.1]})}
    cases = changed_arrays(members[name], described)
    for baseline in ([], [0.1, 0.2], [1e400], ["x"]):
        cases["baseline", str(baseline)] = save(
            arrays, {"grown": json.dumps({"classes": [0, 1], "baseline": baseline})}
        )
    feature = arrays["feature"]
    cases["no split"] = save({**arrays, "feature": np.zeros_like(feature)}, described)
    cases["no leaf"] = save({**arrays, "feature": np.ones_like(feature)}, described)
    cases["leaves first"] = save({**arrays, "feature": np.sort(feature)}, described)
    loader.assert_all_refused(name, cases)


def test_false_texts_and_quantiles_are_refused(members, loader):
    folders = {}
    for name in members:
        if name.startswith("features/") and name.endswith(".safetensors"):
            for array in load(members[name]):
                folders.setdefault(array.split(".")[0], name)
    assert {"text", "quantile"} <= set(folders)
    for name in {folders["text"], folders["quantile"]}:
        cases = changed_arrays(members[name])
        # Fewer quantiles are quantiles, and a column without numbers has no mean.
        loader.assert_all_refused(
            name,
            {
                case: content
                for case, content in cases.items()
                if case not in {("quantile.quantiles", "cut"), ("quantile.means", "nan")}
            },
        )
    arrays = load(members[folders["quantile"]])
    falling = {**arrays, "quantile.quantiles": np.ascontiguousarray(arrays["quantile.quantiles"][::-1])}
    loader.assert_all_refused(folders["quantile"], {"falling": save(falling)})
    states = folders["text"].rsplit("/", 1)[0] + "/features.json"
    record = msgspec.json.decode(members[states])
    i = next(i for i, step in enumerate(record["steps"]) if step["column"] == "note")
    cases = {}
    for dimensions in (0, 1, 10**9, -1):
        record["steps"][i]["dimensions"] = dimensions
        cases["dimensions", dimensions] = msgspec.json.encode(record)
    loader.assert_all_refused(states, cases)


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """The members of a bundle of one trained network."""
    return members_of(make(tmp_path_factory.mktemp("network"), {"resnet": {"n_layers": 1, "max_epochs": 5}}))


@pytest.mark.parametrize("layer", ["head.weight", "normalization.weight", "head.bias"])
def test_a_network_with_a_slightly_different_weight_is_refused(network, tmp_path, layer):
    """A weight that changes by a percent is noticed; one that changes by a rounding error, as on other processors, is not."""
    name = f"{folder_of('resnet')}/weights.safetensors"
    arrays = load(network[name])

    def bundle_with(value):
        changed = arrays[layer].copy()
        changed[where] = value
        content = save({**arrays, layer: changed})
        members = with_manifest(network, lambda _, members: members.update({name: content}))
        return write_zip(tmp_path / "a.tabapp", members.items())

    where = np.unravel_index(np.abs(arrays[layer]).argmax(), arrays[layer].shape)
    value = arrays[layer][where]
    with pytest.raises(BundleError, match="predicts its sample differently"):
        load_bundle(bundle_with(1.01 * value))
    assert load_bundle(bundle_with(np.nextafter(value, np.float32(np.inf)))).drift < TOLERANCE / 10


WORST = {
    "layers": ("resnet", "params.n_layers", 10**9),
    "columns": ("resnet", "sizes.n_numeric", 2_000_000),
    "depth": ("node", "params.depth", 2**31 - 1),
    "levels": ("tabr", "sizes.cardinalities", [10**9]),
    "width": ("npt", "params.d_embedding", 2**30),
}


def predict_command(path, data):
    """Run `tabapp predict`; returns its exit code, stderr and peak memory, with that of the processes that it started."""
    program = """
import resource, subprocess, sys
done = subprocess.run([sys.executable, "-P", "-m", "tabapp", "predict", *sys.argv[1:], "-q"], capture_output=True, text=True)
print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, done.stderr.strip(), sep="\\n")
"""
    command = [sys.executable, "-P", "-c", program, str(path), str(data)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_SECONDS, check=True)
    code, peak, *sentence = done.stdout.strip().split("\n")
    return int(code), int(peak), sentence


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="macOS reports another unit")
def test_hostile_bundles_take_no_more_memory_than_honest_ones(members, tmp_path):
    data = tmp_path / "data.csv"
    table_with_text(5).write_csv(data)
    path = write_zip(tmp_path / "a.tabapp", members.items())
    code, honest, sentence = predict_command(path, data)
    assert (code, sentence) == (0, [])
    found = {}
    for case, (model, field, value) in WORST.items():
        name = f"{folder_of(model)}/model.json"
        content = with_field(msgspec.json.decode(members[name]), field, value)
        write_zip(
            path, with_manifest(members, lambda _, m, name=name, content=content: m.update({name: content})).items()
        )
        code, peak, sentence = predict_command(path, data)
        assert code == 5, (case, sentence)
        assert len(sentence) == 1, (case, sentence)
        assert folder_of(model) in sentence[0], (case, sentence)
        found[case] = peak / honest
    print(f"honest {honest / 1024:,.0f} MiB", {case: round(ratio, 2) for case, ratio in found.items()})
    assert {case: ratio for case, ratio in found.items() if ratio > 1.5} == {}


def test_a_confined_process_refuses_false_sizes_too(network, tmp_path):
    name = f"{folder_of('resnet')}/model.json"
    content = with_field(msgspec.json.decode(network[name]), "params.n_layers", 10**9)
    changed = with_manifest(network, lambda _, members: members.update({name: content}))
    with pytest.raises(BundleError, match=f"{folder_of('resnet')} does not load .*n_layers.*1,000,000,000"):
        load_boxed(write_zip(tmp_path / "a.tabapp", changed.items()))

"""The tables inside a bundle keep every name and cell, and test the bundle with all of its columns."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabapp.bundle.files.sample import SampleError, read_sample, write_sample
from tabapp.bundle.prediction.load import load_bundle
from tabapp.bundle.writing import write
from tabapp.bundle.writing.threshold import set_threshold
from tabapp.errors import BundleError
from tests.bundle.making import make_contents, text_table

LABELS = ('6"', '5"')


def quoted_table(n_rows=160, seed=0):
    """A table whose only number has a name with a double quote, as have both classes."""
    frame = text_table("binary", n_rows, seed).select("size", "color", "outcome")
    frame = frame.with_columns(pl.col("outcome").replace({"no": LABELS[0], "yes": LABELS[1]}))
    return frame.rename({"size": 'a"x', "outcome": 'my "y"'})


@pytest.fixture(scope="module")
def quoted(_whole_package, tmp_path_factory):
    """The contents of a bundle of a table with quotes."""
    return make_contents(tmp_path_factory.mktemp("quoted"), "binary", frame=quoted_table())


def test_a_bundle_with_quotes_in_names_and_labels_is_tested_with_all_columns(quoted, tmp_path):
    write.write_bundle(tmp_path / "a.tabapp", quoted)
    loaded = load_bundle(tmp_path / "a.tabapp")
    assert loaded.drift == 0
    assert loaded.sample.equals(quoted.sample)
    assert loaded.reference_rows()['a"x'].null_count() < loaded.sample.height
    predicted = loaded.predictor.to_frame(loaded.predictor.predict_frame(quoted_table(20, seed=3)))
    assert predicted.columns == ["prediction", *(f"probability_{label}" for label in sorted(LABELS))]
    assert set(predicted["prediction"]) == set(LABELS)


def test_the_threshold_of_a_bundle_with_quotes_in_labels_is_set(quoted, tmp_path):
    write.write_bundle(tmp_path / "a.tabapp", quoted)
    set_threshold(tmp_path / "a.tabapp", 0.9)
    loaded = load_bundle(tmp_path / "a.tabapp")
    assert loaded.predictor.ensemble.threshold == 0.9


def test_a_bundle_that_was_tested_without_its_quoted_columns_is_still_loaded(quoted, tmp_path, monkeypatch):
    labels = pl.col('my "y"').replace(dict(zip(LABELS, ("no", "yes"), strict=True)))
    contents = make_contents(tmp_path / "made", "binary", frame=quoted_table().with_columns(labels))
    with monkeypatch.context() as patch:
        patch.setattr(write, "read_sample", lambda content: pl.read_csv(content, infer_schema=False))
        write.write_bundle(tmp_path / "old.tabapp", contents)
    loaded = load_bundle(tmp_path / "old.tabapp")
    assert loaded.drift == 0
    assert 'a"x' in loaded.sample.columns


def test_a_bundle_that_fails_its_test_is_named_by_its_own_path(quoted, tmp_path, monkeypatch):
    stored = write.write_sample

    def changed(frame):
        return stored(frame).replace(b"prediction", b"forecast")

    monkeypatch.setattr(write, "write_sample", changed)
    with pytest.raises(BundleError) as caught:
        write.write_bundle(tmp_path / "a.tabapp", quoted)
    assert str(caught.value).startswith(f"{tmp_path / 'a.tabapp'}: its sample_output.csv")
    assert list(tmp_path.iterdir()) == []


# -- any text -----------------------------------------------------------------------------------------------------------

ODD = st.text(st.sampled_from("ab\",;\n\r\t \x00\ufeff=\\#'\x1b\u2028😀"), max_size=5)
NAMES = ODD | st.text(st.characters(exclude_categories=["Cs"]), max_size=4)


@st.composite
def tables(draw):
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    height = draw(st.integers(0, 4))
    cells = st.lists(st.none() | NAMES.filter(bool), min_size=height, max_size=height)
    return pl.DataFrame({name: pl.Series(draw(cells), dtype=pl.String) for name in names})


@settings(deadline=None, derandomize=True, max_examples=300)
@given(tables())
def test_every_table_of_text_is_read_as_it_was_written(table):
    found = read_sample(write_sample(table))
    assert found.columns == table.columns
    assert found.rows() == table.rows()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "empty"),
        (b"a,b\n1\n", "more or fewer cells"),
        (b"a,b\n1,2,3\n", "more or fewer cells"),
        (b"a,a\n1,2\n", "same name"),
        (b'a\n"x', "unexpected end"),
        (b"a\n\xff\n", "utf-8"),
    ],
)
def test_what_is_no_table_is_refused(content, problem):
    with pytest.raises(SampleError, match=problem):
        read_sample(content)

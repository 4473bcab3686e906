"""Reduce free text to a few numbers: hashed character n-grams with tf-idf weights and truncated SVD."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import polars as pl

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Float32 = npt.NDArray[np.float32]

N_HASHES = 2**13
MAX_CHARACTERS = 1_000
"""Longer texts are truncated, so that one very large cell does not slow down a run."""
_MAX_FIT_TEXTS = 20_000


@dataclass(frozen=True)
class TextMap:
    """A fitted text reduction.

    Attributes:
        idf: (N_HASHES,) float32 inverse document frequencies.
        components: (dimensions, N_HASHES) float32 right singular vectors.
    """

    idf: Float32
    components: Float32

    @classmethod
    def fit(cls, texts: pl.Series, n_components: int, seed: int) -> TextMap | None:
        """Fit on the distinct texts of the training rows; None if there are too few.

        Uses smoothed idf and unit rows as the `TfidfTransformer` of scikit-learn does, then latent semantic analysis
        (Deerwester et al. 1990).
        """
        # scikit-learn is imported where it is used: a prediction without texts must start quickly.
        from sklearn.decomposition import TruncatedSVD

        distinct = texts.drop_nulls().unique().sort()
        if len(distinct) > _MAX_FIT_TEXTS:
            distinct = distinct.sample(_MAX_FIT_TEXTS, seed=seed)
        if len(distinct) <= n_components or n_components < 1:
            return None
        counts = _hash(distinct)
        document_frequency = np.bincount(counts.indices, minlength=N_HASHES)
        idf = (np.log((1 + len(distinct)) / (1 + document_frequency)) + 1).astype(np.float32)
        reduction = TruncatedSVD(n_components=n_components, random_state=seed)
        reduction.fit(_weigh(counts, idf))
        return cls(idf, np.ascontiguousarray(reduction.components_, dtype=np.float32))

    def transform(self, texts: CountedTexts) -> Float32:
        """Convert (rows,) texts to (rows, dimensions) float32; missing texts become NaN."""
        result = np.full((len(texts.place), len(self.components)), np.nan, dtype=np.float32)
        present = texts.place >= 0
        if present.any():
            reduced = np.asarray(_weigh(texts.counts, self.idf) @ self.components.T, dtype=np.float32)
            result[present] = reduced[texts.place[present]]
        return result


@dataclass(frozen=True)
class CountedTexts:
    """The n-grams of a column, which do not depend on training rows.

    Attributes:
        counts: (distinct texts, N_HASHES) counts.
        place: (rows,) int64 position of the text of each row among the distinct ones; -1 if it is missing.
    """

    counts: csr_matrix
    place: npt.NDArray[np.int64]

    @classmethod
    def of(cls, texts: pl.Series) -> CountedTexts:
        """Count the n-grams of (rows,) texts."""
        distinct = texts.drop_nulls().unique(maintain_order=True)
        if not len(distinct):
            return cls(_no_texts(), np.full(len(texts), -1))
        place = texts.replace_strict(distinct, np.arange(len(distinct)), default=None, return_dtype=pl.Int64)
        return cls(_hash(distinct), place.fill_null(-1).to_numpy())


def _no_texts() -> csr_matrix:
    from scipy.sparse import csr_matrix

    return csr_matrix((0, N_HASHES), dtype=np.float32)


def _hash(texts: pl.Series) -> csr_matrix:
    from scipy.sparse import csr_matrix
    from sklearn.feature_extraction.text import HashingVectorizer

    vectorizer = HashingVectorizer(
        analyzer="char_wb",
        ngram_range=(2, 4),
        n_features=N_HASHES,
        alternate_sign=False,
        norm=None,  # pyright: ignore[reportArgumentType]
        dtype=np.float32,  # pyright: ignore[reportArgumentType]
    )
    return csr_matrix(vectorizer.transform(texts.str.slice(0, MAX_CHARACTERS).to_list()))


def _weigh(counts: csr_matrix, idf: Float32) -> csr_matrix:
    from scipy.sparse import csr_matrix, diags
    from sklearn.preprocessing import normalize

    scaled = counts.copy()
    scaled.data = 1 + np.log(scaled.data)
    return csr_matrix(normalize(scaled @ diags(idf)))

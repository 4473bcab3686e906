"""What the reader of bundles needs for format versions up to 5, in which trees had arrays for all nodes."""

from __future__ import annotations

import json
import math

from tests.formats import reader


class OldBundle(reader.Bundle):
    """A bundle of a format version up to 5."""

    def trees(self, folder, numbers, codes):
        arrays, notes = reader.tensors(self.members[f"{folder}/trees.safetensors"])
        grown = json.loads(notes["grown"])
        cells = numbers + [math.nan if code == 0 else float(code) for code in codes]
        total = [sum(values) for values in zip(*leaves(arrays, cells), strict=True)]
        if not grown["baseline"]:
            return [value / sum(total) for value in total]
        output = total[0] + grown["baseline"][0]
        return [1 / (1 + math.exp(output)), 1 / (1 + math.exp(-output))]


def leaves(arrays, cells):
    """The values of the leaf that each tree reaches."""
    width = len(arrays["value"]) // len(arrays["feature"])
    for node in arrays["roots"]:
        while arrays["children"][2 * node] != node:
            cell = cells[arrays["feature"][node]]
            left = arrays["missing_left"][node] if math.isnan(cell) else cell <= arrays["threshold"][node]
            node = arrays["children"][2 * node + (not left)]
        yield arrays["value"][node * width : (node + 1) * width]

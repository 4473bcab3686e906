"""A reader of bundles in a hundred lines, written from docs/reference/bundle-format.md with the standard library alone.

It predicts with linear models and trees.
"""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import json
import math
import struct
import zipfile
from datetime import datetime

DTYPES = {"F64": "d", "F32": "f", "F16": "e", "I64": "q", "I32": "i", "U16": "H", "U8": "B", "BOOL": "?"}
PARTS = {"weekday": datetime.isoweekday, "day of year": lambda date: date.timetuple().tm_yday}


def tensors(content):
    """The arrays of a safetensors file as flat tuples, and its metadata."""
    (size,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + size])
    notes, found = header.pop("__metadata__", {}), {}
    for name, entry in header.items():
        start, end = (8 + size + offset for offset in entry["data_offsets"])
        count = math.prod(entry["shape"])
        found[name] = struct.unpack(f"<{count}{DTYPES[entry['dtype']]}", content[start:end])
    return found, notes


def leaves(arrays, cells):
    """The values of the leaf that each tree reaches."""
    feature, before = arrays["feature"], [0, *itertools.accumulate(map(bool, arrays["feature"]))]
    width = len(arrays["value"]) // (len(feature) - before[-1])
    for root in arrays["roots"]:
        node = root
        while feature[node]:
            split, cell = before[node], cells[feature[node] - 1]
            bit = arrays["missing_left"][split // 8] >> (7 - split % 8) & 1
            left = bit if math.isnan(cell) else cell <= arrays["threshold"][split]
            node = root + 2 * (split - before[root]) + 1 + (not left)
        yield arrays["value"][(node - before[node]) * width :][:width]


def single(number):
    return struct.unpack("f", struct.pack("f", number))[0]


class Bundle:
    def __init__(self, path):
        self.members = {}
        with zipfile.ZipFile(path) as archive:
            self.manifest = json.loads(archive.read("manifest.json"))
            for member in self.manifest["members"]:
                content = archive.read(member["path"])
                assert (len(content), hashlib.sha256(content).hexdigest()) == (member["bytes"], member["sha256"])
                self.members[member["path"]] = content
        self.schema, self.ensemble = self.json("schema.json"), self.json("ensemble.json")

    def json(self, path):
        return json.loads(self.members[path])

    def sample(self):
        """The sample rows, and their predictions."""
        names = "sample.csv", "sample_output.csv"
        return [list(csv.DictReader(io.StringIO(self.members[name].decode()))) for name in names]

    def predict(self, row):
        """Probabilities of the classes, from a row of texts."""
        total = [0.0] * len(self.manifest["classes"])
        for candidate in self.ensemble["candidates"]:
            for fold in candidate["folds"]:
                share = candidate["weight"] / len(candidate["folds"])
                kind = self.linear if candidate["model"] == "linear" else self.trees
                part = kind(fold["model"], *self.features(fold["features"], row))
                total = [a + share * b for a, b in zip(total, part, strict=True)]
        temperature, n_classes = self.ensemble.get("temperature") or 1, len(total)
        scaling = self.ensemble.get("scaling") or {"powers": [1 / temperature] * n_classes, "factors": [1] * n_classes}
        numbers = zip(total, scaling["powers"], scaling["factors"], strict=True)
        powers = [factor * probability**power for probability, power, factor in numbers]
        return [power / sum(powers) for power in powers]

    def features(self, folder, row):
        """The numbers and codes of a row, with the recipe "raw"."""
        state = self.json(f"{folder}/features.json")
        numbers, codes = [], []
        for step in state["steps"]:
            text = (row[step["column"]] or "").strip()
            codes.append(None)
            if step["type"] == "numeric":
                numbers.append(float(text) if text else math.nan)
            elif step["type"] == "boolean":
                numbers.append({step["false"]: 0.0, step["true"]: 1.0}.get(text, math.nan))
            elif step["type"] == "datetime":
                date = datetime.fromisoformat(text)
                elapsed = (date - datetime(1970, 1, 1)).total_seconds() - step["start"] / 1e6
                numbers += [
                    elapsed / 86400,
                    *(float(PARTS[part](date) if part in PARTS else getattr(date, part)) for part in step["parts"]),
                ]
            elif step["type"] == "categorical":
                codes[-1] = 1 if not text else step["levels"].index(text) + 2 if text in step["levels"] else 0
                counts = {0: 1.0, 1: math.nan} | {code: float(n) for code, n in enumerate(step["counts"], 2)}
                numbers += [counts[codes[-1]]] if step["frequency"] else []
                order = step["order"]
                numbers += [float(order.index(text)) if text in order else math.nan] if order else []
        for shift in state.get("shifts", []):
            i = state["kept_numeric"][shift["index"]]
            numbers[i] = (numbers[i] - shift["center"]) * shift["factor"]
        return [single(numbers[i]) for i in state["kept_numeric"]], [codes[i] for i in state["kept_categorical"]]

    def linear(self, folder, numbers, codes):
        arrays, _ = tensors(self.members[f"{folder}/linear.safetensors"])
        scaled = zip(numbers, arrays["mean"], arrays["std"], strict=True)
        cells = [0.0 if math.isnan(x) else min(max((x - mean) / std, -10.0), 10.0) for x, mean, std in scaled]
        cells += [float(math.isnan(numbers[i])) for i in arrays["indicators"]]
        cells += [float(codes[j] == code) for j, code in zip(arrays["level_column"], arrays["level_code"], strict=True)]
        output = (
            sum(cell * weight for cell, weight in zip(cells, arrays["weight"], strict=True)) + arrays["intercept"][0]
        )
        return [1 / (1 + math.exp(output)), 1 / (1 + math.exp(-output))]

    def trees(self, folder, numbers, codes):
        arrays, notes = tensors(self.members[f"{folder}/trees.safetensors"])
        grown = json.loads(notes["grown"])
        cells = numbers + [math.nan if code == 0 else float(code) for code in codes]
        reached = list(leaves(arrays, cells))
        total = [sum(values) for values in zip(*reached, strict=True)]
        if not grown["baseline"]:
            return [share / len(reached) for share in (len(reached) - sum(total), *total)]
        output = total[0] + grown["baseline"][0]
        return [1 / (1 + math.exp(output)), 1 / (1 + math.exp(-output))]

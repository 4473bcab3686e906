"""Codes of the warnings that `tabapp.data.reading.read` reports while it reads a file."""

from __future__ import annotations

from tabapp.data.checks.registry import declare

declare(
    "encoding",
    description="The file is not UTF-8, so its text encoding was guessed.",
    remedy="Look at the quoted text; if it is garbled, set --encoding.",
    rank=14,
)
declare(
    "name_form",
    description="Names of columns are in another Unicode form than in training, such as é as two characters.",
    remedy="Nothing: they are the columns of training.",
    rank=3,
)
declare(
    "nested",
    description="A column holds lists, structures or bytes instead of one value in each row.",
    remedy="Save what matters of it, such as a length or a field, as a column of its own. Otherwise, do nothing, or use --ignore.",
    rank=29,
)
declare(
    "sheets",
    description="An Excel workbook has several sheets, and the largest is read.",
    remedy="Save another sheet as CSV, or in a workbook of its own.",
    rank=2,
)
declare(
    "repaired_rows",
    description="Some rows do not have as many fields as the header, and were repaired or left out.",
    remedy="Check the delimiter and the quoting at the line that the warning names.",
    rank=13,
)

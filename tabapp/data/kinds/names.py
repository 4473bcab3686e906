"""What the name of a column implies: an identifier, an entity, a date, a code, an amount, or a fact known only afterwards."""

from __future__ import annotations

import re

_CAMEL_ID = re.compile(r"[a-z](Id|ID|Key|Number|No|Nr)$")
_SNAKE_ID = re.compile(
    r"(^|[_\s.-])(id|ids|uuid|guid|key|pk|hash|row_?names?|rowid|rownum|index|idx|serial|number|no|nr)$"
    r"|^unnamed:? ?\d*$|^(id|uuid)[_\s.-]",
    re.IGNORECASE,
)
_DATE_NAME = re.compile(r"(time|date|stamp|epoch|created|updated|modified|_at$|(^|_)ts$)", re.IGNORECASE)
_DAYS = frozenset({"date", "dates", "datetime", "birthdate", "dob", "datum", "fecha"})
_CODE_NAME = re.compile(
    r"\b(types?|codes?|class|category|region|district|zone?|zip|postcode|county|country|city|state|na[ct]ionality|course|mode|agent"
    r"|company|occupation|qualification|marital status|department|sector|industry|species|colou?r|ethnicity|race|religion"
    r"|branch|store|vendor|supplier|channel|brand|model id|product|sku|soil)$",
    re.IGNORECASE,
)
"""Names whose whole numbers are labels. The word must be the last one: `soil_type` is a label, `type_count` is not."""
_IDS = frozenset({"id", "ids", "uuid", "guid"})
_ID_ENDINGS = _IDS | {"no", "nr", "nbr", "num", "number", "code", "key", "ref", "hash", "name"}
_ENTITIES = frozenset(
    {
        "patient", "customer", "client", "user", "subject", "person", "household", "student", "driver", "device", "session",
        "player", "account", "member", "employee", "machine", "vehicle", "animal", "family",
    }
)  # fmt: skip
_RELATIVE = frozenset(
    {
        "percent", "pct", "perc", "percentage", "share", "rate", "ratio", "fraction", "proportion", "mean", "avg", "average",
        "median", "per", "count", "counts", "total", "sum",
    }
)  # fmt: skip
_COUNTED = frozenset({"number", "num", "n", "no", "nr"})
"""Words that make a name a count in first position, as in `number_of_driver`, and an identifier in last position."""
_AMOUNTS = frozenset(
    {
        "amount", "amt", "count", "counts", "number", "num", "n", "total", "sum", "quantity", "qty", "price",
        "cost", "costs", "fee", "fees", "charge", "charges", "payment", "payments", "paid", "balance", "income",
        "salary", "wage", "revenue", "sales", "spend", "spent", "spending", "capital", "gain", "loss", "debt",
        "deposit", "tax", "fare", "area", "sqft", "sf", "volume", "visits", "calls", "minutes", "hours", "days",
        "months", "years", "purchases", "claims", "clicks", "orders", "rain", "rainfall", "precipitation", "snow",
        "snowfall", "distance", "duration",
    }
)  # fmt: skip
AFTERWARDS = frozenset(
    {
        "duration", "outcome", "result", "status", "resolution", "resolved", "closed", "closing", "end", "ended", "final",
        "finish", "finished", "cancellation", "refund", "refunded", "recovery", "recovered", "discharge", "settlement", "paid",
        "payout", "collected", "churned", "reason",
    }
)  # fmt: skip
"""Words in the names of columns that are often filled in only when the target is known."""


def words_of(name: str) -> list[str]:
    """The words of a name in lower case: `lastSeen_at` has three."""
    return re.findall(r"[a-z]+", _separate_words(name).casefold())


def _separate_words(name: str) -> str:
    return re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name).replace("_", " ")


def looks_like_id(name: str) -> bool:
    """Whether a name implies that the column identifies rows: `id`, `customerID`, `row_number`."""
    return bool(_SNAKE_ID.search(name) or _CAMEL_ID.search(name))


def names_index(name: str) -> bool:
    """Whether pandas named a column that holds the row labels of a table: `__index_level_0__`."""
    return re.fullmatch(r"__index_level_\d+__", name) is not None


def names_entity(name: str) -> bool:
    """Whether a name implies whom or what a row is about: `patient_id`, `customer`, but not `family_size` or `user_share`."""
    words = words_of(name)
    if not words or _RELATIVE & set(words) or (words[0] in _COUNTED and len(words) > 1):
        return False
    if words[-1] in _IDS or words[0] in _IDS:
        return True
    while len(words) > 1 and words[-1] in _ID_ENDINGS:
        words.pop()
    return words[-1] in _ENTITIES


def names_date(name: str) -> bool:
    """Whether a name implies a point in time: `created_at`, `timestamp`."""
    return bool(_DATE_NAME.search(name))


def names_day(name: str) -> bool:
    """Whether the first or the last word of a name implies a day: `order_date`, `Date Received`."""
    words = words_of(name)
    return bool(words and _DAYS & {words[0], words[-1]})


def names_code(name: str) -> bool:
    """Whether a name implies that whole numbers are labels: `soil_type`, `nationality`."""
    return bool(_CODE_NAME.search(_separate_words(name)))


def names_amount(name: str) -> bool:
    """Whether a name implies an amount, of which there may be none: `capital_gain`, `GarageArea`, `number_of_calls`."""
    return bool(_AMOUNTS & set(words_of(name)))


def stem(name: str) -> str:
    """A name in lower case without the number at its end."""
    return re.sub(r"[\s_.-]*\d+$", "", name).casefold()


def is_twin(name: str, target: str) -> bool:
    """Whether two names differ only in a number or in the last letter of a short name: `y_2` and `y_1`, `kMt` and `kMc`.

    Numbers that the reader gave to columns without names say nothing.
    """
    if stem(name) == stem(target) == "column":
        return False
    if name != target and stem(name) == stem(target) and any(c.isdigit() for c in target):
        return True
    short = 3 <= len(target) <= 6 and len(name) == len(target)
    return short and name != target and name[:-1] == target[:-1] and name.isalpha() and target.isalpha()

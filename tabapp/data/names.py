"""What the name of a column says about it: identifiers, entities, moments, codes, things known only afterwards."""

from __future__ import annotations

import re

_CAMEL_ID = re.compile(r"[a-z](Id|ID|Key|Number|No|Nr)$")
_SNAKE_ID = re.compile(
    r"(^|[_\s.-])(id|ids|uuid|guid|key|pk|hash|rownames?|rowid|rownum|index|idx|serial|number|no|nr)$"
    r"|^unnamed:? ?\d*$|^(id|uuid)[_\s.-]",
    re.IGNORECASE,
)
_MOMENT_NAME = re.compile(r"(time|date|stamp|epoch|created|updated|modified|_at$|(^|_)ts$)", re.IGNORECASE)
_CODE_NAME = re.compile(
    r"\b(types?|codes?|class|category|region|district|zone?|zip|postcode|county|country|city|state|na[ct]ionality|course|mode|agent"
    r"|company|occupation|qualification|marital status|department|sector|industry|species|colou?r|ethnicity|race|religion"
    r"|branch|store|vendor|supplier|channel|brand|model id|product|sku|soil)$",
    re.IGNORECASE,
)
"""Names whose whole numbers are labels. The word stands last: `soil_type` is one, `type_count` is not."""
_ENTITIES = frozenset(
    {
        "id", "ids", "uuid", "guid", "patient", "customer", "client", "user", "subject", "person", "household", "student",
        "driver", "device", "session", "player", "account", "member", "employee", "machine", "vehicle", "animal", "family",
    }
)  # fmt: skip
AFTERWARDS = frozenset(
    {
        "duration", "outcome", "result", "status", "resolution", "resolved", "closed", "closing", "end", "ended", "final",
        "finish", "finished", "cancellation", "refund", "refunded", "recovery", "recovered", "discharge", "settlement", "paid",
        "payout", "collected", "churned", "reason",
    }
)  # fmt: skip
"""Words in the names of columns that are often filled in only when the answer is known."""


def words_of(name: str) -> list[str]:
    """The words of a name in lower case: `lastSeen_at` has three."""
    return re.findall(r"[a-z]+", _spaced(name).casefold())


def _spaced(name: str) -> str:
    return re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name).replace("_", " ")


def looks_like_id(name: str) -> bool:
    """Whether a column's name says that it identifies rows: `id`, `customerID`, `row_number`, …"""
    return bool(_SNAKE_ID.search(name) or _CAMEL_ID.search(name))


def says_entity(name: str) -> bool:
    """Whether a column's name says that it tells whom or what a row is about: `patient_id`, `customer`."""
    return bool(_ENTITIES & set(words_of(name)))


def says_moment(name: str) -> bool:
    """Whether a column's name says that it is a moment in time: `created_at`, `timestamp`."""
    return bool(_MOMENT_NAME.search(name))


def says_code(name: str) -> bool:
    """Whether a column's name says that whole numbers in it are labels: `soil_type`, `nationality`."""
    return bool(_CODE_NAME.search(_spaced(name)))


def stem(name: str) -> str:
    """A name without the number at its end, in lower case."""
    return re.sub(r"[\s_.-]*\d+$", "", name).casefold()


def is_twin(name: str, target: str) -> bool:
    """`y_2` and `y_1`, `kMt` and `kMc`: the same but for a number, or for the last letter of a short name."""
    if name != target and stem(name) == stem(target) and any(c.isdigit() for c in target):
        return True
    short = 3 <= len(target) <= 6 and len(name) == len(target)
    return short and name != target and name[:-1] == target[:-1] and name.isalpha() and target.isalpha()

"""Forms of answers that the tests of several clients ask for."""
import enum

import pydantic


class Name(enum.Enum):
    PARIS = "Paris"
    ROME = "Rome"


class Capital(pydantic.BaseModel):
    name: Name
    is_old: bool


RANKED = {"type": "object", "properties": {"name": {"enum": ["Paris", "Rome"]}, "rank": {"type": "integer", "minimum": 1, "maximum": 9}},
          "required": ["name", "rank"], "additionalProperties": False}


def check_ranked(answer):
    """`answer` is a value of RANKED."""
    assert list(answer) == ["name", "rank"] and answer["name"] in ("Paris", "Rome") and answer["rank"] in range(1, 10)

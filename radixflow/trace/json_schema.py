"""The JSON Schema of a trace's lines, generated from the records.

python -m radixflow.trace.json_schema        writes trace.schema.json beside this file
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from radixflow.trace.schema import SCHEMA, AnyRecord

FILE = Path(__file__).with_name("trace.schema.json")


def json_schema() -> dict:
    """JSON Schema (draft 2020-12) of one line of a trace."""
    (line,), definitions = msgspec.json.schema_components([AnyRecord])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"A record of a radixflow trace, schema {SCHEMA}",
        **line,
        "$defs": definitions,
    }


def text() -> str:
    """As it stands in the file."""
    return json.dumps(json_schema(), indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())

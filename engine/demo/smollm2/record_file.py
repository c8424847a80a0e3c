"""The text of record.json, which training, answers and the page share."""

import json


def record_text(record):
    """On one line: indented it takes twice the bytes."""
    return json.dumps(record, separators=(",", ":")) + "\n"

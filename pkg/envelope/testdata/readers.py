"""What PyYAML reads in a file: base64 lines on stdin, one JSON answer a line on
stdout, in the form of readers.cjs."""
import base64
import datetime
import json
import re
import sys

import yaml

FENCED = re.compile(r"\A\ufeff?---\r?\n(.*?)(?:(?<=\n)|(?<=\A))^---(?:\r?\n|\Z)", re.S | re.M)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader) if "--libyaml" in sys.argv else yaml.SafeLoader


def tell(v):
    if isinstance(v, str):
        return {"s": v}
    if isinstance(v, datetime.date) and not isinstance(v, datetime.datetime):
        v = datetime.datetime(v.year, v.month, v.day)
    if isinstance(v, datetime.datetime):
        if v.tzinfo is None:
            v = v.replace(tzinfo=datetime.timezone.utc)
        return {"d": (v - EPOCH) / datetime.timedelta(milliseconds=1)}
    if isinstance(v, list):
        return [tell(i) for i in v]
    return {"x": repr(v)}


def read(text):
    m = FENCED.match(text)
    if not m:
        return {"error": "no fences"}
    try:
        data = yaml.load(m.group(1), Loader=Loader)
    except Exception as e:  # whatever it says, it read nothing
        return {"error": str(e).split("\n")[0]}
    if not isinstance(data, dict):
        return {"error": "no mapping"}
    return {"fields": {str(k): tell(v) for k, v in data.items()}}


for line in sys.stdin:
    text = base64.b64decode(line).decode("utf-8", "surrogateescape")
    print(json.dumps({"PyYAML": read(text)}), flush=False)

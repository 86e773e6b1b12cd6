"""What the description does not say, and requests need in order to be more than refused."""

from datetime import datetime
from urllib.parse import quote, unquote

import schemathesis
from hypothesis import strategies

KNOWN = ["10.5555/DEMO", "10.5555/DEMO-COPIES", "10.5555/DEMO-ALIAS"]

# Dates of the protocol have 32 bits.
dates = strategies.datetimes(datetime(1970, 1, 2), datetime(2106, 1, 1))
schemathesis.openapi.format("date-time", dates.map(lambda date: date.strftime("%Y-%m-%dT%H:%M:%SZ")))


def kept(name):
    """A name that is kept here: names under other prefixes are refused, whatever they are."""
    if name.startswith("10.5555/"):
        return name
    at = len(name) % 5
    return KNOWN[at] if at < len(KNOWN) else "10.5555/" + name


@schemathesis.hook
def before_call(context, case, kwargs):
    # The redirect is the answer.
    kwargs["allow_redirects"] = False
    is_put = case.method.upper() == "PUT"
    if "name" in case.path_parameters:
        name = kept(unquote(case.path_parameters["name"]))
        # New names have only characters that can be seen.
        name = "".join(filter(str.isprintable, name)) if is_put else name
        case.path_parameters["name"] = quote(name)
    for place in (case.query, case.body):
        for key in ("id", "rft_id", "hdl"):
            if isinstance(place, dict) and isinstance(place.get(key), str):
                place[key] = kept(place[key])
    prepare_administration(case)
    # To a script, every answer has the status 200: a browser would not run it with another one.
    case.query.pop("callback", None)
    # The query has to name the indexes of the body, or stand for all of them; the body, the name in the path or none.
    if is_put and "index" in case.query:
        case.query["index"] = "various"
    if is_put and isinstance(case.body, dict) and isinstance(case.body.get("handle"), str):
        case.body["handle"] = unquote(case.path_parameters["name"])


def prepare_administration(case):
    """What is listed, homed or verified has to be named, and a new session has no name yet."""
    path, method = case.operation.path, case.method.upper()
    if path == "/api/handles":
        case.query["prefix"] = "10.5555"
    # Another than that of the demo's records, on which the rest depends.
    if path == "/api/prefixes" and method in ("POST", "DELETE"):
        case.query["prefix"] = "10.5556"
    if "prefix" in case.path_parameters:
        case.path_parameters["prefix"] = "0.NA%2F10.5556"
    if "identity" in case.path_parameters:
        case.path_parameters["identity"] = "300%3A10.5555%2FDEMO"
        case.query["alg"] = "HMAC-SHA256"
        for name in ("nonce", "cnonce", "signature"):
            case.query.setdefault(name, "AAAA")
    if path == "/api/sessions" and isinstance(case.body, dict):
        case.body.pop("sessionId", None)

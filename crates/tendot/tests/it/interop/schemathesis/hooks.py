"""Adapts generated requests to rules that are not in the OpenAPI description, so that not all of them are refused."""

from base64 import b64decode, b64encode
from datetime import datetime
from ipaddress import IPv4Address
from itertools import count
from urllib.parse import quote, unquote

import schemathesis
from hypothesis import strategies

# Many generated credentials are invalid: each request comes from a client of its own, or the limit on guessing would refuse the
# others.
CLIENTS = map(IPv4Address, count(int(IPv4Address("198.18.0.0"))))
DEMO_NAMES = ["10.5555/DEMO", "10.5555/DEMO-COPIES", "10.5555/DEMO-ALIAS"]

# Dates of the protocol have 32 bits.
dates = strategies.datetimes(datetime(1970, 1, 2), datetime(2106, 1, 1))
schemathesis.openapi.format("date-time", dates.map(lambda date: date.strftime("%Y-%m-%dT%H:%M:%SZ")))


def homed_name(name):
    """A name under the prefix of the server: all others are refused."""
    if name.startswith("10.5555/"):
        return name
    at = len(name) % 5
    return DEMO_NAMES[at] if at < len(DEMO_NAMES) else "10.5555/" + name


@schemathesis.hook
def before_call(context, case, kwargs):
    # The redirect itself is checked.
    kwargs["allow_redirects"] = False
    is_put = case.method.upper() == "PUT"
    if "name" in case.path_parameters:
        name = homed_name(unquote(case.path_parameters["name"]))
        # New names contain printable characters only.
        name = "".join(filter(str.isprintable, name)) if is_put else name
        case.path_parameters["name"] = quote(name)
    for members in (case.query, case.body):
        for key in ("id", "rft_id", "hdl"):
            if isinstance(members, dict) and isinstance(members.get(key), str):
                members[key] = homed_name(members[key])
    case.headers = with_utf8_credentials(case.headers)
    # The server trusts loopback as a proxy.
    case.headers.update({"X-Forwarded-For": str(next(CLIENTS)), "X-Forwarded-Proto": "https"})
    prepare_admin_request(case)
    # JSONP responses always have the status 200, since a browser would not run them otherwise.
    case.query.pop("callback", None)
    # The index in the query has to be that of the body, or `various`; the name in the body, that of the path.
    if is_put and "index" in case.query:
        case.query["index"] = "various"
    if is_put and isinstance(case.body, dict) and isinstance(case.body.get("handle"), str):
        case.body["handle"] = unquote(case.path_parameters["name"])


def with_utf8_credentials(headers):
    """Headers whose Basic credentials are UTF-8: others are refused."""
    for name, value in list((headers or {}).items()):
        if name.lower() == "authorization" and value.startswith("Basic "):
            try:
                b64decode(value[len("Basic "):]).decode()
            except ValueError:
                headers[name] = "Basic " + b64encode(b"300%3A10.5555%2FDEMO:x").decode()
    return headers


def prepare_admin_request(case):
    """Sets the prefix that is listed, homed or verified; a new session has no id yet."""
    path, method = case.operation.path, case.method.upper()
    if path == "/api/handles":
        case.query["prefix"] = "10.5555"
    # Another prefix than that of the demo records, which other requests need.
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

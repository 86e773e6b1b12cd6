"""Writes handles with pyhandle, reads them again and finds them by their values."""

import json
import sys

from pyhandle.client.resthandleclient import RESTHandleClient
from pyhandle.clientcredentials import PIDClientCredentials
from pyhandle.handleexceptions import (
    GenericHandleError,
    HandleAuthenticationError,
    HandleNotFoundException,
    ReverseLookupException,
)

values = json.loads(sys.argv[1])
server, verify = values["handle_server_url_write"], values["HTTPS_verify"]
credentials = {name: values[name] for name in ("reverselookup_username", "reverselookup_password")}
# One user writes, another one does reverse lookups.
client = RESTHandleClient.instantiate_with_username_and_password(
    server,
    values["user"],
    values["password"],
    HTTPS_verify=verify,
    handleowner=values["user"],
    allowed_search_keys=[],
    **credentials,
)
name = "21.T14999/Ünïcode-€"
address = "https://example.org/a;b?c=d"


def assert_equal(actual, expected):
    assert actual == expected, f"{actual!r} is not {expected!r}"


def search(**terms):
    return client.search_handle(**terms)


assert_equal(search(URL="*dkrz*"), ["21.T14999/DKRZ-1", "21.T14999/DKRZ-2"])
assert_equal(search(URL="*dkrz*", CHECKSUM="22222"), ["21.T14999/DKRZ-2"])
assert_equal(search(URL="*dkrz*", prefix="21.T14998"), [])
assert_equal(search(URL="*DKRZ*"), [])
# Values that are not public are not found.
assert_equal(search(HS_SECKEY="*"), [])
assert_equal(search(URL="*hidden*"), [])

assert_equal(search(URL=address), [])
assert_equal(client.register_handle(name, address, checksum="123", COLOUR="green"), name)
assert_equal(search(URL=address), [name])
assert_equal(search(colour="gr*n", checksum="123"), [name])
record = client.retrieve_handle_record(name)
assert_equal({key: record[key] for key in ("URL", "CHECKSUM", "COLOUR")}, {"URL": address, "CHECKSUM": "123", "COLOUR": "green"})

client.modify_handle_value(name, COLOUR="blue", URL="https://example.org/other")
assert_equal(client.get_value_from_handle(name, "COLOUR"), "blue")
assert_equal(search(URL=address), [])
assert_equal(search(URL="https://example.org/other", COLOUR="blue"), [name])

client.delete_handle_value(name, "COLOUR")
assert_equal(client.get_value_from_handle(name, "COLOUR"), None)
assert_equal(search(COLOUR="*"), [])

client.delete_handle(name)
assert_equal(client.retrieve_handle_record_json(name), None)
try:
    client.delete_handle(name)
except HandleNotFoundException:
    pass
else:
    raise AssertionError("deleted twice")
assert_equal(search(URL="https://example.org/other"), [])

created = client.generate_and_register_handle("21.T14999", address)
assert_equal(search(URL=address), [created])

# Credentials that name the kind of client, as pyhandle's own tests do not.
def client_with_credentials(user, **others):
    client_credentials = PIDClientCredentials(
        client="rest", handle_server_url=server, username=user, password=values["password"], **others
    )
    return RESTHandleClient.instantiate_with_credentials(client_credentials, HTTPS_verify=verify)


client_with_credentials(values["user"]).modify_handle_value(created, COLOUR="red")
assert_equal(search(COLOUR="red"), [created])
# pyhandle expects records at each path: other JSON ends in a `KeyError`.
for user, others, error in (
    ("100:21.T14999/UNKNOWN", {}, HandleNotFoundException),
    (values["user"], {"REST_API_url_extension": "foo/foo/foo/"}, KeyError),
):
    try:
        client_with_credentials(user, **others)
    except error:
        pass
    else:
        raise AssertionError(f"{user} is accepted")

# Users without the permission.
for user, password, error in (
    (values["user"], "wrong", HandleAuthenticationError),
    (values["reverselookup_username"], values["reverselookup_password"], GenericHandleError),
):
    other = RESTHandleClient.instantiate_with_username_and_password(server, user, password, HTTPS_verify=verify)
    try:
        other.delete_handle(created)
    except error:
        pass
    else:
        raise AssertionError(f"{user} could delete")
for user, password in (
    (values["user"], values["password"]),
    (values["reverselookup_username"], "wrong"),
    ("eudat", values["reverselookup_password"]),
):
    other = RESTHandleClient.instantiate_for_read_and_search(server, user, password, HTTPS_verify=verify)
    try:
        other.search_handle(URL="*")
    except ReverseLookupException:
        pass
    else:
        raise AssertionError(f"{user} could search")
print("ok")

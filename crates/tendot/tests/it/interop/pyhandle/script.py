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
search = {name: values[name] for name in ("reverselookup_username", "reverselookup_password")}
# One user writes, another one does reverse lookups.
client = RESTHandleClient.instantiate_with_username_and_password(
    server,
    values["user"],
    values["password"],
    HTTPS_verify=verify,
    handleowner=values["user"],
    allowed_search_keys=[],
    **search,
)
name = "21.T14999/Ünïcode-€"
address = "https://example.org/a;b?c=d"


def equal(found, expected):
    assert found == expected, f"{found!r} is not {expected!r}"


def found(**terms):
    return client.search_handle(**terms)


equal(found(URL="*dkrz*"), ["21.T14999/DKRZ-1", "21.T14999/DKRZ-2"])
equal(found(URL="*dkrz*", CHECKSUM="22222"), ["21.T14999/DKRZ-2"])
equal(found(URL="*dkrz*", prefix="21.T14998"), [])
equal(found(URL="*DKRZ*"), [])
# Values that are not public are not found.
equal(found(HS_SECKEY="*"), [])
equal(found(URL="*hidden*"), [])

equal(found(URL=address), [])
equal(client.register_handle(name, address, checksum="123", COLOUR="green"), name)
equal(found(URL=address), [name])
equal(found(colour="gr*n", checksum="123"), [name])
record = client.retrieve_handle_record(name)
equal({key: record[key] for key in ("URL", "CHECKSUM", "COLOUR")}, {"URL": address, "CHECKSUM": "123", "COLOUR": "green"})

client.modify_handle_value(name, COLOUR="blue", URL="https://example.org/other")
equal(client.get_value_from_handle(name, "COLOUR"), "blue")
equal(found(URL=address), [])
equal(found(URL="https://example.org/other", COLOUR="blue"), [name])

client.delete_handle_value(name, "COLOUR")
equal(client.get_value_from_handle(name, "COLOUR"), None)
equal(found(COLOUR="*"), [])

client.delete_handle(name)
equal(client.retrieve_handle_record_json(name), None)
try:
    client.delete_handle(name)
except HandleNotFoundException:
    pass
else:
    raise AssertionError("it is deleted again")
equal(found(URL="https://example.org/other"), [])

made = client.generate_and_register_handle("21.T14999", address)
equal(found(URL=address), [made])

# Credentials that name the kind of client, as pyhandle's own tests do not.
def by_credentials(user, **others):
    credentials = PIDClientCredentials(
        client="rest", handle_server_url=server, username=user, password=values["password"], **others
    )
    return RESTHandleClient.instantiate_with_credentials(credentials, HTTPS_verify=verify)


by_credentials(values["user"]).modify_handle_value(made, COLOUR="red")
equal(found(COLOUR="red"), [made])
for user, others, error in (
    ("100:21.T14999/nobody", {}, HandleNotFoundException),
    (values["user"], {"REST_API_url_extension": "foo/foo/foo/"}, GenericHandleError),
):
    try:
        by_credentials(user, **others)
    except error:
        pass
    else:
        raise AssertionError(f"{user} is somebody")

# Users without the permission.
for user, password, error in (
    (values["user"], "wrong", HandleAuthenticationError),
    (values["reverselookup_username"], values["reverselookup_password"], GenericHandleError),
):
    other = RESTHandleClient.instantiate_with_username_and_password(server, user, password, HTTPS_verify=verify)
    try:
        other.delete_handle(made)
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
print("as it should be")

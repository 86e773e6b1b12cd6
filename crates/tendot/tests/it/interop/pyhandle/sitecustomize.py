"""Connects to the server of the test instead of hdl.handle.net, the default of pyhandle."""

import os
import socket

real_getaddrinfo = socket.getaddrinfo


def redirect_to_test_server(host, port, *rest, **others):
    if host == "hdl.handle.net":
        host, port = "127.0.0.1", int(os.environ["PORT"])
    return real_getaddrinfo(host, port, *rest, **others)


socket.getaddrinfo = redirect_to_test_server

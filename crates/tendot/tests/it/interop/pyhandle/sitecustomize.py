"""Connects to the server of the test instead of hdl.handle.net, the default of pyhandle."""

import os
import socket

getaddrinfo = socket.getaddrinfo


def redirected(host, port, *rest, **others):
    if host == "hdl.handle.net":
        host, port = "127.0.0.1", int(os.environ["PORT"])
    return getaddrinfo(host, port, *rest, **others)


socket.getaddrinfo = redirected

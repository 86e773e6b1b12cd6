"""The service of the test is hdl.handle.net: pyhandle asks there unless it is told where."""

import os
import socket

look_up = socket.getaddrinfo


def at_the_test(host, port, *rest, **others):
    if host == "hdl.handle.net":
        host, port = "127.0.0.1", int(os.environ["PORT"])
    return look_up(host, port, *rest, **others)


socket.getaddrinfo = at_the_test

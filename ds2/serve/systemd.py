"""Tells systemd what the server does, by the protocol of sd_notify(3); without systemd it tells nobody."""

import asyncio
import logging
import os
import socket

log = logging.getLogger("ds2.serve")

READY, STOPPING, ALIVE = "READY=1", "STOPPING=1", "WATCHDOG=1"
PATIENCE = 1.0  # seconds for systemd to take a message


def notify(state: str) -> None:
    """Sends a state to the socket that NOTIFY_SOCKET names, if it names one."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    # A name that begins with @ is abstract: no file of the system stands for it.
    path = f"\0{address[1:]}" if address.startswith("@") else address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.settimeout(PATIENCE)
            manager.sendto(state.encode(), path)
    except OSError as error:
        log.warning("systemd could not be notified", extra={"facts": {"state": state, "error": str(error)}})


def watchdog_seconds() -> float:
    """How long systemd lets this process be silent before it ends it; 0: for ever."""
    addressed = os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    microseconds = os.environ.get("WATCHDOG_USEC", "")
    return int(microseconds) / 1e6 if addressed and microseconds.isdecimal() else 0.0


async def keep_alive() -> None:
    """Tells systemd twice in each period of its watchdog that the event loop runs; returns at once without one."""
    while period := watchdog_seconds():
        notify(ALIVE)
        await asyncio.sleep(period / 2)

"""iredis against a server: what a person types into it."""

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from checks import HOST, PORT, SOCKET, case, eventually, run
from terminal import Terminal

IREDIS = os.path.join(os.path.dirname(sys.executable), "iredis")
SERVER = ["-h", HOST, "-p", str(PORT)]
# It keeps a history there.
HOME = {"HOME": os.getcwd()}


def cli(*words):
    return subprocess.run(["redis-cli", *SERVER, *words], capture_output=True, text=True, check=True).stdout.strip()


@case
def typed_into():
    cli("FLUSHALL")
    cli("ZADD", "z", "1.5", "member")
    prompt = f"{HOST}:{PORT}"
    with Terminal(IREDIS, *SERVER, "--no-rainbow", "--no-pager", environment=HOME) as terminal:

        def enter(text, *expected, prompt=prompt):
            terminal.see(prompt)
            terminal.type(text + "\r")
            for one in expected:
                terminal.see(one)

        enter("SET greeting hello", "OK")
        enter("GET greeting", '"hello"')
        enter("PEEK z", "zset", "member")
        enter("HELP GET", "Returns the string value of a key.")
        enter("NOSUCH", "unknown command")
        enter("MULTI", "OK")
        enter("INCR n", "QUEUED")
        enter("EXEC", "1")
        enter("SELECT 1", "OK")
        enter("DBSIZE", "0", prompt=f"{prompt}[1]")
        enter("SUBSCRIBE news", "subscribe", prompt=f"{prompt}[1]")
        eventually(lambda: cli("PUBLISH", "news", "heard") == "1")
        terminal.see("heard")


@case
def a_password_and_the_socket():
    cli("CONFIG", "SET", "requirepass", "secret")
    try:
        for arguments in (["-a", "secret", *SERVER], ["--url", f"redis://default:secret@{HOST}:{PORT}/2"], ["-a", "secret", "-s", SOCKET]):
            with Terminal(IREDIS, *arguments, "--no-rainbow", environment=HOME) as terminal:
                terminal.see(">")
                terminal.type("PING\r")
                terminal.see("PONG")
    finally:
        subprocess.run(["redis-cli", *SERVER, "-a", "secret", "--no-auth-warning", "CONFIG", "SET", "requirepass", ""], check=True, capture_output=True)


run()

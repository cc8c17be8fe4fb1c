"""What the Python programs here share: named cases, and the closing line that `cargo xtask clients` counts."""

import os
import sys
import time
import traceback

HOST = "127.0.0.1"
PORT = int(os.environ["ALMANDINE_PORT"])
SOCKET = os.environ["ALMANDINE_SOCKET"]
# Set when the server is redis-server 7.0, which lacks what came later.
REFERENCE = os.environ.get("ALMANDINE_REFERENCE") == "1"

_HERE = os.path.dirname(os.path.abspath(__file__))
_cases = []


def case(function):
    """Marks a function as a case, named by its name."""
    _cases.append((function.__name__.replace("_", " "), function))
    return function


def add(name, function):
    _cases.append((name, function))


def equal(actual, expected):
    if actual != expected:
        raise AssertionError(f"expected {expected!r}, got {actual!r}")


def holds(condition, what=""):
    if not condition:
        raise AssertionError(what or "does not hold")


def raises(kind, text, function, *arguments):
    """The error that the call must raise, with a text in it."""
    try:
        result = function(*arguments)
    except kind as error:
        if text not in str(error):
            raise AssertionError(f"expected an error with {text!r}, got {error!r}") from error
        return error
    raise AssertionError(f"expected an error with {text!r}, got {result!r}")


def eventually(condition, seconds=5.0):
    """Waits until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"did not come true within {seconds} s")
        time.sleep(0.01)


def run():
    """Runs the cases in their order, and ends the program."""
    failed = 0
    for name, function in _cases:
        try:
            function()
            print(f"ok: {name}", flush=True)
        except Exception as error:
            failed += 1
            ours = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(_HERE) and frame.filename != __file__]
            place = f"{os.path.basename(ours[-1].filename)}:{ours[-1].lineno}: {ours[-1].line}"
            print(f"FAILED: {name}\n    {place}\n    {type(error).__name__}: {error}", flush=True)
    print(f"{len(_cases) - failed} passed, {failed} failed", flush=True)
    sys.stdout.flush()
    # Threads that a failed case left behind must not hold the program.
    os._exit(1 if failed else 0)

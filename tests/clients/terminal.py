"""A program in a pseudo-terminal: what a person types, and what the screen says."""

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time


class Terminal:
    def __init__(self, *command, environment=None):
        self.child, self.screen = pty.fork()
        if self.child == 0:
            os.execvpe(command[0], command, {**os.environ, "TERM": "xterm", "HOME": "/nonexistent", **(environment or {})})
        fcntl.ioctl(self.screen, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 160, 0, 0))
        self.text = ""

    def type(self, text):
        os.write(self.screen, text.encode())

    def see(self, expected, seconds=5.0):
        """Waits until the screen shows a text or a pattern; returns and forgets everything up to there."""
        pattern = expected if isinstance(expected, re.Pattern) else re.compile(re.escape(expected))
        end = time.monotonic() + seconds
        while True:
            plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.text)
            if found := pattern.search(plain):
                self.text = plain[found.end() :]
                return plain[: found.end()]
            left = end - time.monotonic()
            if left <= 0 or not self.more(left):
                raise AssertionError(f"{expected!r} was not seen, but {plain!r}")

    def more(self, seconds):
        ready, _, _ = select.select([self.screen], [], [], seconds)
        if not ready:
            return True
        try:
            data = os.read(self.screen, 65536)
        except OSError:
            return False
        self.text += data.decode(errors="replace")
        return bool(data)

    def interrupt(self):
        self.type("\x03")

    def close(self):
        os.close(self.screen)
        os.waitpid(self.child, 0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

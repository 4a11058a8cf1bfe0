"""The command as a process whose model is played by a script, and a terminal to run it in."""

import codecs
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

TESTS = Path(__file__).parent
SCRIPTED = """
import time
from cli_fakes import replacing
from lookahead.cli import main, session

def editor(path, text, instruction):
    if instruction == "be slow":
        print("working", flush=True)
        time.sleep(60)
    if instruction == "be busy":
        print("working", flush=True)
        time.sleep(0.5)
    return replacing("beta", "[i]gamma[/i]")(path, text, instruction)

def load(args, console, trace):
    if args.instruction != "stream":
        return editor
    from cli_scripted import scripted_editor
    return scripted_editor(lambda text: text.replace("beta", "gamma"), console, args, pause=0.002)

session.load_editor = load
main.entry_point()
"""


def command(*argv: object) -> list[str]:
    """A real process of the command, whose model is played by a script."""
    return [sys.executable, "-c", SCRIPTED, *map(str, argv)]


def variables(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(TESTS), **more}


class Terminal:
    """The command in a terminal of its own."""

    def __init__(self, *argv: object, columns: int = 80, **more: str) -> None:
        self._fd, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        settings = variables(TERM="xterm", **more)
        for name in ("COLUMNS", "LINES"):
            settings.pop(name, None)
        self.process = subprocess.Popen(
            command(*argv), env=settings, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
        )
        os.close(slave)
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self.screen = ""

    def read_until(self, text: str) -> str:
        """Collect what appears from now on until the text does, or the command ends."""
        deadline, seen = time.monotonic() + 60, len(self.screen)
        while text not in self.screen[seen:] and time.monotonic() < deadline:
            try:
                self.screen += self._decoder.decode(os.read(self._fd, 65536))
            except OSError:  # the command has closed the terminal
                break
        return self.screen

    def type(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def end(self) -> int:
        self.read_until("\0")
        os.close(self._fd)
        return self.process.wait(timeout=30)

"""Real servers for tests: started on loopback by an unprivileged user, killed, and started again on the same data."""

from __future__ import annotations

import atexit
import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Self

from tests.needs import missing

#: Seconds that a server may take to answer, on a machine with other things to do.
PATIENCE = 60

#: Where Debian and Homebrew put PostgreSQL.
NOT_ON_PATH = (
    "/usr/local/opt/postgresql@*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/lib/postgresql/*/bin",
)


def unprivileged() -> dict[str, Any]:
    """What `Popen` needs to run a server as somebody who is not root: most refuse to be."""
    if os.getuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Server(ABC):
    """A server in a folder of its own; `with` starts and stops it, and removes the folder."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="onlinehash-"))
        if os.getuid() == 0:
            shutil.chown(self.folder, "nobody")
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def _command(self) -> list[str]: ...

    @abstractmethod
    def _answers(self) -> bool: ...

    def run(self, *command: str, **options: Any) -> None:
        """A command of the server's, as the same user, to its end."""
        done = subprocess.run(
            command, cwd=self.folder, env=self._environment, capture_output=True, **unprivileged(), **options
        )
        assert done.returncode == 0, (command, done.stdout.decode(), done.stderr.decode())

    @property
    def _environment(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder), "LC_ALL": "C"}

    def start(self) -> None:
        """Start, or start again, and wait until it answers."""
        log = (self.folder / "log").open("ab")
        self._process = subprocess.Popen(
            self._command(),
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            **unprivileged(),
        )
        log.close()
        wait_until(self._answers, f"{type(self).__name__} to answer", self.log)

    def kill(self) -> None:
        """SIGKILL to the server and all its children."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def log(self) -> str:
        """What it said."""
        return (self.folder / "log").read_text(errors="replace")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def wait_until(happened: Callable[[], bool], what: str, told: Callable[[], str] = str) -> None:
    """Wait for something, but not for ever."""
    end = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < end, f"waited {PATIENCE} s for {what}: {told()}"
        time.sleep(0.02)


class PostgresServer(Server):
    """PostgreSQL as Debian has it or, with `pgvector`, one that carries this extension.

    The superuser is `postgres` with the password `secret`, which a connection from anywhere must tell.
    """

    def __init__(self, pgvector: bool = False) -> None:
        bin_folder = _with_pgvector() if pgvector else _stock()
        self._bin = bin_folder
        super().__init__()
        self.run("cp", "-R", str(_new_cluster(bin_folder) / "data"), "data")

    @property
    def _environment(self) -> dict[str, str]:
        return super()._environment | {"LD_LIBRARY_PATH": str(Path(self._bin).parent / "lib")}  # it brings its own

    def address(self, database: str = "postgres", user: str = "postgres", password: str = "secret") -> str:
        """What a client connects to."""
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}"

    def program(self, name: str) -> str:
        """Another program of its installation, such as `pg_dump`."""
        return f"{self._bin}/{name}"

    def _command(self) -> list[str]:
        options = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self.folder),
            "fsync": "off",  # the death of the process is what these tests are about, not that of the machine
        }
        return [f"{self._bin}/postgres", "-D", "data", *(f"--{name}={value}" for name, value in options.items())]

    def _answers(self) -> bool:
        import psycopg

        try:
            with psycopg.connect(self.address(), connect_timeout=5) as connection:
                connection.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True


@cache
def _new_cluster(bin_folder: str) -> Path:
    """A folder with `data` as `initdb` makes it, to be copied: that is quicker than to make it again."""
    home = Path(tempfile.mkdtemp(prefix="onlinehash-initdb-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    (home / "password").write_text("secret")
    if os.getuid() == 0:
        shutil.chown(home, "nobody")
        shutil.chown(home / "password", "nobody")
    command = [f"{bin_folder}/initdb", "-D", "data", "-U", "postgres", "-A", "scram-sha-256", "--pwfile=password", "-N"]
    command += ["--locale=C", "--encoding=UTF8"]  # which every system has; C.UTF-8 is unknown to macOS
    libraries = {"LD_LIBRARY_PATH": str(Path(bin_folder).parent / "lib")}  # it brings its own
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "LC_ALL": "C"} | libraries
    done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, **unprivileged())
    assert done.returncode == 0, (done.stdout, done.stderr)
    return home


def _stock() -> str:
    found = [path for place in NOT_ON_PATH for path in sorted(glob.glob(f"{place}/initdb"))]
    last = found[-1] if found else shutil.which("initdb")
    if last is None:
        missing("PostgreSQL")
    return str(Path(last).parent)


@cache
def _with_pgvector() -> str:
    """The programs inside the wheel of pg0, which unpacks them when it first starts."""
    import pg0

    home = Path(tempfile.mkdtemp(prefix="onlinehash-pg0-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    if os.getuid() == 0:
        shutil.chown(home, "nobody")
    binary = shutil.copy(Path(pg0.__file__).parent / "bin" / "pg0", home)  # where an unprivileged user can reach it
    os.chmod(binary, 0o755)
    environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
    for command in (["start", "--name", "tests", "--port", str(free_port())], ["stop", "--name", "tests"]):
        subprocess.run([binary, *command], env=environment, cwd=home, check=True, capture_output=True, **unprivileged())
    (bin_folder,) = home.glob(".pg0/installation/*/bin")
    return str(bin_folder)


class RedisServer(Server):
    """Redis that writes every command to its disk before it answers."""

    def __init__(self) -> None:
        if shutil.which("redis-server") is None:
            missing("Redis")
        super().__init__()

    @property
    def address(self) -> str:
        """What a client connects to."""
        return f"redis://127.0.0.1:{self.port}/0"

    def _command(self) -> list[str]:
        options = {"port": str(self.port), "bind": "127.0.0.1", "dir": str(self.folder), "save": ""}
        options |= {"appendonly": "yes", "appendfsync": "always"}
        return ["redis-server", *(word for name, value in options.items() for word in (f"--{name}", value))]

    def _answers(self) -> bool:
        import redis

        try:
            with redis.Redis.from_url(self.address) as client:
                return bool(client.ping())
        except redis.ConnectionError:
            return False

"""A standalone Spark cluster on this machine: a master and workers, each a process group of its own."""

from __future__ import annotations

import contextlib
import os
import queue
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pyspark

from spark_eval.runtime.java import find_java, make_home

ROOT = Path(__file__).parent.parent.parent
SPARK = Path(pyspark.__file__).parent


class Daemon:
    """One of Spark's own programs, with what it prints."""

    def __init__(self, folder, *words):
        environment = {
            **os.environ,
            "JAVA_HOME": str(make_home(find_java(), folder / "java")),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_DAEMON_MEMORY": "512m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        }
        self.process = subprocess.Popen(
            [SPARK / "bin" / "spark-class", *map(str, words)],
            env=environment, cwd=folder, start_new_session=True, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip

        # Read to the end, or the program would stop when nobody takes what it says.
        self._lines = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stderr:
            self._lines.put(line)
        self._lines.put(None)

    def wait_for(self, pattern):
        """Read on until a line matches."""
        while (line := self._lines.get()) is not None:
            if found := re.search(pattern, line):
                return found
        raise AssertionError(f"it ended without saying `{pattern}`")

    def kill(self):
        """End it and whatever it started, at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Cluster:
    def __init__(self, master, url, workers):
        self.master = master
        self.url = url
        self.workers = workers


@contextlib.contextmanager
def cluster(folder, workers=2):
    """A master and workers with one core each, ready for jobs."""
    with contextlib.ExitStack() as stack:
        package = "org.apache.spark.deploy"
        place = ("--host", "127.0.0.1", "--webui-port", "0")
        master = Daemon(folder, f"{package}.master.Master", *place, "--port", "0")
        stack.callback(master.kill)
        url = master.wait_for(r"Starting Spark master at (spark://\S+)")[1]
        started = []
        for number in range(workers):
            work = ("--cores", "1", "--memory", "1g", "--work-dir", folder / f"worker{number}")
            worker = Daemon(folder, f"{package}.worker.Worker", *place, *work, url)
            stack.callback(worker.kill)
            started.append(worker)
        for worker in started:
            worker.wait_for("Successfully registered with master")
        yield Cluster(master, url, started)


@contextlib.contextmanager
def connect_server(folder):
    """A Spark Connect server with two cores; gives its URL."""
    words = ("--master", "local[2]", "--conf", "spark.connect.grpc.binding.port=0", "--class")
    main = "org.apache.spark.sql.connect.service.SparkConnectServer"
    server = Daemon(folder, "org.apache.spark.deploy.SparkSubmit", *words, main, "spark-internal")
    try:
        port = server.wait_for(r"Spark Connect server started at: .*:(\d+)")[1]
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.kill()

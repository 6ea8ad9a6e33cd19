"""A command that uses Spark shows no start-up lines of Java, and every other line as it came."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = r"""
import os, subprocess, sys
from flintmq.spark.environment.jvm_stderr import drain, without_noise

PRINTED = '''
import sys
sys.stdout = sys.stderr
print("WARNING: Using incubator modules: jdk.incubator.vector")
print("Using Spark's default log4j profile: org/apache/spark/log4j2.properties")
print('Setting Spark log level to "FATAL".')
print("26/11/17 22:09:00 WARN NativeCodeLoader: Unable to load native-hadoop library")
print("26/11/17 22:09:00 ERROR Executor: Exception in task 0.0", flush=True)
sys.stdin.read()
print("after the start: " + "WARNING: mine", end="")
'''
with without_noise():
    child = subprocess.Popen([sys.executable, "-c", PRINTED], stdin=subprocess.PIPE)
print("my own line", file=sys.stderr, flush=True)
child.communicate(b"")
drain()
"""


def test_only_known_lines_are_dropped() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60
    )

    assert set(done.stderr.splitlines()) == {
        "my own line",
        "26/11/17 22:09:00 ERROR Executor: Exception in task 0.0",
        "after the start: WARNING: mine",
    }

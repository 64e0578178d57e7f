"""What jobs run on: the Spark session and its Java, functions inside tasks, files and progress."""

from spark_eval.runtime.file_store import (
    OutputExists,
    Unreadable,
    absolute,
    read_text,
    whole_folder,
    write_whole,
)
from spark_eval.runtime.interruptible import run_interruptible
from spark_eval.runtime.progress import Advance, Steps
from spark_eval.runtime.session import (
    Sessions,
    SparkOptions,
    ending_in_order,
    lazy_session,
    open_session,
    to_frame,
)
from spark_eval.runtime.tasks import collect_rows, map_rows

__all__ = [
    "Advance", "OutputExists", "Sessions", "SparkOptions", "Steps", "Unreadable", "absolute", "collect_rows",
    "ending_in_order", "lazy_session", "map_rows", "open_session", "read_text", "run_interruptible", "to_frame",
    "whole_folder", "write_whole",
]  # fmt: skip

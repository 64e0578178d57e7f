"""Interaction control at the broker: conditions, context, fluents and transformations of events."""

from pubsub_core.rules.condition import Known, bind_condition, event_part, fixed, without
from pubsub_core.rules.context import (
    AT_MOST,
    HOLDS_AT,
    PUBLISHED,
    REPLAYED,
    Case,
    Context,
    Row,
    Term,
    Test,
    Unknowable,
    compile_condition,
    read_argument,
    read_term,
)
from pubsub_core.rules.description import described
from pubsub_core.rules.fluents import KEPT_SECONDS, Arguments, Fluent, Fluents, Interval
from pubsub_core.rules.interaction import (
    About,
    Bar,
    Change,
    Interaction,
    Permit,
    Replaying,
    read_fluents,
    read_interaction,
)
from pubsub_core.rules.judge import Alike, Judge, Rulebook, Shown
from pubsub_core.rules.observer import Common, Mark, Observer
from pubsub_core.rules.rates import Counted, Rates
from pubsub_core.rules.subscriber_filter import SubscriberFilter, check_asked, fits_instead, shown_instead
from pubsub_core.rules.table import MAX_TABLE_BYTES, TABLE, InvalidTable, Rows, Table, changed
from pubsub_core.rules.transformation import Step, reshape
from pubsub_core.rules.transformation_steps import LIBRARY, InvalidStep, make_step
from pubsub_core.rules.transformed_events import altered

__all__ = [
    "AT_MOST",
    "HOLDS_AT",
    "KEPT_SECONDS",
    "LIBRARY",
    "MAX_TABLE_BYTES",
    "PUBLISHED",
    "REPLAYED",
    "TABLE",
    "About",
    "Alike",
    "Arguments",
    "Bar",
    "Case",
    "Change",
    "Common",
    "Context",
    "Counted",
    "Fluent",
    "Fluents",
    "Interaction",
    "Interval",
    "InvalidStep",
    "InvalidTable",
    "Judge",
    "Known",
    "Mark",
    "Observer",
    "Permit",
    "Rates",
    "Replaying",
    "Row",
    "Rows",
    "Rulebook",
    "Shown",
    "Step",
    "SubscriberFilter",
    "Table",
    "Term",
    "Test",
    "Unknowable",
    "altered",
    "bind_condition",
    "changed",
    "check_asked",
    "compile_condition",
    "described",
    "event_part",
    "fits_instead",
    "fixed",
    "make_step",
    "read_argument",
    "read_fluents",
    "read_interaction",
    "read_term",
    "reshape",
    "shown_instead",
    "without",
]  # fmt: skip

"""How `authfabric rules explain` tells people what rules do."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from authfabric.interaction.explain import RuleRemark, RuleReport
from authfabric.terminal import printable, say


def show_report(report: RuleReport) -> None:
    """Rule by rule, then what is seen."""
    answer = "[green]allowed[/]" if report.allowed else "[red]denied[/]"
    say(f"{printable(report.request)}: {answer}")
    for each in report.rules:
        mark, words = _state(each)
        say(f"  {mark} {each.kind} [bold]{printable(each.rule)}[/]: {printable(words)}")
        for line in _details(each):
            say(f"      {printable(line)}")
    if not report.rules:
        say("  no rule speaks of this")
    if report.withheld:
        say(f"[red]withheld[/]: {printable(report.withheld)}")
    for seen in report.seen or ():
        say(
            f"[green]seen[/]: {printable(seen.type)} {printable(msgspec.json.encode(seen.attributes).decode())}"
        )


def _state(remark: RuleRemark) -> tuple[str, str]:
    if not remark.concerns:
        return "[dim]-[/]", "does not concern this subject"
    if remark.problem:
        return "[red]?[/]", f"cannot be found out: {remark.problem}"
    if remark.overridden:
        return "[dim]-[/]", f"overridden by {', '.join(remark.overridden)}"
    if remark.applies is None:
        return "[green]+[/]", "concerns this subject"
    if not remark.applies:
        return "[dim]-[/]", "does not apply to this event"
    if remark.passes is not None:
        words = "the event passes" if remark.passes else "the event does not pass"
        return ("[green]+[/]" if remark.passes else "[red]x[/]"), f"applies, and {words}"
    return "[green]+[/]", "applies"


def _details(remark: RuleRemark) -> Iterator[str]:
    for each in remark.lacking:
        yield f"would need {each}"
    if remark.concerns and remark.left:
        yield f"left for the broker: {remark.left}"

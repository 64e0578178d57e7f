"""Every command in one table: where it is, and what it says of itself. Imports nothing."""

PURPOSE = "An authorization fabric: services ask, any policy decision point that can answer does."

OPTIONS = {
    "--version": "Say which version this is.",
    "--log-format FORMAT": "How logs are written: text or json. Default: $AUTHFABRIC_LOG_FORMAT, or text.",
    "--log-level LEVEL": "What is logged: debug, info, warning or error. Default: $AUTHFABRIC_LOG_LEVEL, or warning.",
    "--install-completion": "Install completion for the current shell.",
    "--show-completion": "Show completion for the current shell, to copy it or customize the installation.",
    "--help": "Show this message and exit.",
}
"""What may stand before a command."""

SECTIONS = {
    "Begin here": {
        "init": (
            "begin.init",
            "Write a folder of policies with tests, and a service that is protected by them.",
        ),
        "up": (
            "begin.up",
            "Run a NATS server, PDP replicas and the console until Ctrl-C; `authfabric policy push` changes policies.",
        ),
        "ask": ("begin.ask", "Ask whether SUBJECT may do ACTION to OBJECT."),
        "status": (
            "begin.status",
            "Show what is in force, which member decides by what, and how servers and streams are.",
        ),
        "doctor": (
            "begin.doctor",
            "Check this machine, the server and the replicas; say what is wrong and what to do.",
        ),
        "console": ("begin.console", "The fabric in a browser: members, decisions, policies, releases."),
        "demo": (
            "begin.demo",
            "Start a fabric, ask from several services, kill one replica, freeze another, add a third: nothing fails.",
        ),
    },
    "Decisions": {
        "policy": (
            "policies.policy",
            "Check, test, compare, build, push, list, roll back and restore policies.",
        ),
        "search": ("decisions.search", "Find who may do what, among known entities."),
        "pdp": ("decisions.pdp", "Run policy decision points."),
        "sdp": ("decisions.sdp", "Run a secondary decision point that several services share."),
        "gateway": ("decisions.gateway", "Answer AuthZEN requests over HTTP, for services in any language."),
        "roles": ("decisions.roles", "Role sessions: keep them, and activate roles in them by proof."),
        "audit": ("decisions.audit", "See which decisions were given, and whether any are missing."),
    },
    "Trust": {
        "domain": ("trust.domain", "Domains: who may connect, and what they may do there."),
        "backup": ("trust.backup", "Back up a fabric's stores, keys and histories; verify and restore it."),
        "cap": ("trust.cap", "Capabilities: signed certificates of who may do what, and chains of them."),
    },
    "Events": {
        "event": (
            "events.event",
            "Event applications from one file, and their events: publish, subscribe, replay.",
        ),
        "type": ("events.event_type", "Event types: definitions that their owners sign."),
        "broker": ("brokers.broker", "Event brokers, and those who use them."),
        "rules": ("events.rules", "Rules about who receives which events, and in which form."),
        "context": ("events.context", "The tables that rules look things up in."),
        "history": ("history.history", "What brokers have kept of the events that were published."),
        "keys": ("events.keys", "Keys of encrypted events: who manages them, and who holds them."),
    },
    "At scale": {
        "spark": ("scale.spark", "Decide about everyone and everything at once."),
        "experiment": (
            "scale.experiment",
            "Measure availability and response time: live on NATS, simulated on Spark and by formula, into one report.",
        ),
        "chaos": (
            "scale.chaos",
            "Strike a fabric with random faults while it works, and check that it kept its promises.",
        ),
    },
}
"""What people type, the module in authfabric/commands that does it, and what it says of itself in one sentence.

A module has an `app`, or a function of the command's own name. The sentence stands here so that `--help` loads none.
"""

COMMANDS = {name: module for section in SECTIONS.values() for name, (module, _) in section.items()}

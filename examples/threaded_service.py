"""A threaded service: every thread asks through one SyncEnforcer. Run `authfabric up` first."""

from concurrent.futures import ThreadPoolExecutor

from pep import SyncEnforcer

VISITS = [("alice", "/sales/q1"), ("bob", "/sales/q1"), ("bob", "/public/menu")]


def main() -> None:
    with SyncEnforcer.connect() as pep, ThreadPoolExecutor() as threads:

        def visit(who_and_where: tuple[str, str]) -> str:
            user, path = who_and_where
            return f"{user} {path}: {pep.check(user, path, 'read').effect}"

        for line in threads.map(visit, VISITS):
            print(line)


if __name__ == "__main__":
    main()

"""Print the counts of each kind of run. With `--write`, store them as the new budgets."""

import argparse

from tests.budgets import table
from tests.budgets.measure import measure
from tests.support.postgres import Databases, TestRun


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.budgets", description=__doc__)
    parser.add_argument("--write", action="store_true", help="store the counts as budgets")
    asked = parser.parse_args()
    run = TestRun.begin()
    try:
        with Databases(run) as databases:
            databases.make_template()
            with databases.migrated() as url:
                measured = measure(url)
    finally:
        run.end()
    print(table.render(measured))
    if asked.write:
        table.write_budgets(measured)
    else:
        print("\n".join(table.compare(measured, table.read_budgets())))


if __name__ == "__main__":
    main()

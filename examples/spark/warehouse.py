"""Raw rows of a warehouse to private reports, a sketch, and answers in SQL, all on Spark.

python examples/spark/warehouse.py, or spark-submit examples/spark/warehouse.py for a cluster

The rows are made up: of 4,000 people a quarter use feature 0, an eighth feature 1, and so on.
"""

from typing import Any

from faintly import make_plan
from faintly import spark as cluster

PEOPLE = 4000
FEATURES = 1000


def main(session: Any) -> Any:
    """Return the estimates of the first features, having printed them."""
    plan = make_plan(
        protect="event",
        epsilon=2.0,
        clients=PEOPLE,
        universe=FEATURES,
        sparsity=4,
        values="set",
        decode="table",
    )
    # A row for each person and feature, and one without a feature for each person who has none.
    session.range(PEOPLE).createOrReplaceTempView("people")
    rows = session.sql(
        """
        SELECT concat('person-', id) AS client, feature AS key
        FROM people LATERAL VIEW OUTER explode(
            filter(array(0, 1, 2, 3), f -> id % pow(2, f + 2) = 0)
        ) AS feature
        """
    )
    # One key for one job. Keep it until all reports are written, then destroy it.
    key = cluster.new_key()
    reports = cluster.encode(rows, plan, key)
    made = cluster.aggregate(reports, plan)
    del key
    print(f"{made.sketch.count:,} reports, {sum(made.rejected.values())} refused")

    cluster.register(session, made.sketch, "used_by")
    answers = session.sql(
        "SELECT id, e.* FROM (SELECT id, used_by(id) AS e FROM range(6))"
    ).toPandas()
    print(answers.to_string(index=False))
    return answers


if __name__ == "__main__":
    running = cluster.session("faintly warehouse")
    main(running)
    running.stop()

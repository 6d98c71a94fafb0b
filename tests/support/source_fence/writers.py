"""Every way to change a table of orders that the tests have at hand."""

from deltalake import DeltaTable
from support.tables import other_engine

from backfill_spark.delta.log import head_actions

STATEMENTS = (
    "INSERT INTO {t} SELECT id + 1000, customer, amount, note, status FROM {t} WHERE id = 1",
    "INSERT OVERWRITE {t} SELECT * FROM {t}",
    "UPDATE {t} SET note = 'x' WHERE id = 2",
    "MERGE INTO {t} AS t USING (SELECT 3L AS id) AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET note = 'y'",
    "DELETE FROM {t} WHERE id = 4",
    "OPTIMIZE {t} ZORDER BY (id)",
    "VACUUM {t}",
    "RESTORE {t} TO VERSION AS OF 0",
    "ALTER TABLE {t} SET TBLPROPERTIES ('steward' = 'sales')",
    "ALTER TABLE {t} ADD COLUMN more INT",
    "ALTER TABLE {t} ADD CONSTRAINT some CHECK (id >= 0)",
    "CREATE OR REPLACE TABLE {t} USING delta AS SELECT 1 AS id",
    "TRUNCATE TABLE {t}",
)
"""Each is a separate kind of command of Spark."""

REFUSED_BY_SPARK = "[DELTA_UNSUPPORTED_FEATURES_FOR_WRITE]"
REFUSED_BY_DELTA_RS = 'Unsupported table features required: [Unknown("backfill.fenced")]'


def by_spark(spark, path, statements=STATEMENTS):
    """Run each statement; yield it with the message of its refusal, `None` if Spark accepts it."""
    for statement in statements:
        try:
            spark.sql(statement.format(t=f"delta.`{path}`")).collect()
        except Exception as error:
            yield statement, str(error)
        else:
            yield statement, None


def by_delta_rs(path):
    """Write with each command of delta-rs; yield its name with the message of its refusal, `None` if it is accepted."""
    commands = {
        "append": lambda: other_engine.insert(path, "SELECT * FROM now WHERE id = 5"),
        "update": lambda: other_engine.update(path, "id = 6", note="'z'"),
        "delete": lambda: other_engine.delete(path, "id = 7"),
        "optimize": lambda: DeltaTable(path).optimize.compact(),
    }
    for name, run in commands.items():
        try:
            run()
        except Exception as error:
            yield name, str(error)
        else:
            yield name, None


def newest(spark, path):
    """Return the newest version of a table."""
    return head_actions(spark, path).version

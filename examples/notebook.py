"""Copies a live table, sends commands to the job, and verifies the copy.

Run the cells one by one in a notebook (VS Code, Jupytext), or all of them with `python notebook.py`. Both create a folder
`lake`.
"""

# %%
import threading
from pathlib import Path

from backfill import Backfill, Settings, open_session

orders = str(Path("lake/orders").absolute())
spark = open_session(Settings(cores=2, memory="2g"))
spark.range(200_000).selectExpr("id AS order_id", "id % 100 AS amount", "'new' AS status").write.format("delta").option(
    "delta.enableChangeDataFeed", "true"
).save(orders)

# %% Plan the job: number of rows, duration, warnings.
job = Backfill(
    job_id="orders",
    source={"delta": {"path": orders, "key": ["order_id"]}},
    target={"delta": {"path": "lake/orders_copy"}},
    transform={"select": ["order_id", "amount", "upper(status) AS status"], "where": "amount > 0"},
    throttle={"rowsPerSecond": 20_000},
    after="Follow",
)
plan = job.plan(spark)
print(plan)  # `plan` as the last line of a cell shows all of it

# %% Start it in the background; the output of this cell shows the current progress, with buttons if ipywidgets is installed.
run = job.start(spark)
run.until_reachable()
print(job.pause())
print(job.resume())
print(job.throttle(None))

# %% Change the source while the job runs.
spark.sql(f"UPDATE delta.`{orders}` SET status = 'paid' WHERE order_id < 1000")
while not (run.done or (run.progress.caught_up and run.progress.changes_done >= 900)):
    threading.Event().wait(0.5)
print(job.status().state, run.progress.changes_done, "changes")

# %% Verify that the copy is equal.
receipt = job.verify()
print(receipt)

# %% Stop at a barrier; `job.run(spark)` would resume the job.
run.stop()
print(run.wait())
spark.stop()

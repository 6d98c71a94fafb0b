"""Another engine that writes to a source while we read it: delta-rs, which shares no code with Spark or with us.

Not a second Spark: the drivers under test share this machine's cores, and what is measured is theirs.
"""

from deltalake import QueryBuilder, write_deltalake


def append(table: str, rows_of: str, first: int, rows: int) -> None:
    """Append rows in one commit, to a table that is made when missing, with a change feed.

    Args:
        table: Path of the table.
        rows_of: Query of the rows, with the ids from `{first}` to `{last}`, both included.
        first: The first id.
        rows: How many.
    """
    made = QueryBuilder().execute(rows_of.format(first=first, last=first + rows - 1)).read_all()
    write_deltalake(table, made, mode="append", configuration={"delta.enableChangeDataFeed": "true"})

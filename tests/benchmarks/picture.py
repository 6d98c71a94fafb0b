"""Draw the picture of `make bench`: the seconds of a copy for each alternative."""

import statistics


def draw(document, path):
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    labels = {"parquet": "plain Parquet copy (no barriers)", "delta": "plain Delta copy (no barriers)", "ours": "backfill, sealed every second",
              "stream_append": "Structured Streaming append", "stream_merge": "change feed + foreachBatch MERGE"}  # fmt: skip
    by_part = document["seconds"]
    seconds = {name: values for name, values in {**by_part["streams"], **by_part["copies"]}.items() if name in labels}
    middle = sorted(((statistics.median(values), name) for name, values in seconds.items()), reverse=True)
    figure, axes = plt.subplots(figsize=(8, 2.8))
    colours = ["#2a7de1" if name == "ours" else "#b8c0cc" for _, name in middle]
    bars = axes.barh([labels[name] for _, name in middle], [seconds for seconds, _ in middle], color=colours)
    axes.bar_label(bars, fmt="%.1f s", padding=4)
    axes.set_xlabel(
        f"seconds for {document['rows'] / 1e6:.0f} M rows on {document['machine']['cores']} cores, median of {document['runs']}"
    )
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.12)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    figure.savefig(path.with_suffix(".png"), dpi=110)

"""A release of an older commit: its chart, and its images under another tag."""

import shutil
import subprocess

from support.cluster.harness import CommandFailedError
from support.node.real_node import build_images
from support.registry.release import link_inputs
from support.repository import ROOT

IMAGES = {name: f"localhost/backfill-{name}:before" for name in ("operator", "spark")}


def older_chart(commit, tree, environ, *, built=False):
    """Build the images of an older commit, and return the folder of its chart.

    Args:
        commit: The commit, which this clone must have.
        tree: Folder for the files of the commit; it is made again.
        environ: Variables that name the image builder.
        built: True if the images are built already.

    Raises:
        CommandFailedError: the clone does not have the commit, or its images cannot be built.
    """
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    with subprocess.Popen(["git", "archive", commit], cwd=ROOT, stdout=subprocess.PIPE) as archive:
        subprocess.run(["tar", "-x", "-C", tree], stdin=archive.stdout, check=False)
    if archive.returncode:
        raise CommandFailedError(f"git archive {commit} ended with {archive.returncode}: this clone needs the commit")
    if not built:
        link_inputs(tree)
        build_images(environ, tree, IMAGES)
    return tree / "charts" / "backfill-operator"

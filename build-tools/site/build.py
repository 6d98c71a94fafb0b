"""Build the site of the documentation: `python build-tools/site/build.py [FOLDER]`, by default `build/site`.

The site has the pages of the project in the order of docs/README.md, with search, and makes no request to another host. The build
fails for a broken link, an unknown anchor, a picture that is missing, and a page that the menu does not have. It needs npm once:
the pictures of state machines are drawn by a script of an npm package, which is kept in `.cache`.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import yaml
from pages import files, menu

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
SETTINGS = HERE / "mkdocs.yml"
ICON = "spark_app/backfill_page/static/icon.svg"

PACKAGE, SCRIPT = "mermaid@11.12.1", "package/dist/mermaid.min.js"
SCRIPT_SHA256 = "198b19442f86f0b46a17e56d3abf744c3a28a3427e66fa8dada3b589a77babcc"
CACHE = ROOT / ".cache" / "site"


class SiteError(Exception):
    """The site cannot be built; the message has the reason and the remedy."""


def diagram_script(cache: Path) -> Path:
    """Return the script that draws diagrams, from the cache or from npm.

    Raises:
        SiteError: npm is missing or failed, or the package has another script.
    """
    kept = cache / f"{PACKAGE}.js"
    if not kept.exists():
        if shutil.which("npm") is None:
            raise SiteError(
                f"npm is needed to fetch {PACKAGE}. Debian, Ubuntu: apt-get install npm; macOS: brew install node."
            )
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            packed = subprocess.run(
                ["npm", "pack", "--silent", PACKAGE], cwd=folder, capture_output=True, text=True, check=False
            )
            archives = list(Path(folder).glob("*.tgz"))
            if packed.returncode or not archives:
                raise SiteError(f"npm pack {PACKAGE} failed: {packed.stderr.strip() or 'no archive'}")
            with tarfile.open(archives[0]) as archive:
                script = archive.extractfile(SCRIPT)
                content = b"" if script is None else script.read()
        if hashlib.sha256(content).hexdigest() != SCRIPT_SHA256:
            raise SiteError(f"{SCRIPT} of {PACKAGE} has another checksum than {SCRIPT_SHA256}; nothing was built.")
        kept.write_bytes(content)
    return kept


def stage(root: Path, folder: Path, script: Path) -> Path:
    """Copy the pages and their files to a folder in their layout, and write the settings of mkdocs; return their path."""
    entries = menu(root)
    pages = folder / "pages"
    for name in files(root, entries):
        if (root / name).exists():  # mkdocs names the page whose link leads nowhere
            copy = pages / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / name, copy)
    for source, name in ((root / ICON, "icon.svg"), (HERE / "site.css", "site.css"), (script, "mermaid.min.js")):
        shutil.copyfile(source, pages / name)
    settings = folder / "mkdocs.yml"
    added = yaml.safe_dump({"docs_dir": "pages", "nav": entries}, sort_keys=False, allow_unicode=True)
    settings.write_text(f"{SETTINGS.read_text()}\n{added}")
    return settings


def build(root: Path, out: Path, script: Path) -> None:
    """Build the site of the project at `root` into the folder `out`, which is replaced.

    Raises:
        SiteError: a page, a link or an anchor is missing; the message names each.
    """
    with tempfile.TemporaryDirectory() as folder:
        try:
            settings = stage(root, Path(folder), script)
        except ValueError as error:
            raise SiteError(str(error)) from error
        built = subprocess.run(
            [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(settings), "-d", str(out.resolve())],
            capture_output=True,
            text=True,
            check=False,
            env={"NO_MKDOCS_2_WARNING": "1", "DISABLE_MKDOCS_2_WARNING": "true", "PATH": ""},
        )
    if built.returncode:
        raise SiteError(f"{built.stdout}{built.stderr}".strip())


def main(arguments: list[str]) -> int:
    """Build the site of this project."""
    out = Path(arguments[0]) if arguments else ROOT / "build" / "site"
    try:
        build(ROOT, out, diagram_script(CACHE))
    except SiteError as error:
        print(f"site: {error}", file=sys.stderr)
        return 1
    print(f"{out}/index.html: {len(list(out.rglob('*.html')))} pages")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Draws the pictures of the guides: `--write` writes docs/diagrams/NAME.svg from the Pikchr source NAME.pikchr beside it.
Without, this checks that each SVG is what its source gives."""

import html
import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from xml.etree import ElementTree

from npm import packed

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "diagrams"
# Pikchr as WebAssembly, which draws the same on every machine. `npm view PACKAGE dist.integrity` prints the hash.
PACKAGE = "pikchr-js@0.1.4"
INTEGRITY = "sha512-ojG1pgxv5SzjGNSp/wDhkgzPo5jnK5/ycXDMh5dv5AW3vf0vhh4z60yk2ZBOh6VVx5R8ZqjO0/Ejk015gCBaPw=="
DRAW = """require(process.argv[1])().then(({render}) => console.log(JSON.stringify(
    JSON.parse(require("fs").readFileSync(0)).map(source => render(source, "", 1).svg))))"""
# What the elements inherit, and need not repeat.
SVG = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 722 {0}" width="722" height="{0}" role="img" \
font-family="sans-serif" font-size="13" text-anchor="middle" fill="#334155">
<title>{1}</title>
<style>path{{fill:none;stroke:#334155}}</style>
{2}"""
INHERITED = re.compile(
    r' text-anchor="middle"| dominant-baseline="central"| fill="#334155"|(fill|stroke):#334155;|fill:none;|stroke-width:1;'
    r'|stroke-linejoin:round;|;(?=")|(?<= ) '
)


def short(tag):
    """A tag of Pikchr in pixels, of which its inch has 144. A text moves down by half the height of a small letter."""
    shorter = lambda it: "#%02x%02x%02x" % tuple(map(int, it.groups())) if it[1] else f"{round(float(it[0]) / 144, 1):g}"
    tag = re.sub(r"rgb\((\d+),(\d+),(\d+)\)|\d[\d.]*", shorter, tag[0].replace('"/>', ';"/>'))
    tag = re.sub(r'(?<= y=")[\d.]+', lambda y: f"{float(y[0]) + 4.5:g}", tag)
    return re.sub(r' *(style="")? */>', "/>", INHERITED.sub("", tag))


def main():
    archive = packed(PACKAGE, INTEGRITY, ROOT / "target" / "ci" / "pikchr")
    with tarfile.open(archive) as tar:
        tar.extractall(archive.parent, filter="data")
    shapes = (FOLDER / "shapes.inc").read_text()
    sources = {path.with_suffix(".svg"): path.read_text() for path in sorted(FOLDER.glob("*.pikchr"))}
    node = ["node", "-e", DRAW, archive.parent / "package"]
    texts = json.dumps([shapes + source for source in sources.values()])
    drawn = json.loads(subprocess.check_output(node, input=texts, text=True))
    for (path, source), text in zip(sources.items(), drawn, strict=True):
        assert text.startswith("<svg "), f"{path.stem}: {text}"
        opening, body = re.sub("<[^>]*>", short, text.replace("\xa0", " ")).split("\n", 1)
        height = int(re.search(r"^page\((\d+)\)", source, re.MULTILINE)[1]) + 2
        assert f'viewBox="0 0 722 {height}"' in opening, f"{path.stem}: something is beside its page: {opening}"
        svg = SVG.format(height, html.escape(source.splitlines()[0].removeprefix("# "), quote=False), body)
        assert ElementTree.fromstring(svg)[0].text and len(svg.encode()) <= 8192, f"{path.stem}: no title, or above 8 KiB"
        if sys.argv[1:] == ["--write"]:
            path.write_text(svg)
        assert path.exists() and path.read_text() == svg, f"{path.stem}: run python3 .ci/diagrams.py --write"
    assert sorted(sources) == sorted(FOLDER.glob("*.svg")), "each picture has its source"


if __name__ == "__main__":
    main()

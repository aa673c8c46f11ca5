"""Remakes the pictures of `cargo sqs-once dev`: the recording of a terminal, and screenshots of the page."""

import base64
import contextlib
import fcntl
import json
import os
import pty
import re
import shlex
import struct
import subprocess
import tempfile
import termios
import threading
import time
from html import escape
from pathlib import Path
from xml.etree import ElementTree

from browser import browser
from local import OUT, ROOT, Payments, built, free_port, listens, process, wait_until
from page import open_chip

DOCS = ROOT / "docs"
# Processes are killed while they hold keys. The short timeouts bring their messages back within seconds.
COMMAND = r"""cargo sqs-once dev --send events/orders.json --duplicate 50% --kill 30% \
    --batch-size 2 --timeout 2s --visibility-timeout 3s --seed 1 --reset"""
# Without cargo's messages about the build.
ENV = {"CARGO_TERM_QUIET": "true", "TERM": "xterm-256color"}
SECONDS = 10
# How often to record, at most, until a run has all reports.
TRIES = 10

# A reason starts in this column, so the terminal wraps a long line before its reason.
COLUMNS = 87
ROWS = 26
# In pixels: a character at a font size of 14, a row, and the margin. The title bar is above the rows.
CHARACTER, ROW, MARGIN, BAR = 8.43, 18, 14, 34
# In seconds: the least and the most time between two lines, and the time until the recording repeats.
SHORTEST, LONGEST, LAST = 0.12, 1.5, 6
# The colours of `print::Style`.
CLASSES = {"2": "dim", "31": "bad", "32": "good", "35": "fault"}
SVG = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}" role="img" xml:space="preserve"><title>A run of cargo sqs-once dev</title>
<style>
text{{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#e6edf3;white-space:pre}}
.title,.dim{{fill:#9198a1}}.bad{{fill:#ff7b72}}.good{{fill:#56d364}}.fault{{fill:#d2a8ff}}
#rows{{transform:translateY({scroll}px);animation:scroll {length:.1f}s step-end infinite}}
#cover{{transform:translateY({cover}px);animation:cover {length:.1f}s step-end infinite}}
@keyframes scroll{{{scrolls}}}
@keyframes cover{{{covers}}}
@media (prefers-reduced-motion:reduce){{#rows,#cover{{animation:none}}}}
</style>
<rect x=".5" y=".5" width="{inside:.0f}" height="{deep}" rx="8" fill="#0d1117" stroke="#59636e"/>
<circle cx="20" cy="18" r="5.5" fill="#ff5f57"/><circle cx="38" cy="18" r="5.5" fill="#febc2e"/><circle cx="56" cy="18" r="5.5" fill="#28c840"/>
<text class="title" x="50%" y="23" text-anchor="middle">orders</text>
<svg y="{bar}" width="{width:.0f}" height="{screen}"><g id="rows">
{rows}
<rect id="cover" x="1" width="{covered:.0f}" height="{screen}" fill="#0d1117"/>
</g></svg>
</svg>
"""


def dev(arguments):
    """The command line of the built `cargo sqs-once`."""
    return [built("cargo-sqs-once"), "sqs-once", "dev", *arguments]


def terminal():
    """Runs the command in a terminal, and presses Ctrl-C after some seconds. Returns its lines with their times."""
    arguments = shlex.split(COMMAND.replace("\\\n", ""))[3:]
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    lines, rest, started = [], b"", time.monotonic()
    with subprocess.Popen(
        dev(arguments),
        cwd=ROOT,
        env={**os.environ, **ENV},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        # Ctrl-C reaches only the processes whose terminal it is.
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    ) as child:
        os.close(theirs)
        interrupt = threading.Timer(SECONDS, os.write, [ours, b"\x03"])
        interrupt.start()
        # Reading fails when the last process of the terminal has ended.
        with contextlib.suppress(OSError):
            while True:
                *ended, rest = (rest + os.read(ours, 1 << 16)).split(b"\r\n")
                lines += [(time.monotonic() - started, line.decode()) for line in ended]
        interrupt.cancel()
    os.close(ours)
    assert child.returncode == 0, lines
    return lines


def wrapped(line):
    """The SVG of each row of a line."""
    row, left, kind = "", COLUMNS, None
    # Text and codes of colours alternate.
    for piece in re.split(r"(\x1b\[\d*m)", line):
        if piece.startswith("\x1b["):
            kind = CLASSES.get(piece[2:-1])
            continue
        while piece:
            if not left:
                yield row
                row, left = "", COLUMNS
            part = escape(piece[:left], quote=False)
            row += f'<tspan class="{kind}">{part}</tspan>' if kind else part
            piece, left = piece[left:], left - len(piece[:left])
    yield row


def recording():
    """Draws the run as an animated SVG. Without animation, it shows the end."""
    # A process that is killed after it has recorded an effect does not report it. The recording shows all five reports.
    for _ in range(TRIES):
        lines = terminal()
        text = "\n".join(line for _, line in lines)
        if "5 processed, " in text:
            break
    else:
        raise AssertionError(f"none of {TRIES} recordings has the reports of all five effects; the last:\n{text}")
    assert "left in OrdersQueue: 0, in OrdersDeadLetterQueue: 0" in text, text
    assert str(ROOT) not in text and str(Path.home()) not in text, text
    rows = [escape(line, quote=False) for line in f"$ {COMMAND}".splitlines()]
    steps, now, before = [(0, len(rows))], LONGEST, 0
    for at, line in lines:
        now += min(max(at - before, SHORTEST), LONGEST)
        before = at
        rows += wrapped(line)
        steps.append((now, len(rows)))
    length = now + LAST

    def frames(offset):
        return "".join(f"{100 * at / length:.2f}%{{transform:translateY({offset(shown)}px)}}" for at, shown in steps)

    def scroll(shown):
        return ROW * min(0, ROWS - shown)

    width = COLUMNS * CHARACTER + 2 * MARGIN
    height = BAR + ROWS * ROW + MARGIN
    svg = SVG.format(
        width=width,
        height=height,
        inside=width - 1,
        deep=height - 1,
        covered=width - 2,
        bar=BAR,
        screen=ROWS * ROW,
        length=length,
        scroll=scroll(len(rows)),
        cover=ROW * len(rows),
        scrolls=frames(scroll),
        covers=frames(lambda shown: ROW * shown),
        rows="\n".join(f'<text x="{MARGIN}" y="{ROW * n + 13}">{row}</text>' for n, row in enumerate(rows)),
    )
    ElementTree.fromstring(svg)
    (DOCS / "dev.svg").write_text(svg)


# The payments service refuses one order, and does not serve another. Some messages come twice.
REFUSED, UNSERVED, TWICE = "o-1005", "o-1008", ["m-7", "m-2", "m-3"]


def event():
    """An SQS event with ten orders."""
    order = {"customer_id": "c-7", "amount_cents": 4950, "currency": "EUR"}
    bodies = [json.dumps({"order_id": f"o-{1000 + number}", **order}) for number in range(1, 11)]
    return {"Records": [{"messageId": f"m-{number}", "body": body} for number, body in enumerate(bodies, 1)]}


def screenshots():
    """Photographs the page of a run in light and dark mode, with the timeline of one key open."""
    OUT.mkdir(parents=True, exist_ok=True)
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="sqs-once-pictures-") as folder, Payments() as payments:
        payments.answers = {REFUSED: [402], UNSERVED: [503]}
        sent = Path(folder) / "orders.json"
        sent.write_text(json.dumps(event()))
        command = dev(["--reset", "--send", sent, "--page-port", str(port)])
        env = {**ENV, "PAYMENTS_URL": payments.url}
        with process(command, OUT / "pictures.log", env, cwd=ROOT) as child, browser() as chromium:
            wait_until("the page", lambda: listens(port), 120, alive=child)
            page = chromium.open(f"http://127.0.0.1:{port}/")
            page.size(1280, 840)
            for done, message in enumerate(TWICE, 8):
                page.wait(f"document.querySelector('#count-done').textContent === '{done}'")
                open_chip(page, message)
                page.click("#duplicate")
            page.wait(f"document.querySelector('#count-done').textContent === '{done + 1}'")
            page.click("#facts button.key")
            page.wait("document.querySelector('#timeline').innerText.includes('no effect again')")
            page.value("document.querySelector('#list-done').scrollTop = 0")
            for scheme in ("light", "dark"):
                page.media(color_scheme=scheme, reduced_motion="reduce")
                # Playwright's own screenshots are PNG or JPEG.
                picture = page.page.context.new_cdp_session(page.page).send("Page.captureScreenshot", {"format": "webp", "quality": 60})
                (DOCS / f"page-{scheme}.webp").write_bytes(base64.b64decode(picture["data"]))


def main():
    recording()
    screenshots()
    # Rustdoc's guides contain the screenshots.
    guides = ["cargo", "test", "--quiet", "-p", "sqs-once", "--test", "all", "guides"]
    subprocess.run(guides, cwd=ROOT, env={**os.environ, "GUIDES": "overwrite"}, check=True)
    for picture in ("dev.svg", "page-light.webp", "page-dark.webp"):
        print(f"docs/{picture}: {(DOCS / picture).stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()

"""Remakes the pictures of `cargo sqs-once dev`: the recording of a terminal, and screenshots of the page."""

import base64
import json
import os
import re
import shlex
import subprocess
import tempfile
from pathlib import Path

from browser import browser
from local import OUT, ROOT, Payments, built, free_port, listens, process, wait_until
from page import is_text, open_chip, see

DOCS = ROOT / "docs"
# Processes are killed while they hold keys. The short timeouts bring their messages back within seconds.
COMMAND = r"""cargo sqs-once dev --send events/orders.json --fault duplicate=50% --fault kill=30% \
    --timeout 2s --visibility-timeout 3s --seed 8 --reset --until-empty"""
# Without cargo's messages about the build.
ENV = {"CARGO_TERM_QUIET": "true", "TERM": "xterm-256color"}
# A reason starts in the last column, so the terminal wraps a long line before its reason.
GEOMETRY = "87x26"
# The first colour is black, in which termtosvg shows the faint text that it cannot draw.
THEME = {"fg": "#e6edf3", "bg": "#0d1117", "palette": "#9198a1:#ff7b72:#56d364:#febc2e:#79c0ff:#d2a8ff:#76e3ea:#e6edf3"}
# In milliseconds: the least and the most time between two frames, and the time until the recording repeats.
TIMES = ["-m", "120", "-M", "1500", "-D", "6000"]


def recording(folder):
    """Draws the run as an animated SVG. Without animation, it shows the end."""
    cast, theme, picture = folder / "dev.cast", folder / "theme.json", DOCS / "dev.svg"
    command = COMMAND.replace("cargo", shlex.quote(str(built("cargo-sqs-once"))), 1)
    script = f"printf '$ %s\\n' {shlex.quote(COMMAND)}; exec {command}"
    record = ["termtosvg", "record", cast, "-g", GEOMETRY, "-c", shlex.join(["sh", "-c", script])]
    # The recording ends with the command, and not with an end of the input.
    subprocess.run(record, cwd=ROOT, env={**os.environ, **ENV}, stdin=os.pipe()[0], check=True)
    text = cast.read_text()
    assert "left in orders-orders: 0, in OrdersDeadLetterQueue: 0" in text, text
    assert str(ROOT) not in text and str(Path.home()) not in text, text
    # A process that is killed after it has recorded an effect does not report it.
    assert "5 processed, " in text, "not all five effects were reported: try again"
    cast.write_text(text.replace(r"\u001b[2m", r"\u001b[30m"))
    theme.write_text(json.dumps(THEME))
    render = ["termtosvg", "render", cast, picture, "-t", "window_frame", "--theme", theme, *TIMES]
    subprocess.run(render, check=True)
    svg = picture.read_text()
    end = re.findall(r"transform:translateY\(.*?\)", svg)[-1]
    still = f"@media (prefers-reduced-motion:reduce) {{#screen_view {{animation:none;{end}}}}}"
    picture.write_text(svg.replace("]]></style>", f"{still}]]></style>", 1))


# The payments service refuses one order, and does not serve another. Some messages come twice.
REFUSED, UNSERVED, TWICE = "o-1005", "o-1008", ["m-7", "m-2", "m-3"]


def event():
    """An SQS event with ten orders."""
    order = {"customer_id": "c-7", "amount_cents": 4950, "currency": "EUR"}
    bodies = [json.dumps({"order_id": f"o-{1000 + number}", **order}) for number in range(1, 11)]
    return {"Records": [{"messageId": f"m-{number}", "body": body} for number, body in enumerate(bodies, 1)]}


def screenshots(folder):
    """Photographs the page of a run in light and dark mode, with the timeline of one key open."""
    port, sent = free_port(), folder / "orders.json"
    sent.write_text(json.dumps(event()))
    with Payments() as payments, browser() as chromium:
        payments.answers = {REFUSED: [402], UNSERVED: [503]}
        env = {**ENV, "PAYMENTS_URL": payments.url}
        command = [built("cargo-sqs-once"), "sqs-once", "dev", "--reset", "--send", sent, "--port", str(port - 1)]
        with process(command, OUT / "pictures.log", env, cwd=ROOT) as child:
            wait_until("the page", lambda: listens(port), 120, alive=child)
            page = chromium.new_page(viewport={"width": 1280, "height": 840})
            page.goto(f"http://127.0.0.1:{port}/")
            for done, message in enumerate(TWICE, 8):
                is_text(page, "#count-done", str(done))
                open_chip(page, message)
                page.click("#duplicate")
            is_text(page, "#count-done", str(done + 1))
            page.click("#facts .key")
            see(page, "#timeline", "no effect again")
            page.locator("#list-done").evaluate("list => list.scrollTop = 0")
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
                # Playwright's own screenshots are PNG or JPEG.
                picture = page.context.new_cdp_session(page).send("Page.captureScreenshot", {"format": "webp", "quality": 60})
                (DOCS / f"page-{scheme}.webp").write_bytes(base64.b64decode(picture["data"]))


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="sqs-once-pictures-") as folder:
        recording(Path(folder))
        screenshots(Path(folder))
    # Rustdoc's guides contain the screenshots.
    guides = ["cargo", "test", "--quiet", "-p", "sqs-once", "--test", "all", "guides"]
    subprocess.run(guides, cwd=ROOT, env={**os.environ, "GUIDES": "overwrite"}, check=True)


if __name__ == "__main__":
    main()

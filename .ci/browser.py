"""A pinned headless Chromium, driven by Playwright."""

import contextlib
import json
import os
import platform
import shutil
import subprocess
import tarfile
import tempfile
import time

from playwright.sync_api import sync_playwright

from local import OUT, ROOT

PACKAGE = ROOT / ".ci" / "chromium"
# The package's files are compressed with Brotli, which Node.js includes.
UNPACK = """
const { createReadStream, createWriteStream } = require("node:fs");
const { pipeline } = require("node:stream/promises");
const { createBrotliDecompress } = require("node:zlib");
const [from, to] = process.argv.slice(1);
pipeline(createReadStream(from), createBrotliDecompress(), createWriteStream(to));
"""
# Only loopback addresses resolve. User namespaces may be unavailable, and the browser shows only this project's pages.
FLAGS = ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"]
FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
<dir>{folder}/fonts</dir><cachedir>{folder}/fonts-cache</cachedir>
<alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
"""
PATIENCE = 30


def install():
    """Downloads and unpacks Chromium if it is missing. Returns its folder."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise SystemExit("the Chromium of this check runs on Linux on x86_64 only")
    folder = OUT / "chromium"
    lock = (PACKAGE / "package-lock.json").read_bytes()
    done = folder / "done"
    if done.exists() and done.read_bytes() == lock:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(PACKAGE / name, folder)
    # The package's scripts need a newer Node.js than its files do, so they are skipped.
    npm = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    subprocess.run(npm, cwd=folder, check=True)
    packed = folder / "node_modules" / "@sparticuz" / "chromium" / "bin"
    for name in ("chromium", "al2023.tar", "fonts.tar"):
        subprocess.run(["node", "-e", UNPACK, packed / f"{name}.br", folder / name], check=True)
        if name.endswith(".tar"):
            with tarfile.open(folder / name) as archive:
                archive.extractall(folder, filter="data")
            (folder / name).unlink()
    (folder / "chromium").chmod(0o755)
    # Chromium needs fonts to show a page, and the package's own configuration expects them in another folder.
    (folder / "fonts.conf").write_text(FONTS.format(folder=folder))
    for name in ("DejaVuSansMono.ttf", "DejaVuSansMono-Bold.ttf"):
        shutil.copy(folder / "node_modules" / "dejavu-fonts-ttf" / "ttf" / name, folder / "fonts")
    shutil.copy(folder / "node_modules" / "axe-core" / "axe.min.js", folder)
    shutil.rmtree(folder / "node_modules")
    done.write_bytes(lock)
    return folder


class Page:
    """One open page, with what it complained of and requested."""

    def __init__(self, page):
        self.page = page
        self._complaints, self._requests = [], []
        page.on("pageerror", lambda error: self._complaints.append(str(error)))
        page.on("console", lambda line: line.type in ("error", "warning") and self._complaints.append(line.text))
        page.on("request", lambda request: self._requests.append(request.url))

    def complaints(self):
        """The errors and warnings in the console, including exceptions and violations of the content security policy."""
        # Events arrive while Playwright waits.
        self.value("0")
        return list(self._complaints)

    def requests(self):
        """The URLs of all requests."""
        self.value("0")
        return list(self._requests)

    def value(self, expression):
        """The value of a JavaScript expression."""
        return self.page.evaluate(expression)

    def wait(self, expression, what=None):
        """Waits until a JavaScript expression is true. Playwright's own wait is against the page's security policy."""
        deadline = time.monotonic() + PATIENCE
        while not self.value(expression):
            assert time.monotonic() < deadline, f"it never came to {what or expression}; the page shows:\n{self.text()}"
            self.page.wait_for_timeout(20)

    def text(self, selector="body"):
        """The visible text of an element."""
        return self.value(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def click(self, selector):
        """Waits until all animations have ended, then clicks the middle of an element with the mouse."""
        self.wait("document.getAnimations().length === 0")
        self.page.click(selector)

    def type(self, text):
        """Types into the focused element."""
        self.page.keyboard.insert_text(text)

    def press(self, key):
        """Presses and releases a key."""
        self.page.keyboard.press(key)

    def size(self, width, height):
        """Sets the size of the window."""
        self.page.set_viewport_size({"width": width, "height": height})

    def barriers(self):
        """What axe-core finds wrong for users of screen readers, keyboards and enlarged text."""
        self.value((OUT / "chromium" / "axe.min.js").read_text() + ";0")
        return self.value("axe.run().then((run) => run.violations.map((v) => v.id + ': ' + v.nodes.map((n) => n.html).join(' ')))")

    def media(self, **features):
        """Emulates media features such as `color_scheme="dark"` or `reduced_motion="reduce"`."""
        self.page.emulate_media(**features)


class Browser:
    """A running Chromium."""

    def __init__(self, chromium):
        self._chromium = chromium

    def open(self, url):
        """Opens a page in a new profile."""
        page = Page(self._chromium.new_page(viewport={"width": 1400, "height": 900}))
        page.page.set_default_timeout(1000 * PATIENCE)
        page.page.goto(url)
        return page


@contextlib.contextmanager
def browser():
    """Starts Chromium, and stops it in the end."""
    folder = install()
    with tempfile.TemporaryDirectory(prefix="sqs-once-chromium-", ignore_cleanup_errors=True) as home:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": home,
            "TMPDIR": home,
            "LD_LIBRARY_PATH": str(folder / "lib"),
            "FONTCONFIG_PATH": str(folder),
        }
        with sync_playwright() as playwright:
            chromium = playwright.chromium.launch(executable_path=folder / "chromium", args=FLAGS, env=env)
            yield Browser(chromium)
            chromium.close()

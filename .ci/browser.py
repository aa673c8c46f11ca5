"""A pinned headless Chromium, and the part of the DevTools protocol that the page's check needs."""

import contextlib
import json
import os
import platform
import shutil
import subprocess
import tarfile
import tempfile
import threading
import time
from pathlib import Path

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
FLAGS = [
    "--headless",
    # User namespaces may be unavailable, and the browser shows only this project's pages.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--no-default-browser-check",
    # Only loopback addresses resolve.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
    "--window-size=1400,900",
    "--remote-debugging-pipe",
]
FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
<dir>{folder}/fonts</dir><cachedir>{folder}/fonts-cache</cachedir>
<alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
"""
# Each key with its Windows key code, which Chromium expects on every system.
KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "/": 191, " ": 32}
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


class Browser:
    """A running Chromium, controlled through a pipe."""

    def __init__(self, to_browser, from_browser):
        self._to_browser = to_browser
        self._from_browser = from_browser
        self._next = 0
        self._answers = {}
        self._changed = threading.Condition()
        self.events = []
        """The events of all pages, in order of arrival."""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        rest = b""
        while piece := os.read(self._from_browser, 1 << 20):
            *messages, rest = (rest + piece).split(b"\0")
            with self._changed:
                for message in map(json.loads, messages):
                    if "id" in message:
                        self._answers[message["id"]] = message
                    else:
                        self.events.append(message)
                self._changed.notify_all()

    def call(self, method, session=None, **parameters):
        """Sends a request to the browser and waits for its answer."""
        self._next += 1
        request = {"id": self._next, "method": method, "params": parameters}
        if session:
            request["sessionId"] = session
        os.write(self._to_browser, json.dumps(request).encode() + b"\0")
        with self._changed:
            assert self._changed.wait_for(lambda: request["id"] in self._answers, PATIENCE), f"{method}: no answer"
            answer = self._answers.pop(request["id"])
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def open(self, url):
        """Opens a page in a new profile."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        page.call("Page.navigate", url=url)
        page.wait("document.readyState === 'complete'")
        return page


class Page:
    """One open page."""

    def __init__(self, browser, session):
        self._browser = browser
        self._session = session

    def call(self, method, **parameters):
        """Sends a request that concerns this page."""
        return self._browser.call(method, self._session, **parameters)

    def _events(self, method):
        every = list(self._browser.events)
        return [e["params"] for e in every if e.get("sessionId") == self._session and e["method"] == method]

    def complaints(self):
        """The errors and warnings in the console, including exceptions and violations of the content security policy."""
        thrown = [e["exceptionDetails"]["text"] for e in self._events("Runtime.exceptionThrown")]
        said = [e["args"] for e in self._events("Runtime.consoleAPICalled") if e["type"] in ("error", "warning")]
        entries = [e["entry"] for e in self._events("Log.entryAdded")]
        return [*thrown, *said, *(entry["text"] for entry in entries if entry["level"] in ("error", "warning"))]

    def requests(self):
        """The URLs of all requests."""
        return [e["request"]["url"] for e in self._events("Network.requestWillBeSent")]

    def value(self, expression):
        """The value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, f"{expression}: {answer['exceptionDetails']}"
        return answer["result"].get("value")

    def wait(self, expression, what=None):
        """Waits until a JavaScript expression is true, and returns its value."""
        deadline = time.monotonic() + PATIENCE
        while not (value := self.value(expression)):
            if time.monotonic() > deadline:
                raise AssertionError(f"it never came to {what or expression}; the page shows:\n{self.text()}")
            time.sleep(0.02)
        return value

    def text(self, selector="body"):
        """The visible text of an element."""
        return self.value(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def click(self, selector):
        """Waits until all animations have ended, then clicks the middle of an element with the mouse."""
        self.wait("document.getAnimations().length === 0")
        x, y = self.value(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'nearest'}});"
            " const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def type(self, text):
        """Types into the focused element."""
        self.call("Input.insertText", text=text)

    def press(self, key):
        """Presses and releases a key."""
        text = {"Enter": "\r", "/": "/", " ": " "}.get(key)
        down = {"text": text} if text else {}
        shared = {"key": key, "code": {"/": "Slash", " ": "Space"}.get(key, key), "windowsVirtualKeyCode": KEYS[key]}
        self.call("Input.dispatchKeyEvent", type="keyDown", **shared, **down)
        self.call("Input.dispatchKeyEvent", type="keyUp", **shared)

    def size(self, width, height):
        """Sets the size of the window."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def barriers(self):
        """What axe-core finds wrong for users of screen readers, keyboards and enlarged text."""
        self.value((OUT / "chromium" / "axe.min.js").read_text() + ";0")
        found = self.value("axe.run().then((run) => run.violations.map((v) => v.id + ': ' + v.nodes.map((n) => n.html).join(' ')))")
        return found

    def media(self, **features):
        """Emulates media features such as `prefers_color_scheme="dark"` or reduced motion."""
        features = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.call("Emulation.setEmulatedMedia", features=features)


@contextlib.contextmanager
def browser():
    """Starts Chromium. In the end, stops it and all its child processes."""
    folder = install()
    for_browser, to_browser = os.pipe()
    from_browser, of_browser = os.pipe()
    with tempfile.TemporaryDirectory(prefix="sqs-once-chromium-", ignore_cleanup_errors=True) as home:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": home,
            "TMPDIR": home,
            "LD_LIBRARY_PATH": str(folder / "lib"),
            "FONTCONFIG_PATH": str(folder),
        }
        # Chromium reads from 3 and writes to 4.
        start = f'exec "$0" "$@" 3<&{for_browser} 4>&{of_browser}'
        command = ["bash", "-c", start, folder / "chromium", *FLAGS, f"--user-data-dir={home}/profile"]
        log = OUT / "chromium.log"
        with open(log, "wb") as output:
            child = subprocess.Popen(
                command,
                env=env,
                pass_fds=(for_browser, of_browser),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        os.close(for_browser)
        os.close(of_browser)
        try:
            yield Browser(to_browser, from_browser)
        except BaseException:
            print("--- what Chromium said last ---", *Path(log).read_text(errors="replace").splitlines()[-10:], sep="\n")
            raise
        finally:
            with contextlib.suppress(ProcessLookupError):
                # Chromium and its children have a process group of their own.
                os.killpg(child.pid, 9)
            child.wait()
            os.close(to_browser)

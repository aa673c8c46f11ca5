"""Compares the public API of each library with its committed listing. `--write` writes the listings.

rustdoc's JSON is not stable, so the check runs only with the compiler in listings/RUSTC."""

import collections
import difflib
import os
import re
import subprocess
import sys

from local import OUT, ROOT, TARGET, built
from release import LIBRARIES

LISTINGS = ROOT / "verification" / "public-api" / "listings"
# Only rustdoc gets RUSTC_BOOTSTRAP for its unstable output. In cargo's environment, it would rebuild everything.
WRAPPER = '#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec "${REAL_RUSTDOC:-rustdoc}" "$@"\n'


def compiler():
    return subprocess.run(["rustc", "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout


def document():
    """Runs rustdoc for its JSON, with the features and dependencies that the other checks have built."""
    wrapper = OUT / "rustdoc"
    wrapper.write_text(WRAPPER)
    wrapper.chmod(0o755)
    flags = "-Zunstable-options --output-format=json --cap-lints=allow"
    command = ["cargo", "doc", "--quiet", "--workspace", "--no-deps", "--all-features", "--lib"]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "RUSTDOC": str(wrapper), "RUSTDOCFLAGS": flags}, check=True)


def listing(library):
    json = TARGET / "doc" / f"{library.replace('-', '_')}.json"
    listed = subprocess.run([built("public-api-listing"), json], check=True, stdout=subprocess.PIPE, text=True).stdout
    # The feature `unstable` adds this module alone, and implementations of its traits.
    unstable = re.compile(r"^(?:#\[.*?\] )*(?:pub [a-z ]*|impl(?:<.*?>)? (?:.* for )?)sqs_once::unstable\b")
    of_a_type = re.compile(r"^pub (?:async |const )?(?:fn|type) [\w:]*?[A-Z]\w*(?:<.*?>)?::")
    stable, implements = [], False
    for line in listed.splitlines(keepends=True):
        implements = unstable.match(line) if line.startswith("impl") else implements and of_a_type.match(line)
        if not implements and not unstable.match(line):
            stable.append(line)
    return "".join(stable)


def paths(listed):
    """The paths of a library's modules, and of the types, traits, macros and functions in them, without the guide."""
    modules = set(re.findall(r"^pub mod ([\w:]+)$", listed, re.M))
    items = re.findall(r"^(?:#\[.*?\] )*pub (?:(?:unsafe|async|const) )*(?:struct|enum|union|trait|type|fn|macro|use) ([\w:]+)", listed, re.M)
    found = modules | {item.rstrip(":") for item in items if item.rpartition("::")[0] in modules}
    return {path for path in found if "::guide" not in path}


def main():
    writes = sys.argv[1:] == ["--write"]
    recorded = LISTINGS / "RUSTC"
    if writes:
        recorded.write_text(compiler())
    elif recorded.read_text() != compiler():
        print(f"NOT CHECKED: the listings are of {recorded.read_text().strip()}, and this is {compiler().strip()}")
        return
    document()
    changed = False
    for library in LIBRARIES:
        file, now = LISTINGS / f"{library}.txt", listing(library)
        if writes:
            file.write_text(now)
        before = file.read_text()
        names = f"{file.relative_to(ROOT)}", "the code"
        difference = list(difflib.unified_diff(before.splitlines(), now.splitlines(), *names, n=0, lineterm=""))
        print(*difference, sep="\n", end="\n" if difference else "")
        found = paths(now)
        print(f"{library}: {len(now.splitlines())} public items at {len(found)} paths")
        counts = collections.Counter(path.rpartition("::")[2] for path in found if path.rpartition("::")[2][0].isupper())
        twice = [name for name, count in counts.items() if count > 1]
        assert not twice, f"{library} has names at two paths: {twice}"
        changed |= bool(difference)
    if changed:
        raise SystemExit("the public API has changed: python3 .ci/public_api.py --write, and say so in CHANGELOG.md")


if __name__ == "__main__":
    main()

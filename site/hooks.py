"""What the site changes in the pages, links to files outside `docs` and the language of Rust's code blocks, and what it
adds for language models: `llms.txt` lists the guides, `llms-full.txt` has all of them."""

import re
import tomllib
from pathlib import Path

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
# A link out of `docs`, inline or by reference.
OUTSIDE = re.compile(r"(\]\(|^\[[^\]]+\]: )\.\./([^)\s]+)", re.MULTILINE)
# The files of a function in the cookbook.
FUNCTION = ["main.rs", "src/main.rs", "store.rs", "tests.rs", "src/tests.rs", "template.yaml", "event.json", "event.txt"]
# A name in the cookbook, which may be the folder of a function.
NAME = re.compile(r"`(?:examples/)?([a-z0-9-]+)`")
# A block of Rust.
RUST = re.compile(r"^```rust.*?^```$", re.MULTILINE | re.DOTALL)
# A definition of docs/README.md: a label and its page.
PAGE = re.compile(r"^\[([^\]]+)\]: (\S+\.md)$", re.MULTILINE)
# A link of docs/README.md by its label.
LABEL = re.compile(r"\[([^\]]+)\](?:\[([^\]]+)\])?")


def on_config(config):
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    config.site_name = f"sqs-once {version}"
    listed = [page for _, page in PAGE.findall((ROOT / "docs/README.md").read_text())]
    shown = [page for title in config.nav[1:] for pages in title.values() for one in pages for page in one.values()]
    if sorted(listed) != sorted(shown):
        raise PluginError(f"docs/README.md and site/mkdocs.yml differ in {set(listed) ^ set(shown)}")
    return config


def with_functions(markdown):
    """Links the names of functions. The page itself names them without a link, since rustdoc has no such files."""

    def link(name):
        for folder in (f"cookbook/{name[1]}", name[1]):
            files = [path for path in FUNCTION if (ROOT / "examples" / folder / path).exists()]
            if files:
                links = [f"[{path}](../examples/{folder}/{path})" for path in files]
                return f"{name[0]} ({', '.join(links)})"
        return name[0]

    return NAME.sub(link, markdown) if markdown.startswith("# Cookbook") else markdown


def on_files(files, config):
    """Adds the files that pages link to, as text."""
    for page in files.documentation_pages():
        for _, path in OUTSIDE.findall(with_functions(Path(page.abs_src_path).read_text())):
            uri = f"files/{path}.txt"
            if not files.get_file_from_path(uri):
                files.append(File.generated(config, uri, content=(ROOT / path).read_text()))
    return files


def with_introduction(guides):
    """Puts what the README says about the library before the list of the guides."""
    introduction, *sections = (ROOT / "README.md").read_text().split("\n## ")
    sections = {section.partition("\n")[0]: section.partition("\n")[2] for section in sections}
    chosen = [f"## {title}\n{sections[title]}" for title in ("What it promises", "How it compares")]
    text = "\n".join([re.sub(r"^!\[.*\n", "", introduction, flags=re.MULTILINE), *chosen])
    return f"{text.replace('](docs/', '](')}\n{guides.replace('# Guides', '## Guides')}"


def on_page_markdown(markdown, page, **_):
    if page.file.src_uri == "README.md":
        markdown = with_introduction(markdown)
    markdown = OUTSIDE.sub(r"\1files/\2.txt", with_functions(markdown))
    # Python-Markdown reads code before links, so it finds no label that is code.
    for label, target in re.findall(r"^\[(`[^`]+`)\]: (\S+)$", markdown, re.MULTILINE):
        markdown = markdown.replace(f"[{label}]: {target}\n", "").replace(f"[{label}]", f"[{label}]({target})")
    # rustdoc hides these lines, and the words after the language.
    markdown = RUST.sub(lambda block: re.sub(r"^# .*\n", "", block[0], flags=re.MULTILINE), markdown)
    return re.sub(r"^```rust,\w+$", "```rust", markdown, flags=re.MULTILINE)


def on_post_build(config):
    site = Path(config.site_dir)
    start = (ROOT / "docs/README.md").read_text()
    pages = dict(PAGE.findall(start))

    def link(label):
        page = pages[label[2] or label[1]].replace(".md", ".html")
        return f"[{label[1]}]({page})"

    text = re.sub(r"^(!.*|\[.*\.svg)\n", "", start, flags=re.MULTILINE)  # Without pictures.
    questions = PAGE.sub("", text).replace("# Guides\n", "").strip()
    questions = re.sub(r"^\*\*(.+)\*\*$", r"## \1", LABEL.sub(link, questions), flags=re.MULTILINE)
    (site / "llms.txt").write_text(f"# {config.site_name}\n\n> {config.site_description}\n\n{questions}\n")
    texts = [ROOT / "README.md", *(ROOT / "docs" / page for page in pages.values())]
    (site / "llms-full.txt").write_text("\n\n".join(text.read_text() for text in texts))

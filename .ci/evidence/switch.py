"""Rewrites sources so that one build has all mutants, of which the environment chooses one."""

import re
import sys

from .run import python_packages

python_packages("tree-sitter==0.26.1", "tree-sitter-rust==0.24.2")

import tree_sitter
import tree_sitter_rust

# This ends `lib.rs`. `MUTANT` is the number of a mutant, or a file that lists the mutants that a process reaches.
RUNTIME = """
mod mutant {
    use std::{env, fs::OpenOptions, io::Write, sync::LazyLock, sync::atomic::{AtomicBool, Ordering}};
    static MUTANT: LazyLock<Option<String>> = LazyLock::new(|| env::var("MUTANT").ok());
    static NUMBER: LazyLock<Option<usize>> = LazyLock::new(|| MUTANT.as_ref()?.parse().ok());
    static SEEN: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];
    pub(crate) fn on(number: usize) -> bool {
        if NUMBER.is_none() && let Some(file) = &*MUTANT && !SEEN[number].swap(true, Ordering::SeqCst) {
            let mut file = OpenOptions::new().append(true).open(file).expect("a file");
            file.write_all(format!("{number}\\n").as_bytes()).expect("a line");
        }
        *NUMBER == Some(number)
    }
}
"""
# Before and after a mutant's expression, and before and after its replacement.
MARK = re.compile(rb"/\*([(<>)])(\d+)\*/")
EXPRESSIONS = ("binary_expression", "compound_assignment_expr", "let_chain", "struct_expression", "unary_expression")
PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_rust.language()))


class Source:
    """A source file and its mutants by number, in the format of `cargo mutants --list --json`."""

    def __init__(self, path, mutants):
        self.path, self.mutants = path, mutants
        self.original = path.read_bytes()
        self.root = PARSER.parse(self.original).root_node

    def write(self, numbers):
        """Writes the file with these mutants behind the switch. Returns those that cannot compile."""
        edits = {number: self.edit(number, self.mutants[number]) for number in sorted(numbers & self.mutants.keys())}
        # An insertion comes before the expression that begins there, and an outer expression before an inner one.
        placed = sorted(filter(None, edits.values()), key=lambda edit: (edit[0], edit[0] != edit[1], -edit[1]))
        self.text = self.render(0, len(self.original), placed)
        self.path.write_bytes(self.text)
        return {number for number, edit in edits.items() if not edit}

    def edit(self, number, mutant):
        """The range of a mutant's expression, and a format that puts its text behind the switch."""
        start, end = (self.offset(mutant["span"][side]) for side in ("start", "end"))
        on, replacement = b"crate::mutant::on(%d)" % number, mutant["replacement"].encode()
        node = self.root.descendant_for_byte_range(start, end)
        genre = mutant["genre"]
        if genre == "FnValue":
            end = start
            text = b"if %b { return /*<%d*/%b/*>%d*/; } " % (on, number, escaped(replacement), number)
        elif genre == "MatchArmGuard":
            text = {b"true": b"(%b || (%%b))", b"false": b"(!%b && (%%b))"}[replacement] % on
        elif genre == "MatchArm":
            pattern = around(node, "match_arm").child_by_field_name("pattern")
            guard = pattern.child_by_field_name("condition")
            start, end = (guard.start_byte, guard.end_byte) if guard else (pattern.end_byte, pattern.end_byte)
            text = (b"(!%b && (%%b))" if guard else b" if !%b") % on
        else:
            whole = around(node, *EXPRESSIONS)
            if whole.type == "let_chain":
                # It cannot have `||`.
                return None
            mutated = self.original[whole.start_byte : start] + b" %b " % replacement + self.original[end : whole.end_byte]
            start, end = whole.start_byte, whole.end_byte
            text = b"(if %b { /*<%d*/%b/*>%d*/ } else { %%b })" % (on, number, escaped(mutated), number)
        return start, end, b"/*(%d*/%b/*)%d*/" % (number, text, number)

    def offset(self, place):
        lines = self.original.split(b"\n")[: place["line"]]
        before = lines.pop().decode()[: place["column"] - 1]
        return sum(len(line) + 1 for line in lines) + len(before.encode())

    def render(self, start, end, edits):
        """The text of a range. The replacement of an outer mutant has the original text: only one mutant is on."""
        text, at = b"", start
        while edits:
            first, last, _ = edits[0]
            same = [edit for edit in edits if edit[:2] == (first, last)]
            inner = [edit for edit in edits[len(same) :] if edit[0] < last]
            edits = edits[len(same) + len(inner) :]
            text += self.original[at:first]
            if first == last:
                text += b"".join(form % () for *_, form in same)
            else:
                body = self.render(first, last, inner)
                for *_, form in same:
                    body = form % body
                text += body
            at = last
        return text + self.original[at:end]

    def blamed(self, error):
        """The mutants of a compiler's error, and whether the error is in their replacement."""
        spans = [span for span in error["spans"] if self.path.match(span["file_name"])]
        for span in sorted(spans, key=lambda span: not span["is_primary"]):
            inside = []
            for mark in MARK.finditer(self.text, 0, span["byte_start"]):
                if mark[1] in b"(<":
                    inside.append((int(mark[2]), mark[1] == b"<"))
                else:
                    inside.pop()
            if error["code"] and error["code"]["code"] == "E0004":
                # A match that lost an arm does not cover all values.
                value = PARSER.parse(self.text).root_node.descendant_for_byte_range(span["byte_start"], span["byte_end"])
                match = around(value, "match_expression")
                marks = MARK.finditer(self.text, match.start_byte, match.end_byte)
                arms = {int(mark[2]): False for mark in marks}
                return {number: own for number, own in arms.items() if self.mutants[number]["genre"] == "MatchArm"}
            if inside:
                return dict(inside[-1:])
        return {}


def switched(tree, library, mutants, build):
    """Builds with all mutants that compile. Returns the messages of the build, and the numbers of the mutants that do not
    compile and of those that have no place behind the switch."""
    files = {}
    for number, mutant in enumerate(mutants):
        files.setdefault(mutant["file"], {})[number] = mutant
    sources = [Source(tree / file, own) for file, own in files.items()]
    library.write_text(library.read_text() + RUNTIME.replace("COUNT", str(len(mutants))))
    left, unviable, alone = set(range(len(mutants))), set(), set()
    while True:
        for source in sources:
            unviable |= source.write(left)
        left -= unviable
        status, messages = build()
        if status == 0:
            return messages, unviable, alone
        errors = [one["message"] for one in messages if one.get("message", {}).get("level") == "error"]
        blamed = {number: own for error in errors for source in sources for number, own in source.blamed(error).items()}
        if not blamed:
            raise SystemExit("\n".join(["no mutant has these errors:", *(error["rendered"] for error in errors)]))
        for number, is_its_own in blamed.items():
            # A body and its replacement have different types behind `impl Trait`. Alone, a replacement may compile.
            result = (mutants[number]["function"] or {}).get("return_type", "")
            (unviable if is_its_own and "impl " not in result else alone).add(number)
        left -= blamed.keys()
        print(f"{len(unviable)} do not compile, {len(alone)} compile only alone", file=sys.stderr)


def escaped(text):
    return text.replace(b"%", b"%%")


def around(node, *kinds):
    while node.type not in kinds:
        node = node.parent
    return node

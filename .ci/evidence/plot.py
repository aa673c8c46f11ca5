"""A line plot with logarithmic axes, as SVG."""

import math

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BELOW = 480, 300, 76, 50, 170, 50
# The minimum distance between the baselines of two names.
LINE = 18
# The classes `a` to `e` are the lines, in order. The first is emphasised. In dark mode, the plot is dark.
STYLE = """
svg { color: #1f2328 } .page { fill: #ffffff } .grid { stroke: #d8dee4 }
text { fill: currentColor } polyline { fill: none; stroke: currentColor; stroke-width: 2 }
polyline.a { stroke-width: 4 } polyline.b { stroke-dasharray: 6 4 } text.a { font-weight: bold }
.a { color: #cf222e } .b { color: #6e7781 } .c { color: #0969da } .d { color: #1a7f37 } .e { color: #9a6700 }
@media (prefers-color-scheme: dark) {
svg { color: #e6edf3 } .page { fill: #0d1117 } .grid { stroke: #30363d }
.a { color: #ff7b72 } .b { color: #9198a1 } .c { color: #58a6ff } .d { color: #3fb950 } .e { color: #d29922 }
}
"""


def plot(title, lines):
    """The plot of up to five lines, each with its name at its end. `lines` has the points of each name."""
    points = [point for line in lines.values() for point in line]
    decades = math.log10(max(x for x, _ in points))
    low = math.floor(math.log10(min(y for _, y in points)))
    high = math.ceil(math.log10(max(y for _, y in points)))

    def across(x):
        return LEFT + WIDTH * math.log10(x) / decades

    def down(y):
        return TOP + HEIGHT * (high - math.log10(y)) / (high - low)

    def text(x, y, what, attributes=""):
        return f'<text x="{x:.0f}" y="{y:.0f}"{attributes}>{what}</text>'

    def stroke(x1, y1, x2, y2):
        return f'<line x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}" class="grid"/>'

    right, bottom = LEFT + WIDTH, TOP + HEIGHT
    drawn = [text(LEFT, TOP - 22, title, ' font-weight="bold"')]
    for size in (10**decade for decade in range(round(decades) + 1)):
        drawn.append(stroke(across(size), TOP, across(size), bottom))
        drawn.append(text(across(size), bottom + 20, f"{size:,}", ' text-anchor="middle"'))
    for value in (10**decade for decade in range(low, high + 1)):
        drawn.append(stroke(LEFT, down(value), right, down(value)))
        drawn.append(text(LEFT - 8, down(value) + 5, f"{value:,}", ' text-anchor="end"'))
    drawn.append(text(LEFT + WIDTH / 2, bottom + 42, "messages in the batch", ' text-anchor="middle"'))
    # The emphasised line is drawn last. Each name is at least one line below the name above it.
    classes = dict(zip(lines, "abcde", strict=False))
    for name, line in reversed(lines.items()):
        shown = " ".join(f"{across(x):.1f},{down(y):.1f}" for x, y in line)
        drawn.append(f'<polyline points="{shown}" class="{classes[name]}"/>')
    at = 0
    for name, line in sorted(lines.items(), key=lambda one: -one[1][-1][1]):
        at = max(at + LINE, down(line[-1][1]))
        drawn.append(text(right + 10, at + 5, name, f' class="{classes[name]}"'))
    size = f"0 0 {right + RIGHT} {bottom + BELOW}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{size}" font-family="sans-serif" font-size="14">'
    page = '<rect class="page" width="100%" height="100%"/>'
    return "\n".join([head, f"<style>{STYLE}</style>", page, *drawn, "</svg>", ""])

#!/usr/bin/env python3
"""A picture of a trace that `lockstep generate --trace` has written: a few steps, and below them a few layers of one.

    tools/trace_to_svg.py TRACE.json [--step 8] [--steps 3] [--layers 10-11] > OUT.svg

Each rank has its band; inside a zone, the zones it contains stand one row lower. Standard library only.
"""

import argparse
import html
import json
from collections import defaultdict

WIDTH, LEFT, ROW = 1080, 70, 20  # pixels
COLOURS = {"compute": "#9cc3e6", "comm": "#f2a65a", "wait": "#c9c9c9"}
WORDS = {"compute": "computing", "comm": "communicating", "wait": "waiting for other ranks"}


class Zone:
    def __init__(self, event):
        self.name, self.category, self.args = event["name"], event["cat"], event["args"]
        self.begin, self.end = event["ts"], event["ts"] + event["dur"]
        self.inside = []

    def all(self):
        yield self
        for zone in self.inside:
            yield from zone.all()

    def spent(self):
        """Microseconds by category, each moment counted once: for the innermost zone."""
        totals = defaultdict(float)
        for zone in self.all():
            totals[zone.category] += zone.end - zone.begin
            for part in zone.inside:
                totals[zone.category] -= part.end - part.begin
        return totals


def read(path):
    """{name of the rank: {number of a step: its zone}}"""
    with open(path) as file:
        events = json.load(file)["traceEvents"]
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    ranks = {name: {} for name in names.values()}
    open_zones = defaultdict(list)
    for event in sorted((e for e in events if e["ph"] == "X"), key=lambda e: (e["ts"], -e["dur"])):
        zone, stack = Zone(event), open_zones[event["tid"]]
        while stack and stack[-1].end <= zone.begin:
            stack.pop()
        if stack:
            stack[-1].inside.append(zone)
        elif zone.name == "step":
            ranks[names[event["tid"]]][zone.args["step"]] = zone
        stack.append(zone)
    return ranks


class Picture:
    def __init__(self):
        self.parts, self.height = [], 0

    def text(self, x, y, words, size=13, weight="normal"):
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}">{html.escape(words)}</text>'
        )

    def heading(self, words):
        self.height += 34
        self.text(10, self.height - 12, words, 15, "bold")

    def legend(self):
        x = LEFT
        for category, words in WORDS.items():
            self.parts.append(f'<rect x="{x}" y="{self.height + 4}" width="14" height="14" fill="{COLOURS[category]}"/>')
            self.text(x + 20, self.height + 16, words)
            x += 170
        self.height += 26

    def band(self, label, zones, begin, end):
        """The zones, each with what is inside it, on a scale from begin to end."""
        scale = (WIDTH - LEFT - 10) / (end - begin)
        depth = 0

        def draw(zone, level):
            nonlocal depth
            left, right = max(zone.begin, begin), min(zone.end, end)
            width = (right - left) * scale
            if width < 0.4:
                return
            depth = max(depth, level + 1)
            x, y = LEFT + (left - begin) * scale, self.height + level * ROW
            title = f"{zone.name} {' '.join(f'{k} {v}' for k, v in zone.args.items())}: {zone.end - zone.begin:.1f} us"
            self.parts.append(
                f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW - 1}" fill="{COLOURS[zone.category]}"'
                f' stroke="#ffffff" stroke-width="{0.5 if width > 3 else 0}"><title>{html.escape(title)}</title></rect>'
            )
            label = f"{zone.name} {zone.args['step']}" if zone.name == "step" else zone.name
            if width > 6.2 * len(label) + 4:
                self.text(x + 3, y + 14, label, 11)
            for part in zone.inside:
                draw(part, level + 1)

        for zone in zones:
            draw(zone, 0)
        self.text(10, self.height + 14, label)
        self.height += depth * ROW + 10

    def scale(self, begin, end):
        """A line below the bands: how long a stretch is."""
        exponent = 10 ** (len(str(int((end - begin) / 4))) - 1)
        length = exponent * int((end - begin) / 4 / exponent)
        pixels = length * (WIDTH - LEFT - 10) / (end - begin)
        y = self.height + 2
        self.parts.append(f'<path d="M{LEFT} {y - 4} v8 m0 -4 h{pixels:.1f} m0 -4 v8" stroke="#444" fill="none"/>')
        self.text(LEFT + pixels + 8, y + 4, f"{length} µs" if length < 1000 else f"{length / 1000:g} ms")
        self.height += 16

    def svg(self):
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height + 6}"'
            ' font-family="Helvetica, Arial, sans-serif">\n<!-- Made by tools/trace_to_svg.py. -->\n'
            f'<rect width="{WIDTH}" height="{self.height + 6}" fill="#ffffff"/>\n' + "\n".join(self.parts) + "\n</svg>"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("--step", type=int, default=8, help="the first step shown, and the one whose layers are")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--layers", default="10-11", metavar="FIRST-LAST")
    options = parser.parse_args()
    ranks = read(options.trace)
    shown = range(options.step, options.step + options.steps)
    first, last = map(int, options.layers.split("-"))

    picture = Picture()
    picture.heading(f"Steps {shown[0]} to {shown[-1]}")
    picture.legend()
    steps = {name: [zones[step] for step in shown] for name, zones in ranks.items()}
    begin = min(zones[0].begin for zones in steps.values())
    end = max(zones[-1].end for zones in steps.values())
    for name, zones in steps.items():
        picture.band(name, zones, begin, end)
    picture.scale(begin, end)
    for name, zones in steps.items():
        spent = zones[0].spent()
        times = ", ".join(f"{spent[category] / 1000:.2f} ms {words}" for category, words in WORDS.items())
        picture.height += 18
        picture.text(10, picture.height, f"{name}, step {shown[0]}: {times}", 12)

    picture.heading(f"Layers {first} to {last} of step {shown[0]}")
    layers = {
        name: [zone for zone in zones[0].inside if first <= zone.args.get("layer", -1) <= last]
        for name, zones in steps.items()
    }
    begin = min(zones[0].begin for zones in layers.values())
    end = max(zones[-1].end for zones in layers.values())
    for name, zones in layers.items():
        picture.band(name, zones, begin, end)
    picture.scale(begin, end)
    print(picture.svg())


if __name__ == "__main__":
    main()

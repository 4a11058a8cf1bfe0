"""Twenty requests for small edits of our own example files, as a user of `edit` would write them."""

STACK = '''class Stack:
    """A last-in, first-out pile of values."""

    def __init__(self):
        self.items = []

    def push(self, value):
        self.items.append(value)
        return len(self.items)

    def pop(self):
        if not self.items:
            raise IndexError("pop from an empty stack")
        return self.items.pop()

    def peek(self):
        return self.items[-1] if self.items else None
'''

PRICES = """TAX = 0.19
SHIPPING = 4.90


def net_price(prices):
    total = 0
    for price in prices:
        total = total + price
    return total


def gross_price(prices, country="DE"):
    total = net_price(prices)
    if country == "DE":
        total = total * (1 + TAX)
    if total < 50:
        total = total + SHIPPING
    return round(total, 2)
"""

LOGS = """import sys


def read_lines(path):
    with open(path) as handle:
        return [line.rstrip("\\n") for line in handle]


def count_levels(lines):
    counts = {"INFO": 0, "WARNING": 0, "ERROR": 0}
    for line in lines:
        for level in counts:
            if level in line:
                counts[level] += 1
    return counts


if __name__ == "__main__":
    print(count_levels(read_lines(sys.argv[1])))
"""

GEOMETRY = """import math


class Circle:
    def __init__(self, radius):
        self.radius = radius

    def area(self):
        return math.pi * self.radius ** 2

    def circumference(self):
        return 2 * math.pi * self.radius


class Rectangle:
    def __init__(self, width, height):
        self.width = width
        self.height = height

    def area(self):
        return self.width * self.height

    def circumference(self):
        return 2 * (self.width + self.height)
"""

SETTINGS = """{
  "name": "weather-station",
  "interval_seconds": 60,
  "sensors": [
    {"id": "t1", "kind": "temperature", "unit": "C"},
    {"id": "h1", "kind": "humidity", "unit": "%"},
    {"id": "p1", "kind": "pressure", "unit": "hPa"}
  ],
  "upload": {"enabled": true, "retries": 3, "timeout_seconds": 10}
}
"""

EDITS = [
    (STACK, "Rename the method push to add."),
    (STACK, "Add a method size that returns the number of items."),
    (STACK, "Add type hints to every method."),
    (STACK, "Return the file unchanged."),
    (PRICES, "Use sum() in net_price."),
    (PRICES, "Change TAX to 0.20."),
    (PRICES, "Add a docstring to gross_price."),
    (PRICES, "Rename total to amount."),
    (LOGS, "Add the level DEBUG to the counts."),
    (LOGS, "Open the file with encoding utf-8."),
    (LOGS, "Rename count_levels to level_counts."),
    (LOGS, "Add a docstring to every function."),
    (GEOMETRY, "Rename circumference to perimeter."),
    (GEOMETRY, "Add a class Square that inherits from Rectangle."),
    (GEOMETRY, "Use tau instead of 2 * pi."),
    (GEOMETRY, "Add type hints to the constructors."),
    (SETTINGS, "Set interval_seconds to 30."),
    (SETTINGS, "Remove the pressure sensor."),
    (SETTINGS, "Rename upload to publish."),
    (SETTINGS, "Set retries to 5 and timeout_seconds to 20."),
]

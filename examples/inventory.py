"""A small stock keeping module: the file that the README's first command edits."""

from dataclasses import dataclass, field
from decimal import Decimal


class OutOfStockError(Exception):
    """Raised when an order asks for more units than there are on the shelf."""


@dataclass
class Item:
    """One article with its price and the number of units on the shelf."""

    sku: str
    name: str
    price: Decimal
    quantity: int = 0
    tags: set[str] = field(default_factory=set)

    def total(self) -> Decimal:
        """Value of all units of this item."""
        return self.price * self.quantity


class Inventory:
    """All items of a warehouse, found by their stock keeping unit (SKU)."""

    def __init__(self, reorder_level: int = 5) -> None:
        """Start empty; items at or below the reorder level count as low."""
        self.reorder_level = reorder_level
        self._items: dict[str, Item] = {}

    def add(self, item: Item) -> None:
        """Take a new item into the inventory."""
        if item.sku in self._items:
            raise ValueError(f"duplicate SKU: {item.sku}")
        self._items[item.sku] = item

    def get(self, sku: str) -> Item:
        """Return the item with this SKU."""
        try:
            return self._items[sku]
        except KeyError:
            raise KeyError(f"unknown SKU: {sku}") from None

    def ship(self, sku: str, units: int) -> int:
        """Take units off the shelf and return the new quantity."""
        if units <= 0:
            raise ValueError("units must be positive")
        item = self.get(sku)
        if item.quantity < units:
            raise OutOfStockError(f"{sku}: {item.quantity} left, {units} wanted")
        item.quantity -= units
        return item.quantity

    def receive(self, sku: str, units: int) -> int:
        """Put units on the shelf and return the new quantity."""
        if units <= 0:
            raise ValueError("units must be positive")
        item = self.get(sku)
        item.quantity += units
        return item.quantity

    def low_stock(self) -> list[Item]:
        """Items that have to be ordered again."""
        return [item for item in self._items.values() if item.quantity <= self.reorder_level]

    def find(self, tag: str) -> list[Item]:
        """Items that carry the tag."""
        return [item for item in self._items.values() if tag in item.tags]

    def total(self) -> Decimal:
        """Value of everything on the shelves."""
        return sum((item.total() for item in self._items.values()), Decimal(0))


def report(inventory: Inventory) -> str:
    """One line for every item that has to be ordered again."""
    lines = [f"{item.sku:<10}{item.name:<24}{item.quantity:>6}" for item in inventory.low_stock()]
    return "\n".join(lines) if lines else "nothing to order"


if __name__ == "__main__":
    stock = Inventory(reorder_level=3)
    stock.add(Item("A-100", "hex bolt M6", Decimal("0.12"), 250, {"fastener"}))
    stock.add(Item("B-200", "torque wrench", Decimal("48.50"), 2, {"tool"}))
    stock.ship("A-100", 48)
    print(report(stock))
    print("stock value:", stock.total())

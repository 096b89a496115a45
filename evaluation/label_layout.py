"""Placing names and spots so that none covers another."""


def spread(wanted: list[float], gap: float) -> list[float]:
    """Return ascending heights at least `gap` apart, as close as possible to those wanted.

    >>> spread([0.5, 0.5], 0.1)
    [0.45, 0.55]
    """
    groups: list[list[float]] = []  # wanted heights of labels that touch
    for height in wanted:
        groups.append([height])
        while len(groups) > 1 and _bottom(groups[-1], gap) < _top(groups[-2], gap) + gap:
            last = groups.pop()
            groups[-1] += last
    return [
        round(_bottom(group, gap) + position * gap, 10)
        for group in groups
        for position in range(len(group))
    ]


def fitted(heights: list[float], gap: float) -> list[float]:
    """Return ascending heights within a panel of height 1, or above it if they are too many.

    Below it are the labels of its axis, above it its title.

    >>> fitted([-0.1, 0.02, 0.5], 0.1)
    [0.05, 0.15, 0.5]
    >>> fitted([0.5, 0.93, 1.03], 0.1)
    [0.5, 0.85, 0.95]
    """
    out: list[float] = []
    for height in heights:
        out.append(max(height, out[-1] + gap if out else gap / 2))
    if len(out) * gap <= 1:
        for position in reversed(range(len(out))):
            above = 1 - gap / 2 if position == len(out) - 1 else out[position + 1] - gap
            out[position] = min(out[position], above)
    return [round(height, 10) for height in out]


def _bottom(group: list[float], gap: float) -> float:
    return sum(group) / len(group) - gap * (len(group) - 1) / 2


def _top(group: list[float], gap: float) -> float:
    return sum(group) / len(group) + gap * (len(group) - 1) / 2


def beside(spots: list[tuple[float, float]], gap: float) -> list[tuple[float, float]]:
    """Return spots moved sideways, and only those that are less than `gap` from another.

    >>> beside([(1.0, 5.0), (1.0, 5.0), (1.0, 9.0)], 0.5)
    [(0.75, 5.0), (1.25, 5.0), (1.0, 9.0)]
    """
    moved = list(spots)
    for _ in spots:  # a moved spot may touch another: then both move
        before = list(moved)
        for group in _touching(moved, 1.01 * gap):
            order = sorted(group, key=lambda number: spots[number])
            places = spread([spots[number][0] for number in order], gap)
            for number, place in zip(order, places, strict=True):
                moved[number] = (place, spots[number][1])
        if moved == before:
            break
    return moved


def _touching(spots: list[tuple[float, float]], gap: float) -> list[list[int]]:
    """Return groups of indices of spots in which each is close to another."""
    groups: list[list[int]] = []
    for number, (x, y) in enumerate(spots):
        near = [
            group
            for group in groups
            if any(max(abs(x - spots[i][0]), abs(y - spots[i][1])) < gap for i in group)
        ]
        groups = [group for group in groups if group not in near]
        groups.append([*(member for group in near for member in group), number])
    return groups

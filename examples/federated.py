"""Private sparse gradients: federated logistic regression on bags of words.

Each client holds a few short texts with labels and takes part in one round. It computes its
gradient at the current weights, keeps the k largest entries, clips them to [-1, 1] and reports
them under user-level local privacy. Five servers learn from the same clients:

no privacy          the exact mean gradient, all entries
no privacy, top k   the exact mean of the sparsified gradients: what sparsifying alone costs
faintly             reports of a few bytes, decoded for all words at once
dense Gaussian      the sparsified gradients, and each client adds noise to every word: the
                    same ε, and δ = 1e-6
dense Laplace       the same, at the same ε and without δ

Every server takes the same steps, and ignores entries that may be its own noise. The
texts are made up: a vocabulary with Zipf's frequencies, some words of which lean to a class.

One run says little about the noisy servers: which false words pass in its first rounds is chance,
and stays in the weights. So there are several, with fresh texts and fresh noise in each, and
accuracies are means ± one standard error.

    python examples/federated.py --out federated.png
"""

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from faintly import Plan, Reader, VectorBatch, aggregate, make_plan, randomize_all
from faintly.mechanisms import mechanism_of
from faintly.primitives.entropy import seeded

WORDS = 2_000  # vocabulary, without the words that are in every text
COMMON = 30  # the word of rank r has a chance in proportion to 1/(COMMON + r)
LEANING = 400  # words that are four times as likely in one class as in the other
TEXTS = 4  # of each client
LENGTH = 20  # words of a text
STEP = 2.0  # of gradient descent
STRAY = 2.0  # entries below this many standard errors are taken for noise
DELTA = 1e-6  # of the Gaussian noise

Style = tuple[str, str, str]  # colour, marker and line
# Okabe and Ito's colours, which colour-blind people can distinguish.
BLUE, RED, GREEN = ("#0072B2", "o", "-"), ("#D55E00", "s", "-"), ("#009E73", "^", "-")
Server = Callable[[VectorBatch, int], tuple[np.ndarray, float]]  # mean gradient and its error


@dataclass(frozen=True)
class Texts:
    """Labelled bags of words: words[i] are those of text i, and seen[i] marks the first of each."""

    words: np.ndarray
    seen: np.ndarray
    labels: np.ndarray

    @classmethod
    def made(cls, count: int, generator: np.random.Generator) -> "Texts":
        """Return made-up texts of two classes."""
        weights = 1 / (COMMON + np.arange(WORDS))
        lean = np.ones(WORDS)
        leaning = np.random.Generator(np.random.Philox(7)).choice(WORDS, LEANING, replace=False)
        lean[leaning] = np.where(np.arange(LEANING) % 2, 2.0, 0.5)
        labels = generator.integers(0, 2, count)
        words = np.empty((count, LENGTH), dtype=np.int16)
        for label, tilted in enumerate((weights / lean, weights * lean)):
            # Drawing from a table of 2^16 words is much faster than drawing by probabilities.
            shares = np.cumsum(tilted) / tilted.sum()
            table = np.searchsorted(shares, (np.arange(2**16) + 0.5) / 2**16).astype(np.int16)
            mine = labels == label
            words[mine] = table[generator.integers(0, 2**16, (mine.sum(), LENGTH))]
        words.sort(axis=1)
        seen = np.ones(words.shape, dtype=bool)
        seen[:, 1:] = words[:, 1:] != words[:, :-1]
        return cls(words, seen, labels)

    def errors(self, weights: np.ndarray) -> np.ndarray:
        """Return the predicted chance of label 1 less the label, for each text."""
        scores = (weights[self.words] * self.seen).sum(axis=1)
        return 1 / (1 + np.exp(-scores)) - self.labels

    def accuracy(self, weights: np.ndarray) -> float:
        """Return the share of labels that the weights predict; a tie counts half."""
        missed = np.abs(self.errors(weights))
        return float((missed < 0.5).mean() + (missed == 0.5).mean() / 2)


class Round:
    """The clients of one round, TEXTS texts each, and where their gradients have entries."""

    def __init__(self, texts: Texts, number: int, rounds: int) -> None:
        self.clients = len(texts.labels) // (TEXTS * rounds)
        mine = slice(number * self.clients * TEXTS, (number + 1) * self.clients * TEXTS)
        self.texts = Texts(texts.words[mine], texts.seen[mine], texts.labels[mine])
        self.text, place = np.nonzero(self.texts.seen)
        entries = self.text // TEXTS * WORDS + self.texts.words[self.text, place]
        entries, self.place = np.unique(entries, return_inverse=True)
        self.words = (entries % WORDS).astype(np.uint64)
        self.offsets = np.searchsorted(entries, np.arange(self.clients + 1) * WORDS)

    def gradients(self, weights: np.ndarray) -> VectorBatch:
        """Return the gradient of each client, every entry clipped to [-1, 1]."""
        values = np.bincount(self.place, self.texts.errors(weights)[self.text]).clip(-1, 1)
        return VectorBatch(self.offsets, self.words, values)


def largest(vectors: VectorBatch, sparsity: int) -> VectorBatch:
    """Return the `sparsity` entries of largest magnitude of each vector."""
    owners = vectors.owners
    # By client, then largest first; of equal ones the more common word, which noise hides least.
    order = np.argsort(2 * owners - np.abs(vectors.values), kind="stable")
    kept = np.sort(order[np.arange(len(order)) - vectors.offsets[owners] < sparsity])
    lengths = np.bincount(owners[kept], minlength=len(vectors))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return VectorBatch(offsets, vectors.indices[kept], vectors.values[kept])


def exact(vectors: VectorBatch, _: int = 0) -> tuple[np.ndarray, float]:
    """Return the mean gradient as no server should see it."""
    sums = np.bincount(vectors.indices.astype(np.int64), vectors.values, minlength=WORDS)
    return sums / len(vectors), 0.0


def private(plan: Plan, seed: int) -> Server:
    """Return a server that sees reports only."""

    def answer(vectors: VectorBatch, number: int) -> tuple[np.ndarray, float]:
        # Seeded, to repeat the experiment; real clients use `Client`, or `secure()` here.
        public, secret = (seeded(seed, f"{part} {number}") for part in ("public", "secret"))
        found = Reader(aggregate(plan, randomize_all(plan, vectors, public, secret))).estimate_all()
        return found.mean, found.null_stderr

    return answer


def dense(variance: float, generator: np.random.Generator) -> Server:
    """Return a server to which clients send all words, each with noise of that variance.

    The sum of thousands of clients' noise is close enough to normal here, and is drawn as such.
    """

    def answer(vectors: VectorBatch, _: int) -> tuple[np.ndarray, float]:
        error = math.sqrt(variance / len(vectors))
        return exact(vectors)[0] + generator.normal(0, error, WORDS), error

    return answer


def learn(server: Server, rounds: list[Round], held_out: Texts, sparsity: int) -> list[float]:
    """Return the accuracy on other texts after each round."""
    weights, curve = np.zeros(WORDS), [0.5]
    for number, clients in enumerate(rounds):
        vectors = clients.gradients(weights)
        if sparsity < WORDS:
            vectors = largest(vectors, sparsity)
        mean, error = server(vectors, number)
        weights = weights - STEP * np.where(np.abs(mean) > STRAY * error, mean, 0.0)
        curve.append(held_out.accuracy(weights))
    return curve


@dataclass(frozen=True)
class Method:
    """One way to learn, with what a report costs and how noisy it is."""

    name: str
    server: Server
    sparsity: int
    variance: float  # n·Var of an entry of the mean gradient
    bytes: int
    style: Style


def methods(clients: int, epsilon: float, sparsity: int, seed: int) -> list[Method]:
    """Return the servers to compare, for this many clients in each round."""
    wanted: dict[str, Any] = {
        "epsilon": epsilon,
        "sparsity": sparsity,
        "clients": clients,
        "universe": WORDS,
    }
    plan = make_plan(protect="user", salt=bytes(16), **wanted)
    # Two gradients of k entries in [-1, 1] are at most 2k apart in the L1 norm.
    reach = 2.0 * sparsity
    normal = make_plan(protect=f"l1:{reach:g}", delta=DELTA, mechanism="gaussian", **wanted)
    ours, theirs = mechanism_of(plan), mechanism_of(normal)
    generator = np.random.Generator(np.random.Philox(seed))
    laplace, gaussian = 2 * (reach / epsilon) ** 2, theirs.forecast.variance(0)
    # Dense noise sends an integer for each word, whatever its law.
    short, long = ours.layout.record_bytes, theirs.layout.record_bytes
    return [
        Method("no privacy", exact, WORDS, 0, 4 * WORDS, ("black", "", "-")),
        Method("no privacy, top k", exact, sparsity, 0, 6 * sparsity, ("black", "", "--")),
        Method("faintly", private(plan, seed), sparsity, ours.forecast.variance(0), short, BLUE),
        Method("dense Gaussian", dense(gaussian, generator), sparsity, gaussian, long, RED),
        Method("dense Laplace", dense(laplace, generator), sparsity, laplace, long, GREEN),
    ]


Curves = dict[str, np.ndarray]  # accuracy by method: a row for each run, a column for each round


def run(given: argparse.Namespace, seed: int) -> tuple[list[Method], list[list[float]]]:
    """Return the methods and the accuracy of each after each round, on texts of this seed."""
    generator = np.random.Generator(np.random.Philox(seed))
    texts, held_out = (Texts.made(n, generator) for n in (given.clients * TEXTS, 20_000))
    rounds = [Round(texts, number, given.rounds) for number in range(given.rounds)]
    compared = methods(rounds[0].clients, given.epsilon, given.sparsity, seed)
    return compared, [learn(one.server, rounds, held_out, one.sparsity) for one in compared]


def stderr(runs: np.ndarray) -> np.ndarray:
    """Return the standard error of the mean over runs; 0 for a single run."""
    return runs.std(axis=0, ddof=1) / math.sqrt(len(runs)) if len(runs) > 1 else 0 * runs[0]


def draw(curves: Curves, styles: dict[str, Style], title: str, path: Path) -> None:
    """Write the accuracy after each round as a picture."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7.6, 4), layout="constrained")
    # The legend lists the curves in the order of their ends.
    for name, runs in sorted(curves.items(), key=lambda one: -one[1].mean(axis=0)[-1]):
        colour, marker, line = styles[name]
        mean, error = runs.mean(axis=0), stderr(runs)
        label = f"{mean[-1]:.2f}  {name}"
        look: dict[str, Any] = {"color": colour, "marker": marker, "linestyle": line, "capsize": 3}
        axes.errorbar(range(len(mean)), mean, error, label=label, **look)
    axes.set(xlabel="round", ylabel="accuracy on other texts", title=title)
    axes.set_xticks(range(len(next(iter(curves.values()))[0])))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.02, 0.5))
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main() -> None:
    """Learn with every method, print a table and draw the curves."""
    parser = argparse.ArgumentParser(description="Federated learning with private gradients.")
    parser.add_argument("--clients", type=int, default=200_000, help="of all rounds together")
    parser.add_argument("--rounds", type=int, default=5, help="each client takes part in one")
    parser.add_argument("--epsilon", type=float, default=2.0, help="of all that a client sends")
    parser.add_argument("--sparsity", type=int, default=16, help="k, entries of a gradient")
    parser.add_argument("--runs", type=int, default=5, help="with fresh texts and fresh noise")
    parser.add_argument("--seed", type=int, default=1, help="of the first run")
    parser.add_argument("--out", type=Path, default=Path("federated.png"))
    given = parser.parse_args()
    started = time.perf_counter()
    done = [run(given, given.seed + number) for number in range(given.runs)]
    compared = done[0][0]
    curves = {one.name: np.array([c[i] for _, c in done]) for i, one in enumerate(compared)}
    print(f"{'method':18} {'n·Var':>7} {'bytes':>6}  {'± last':>6}  accuracy after each round")
    for one in compared:
        error, mean = stderr(curves[one.name])[-1], curves[one.name].mean(axis=0)
        shown = " ".join(f"{accuracy:.3f}" for accuracy in mean[1:])
        print(f"{one.name:18} {one.variance:7.1f} {one.bytes:6}  {error:6.3f}  {shown}")
    title = (
        f"{given.clients:,} clients, one round each, ε = {given.epsilon:g}, k = {given.sparsity}; "
        f"mean of {given.runs} runs"
    )
    draw(curves, {one.name: one.style for one in compared}, title, given.out)
    print(f"{given.out}: drawn; {time.perf_counter() - started:.0f} s in all")


if __name__ == "__main__":
    main()

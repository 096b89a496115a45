/** What Observable Plot draws. It is most of the page's weight, so it is loaded when a chart is shown. */
import { areaY, axisX, axisY, barX, barY, dot, gridX, gridY, lineY, plot, rectY, ruleX, ruleY } from "@observablehq/plot";
import type { Epoch, Estimates, Key, Row } from "./api.ts";
import { SERIES, type Svg } from "./charts.tsx";
import { brief, tick, visible } from "./format.ts";

const colour = (i: number) => `var(--series-${(i % SERIES) + 1})`;
const common = (width: number, height: number) => ({ width, height, marginTop: 12, marginRight: 8, marginBottom: 28 });

const HOUR = 3_600_000;

/** Reports in each of the last hours. */
export const hoursChart = (hours: number[], now: number, width: number): Svg => {
  const last = Math.floor((1000 * now) / HOUR);
  const rows = hours.map((reports, i) => {
    const start = (last - hours.length + 1 + i) * HOUR;
    return { start: new Date(start), end: new Date(start + HOUR), reports };
  });
  return plot({
    ...common(width, 150),
    marginRight: 24, // room for half of the last label
    y: { domain: [0, Math.max(1, ...hours)] },
    marks: [
      gridY({ ticks: 3, stroke: "var(--line)", strokeOpacity: 1 }),
      axisY({ ticks: 3, tickFormat: brief, tickSize: 0, label: null, color: "var(--soft)" }),
      axisX({ ticks: Math.min(8, width / 90), tickSize: 0, label: null, color: "var(--soft)" }),
      rectY(rows, { x1: "start", x2: "end", y: "reports", fill: "var(--accent)", insetLeft: 1 }),
    ],
  });
};

/** Sealed and pending reports of each epoch. */
export const epochsChart = (epochs: Epoch[], width: number): Svg => {
  const shown = epochs.slice(-Math.max(8, Math.floor(width / 16)));
  const rows = shown.flatMap(({ epoch, reports, pending }) => [
    { epoch, reports, fill: "var(--accent)" },
    { epoch, reports: pending, fill: "var(--pale)" },
  ]);
  const every = Math.ceil(shown.length / Math.max(2, width / 60));
  return plot({
    ...common(width, 150),
    x: { type: "band", padding: shown.length < 8 ? 0.6 : 0.2 },
    marks: [
      gridY({ ticks: 3, stroke: "var(--line)", strokeOpacity: 1 }),
      axisY({ ticks: 3, tickFormat: brief, tickSize: 0, label: null, color: "var(--soft)" }),
      axisX(
        shown.map((each) => each.epoch).filter((_, i) => i % every === 0),
        { tickSize: 0, label: null, color: "var(--soft)" },
      ),
      barY(rows, { x: "epoch", y: "reports", fill: "fill" }),
    ],
  });
};

/** Keys over epochs, each with its interval; the noise floor of the last epoch is shaded. */
export const historyChart = (epochs: Estimates[], keys: Key[], share: boolean, width: number): Svg => {
  const rows = epochs.flatMap(({ epoch, estimates }) =>
    estimates.map((row, i) => ({ epoch: Number(epoch), fill: colour(i), z: i, ...row })),
  );
  const floor = epochs.at(-1)!.noise_floor_all;
  const marks = keys.flatMap((_, i) => {
    const mine = rows.filter((row) => row.z === i);
    return [
      areaY(mine, { x: "epoch", y1: "low", y2: "high", fill: colour(i), fillOpacity: 0.15 }),
      ruleX(mine, { x: "epoch", y1: "low", y2: "high", stroke: colour(i), strokeOpacity: 0.6 }),
      lineY(mine, { x: "epoch", y: "mean", stroke: colour(i), strokeWidth: 2 }),
      dot(mine, { x: "epoch", y: "mean", fill: colour(i), r: 3 }),
    ];
  });
  const numbers = epochs.map((each) => Number(each.epoch));
  return plot({
    ...common(width, 240),
    marginLeft: 56,
    x: { domain: [Math.min(...numbers) - 0.5, Math.max(...numbers) + 0.5] },
    marks: [
      rectY([0], { y1: -floor, y2: floor, fill: "var(--floor)" }),
      ruleY([0], { stroke: "var(--soft)" }),
      axisY({ ticks: 5, tickFormat: (value) => tick(value, share), tickSize: 0, label: null, color: "var(--soft)" }),
      axisX({
        ticks: numbers.length > 12 ? 8 : numbers,
        tickFormat: (epoch) => (Number.isInteger(epoch) ? String(epoch) : ""),
        tickSize: 0,
        label: "epoch",
        color: "var(--soft)",
      }),
      ...marks,
    ],
  });
};

/** The first rows of a top list, as a picture to keep; the page itself draws them row by row. */
export const topChart = (rows: Row[], floor: number, share: boolean, width: number): Svg => {
  const shown = rows.map((row, i) => ({ ...row, name: `${i + 1}. ${visible(row.key, 32)}` }));
  const front = shown.filter((row) => row.posterior_mean != null);
  return plot({
    width,
    height: 40 + 22 * shown.length,
    marginLeft: 220,
    marginRight: 16,
    y: { type: "band", domain: shown.map((row) => row.name), padding: 0.25, label: null },
    x: { label: null },
    marks: [
      ruleX([0], { stroke: "var(--soft)" }),
      barX([0], { x1: -floor, x2: floor, fill: "var(--floor)" }),
      gridX({ stroke: "var(--line)", strokeOpacity: 1 }),
      axisX({ tickFormat: (value) => tick(value, share), tickSize: 0, color: "var(--soft)" }),
      axisY({ tickSize: 0, label: null, color: "var(--text)" }),
      barX(shown, { x: "mean", y: "name", fill: front.length ? "var(--pale)" : "var(--accent)" }),
      ruleY(shown, { x1: "low", x2: "high", y: "name", stroke: front.length ? "var(--soft)" : "var(--text)" }),
      barX(front, { x: "posterior_mean", y: "name", fill: "var(--accent)", insetTop: 4, insetBottom: 4 }),
      ruleY(front, { x1: "posterior_low", x2: "posterior_high", y: "name", stroke: "var(--text)", strokeWidth: 1.5 }),
    ],
  });
};

/** What somebody believed before a report, and may believe after it. */
export const beliefChart = (epsilon: number, prior: number, after: (prior: number, epsilon: number) => number, width: number): Svg => {
    const rows = Array.from({ length: 101 }, (_, i) => ({
      prior: i / 100,
      most: after(i / 100, epsilon),
      least: after(i / 100, -epsilon),
    }));
    const at = [{ prior, most: after(prior, epsilon), least: after(prior, -epsilon) }];
    const axis = { ticks: 5, tickFormat: (value: number) => `${Math.round(100 * value)} %`, tickSize: 0, color: "var(--soft)" };
    return plot({
      ...common(Math.min(width, 460), 240),
      marginLeft: 48,
      marginRight: 28,
      marginTop: 28,
      marginBottom: 36,
      x: { domain: [0, 1] },
      y: { domain: [0, 1] },
      marks: [
        gridY({ stroke: "var(--line)", strokeOpacity: 1 }),
        areaY(rows, { x: "prior", y1: "least", y2: "most", fill: "var(--accent)", fillOpacity: 0.15 }),
        lineY(rows, { x: "prior", y: "most", stroke: "var(--accent)" }),
        lineY(rows, { x: "prior", y: "least", stroke: "var(--accent)" }),
        lineY(rows, { x: "prior", y: "prior", stroke: "var(--soft)", strokeDasharray: "4 4" }),
        ruleX(at, { x: "prior", y1: "least", y2: "most", stroke: "var(--text)", strokeWidth: 2 }),
        dot(at, { x: "prior", y: "most", fill: "var(--text)", r: 4 }),
        axisX({ ...axis, label: "belief before" }),
        axisY({ ...axis, label: "belief after" }),
      ],
    });
  };

/** Reports a second, as this page saw them. */
export const rateChart = (samples: { at: number; rate: number }[], width: number): Svg =>
  plot({
    ...common(width, 150),
    y: { domain: [0, Math.max(1, ...samples.map((each) => each.rate))] },
    marks: [
      gridY({ ticks: 3, stroke: "var(--line)", strokeOpacity: 1 }),
      axisY({ ticks: 3, tickFormat: brief, tickSize: 0, label: null, color: "var(--soft)" }),
      axisX({ ticks: Math.min(6, width / 90), tickSize: 0, label: null, color: "var(--soft)" }),
      areaY(samples, { x: (each) => new Date(1000 * each.at), y: "rate", fill: "var(--accent)", fillOpacity: 0.15 }),
      lineY(samples, { x: (each) => new Date(1000 * each.at), y: "rate", stroke: "var(--accent)" }),
    ],
  });

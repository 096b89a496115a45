/** Charts as plain SVG: no style is in them, as the page's policy demands. */
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { brief } from "./format.ts";

export type Svg = SVGSVGElement | HTMLElement;
export type Plots = typeof import("./plots.ts");
export type Draw = (plots: Plots, width: number) => Svg;

export const WIDTH = 900; // of charts that are saved
export const SERIES = 8; // colours of keys that are compared; style.css has them for day and night

/** Show what `draw` draws, as wide as there is room; `label` says it in words. */
export function Chart({ draw, label }: { draw: Draw; label: string }) {
  const place = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const watch = new ResizeObserver(([entry]) => setWidth(Math.round(entry.contentRect.width)));
    watch.observe(place.current!);
    return () => watch.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (!width) return;
    let gone = false;
    drawn(draw, width, label).then((svg) => gone || place.current!.replaceChildren(svg));
    return () => {
      gone = true;
    };
  }, [draw, width, label]);
  return <div class="chart" ref={place} />;
}

/** Return a chart, without the style sheet that Plot puts into it. */
export async function drawn(draw: Draw, width: number, label: string): Promise<Svg> {
  const svg = draw(await import("./plots.ts"), width);
  for (const style of svg.querySelectorAll("style")) style.remove();
  for (const group of svg.querySelectorAll("[aria-label]")) group.removeAttribute("aria-label");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", label);
  return svg;
}

/** A small chart of the last hours, without a scale. Two paths, because a page may have hundreds of these. */
export function Spark({ hours }: { hours: number[] }) {
  const most = Math.max(1, ...hours);
  const total = hours.reduce((sum, each) => sum + each, 0);
  const bars = (some: boolean) =>
    hours.map((each, i) => {
      if (each > 0 !== some) return "";
      const height = 1 + (some ? Math.max(1.5, (22 * each) / most) : 0);
      return `M${3 * i} 24v${-height}h2v${height}z`;
    }).join("");
  return (
    <svg class="spark" viewBox={`0 0 ${hours.length * 3} 24`} preserveAspectRatio="none" role="img"
      aria-label={`${brief(total)} reports in ${hours.length} hours`}>
      <path d={bars(false)} class="none" />
      <path d={bars(true)} />
    </svg>
  );
}

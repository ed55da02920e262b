// Draws the demo's curves as one SVG picture.

interface Curve {
  readonly title: string;
  /** What the vertical axis shows. */
  readonly unit: string;
  /** One value per step. */
  readonly values: readonly number[];
}

const PANEL = { width: 360, height: 220, left: 52, right: 14, top: 38, bottom: 34 };
const COLUMNS = 2;

const escapeText = (text: string) =>
  text.replace(/[&<>]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[c]!);
const short = (x: number) =>
  Math.abs(x) >= 100 ? x.toFixed(0) : Math.abs(x) >= 10 ? x.toFixed(1) : x.toFixed(2);

/** A running mean over about a tenth of the curve, so that the trend shows through the noise. */
function smooth(values: readonly number[]): number[] {
  const reach = Math.max(1, Math.round(values.length / 20));
  return values.map((_, i) => {
    const window = values.slice(Math.max(0, i - reach), i + reach + 1);
    return window.reduce((a, b) => a + b, 0) / window.length;
  });
}

function panel(curve: Curve, x0: number, y0: number): string {
  const { width, height, left, right, top, bottom } = PANEL;
  const values = curve.values.filter(Number.isFinite);
  const low = Math.min(...values);
  const high = Math.max(...values, low + 1e-9);
  const x = (i: number) => x0 + left + (i / Math.max(values.length - 1, 1)) * (width - left - right);
  const y = (v: number) => y0 + height - bottom - ((v - low) / (high - low)) * (height - top - bottom);
  const line = (points: readonly number[]) =>
    points.map((v, i) => `${x(i).toFixed(1)},${y(v).toFixed(1)}`).join(" ");
  const ticks = [0, 0.5, 1].map((f) => low + f * (high - low));
  return [
    `<text class="title" x="${x0 + left}" y="${y0 + 22}">${escapeText(curve.title)} <tspan class="unit">${escapeText(curve.unit)}</tspan></text>`,
    ...ticks.map(
      (v) =>
        `<line class="grid" x1="${x0 + left}" x2="${x0 + width - right}" y1="${y(v)}" y2="${y(v)}"/>` +
        `<text class="tick" text-anchor="end" x="${x0 + left - 6}" y="${y(v) + 4}">${short(v)}</text>`,
    ),
    `<text class="tick" x="${x0 + left}" y="${y0 + height - 14}">step 1</text>`,
    `<text class="tick" text-anchor="end" x="${x0 + width - right}" y="${y0 + height - 14}">${values.length}</text>`,
    `<polyline class="raw" points="${line(values)}"/>`,
    `<polyline class="trend" points="${line(smooth(values))}"/>`,
  ].join("\n");
}

/** The curves as the text of an SVG file, two to a row. */
export function drawCurves(curves: readonly Curve[]): string {
  const rows = Math.ceil(curves.length / COLUMNS);
  const width = COLUMNS * PANEL.width;
  const height = rows * PANEL.height;
  const panels = curves.map((curve, i) =>
    panel(curve, (i % COLUMNS) * PANEL.width, Math.floor(i / COLUMNS) * PANEL.height),
  );
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}">
<style>
text { font: 12px system-ui, sans-serif; fill: #333 }
.title { font-weight: 600; font-size: 14px }
.unit { font-weight: 400; fill: #666; font-size: 12px }
.tick { fill: #666; font-size: 11px }
.grid { stroke: #ddd }
polyline { fill: none; stroke-linejoin: round }
.raw { stroke: #9ec1e6; stroke-width: 1 }
.trend { stroke: #1660b0; stroke-width: 2 }
</style>
<rect width="100%" height="100%" fill="#fff"/>
${panels.join("\n")}
</svg>
`;
}

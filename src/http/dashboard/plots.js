// Small plots of what the gateway sampled.

const [PLOT_WIDTH, PLOT_HEIGHT] = [119, 24];

/** The runs of samples between gaps, as points. */
function runs(values, highest) {
  const first = PLOT_WIDTH + 1 - values.length;
  const found = [[]];
  values.forEach((value, index) => {
    if (value === null) return found.push([]);
    const y = PLOT_HEIGHT - (highest === 0 ? 0 : (value / highest) * (PLOT_HEIGHT - 2));
    return found.at(-1).push([first + index, Number(y.toFixed(2))]);
  });
  return found.filter((run) => run.length > 0);
}

const line = (run) => `M${run.map(([x, y]) => `${x},${y}`).join("L")}`;

function area(run) {
  const [left, right] = [run[0][0], run.at(-1)[0]];
  return `${line(run)}L${right},${PLOT_HEIGHT}L${left},${PLOT_HEIGHT}Z`;
}

/** A sample alone is a short stroke. */
const widened = (run) => (run.length > 1 ? run : [[run[0][0] - 1, run[0][1]], run[0]]);

/** One value of one queue over a span of time; says in words what it shows. */
function plot(name, values, over, inWords) {
  const known = (values ?? []).filter((value) => value !== null);
  if (known.length === 0) return undefined;
  const highest = Math.max(...known);
  const drawn = runs(values, highest).map(widened);
  const label = `${name} over ${over}: highest ${inWords(highest)}, last ${inWords(known.at(-1))}`;
  return svg(
    "svg",
    { class: "plot", role: "img", "aria-label": label, viewBox: `0 0 ${PLOT_WIDTH} ${PLOT_HEIGHT}`, preserveAspectRatio: "none" },
    drawn.map((run) => svg("path", { class: "area", d: area(run) })),
    drawn.map((run) => svg("path", { class: "stroke", d: line(run) })),
  );
}

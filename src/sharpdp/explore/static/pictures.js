// Pictures as SVG: bars of brackets, and curves with bands. Colors come from classes of style.css.

const SVG = "http://www.w3.org/2000/svg";

export function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function shape(name, attributes = {}, text = null) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== null) node.textContent = text;
  return node;
}

function canvas(width, height, label) {
  return shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
}

// A number in digits: rounded up (way 1), down (way -1), or to the nearest. The rule is that of outward_digits.py.
export function shown(value, way = 0, digits = 6) {
  if (value === null || value === undefined) return "∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  let near = Number(value.toPrecision(digits));
  if ((near - value) * way < 0) near = Number((near + way * 10 ** (Math.floor(Math.log10(size)) + 1 - digits)).toPrecision(digits));
  return size < 1e15 && size >= 1e-4 ? String(near) : near.toExponential().replace("e+", "e");
}

// The place of the number that is closest to x.
export function nearest(numbers, x) {
  return numbers.reduce((best, value, index) => (Math.abs(value - x) < Math.abs(numbers[best] - x) ? index : best), 0);
}

function ticks(low, high) {
  const raw = (high - low) / 5;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((part) => part * power).find((part) => part >= raw);
  const marks = [];
  for (let mark = Math.ceil(low / step) * step; mark <= high * (1 + 1e-9); mark += step) {
    marks.push(Number(mark.toPrecision(12)));
  }
  return marks;
}

// Powers of ten; over a short range also their doubles and halves.
function decades(low, high) {
  const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
  const step = Math.max(1, Math.ceil((last - first) / 7));
  const within = [1, 2, 5].slice(0, last - first <= 3 ? 3 : 1);
  const marks = [];
  for (let power = first; power <= last; power += step) marks.push(...within.map((part) => Number(`${part}e${power}`)));
  return marks.filter((mark) => mark >= low * (1 - 1e-9) && mark <= high * (1 + 1e-9));
}

// Horizontal bars: full up to the lower end, pale up to the upper one.
export function bars(rows, { label, target = null, yours = null }) {
  const narrow = window.innerWidth < 560;
  const width = narrow ? 380 : 720, left = narrow ? 138 : 178, right = narrow ? 96 : 108, height = 28 * rows.length + 34;
  const picture = canvas(width, height, label);
  const finite = rows.map((row) => row.upper).filter((value) => value !== null && value !== undefined);
  const most = (Math.max(...finite, target ?? 0) || 1) * 1.02; // all of them may be zero
  const across = (value) => left + ((width - left - right) * Math.min(value, most)) / most;
  for (const mark of ticks(0, most)) {
    picture.append(shape("line", { class: "grid", x1: across(mark), x2: across(mark), y1: 4, y2: height - 26 }));
    picture.append(shape("text", { class: "soft", x: across(mark), y: height - 9, "text-anchor": "middle" }, shown(mark)));
  }
  rows.forEach((row, index) => {
    const y = 8 + 28 * index;
    const group = shape("g", row.name === yours ? { class: "yours" } : {});
    group.append(shape("title", {}, row.note ?? row.reason ?? row.name));
    group.append(shape("text", { x: left - 8, y: y + 14, "text-anchor": "end" }, row.name));
    if (row.lower === undefined) {
      group.append(shape("text", { class: "soft", x: left + 4, y: y + 14 }, "not covered by a theorem"));
    } else {
      const low = across(row.lower ?? most), high = across(row.upper ?? most);
      group.append(shape("rect", { class: "open", x: left, y, width: Math.max(high - left, 1), height: 19, rx: 2 }));
      group.append(shape("rect", { class: "sure", x: left, y, width: Math.max(low - left, 1), height: 19, rx: 2 }));
      group.append(shape("text", { x: high + 6, y: y + 14 }, row.shown));
    }
    picture.append(group);
  });
  if (target !== null) {
    const x = across(target);
    picture.append(shape("line", { class: "target", x1: x, x2: x, y1: 2, y2: height - 26, "stroke-width": 2 }));
  }
  return picture;
}

// Curves with bands; series are {label, x, lower, upper}, null where a value is infinite. Marks are lines at an x or
// y with a word. picture.follow(read, pick) calls back where one points at, or moves with arrow keys, and picks.
export function curves(series, { label, xLabel, yLabel, xLog = false, yLog = false, diagonal = false, marks = [], square = false, low = false }) {
  const narrow = window.innerWidth < 560;
  const width = narrow ? 360 : square ? 560 : 720, height = low ? 260 : narrow ? 340 : square ? 520 : 400;
  const left = narrow ? 56 : 66, right = 16, top = 12, bottom = 48;
  const picture = canvas(width, height, label);
  const inside = (value, log) => value !== null && Number.isFinite(value) && (!log || value > 1e-300);
  const heights = series.flatMap((line) => [...line.lower, ...line.upper]);
  yLog &&= heights.some((value) => inside(value, true)); // zeros alone have no logarithms
  const xs = series.flatMap((line) => line.x).filter((value) => inside(value, xLog));
  const ys = heights.filter((value) => inside(value, yLog));
  const range = (values, log) => {
    const all = log ? values : [0, ...values];
    const low = Math.min(...all), high = Math.max(...all);
    if (log) return high > low ? [Math.max(low, high * 1e-16), high] : [low / 2, high * 2];
    return [low, high > low ? high : low + 1];
  };
  const [x0, x1] = range(xs, xLog), [y0, y1] = square ? [0, 1] : range(ys, yLog);
  const part = (value, low, high, log) =>
    log ? Math.log(Math.max(value, low) / low) / Math.log(high / low) : (value - low) / (high - low);
  const across = (value) => left + (width - left - right) * part(value, x0, x1, xLog);
  const down = (value) => height - bottom - (height - top - bottom) * Math.min(1.02, part(value, y0, y1, yLog));
  for (const mark of xLog ? decades(x0, x1) : ticks(x0, x1)) {
    picture.append(shape("line", { class: "grid", x1: across(mark), x2: across(mark), y1: top, y2: height - bottom }));
    picture.append(shape("text", { class: "soft", x: across(mark), y: height - bottom + 17, "text-anchor": "middle" }, shown(mark)));
  }
  for (const mark of yLog ? decades(y0, y1) : ticks(y0, y1)) {
    picture.append(shape("line", { class: "grid", x1: left, x2: width - right, y1: down(mark), y2: down(mark) }));
    picture.append(shape("text", { class: "soft", x: left - 6, y: down(mark) + 4, "text-anchor": "end" }, shown(mark)));
  }
  picture.append(shape("text", { x: (left + width - right) / 2, y: height - 8, "text-anchor": "middle" }, xLabel));
  const middle = (top + height - bottom) / 2;
  picture.append(shape("text", { x: 14, y: middle, "text-anchor": "middle", transform: `rotate(-90 14 ${middle})` }, yLabel));
  if (diagonal) {
    picture.append(shape("line", { class: "guess", x1: across(0), y1: down(1), x2: across(1), y2: down(0) }));
  }
  series.forEach((line, index) => {
    const group = shape("g", { class: `line-${line.color ?? index}${line.dashed ? " dashed" : ""}` });
    group.append(shape("title", {}, line.row ? `${line.label}: ${line.row.condition}` : line.label));
    const kept = line.x.map((x, i) => [x, line.lower[i], line.upper[i] ?? y1 * (yLog ? 1 : 1.05)])
      .filter(([x, low]) => inside(x, xLog) && low !== null);
    const floor = (value) => (yLog ? Math.max(value, y0) : value);
    const upper = kept.map(([x, , high]) => `${across(x).toFixed(2)},${down(floor(high)).toFixed(2)}`);
    const lower = kept.map(([x, low]) => `${across(x).toFixed(2)},${down(floor(low)).toFixed(2)}`);
    if (!line.dashed) group.append(shape("polygon", { class: "band", points: [...upper, ...lower.slice().reverse()].join(" ") }));
    group.append(shape("polyline", { class: "curve", points: (line.safe === "lower" ? lower : upper).join(" ") }));
    picture.append(group);
  });
  let uprights = 0; // the words of each upright line stand lower than those of the one before
  for (const mark of marks) {
    const [at, ends] = mark.x !== undefined
      ? [mark.x >= x0 && mark.x <= x1, { x1: across(mark.x), x2: across(mark.x), y1: top, y2: height - bottom }]
      : [mark.y >= y0 && mark.y <= y1, { x1: left, x2: width - right, y1: down(mark.y), y2: down(mark.y) }];
    if (!at) continue;
    const words = mark.x !== undefined ? { x: ends.x1 - 4, y: top + 12 + 14 * uprights++, "text-anchor": "end" } : { x: left + 4, y: ends.y1 - 4 };
    picture.append(shape("line", { class: "target", "stroke-width": 1.6, ...ends }), shape("text", { class: "soft word", ...words }, mark.words));
  }
  const guide = shape("line", { class: "axis", y1: top, y2: height - bottom, visibility: "hidden" });
  picture.append(guide);
  let current = xLog ? Math.sqrt(x0 * x1) : (x0 + x1) / 2;
  const at = (share) => (xLog ? x0 * (x1 / x0) ** share : x0 + (x1 - x0) * share);
  picture.guide = (x) => {
    current = x;
    guide.setAttribute("x1", across(x));
    guide.setAttribute("x2", across(x));
    guide.setAttribute("visibility", "visible");
  };
  picture.follow = (read, pick = () => {}) => {
    picture.setAttribute("tabindex", "0");
    picture.addEventListener("pointermove", (event) => {
      const box = picture.getBoundingClientRect();
      const place = ((event.clientX - box.left) / box.width) * width;
      picture.guide(at(Math.min(1, Math.max(0, (place - left) / (width - left - right)))));
      read(current);
    });
    picture.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 0.02, ArrowLeft: -0.02 }[event.key];
      if (event.key === "Enter") pick(current);
      if (!step) return;
      event.preventDefault();
      picture.guide(at(Math.min(1, Math.max(0, part(current, x0, x1, xLog) + step))));
      read(current);
    });
    picture.addEventListener("click", () => pick(current));
  };
  return picture;
}

// The picture as a file of its own, in the colors of paper: the styles that count are written into it.
export function standalone(picture) {
  const copy = picture.cloneNode(true);
  copy.classList.add("paper");
  document.body.append(copy); // styles are known of what is in the page
  for (const node of [copy, ...copy.querySelectorAll("*")]) {
    const style = getComputedStyle(node);
    for (const name of ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "paint-order", "visibility"]) {
      if (node !== copy) node.setAttribute(name, style.getPropertyValue(name));
    }
    if (node.tagName === "text") node.setAttribute("font-family", "sans-serif"), node.setAttribute("font-size", "12");
  }
  copy.remove();
  copy.setAttribute("xmlns", SVG);
  return new XMLSerializer().serializeToString(copy);
}

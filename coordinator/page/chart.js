// Charts as inline SVG, drawn at the width they have, each with a sentence and a table that say the
// same.

import {Table, h, setText, svg} from './dom.js';

const HEIGHT = 240;
const MARGIN = {top: 12, right: 16, bottom: 40, left: 64};
const LOG_FROM = 20; // a range of more than this is shown by magnitudes
let charts = 0;

// Round numbers between the ends, about `wanted` of them.
function ticks(low, high, wanted) {
  if (!(high > low)) return [low];
  const raw = (high - low) / wanted;
  const size = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((factor) => factor * size >= raw) * size;
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-6; at += step) found.push(at);
  return found;
}

function magnitudes(low, high) {
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
    for (const factor of high / low > 1e3 ? [1] : [1, 3]) {
      const at = factor * 10 ** power;
      if (at >= low && at <= high) found.push(at);
    }
  }
  return found;
}

function linear(low, high, from, to, wanted) {
  const place = (value) => from + ((value - low) / (high - low || 1)) * (to - from);
  return {place, ticks: ticks(low, high, wanted)};
}

function logarithmic(low, high, from, to) {
  const [a, b] = [Math.log10(low), Math.log10(high)];
  const place = (value) => from + ((Math.log10(value) - a) / (b - a || 1)) * (to - from);
  return {place, ticks: magnitudes(low, high)};
}

class Chart {
  constructor(title, columns) {
    const id = `chart-${++charts}`;
    this.drawing = svg('svg', {role: 'img', 'aria-labelledby': `${id}-title ${id}-text`});
    this.titleNode = svg('title', {id: `${id}-title`}, title);
    this.words = h('figcaption', {id: `${id}-text`});
    this.table = new Table(title, columns, (row) => row.key);
    this.table.element.classList.remove('cards');
    this.details = h('details', {}, h('summary', {}, 'The same as a table'),
      h('div', {class: 'scroll', role: 'region', tabindex: '0', 'aria-label': `${title}, table`},
        this.table.element));
    this.details.addEventListener('toggle', () => this.fillTable());
    this.element = h('figure', {class: 'chart'}, this.drawing, this.words, this.details);
    this.width = 0;
    this.shown = '';
    new ResizeObserver((entries) => {
      const width = Math.floor(entries[0].contentRect.width);
      if (width === this.width || width === 0) return;
      this.width = width;
      this.redraw();
    }).observe(this.element);
  }

  update(data) {
    const shown = JSON.stringify(data);
    if (shown === this.shown) return;
    this.shown = shown;
    this.data = data;
    setText(this.words, this.sentence(data));
    this.fillTable();
    this.redraw();
  }

  // Rows that nobody looks at need not be there.
  fillTable() {
    if (this.details.open && this.data) this.table.update(this.tableRows(this.data));
  }

  redraw() {
    if (!this.data || this.width === 0) return;
    const area = {
      left: MARGIN.left, right: this.width - MARGIN.right, top: MARGIN.top,
      bottom: HEIGHT - MARGIN.bottom,
    };
    this.drawing.setAttribute('viewBox', `0 0 ${this.width} ${HEIGHT}`);
    this.drawing.setAttribute('height', HEIGHT);
    this.drawing.replaceChildren(this.titleNode, ...this.draw(this.data, area));
  }

  axes(x, y, area, format, labels) {
    const parts = [];
    for (const at of y.ticks) {
      const place = y.place(at);
      parts.push(svg('line', {class: 'grid', x1: area.left, x2: area.right, y1: place, y2: place}));
      parts.push(svg('text', {class: 'tick', x: area.left - 8, y: place + 4, 'text-anchor': 'end'},
        format.y(at)));
    }
    let free = -Infinity;
    for (const at of x.ticks) {
      const place = x.place(at);
      if (place < free) continue;
      free = place + 56;
      parts.push(svg('line', {class: 'grid', x1: place, x2: place, y1: area.bottom,
        y2: area.bottom + 4}));
      parts.push(svg('text', {class: 'tick', x: place, y: area.bottom + 18,
        'text-anchor': 'middle'}, format.x(at)));
    }
    parts.push(svg('line', {class: 'axis', x1: area.left, x2: area.right, y1: area.bottom,
      y2: area.bottom}));
    parts.push(svg('text', {class: 'label', x: area.right, y: HEIGHT - 4, 'text-anchor': 'end'},
      labels.x));
    return parts;
  }
}

// How the best time fell, and what the search expected. data: {points: [[x, best ns, expected ns],
// ...], plain: ns or 0, x: its unit}; a time of 0 is not known. The best is of a whole program that
// was measured, so it never rises; what is expected is estimated from the parts.
export class CurveChart extends Chart {
  constructor(format) {
    super('Best time so far', [
      {title: 'After', value: (row) => row.x},
      {title: 'Best time', value: (row) => row.best, number: true},
      {title: 'Expected', value: (row) => row.expected, number: true},
    ]);
    this.format = format;
  }

  sentence({points, plain, x}) {
    const measured = points.filter(([, best]) => best > 0);
    if (measured.length === 0) return 'No whole program has been measured yet.';
    const [first, last] = [measured[0], measured[measured.length - 1]];
    const {y} = this.format;
    const now = last[2] > 0 && last[2] !== last[1] ? `: ${y(last[2])} now` : '';
    const dotted = points.some(([, , expected]) => expected > 0) ? ' The dotted line is what the parts ' +
      `found so far are expected to take together${now}.` : '';
    const than = plain > 0 ? ` The plain plan takes ${y(plain)} (dashed line).` : '';
    return `From ${y(first[1])} after ${this.at(first[0], x)} to ${y(last[1])} after ` +
      `${this.at(last[0], x)}.${than}${dotted}`;
  }

  at(value, x) {
    return x === 'time' ? this.format.time(value)
      : this.format.some(value, 'candidate');
  }

  tableRows({points, x}) {
    return points.map(([at, best, expected], index) => ({
      key: index, x: this.at(at, x), best: this.format.y(best), expected: this.format.y(expected),
    }));
  }

  // One of the two curves, from where it is known.
  steps(all, column, name, x, y) {
    const known = all.filter((point) => point[column] > 0);
    if (known.length === 0) return [];
    let path = `M${x.place(known[0][0])} ${y.place(known[0][column])}`;
    for (const point of known.slice(1)) path += `H${x.place(point[0])}V${y.place(point[column])}`;
    return [svg('path', {class: name, d: path})];
  }

  draw({points, plain, x: unit}, area) {
    if (points.length === 0) return [];
    const times = points.flatMap(([, best, expected]) => [best, expected]).concat([plain])
      .filter((ns) => ns > 0);
    const [low, high] = [Math.min(...times), Math.max(...times)];
    const last = points[points.length - 1];
    const x = linear(0, Math.max(last[0], 1), area.left, area.right, area.right / 90);
    const y = high / low > LOG_FROM ? logarithmic(low * 0.9, high * 1.1, area.bottom, area.top)
      : linear(0, high * 1.05, area.bottom, area.top, 4);
    const {y: time} = this.format;
    const format = {y: (ns) => (ns > 0 ? time(ns) : '0'), x: unit === 'time' ? this.format.time : this.format.count};
    const parts = this.axes(x, y, area, format,
      {x: unit === 'time' ? 'time since the job began' : 'candidates measured'});
    if (plain > 0) {
      const place = y.place(plain);
      parts.push(svg('line', {class: 'plain', x1: area.left, x2: area.right, y1: place, y2: place}));
      parts.push(svg('text', {class: 'tick', x: area.right, y: place - 5, 'text-anchor': 'end'},
        'plain plan'));
    }
    parts.push(...this.steps(points, 2, 'curve guess', x, y));
    parts.push(...this.steps(points, 1, 'curve', x, y));
    if (last[1] > 0) {
      parts.push(svg('circle', {class: 'end', cx: x.place(last[0]), cy: y.place(last[1]), r: 3.5}));
    }
    return parts;
  }
}

// What was predicted against what was measured. data: [[name, predicted ns, measured ns], ...].
export class PredictionChart extends Chart {
  constructor(format) {
    super('Predicted against measured time', [
      {title: 'Candidate', value: (row) => row.name},
      {title: 'Predicted', value: (row) => row.predicted, number: true},
      {title: 'Measured', value: (row) => row.measured, number: true},
    ]);
    this.format = format;
  }

  sentence(points) {
    if (points.length === 0) return 'No candidate has both a prediction and a measurement yet.';
    const off = points.map(([, predicted, measured]) =>
      Math.max(predicted, measured) / Math.min(predicted, measured)).sort((a, b) => a - b);
    return `${this.format.some(points.length, 'candidate')}. Half of them took what was predicted ` +
      `within a factor of ${off[Math.floor(off.length / 2)].toFixed(2)}; on the dashed line the ` +
      'prediction was right.';
  }

  tableRows(points) {
    return points.map(([name, predicted, measured]) => ({
      key: name, name, predicted: this.format.y(predicted), measured: this.format.y(measured),
    }));
  }

  draw(points, area) {
    if (points.length === 0) return [];
    const all = points.flatMap(([, predicted, measured]) => [predicted, measured]);
    const [low, high] = [Math.min(...all) * 0.8, Math.max(...all) * 1.25];
    const x = logarithmic(low, high, area.left, area.right);
    const y = logarithmic(low, high, area.bottom, area.top);
    const parts = this.axes(x, y, area, {x: this.format.y, y: this.format.y},
      {x: 'predicted time; upwards: measured'});
    parts.push(svg('line', {class: 'plain', x1: x.place(low), y1: y.place(low), x2: x.place(high),
      y2: y.place(high)}));
    for (const [, predicted, measured] of points) {
      parts.push(svg('circle', {class: 'point', cx: x.place(predicted), cy: y.place(measured),
        r: 3}));
    }
    return parts;
  }
}

// Parts of a whole as one bar. data: [[name, count, tone], ...]; the words beside it say the same.
export function shareBar(parts) {
  const all = parts.reduce((sum, [, number]) => sum + number, 0);
  const bar = svg('svg', {class: 'shares', viewBox: '0 0 100 6', preserveAspectRatio: 'none',
    'aria-hidden': 'true'});
  let at = 0;
  for (const [, number, tone] of parts) {
    if (number === 0 || all === 0) continue;
    const width = (100 * number) / all;
    bar.append(svg('rect', {class: tone, x: at, y: 0, width, height: 6}));
    at += width;
  }
  return bar;
}

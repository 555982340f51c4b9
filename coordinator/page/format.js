// Numbers as people read them.

export function duration(ns) {
  if (!(ns > 0)) return '–';
  const units = [['ns', 1], ['µs', 1e3], ['ms', 1e6], ['s', 1e9]];
  let [name, size] = units[0];
  for (const unit of units) {
    if (ns >= unit[1]) [name, size] = unit;
  }
  if (name === 's' && ns >= 120e9) return span(ns / 1e6);
  const value = ns / size;
  return `${value >= 100 || size === 1 ? Math.round(value) : value.toPrecision(3)} ${name}`;
}

// Of the clock on the wall: "4 s", "3 min 20 s", "2 h 5 min".
export function span(ms) {
  if (!(ms >= 0)) return '–';
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = Math.round(ms / 1000);
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export function bytes(count) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let value = count;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

const grouped = new Intl.NumberFormat('en');
export function count(number) {
  return grouped.format(number ?? 0);
}

// "1 plan", "2 plans".
export function some(number, what) {
  return `${count(number)} ${what}${number === 1 ? '' : 's'}`;
}

export function percent(part, whole) {
  return whole > 0 ? `${Math.round((100 * part) / whole)} %` : '–';
}

// How much faster the best is than the plain plan.
export function gain(best, plain) {
  return best > 0 && plain > 0 ? `${(plain / best).toFixed(2)}×` : '–';
}

export function shortId(hex) {
  return String(hex ?? '').slice(0, 12);
}

// Since 1970, in nanoseconds.
export function when(ns) {
  return ns > 0 ? new Date(ns / 1e6).toLocaleString() : '–';
}

export function clock(date) {
  return date.toLocaleTimeString();
}

const TONES = {
  ok: 'good', done: 'good', compile_error: 'warn', wrong: 'bad', crash: 'bad', hang: 'bad',
  infra: 'warn', failed: 'bad', cancelled: 'calm', pending: 'calm', open: 'calm',
};

export function pill(word) {
  return {text: String(word).replaceAll('_', ' '), tone: TONES[word] ?? 'calm'};
}

export function jobTitle(job) {
  return job.name ? `${job.name}` : `graph ${shortId(job.graph)}`;
}

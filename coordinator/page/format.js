// Numbers as people read them.

// Three significant digits and a unit; halves are rounded up. As common/base/units.cc prints.
function scaled(value, unit) {
  const digits = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  const ones = 10 ** digits;
  return `${(Math.floor(value * ones + 0.5) / ones).toFixed(digits)} ${unit}`;
}

// "77.9 us", "1.23 ms", "7.80 s", "3 min 20 s", "2 h 5 min", "4 d 5 h"; what nobody knows is 0.
export function duration(ns) {
  if (!(ns > 0)) return '–';
  if (ns < 999.5) return scaled(ns, 'ns');
  if (ns < 999.5e3) return scaled(ns / 1e3, 'us');
  if (ns < 999.5e6) return scaled(ns / 1e6, 'ms');
  if (ns < 119.5e9) return scaled(ns / 1e9, 's');
  const seconds = Math.floor(ns / 1e9 + 0.5);
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

// Of the clock on the wall, where 0 is a time too.
export function span(ms) {
  if (!(ms >= 0)) return '–';
  return ms === 0 ? '0 s' : duration(ms * 1e6);
}

// "12 bytes", "12.3 MiB".
export function bytes(count) {
  if (count < 1024) return `${count} bytes`;
  const units = ['KiB', 'MiB', 'GiB', 'TiB'];
  let value = count / 1024;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return scaled(value, units[unit]);
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

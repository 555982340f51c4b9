// What the farm remembers, who asked for it, and what it saved.

import {get} from './api.js';
import {Facts, Table, empty, h, pageTitle, section, setText} from './dom.js';
import {bytes, count, percent, some, span} from './format.js';
import {words} from './words.js';

const POLL_MS = 10_000;
const RESULTS = [
  ['hit', 'From the cache'], ['shared', 'From another farm'], ['partial', 'Searched, partly known'],
  ['miss', 'Searched from nothing'], ['none', 'Not there'],
];

function tierRows(cache) {
  const rows = [{
    tier: 'This farm\'s store', holds: `${some(cache.plans.count, 'plan')}, ` +
      some(cache.kernels.count, 'object'), hits: cache.hits, misses: cache.misses,
    note: `${bytes(cache.disk_bytes)} on disk`,
  }];
  if (cache.remote) {
    rows.push({
      tier: 'Shared store', holds: cache.remote.address, hits: cache.remote.hits,
      misses: cache.remote.misses,
      note: `${cache.remote.state}; ${some(cache.remote.offered, 'plan')} offered, ` +
        `${count(cache.remote.refused)} refused`,
    });
  }
  rows.push({
    tier: 'Workers\' compiled kernels', holds: 'since the coordinator started',
    hits: cache.kernels_found, misses: cache.kernels_compiled, note: 'misses were compiled',
  });
  return rows;
}

function tenantRows(cache) {
  const names = new Set([...Object.keys(cache.tenants ?? {}), ...Object.keys(cache.requests ?? {})]);
  return [...names].sort().map((name) => ({
    name, usage: cache.tenants?.[name] ?? {}, requests: cache.requests?.[name] ?? {},
  }));
}

export class CacheView {
  constructor() {
    this.title = 'Cache and reuse';
    this.tiles = new Facts('tiles');
    this.holds = new Facts('facts');
    this.tiers = new Table('Where answers come from', [
      {title: 'Tier', value: (row) => row.tier, wide: true},
      {title: 'Holds', value: (row) => row.holds},
      {title: 'Hits', value: (row) => count(row.hits), number: true},
      {title: 'Misses', value: (row) => count(row.misses), number: true},
      {title: 'Hit rate', value: (row) => percent(row.hits, row.hits + row.misses), number: true},
      {title: 'Also', value: (row) => row.note, wide: true},
    ], (row) => row.tier);
    this.tenants = new Table('Plans asked for since the coordinator started, by tenant', [
      {title: 'Tenant', value: (row) => row.name, wide: true},
      ...RESULTS.map(([key, title]) => ({title, value: (row) => count(row.requests[key]),
        number: true})),
      {title: 'Hits ever', value: (row) => count(row.usage.hits), number: true},
      {title: 'Saved', value: (row) => span(row.usage.saved_ms ?? 0), number: true},
      {title: 'Workers\' time, 24 h', value: (row) => span(row.usage.used_24h_ms ?? 0),
        number: true},
      {title: 'Quota', value: (row) => (row.usage.quota_s ? span(row.usage.quota_s * 1000)
        : 'none'), number: true},
    ], (row) => row.name);
    this.more = h('p', {class: 'more', hidden: true});
    this.none = empty('Nobody has asked for a plan yet. `lfarm submit model.pt2` does.');
    this.element = h('div', {}, pageTitle('Cache and reuse'),
      h('p', {class: 'lead'}, 'What the farm keeps, so that nothing is searched or compiled twice.'),
      this.tiles.element,
      section('Tiers', this.tiers.element),
      section('Tenants', this.tenants.element, this.more, this.none),
      section('What is kept', this.holds.element),
      words('Hit', 'Tier', 'Searches saved', 'Tenant', 'Workers\' time, 24 h'));
  }

  interval() {
    return POLL_MS;
  }

  async refresh(signal) {
    const cache = await get('cache', signal);
    this.tiles.update([
      ['Hit rate', percent(cache.hits, cache.hits + cache.misses)],
      ['Plans', count(cache.plans.count)],
      ['Searches saved', span(cache.saved_ms)],
      ['Kernels not compiled again', percent(cache.kernels_found,
        cache.kernels_found + cache.kernels_compiled)],
      ['On disk', bytes(cache.disk_bytes)],
    ]);
    this.tiers.update(tierRows(cache));
    const tenants = tenantRows(cache);
    this.tenants.update(tenants);
    this.tenants.element.hidden = tenants.length === 0;
    this.none.hidden = tenants.length !== 0;
    this.more.hidden = !cache.omitted;
    setText(this.more, `The first ${count(tenants.length)} of ` +
      `${count(tenants.length + (cache.omitted ?? 0))}; lfarm cache stats lists all.`);
    const family = (name) => `${count(cache[name].count)}, ${bytes(cache[name].bytes)}`;
    this.holds.update([
      ['Plans', family('plans')],
      ['Objects and recipes', family('kernels')],
      ['Measurements', family('measurements')],
      ['Known failures', family('negatives')],
      ['Journals', family('jobs')],
      ['Damaged files set aside', count(cache.damaged_files)],
    ]);
  }
}

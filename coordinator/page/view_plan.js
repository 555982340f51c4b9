// The cache's plans, and one plan with its kernels and their source.

import {get} from './api.js';
import {Facts, Table, empty, h, pageTitle, section, setText} from './dom.js';
import {count, duration, gain, jobTitle, shortId, span, when} from './format.js';
import {Pager} from './view_overview.js';
import {words} from './words.js';

const POLL_MS = 10_000;
const FIXED_MS = 30_000;
const JOBS_MAX = 200;

// The latest job that found each plan, by the plan: a plan does not know how its model is called.
async function jobsByPlan(signal) {
  const {rows} = await get(`jobs?count=${JOBS_MAX}`, signal);
  return new Map(rows.filter((job) => job.plan).reverse().map((job) => [job.plan, job]));
}

export class PlansView {
  constructor() {
    this.title = 'Plans';
    this.jobs = new Map();
    this.table = new Table('Plans of the cache, the newest first', [
      {title: 'Plan', value: (plan) => ({text: shortId(plan.plan), href: `#/plans/${plan.plan}`})},
      {title: 'Model', value: (plan) => this.jobs.get(plan.plan)?.name || '–', wide: true},
      {title: 'Graph', value: (plan) => ({text: shortId(plan.graph), mono: true,
        title: plan.graph})},
      {title: 'Target', value: (plan) => plan.target, short: true},
      {title: 'Tenant', value: (plan) => plan.tenant},
      {title: 'Kernels', value: (plan) => count(plan.kernels), number: true},
      {title: 'Time', value: (plan) => duration(plan.best_ns), number: true},
      {title: 'Gain', value: (plan) => gain(plan.best_ns, plan.baseline_ns), number: true},
      {title: 'Found in', value: (plan) => span(plan.search_ms), number: true},
      {title: 'Last used', value: (plan) => when(plan.used_ns), number: true},
    ], (plan) => plan.plan);
    this.none = empty('The cache holds no plan yet. `lfarm submit model.pt2` finds one; ' +
      '`lfarm plan import FILE` brings some from another farm.');
    this.pager = new Pager('plans', () => this.ask());
    this.element = h('div', {}, pageTitle('Plans'),
      h('p', {class: 'lead'}, 'What the searches found, ready to run in a model\'s place; the newest ' +
        'first.'),
      h('div', {class: 'panel'}, this.table.element, this.none, this.pager.element),
      words('Plan', 'Graph', 'Target', 'Tenant', 'Kernel', 'Gain'));
    this.none.hidden = true;
  }

  interval() {
    return POLL_MS;
  }

  async refresh(signal) {
    const [{rows, total}, jobs] = await Promise.all([
      get(`plans?${this.pager.query()}`, signal), jobsByPlan(signal)]);
    this.jobs = jobs;
    this.table.update(rows);
    this.table.element.hidden = rows.length === 0;
    this.none.hidden = rows.length !== 0;
    this.pager.update(rows.length, total);
  }
}

function schedule(kernel) {
  const entries = Object.entries(kernel.schedule ?? {});
  return entries.map(([name, value]) => `${name}=${value}`).join(' ') ||
    (kernel.library ? '–' : 'default');
}

function what(kernel) {
  return kernel.library ? kernel.what : kernel.form ?? 'generated code';
}

// The modules whose weights a kernel reads, and the lines of the model that read them.
function weightsOf(kernel) {
  if (!kernel.modules) return '–';
  return kernel.sources ? `${kernel.modules} at ${kernel.sources}` : kernel.modules;
}

export class PlanView {
  constructor(id) {
    this.id = id;
    this.title = `Plan ${shortId(id)}`;
    this.tiles = new Facts('tiles');
    this.facts = new Facts('facts');
    this.sources = new Map();
    this.table = new Table('Kernels, in the order of the plan', [
      {title: 'Kernel', value: (kernel) => `${kernel.kernel} · ${shortId(kernel.fingerprint)}`},
      {title: 'What', value: what, wide: true},
      {title: 'Weights of', value: weightsOf, wide: true},
      {title: 'Schedule', value: (kernel) => ({text: schedule(kernel), mono: true})},
      {title: 'Calls', value: (kernel) => (kernel.calls_at_load
        ? `${count(kernel.calls)} + ${count(kernel.calls_at_load)} at load`
        : count(kernel.calls)), number: true},
      {title: 'Predicted', value: (kernel) => duration(kernel.predicted_ns), number: true},
      {title: 'Measured', value: (kernel) => duration(kernel.measured_ns), number: true},
      {title: 'Source', value: (kernel) => this.sourceButton(kernel)},
    ], (kernel) => String(kernel.kernel));
    this.more = h('p', {class: 'more', hidden: true});
    this.heading = pageTitle(this.title);
    this.found = h('div', {}, this.tiles.element,
      section('Kernels', this.table.element, this.more, this.preamble()),
      section('The plan', this.facts.element),
      words('Plan', 'Predicted', 'Plain plan', 'Gain', 'Kernel', 'What', 'Weights of', 'Schedule',
        'Calls', 'Measured', 'Key', 'Graph', 'Target', 'Numerics', 'Compiler epoch', 'Tenant',
        'Compiled alike by'));
    this.lost = h('p', {hidden: true}, 'The cache has no such plan: a later search put a better one in ' +
      'its place, or it had to make room. ', h('a', {href: '#/plans'}, 'All plans'), '.');
    this.element = h('div', {}, h('p', {class: 'crumbs'}, h('a', {href: '#/plans'}, 'Plans')),
      this.heading, this.lost, this.found);
  }

  interval() {
    return FIXED_MS;
  }

  missing() {
    this.found.hidden = true;
    this.lost.hidden = false;
  }

  // A button, and the row that it opens below its kernel's.
  sourceButton(kernel) {
    if (kernel.library) return {text: 'library call'};
    if (!this.hasSource) return {text: 'not here'};
    let source = this.sources.get(kernel.kernel);
    if (!source) {
      const id = `source-${kernel.kernel}`;
      const cell = h('td', {role: 'cell', colspan: 8});
      const row = h('tr', {role: 'row', class: 'detail', id, hidden: true}, cell);
      const button = h('button', {type: 'button', 'aria-expanded': 'false', 'aria-controls': id,
        'aria-label': `Source of kernel ${kernel.kernel}`}, 'Source');
      source = {button, row, cell};
      button.addEventListener('click', () => {
        const opens = row.hidden;
        if (!row.parentNode) this.table.row(String(kernel.kernel)).after(row);
        row.hidden = !opens;
        button.setAttribute('aria-expanded', String(opens));
        if (opens) this.load(`kernels/${kernel.kernel}`, cell, `Source of kernel ${kernel.kernel}`);
      });
      this.sources.set(kernel.kernel, source);
    }
    return source.button;
  }

  // What all kernels of the plan are compiled with.
  preamble() {
    const holder = h('div', {});
    const details = h('details', {class: 'preamble', hidden: true},
      h('summary', {}, 'What comes before every kernel'), holder);
    details.addEventListener('toggle', () => {
      if (details.open) this.load('preamble', holder, 'What comes before every kernel');
    });
    this.preambleDetails = details;
    return details;
  }

  async load(path, holder, label) {
    if (holder.querySelector('pre')) return;
    holder.replaceChildren(h('p', {role: 'status'}, 'Asking for the source'));
    try {
      const {text, truncated} = await get(`plans/${this.id}/${path}`);
      const cut = truncated && h('p', {}, 'Cut here: the text is longer.');
      holder.replaceChildren(h('div', {class: 'source', role: 'region', tabindex: '0',
        'aria-label': label}, h('pre', {}, h('code', {}, text.trim()))), ...(cut ? [cut] : []));
    } catch (error) {
      holder.replaceChildren(h('p', {class: 'trouble', role: 'status'},
        `No source: ${error.message}.`));
    }
  }

  async refresh(signal) {
    const [plan, jobs] = await Promise.all([get(`plans/${this.id}`, signal), jobsByPlan(signal)]);
    const job = jobs.get(plan.plan);
    this.title = `Plan ${shortId(this.id)}${job?.name ? `: ${job.name}` : ''}`;
    setText(this.heading, this.title);
    const {provenance} = plan;
    this.found.hidden = false;
    this.lost.hidden = true;
    this.hasSource = plan.has_source;
    this.preambleDetails.hidden = !plan.has_source;
    this.tiles.update([
      ['Time', duration(plan.best_ns)],
      ['Predicted', duration(plan.predicted_ns)],
      ['Plain plan', duration(plan.baseline_ns)],
      ['Gain', plan.speedup || gain(plan.best_ns, plan.baseline_ns)],
      ['Kernels', count(plan.kernels_total)],
      ['Calls', count(plan.calls)],
    ]);
    this.table.update(plan.kernels);
    this.more.hidden = plan.kernels.length >= plan.kernels_total;
    setText(this.more, `The first ${count(plan.kernels.length)} of ${count(plan.kernels_total)}.`);
    this.facts.update([
      ['Plan', {text: plan.plan, mono: true}],
      ['Job', job && {text: `${job.job} · ${jobTitle(job)}`, href: `#/jobs/${job.job}`}],
      ['Key', {text: plan.key, mono: true}],
      ['Graph', {text: plan.graph, mono: true}],
      ['Target', plan.target],
      ['Numerics', plan.policy],
      ['Compiler epoch', plan.epoch],
      ['Tenant', plan.tenant],
      ['Buffers', count(plan.buffers)],
      ['Objects', count(plan.objects)],
      ['Found by', `${provenance.farm}, ${count(provenance.candidates)} candidates in ` +
        `${span(plan.search_ms)}, seed ${provenance.seed}`],
      ['Measured by', provenance.worker],
      ['Machine class', provenance.machine],
      ['Toolchain', provenance.toolchain],
      ['Compiled alike by', provenance.second_worker],
      ['Made', when(provenance.created_ns)],
      ['Imported by', provenance.imported_by],
      ['Made from plan', provenance.origin && {text: provenance.origin, mono: true}],
    ]);
  }
}


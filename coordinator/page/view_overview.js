// The farm at a glance, and the list of jobs.

import {get} from './api.js';
import {Facts, Table, empty, h, pageTitle, section, setText} from './dom.js';
import {count, duration, gain, jobTitle, pill, span} from './format.js';
import {words} from './words.js';

const POLL_MS = 2_000;
const PAGE = 50;

export function jobTable(caption) {
  return new Table(caption, [
    {title: 'Job', value: (job) => ({text: `${job.job} · ${jobTitle(job)}`,
      href: `#/jobs/${job.job}`}), wide: true},
    {title: 'State', value: (job) => pill(job.state === 'open' ? job.phase : job.state)},
    {title: 'Target', value: (job) => job.target, short: true},
    {title: 'Tenant', value: (job) => job.tenant},
    {title: 'Candidates', value: (job) => `${count(job.completed)} / ${count(job.budget)}`,
      number: true},
    {title: 'Best', value: (job) => duration(job.best_ns), number: true},
    {title: 'Gain', value: (job) => gain(job.best_ns, job.baseline_ns), number: true},
    {title: 'Ran', value: (job) => span(job.elapsed_ms), number: true},
  ], (job) => String(job.job));
}

function workerState(worker) {
  if (worker.suspended) return {text: 'suspended', tone: 'bad'};
  if (worker.draining) return {text: 'draining', tone: 'warn'};
  return worker.tasks > 0 ? {text: 'busy', tone: 'good'} : {text: 'idle', tone: 'calm'};
}

function workerTable() {
  return new Table('Connected workers', [
    {title: 'Worker', value: (worker) => worker.worker, wide: true},
    {title: 'State', value: workerState},
    {title: 'Target', value: (worker) => worker.target, short: true},
    {title: 'Tasks', value: (worker) => `${count(worker.tasks)} / ${count(worker.slots)}`,
      number: true},
    {title: 'Done', value: (worker) => count(worker.tasks_done), number: true},
    {title: 'Heard', value: (worker) => `${span(worker.seen_ms_ago)} ago`, number: true},
    {title: 'Up', value: (worker) => span(worker.up_s * 1000), number: true},
    {title: 'Machine', value: (worker) => worker.machine || 'not known', wide: true},
    {title: 'Toolchain', value: (worker) => worker.toolchain || worker.build, wide: true},
  ], (worker) => worker.worker);
}

// A list that says what to do while it is empty, and what it does not show.
class Listing {
  constructor(table, hint) {
    this.table = table;
    this.hint = empty(hint);
    this.more = h('p', {class: 'more', hidden: true});
    this.element = h('div', {}, table.element, this.hint, this.more);
  }

  update(rows, total) {
    this.table.update(rows);
    this.table.element.hidden = rows.length === 0;
    this.hint.hidden = rows.length !== 0;
    this.more.hidden = total <= rows.length;
    setText(this.more, `The first ${count(rows.length)} of ${count(total)}.`);
  }
}

const NO_WORKERS = 'No worker is connected, so jobs wait. `lfarm up --workers 2` starts a farm with ' +
  'two; `lfarm-worker --farm ENDPOINT` joins this one.';
const NO_JOBS = 'No job yet. `lfarm submit model.pt2` searches for a model\'s fastest plan.';

export class FarmView {
  constructor() {
    this.title = 'Farm';
    this.heading = pageTitle('Farm');
    this.tiles = new Facts('tiles');
    this.facts = new Facts('facts');
    this.trouble = h('p', {class: 'trouble', role: 'alert', hidden: true});
    this.workers = new Listing(workerTable(), NO_WORKERS);
    this.jobs = new Listing(jobTable('The latest jobs'), NO_JOBS);
    this.element = h('div', {}, this.heading,
      h('p', {class: 'lead'}, 'A farm searches for the fastest plans of PyTorch models. Each job is ' +
        'one search, and workers measure its candidates.'),
      this.trouble, this.tiles.element,
      section('Jobs', this.jobs.element), section('Workers', this.workers.element),
      section('Coordinator', this.facts.element),
      words('Job', 'Worker', 'Candidates', 'Best', 'Gain', 'Target', 'Tenant', 'Workers wanted',
        'Tasks with workers', 'Compiler epoch', 'Handshakes denied'));
  }

  interval() {
    return POLL_MS;
  }

  async refresh(signal) {
    const {farm, demand, workers, jobs} = await get('overview', signal);
    this.title = `Farm ${farm.name}`;
    setText(this.heading, `Farm ${farm.name}`);
    const hasTrouble = farm.disk !== 'ok';
    if (this.trouble.hidden === hasTrouble) this.trouble.hidden = !hasTrouble;
    setText(this.trouble, hasTrouble ? `The disk takes no writes: ${farm.disk}` : '');
    this.tiles.update([
      ['Workers', count(workers.total)],
      ['Workers wanted', count(demand.wanted_workers)],
      ['Open jobs', count(jobs.open)],
      ['Tasks with workers', `${count(farm.tasks_leased)} / ${count(farm.tasks_open)}`],
      ['Clients', count(farm.clients)],
    ]);
    this.workers.update(workers.rows, workers.total);
    this.jobs.update(jobs.rows, jobs.total);
    this.facts.update([
      ['Coordinator', farm.coordinator],
      ['Compiler epoch', farm.compiler_epoch],
      ['Disk', farm.disk],
      ['Failed writes', count(farm.failed_writes)],
      ['Damaged files', count(farm.damaged_files)],
      ['Submits that wait for a worker', count(farm.waiting_submits)],
      ['Handshakes denied', count(farm.handshakes_denied)],
      ['Shared store', farm.remote],
    ]);
  }
}

// Buttons for a list that comes in pages.
export class Pager {
  constructor(what, ask) {
    this.skip = 0;
    const turn = (by) => () => {
      this.skip = Math.max(0, this.skip + by);
      ask();
    };
    this.newer = h('button', {type: 'button', onclick: turn(-PAGE)}, `Newer ${what}`);
    this.older = h('button', {type: 'button', onclick: turn(PAGE)}, `Older ${what}`);
    this.where = h('span', {class: 'where'});
    this.element = h('div', {class: 'pager'}, this.newer, this.older, this.where);
  }

  query() {
    return `skip=${this.skip}&count=${PAGE}`;
  }

  update(shown, total) {
    this.newer.disabled = this.skip === 0;
    this.older.disabled = total === null ? shown < PAGE : this.skip + shown >= total;
    this.element.hidden = this.newer.disabled && this.older.disabled;
    const of = total === null ? '' : ` of ${count(total)}`;
    setText(this.where, shown ? `${count(this.skip + 1)} to ${count(this.skip + shown)}${of}` : '');
  }
}

export class JobsView {
  constructor() {
    this.title = 'Jobs';
    this.jobs = new Listing(jobTable('Open jobs and the latest that ended'), NO_JOBS);
    this.pager = new Pager('jobs', () => this.ask());
    this.element = h('div', {}, pageTitle('Jobs'),
      h('p', {class: 'lead'}, 'Open jobs, and the latest that ended; the newest first.'),
      h('div', {class: 'panel'}, this.jobs.element, this.pager.element),
      words('Job', 'Candidates', 'Best', 'Gain', 'Target', 'Tenant'));
  }

  interval() {
    return POLL_MS;
  }

  async refresh(signal) {
    const {rows, total} = await get(`jobs?${this.pager.query()}`, signal);
    this.jobs.update(rows, rows.length);
    this.pager.update(rows.length, total);
  }
}

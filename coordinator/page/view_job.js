// One job: its search's curve, what became of its candidates, and how good the predictions were.

import {get} from './api.js';
import {CurveChart, PredictionChart, shareBar} from './chart.js';
import {Facts, Table, empty, h, pageTitle, section, setText} from './dom.js';
import {count, duration, gain, jobTitle, percent, pill, shortId, some, span, when} from './format.js';
import {Pager} from './view_overview.js';
import {words} from './words.js';

const POLL_MS = 1_500;
const ENDED_MS = 15_000;
const PREDICTED_MAX = 200;
const OUTCOMES = ['ok', 'compile_error', 'wrong', 'crash', 'hang', 'infra', 'pending'];
const MEANING = {
  ok: 'right, and measured', compile_error: 'did not compile', wrong: 'outputs differ',
  crash: 'took the executor down', hang: 'ran too long', infra: 'the worker failed, not the candidate',
  pending: 'with a worker, or waiting for one',
};

function candidateTable() {
  return new Table('Candidates, the newest first', [
    {title: 'Candidate', value: (one) => `${one.candidate} · ${one.kind}`},
    {title: 'Outcome', value: (one) => pill(one.outcome)},
    {title: 'Predicted', value: (one) => duration(one.predicted_ns), number: true},
    {title: 'Measured', value: (one) => duration(one.measured_ns), number: true},
    {title: 'Part', value: (one) => (one.region < 0 ? 'whole' : `region ${one.region}`)},
    {title: 'Found by', value: (one) => one.origin},
    {title: 'Worker', value: (one) => one.worker ?? '–'},
    {title: 'Program', value: (one) => ({text: one.fingerprint, mono: true})},
    {title: 'Says', value: (one) => one.message ?? '', wide: true},
  ], (one) => String(one.candidate));
}

export class JobView {
  constructor(id) {
    this.id = id;
    this.title = `Job ${id}`;
    this.ended = false;
    this.heading = pageTitle(`Job ${id}`);
    this.state = h('p', {class: 'lead'});
    this.message = h('p', {class: 'trouble', hidden: true});
    this.tiles = new Facts('tiles');
    this.facts = new Facts('facts');
    const format = {y: duration, count, some, time: span};
    this.curve = new CurveChart(format);
    this.predictions = new PredictionChart(format);
    this.axis = 'candidates';
    this.outcomes = new Facts('outcomes');
    this.bar = h('div', {class: 'bar-holder'});
    this.candidates = candidateTable();
    this.none = empty('No such candidate.');
    this.pager = new Pager('candidates', () => this.ask());
    this.outcome = '';
    this.found = h('div', {}, this.state, this.message, this.tiles.element,
      section('Best time so far', this.axisChoice(), this.curve.element),
      section('Candidates', this.outcomes.element, this.bar, this.filter(),
        this.candidates.element, this.none, this.pager.element),
      section('Predicted against measured', this.predictions.element),
      section('The job', this.facts.element),
      words('Candidates', 'Best', 'Plain plan', 'Gain', 'Expected', 'Predicted', 'Measured',
        'Outcome', 'Part', 'Found by', 'Program', 'Target', 'Numerics', 'Tenant'));
    this.lost = h('p', {hidden: true}, 'No such job is open, or among the latest that ended. ',
      h('a', {href: '#/jobs'}, 'All jobs'), '.');
    this.element = h('div', {}, h('p', {class: 'crumbs'}, h('a', {href: '#/jobs'}, 'Jobs')),
      this.heading, this.lost, this.found);
  }

  axisChoice() {
    const choice = (value, text) => {
      const input = h('input', {type: 'radio', name: 'axis', value, checked: value === this.axis,
        onchange: () => {
          this.axis = value;
          this.drawCurve();
        }});
      return h('label', {}, input, text);
    };
    return h('fieldset', {class: 'choice'}, h('legend', {}, 'Over'),
      choice('candidates', 'candidates'), choice('time', 'time'));
  }

  filter() {
    const select = h('select', {id: 'outcome', onchange: () => {
      this.outcome = select.value;
      this.pager.skip = 0;
      this.ask();
    }}, h('option', {value: ''}, 'all outcomes'),
    OUTCOMES.map((name) => h('option', {value: name}, name.replaceAll('_', ' '))));
    return h('p', {class: 'filter'}, h('label', {for: 'outcome'}, 'Show'), select);
  }

  interval() {
    return this.ended ? ENDED_MS : POLL_MS;
  }

  missing() {
    this.found.hidden = true;
    this.lost.hidden = false;
  }

  async refresh(signal) {
    const wanted = this.outcome ? `&outcome=${this.outcome}` : '';
    const path = `jobs/${this.id}`;
    const [{job, course}, {rows}, {rows: measured}] = await Promise.all([
      get(path, signal),
      get(`${path}/candidates?${this.pager.query()}${wanted}`, signal),
      get(`${path}/candidates?count=${PREDICTED_MAX}&outcome=ok`, signal),
    ]);
    this.found.hidden = false;
    this.lost.hidden = true;
    this.job = job;
    this.course = course;
    this.ended = job.state !== 'open';
    this.title = `Job ${this.id}: ${jobTitle(job)}`;
    setText(this.heading, this.title);
    this.showState(job);
    this.showCandidates(rows);
    this.drawCurve();
    this.predictions.update(measured.filter((one) => one.predicted_ns > 0 && one.measured_ns > 0)
      .map((one) => [one.candidate, one.predicted_ns, one.measured_ns]));
  }

  showState(job) {
    const {course} = this;
    const verb = {done: 'took', cancelled: 'was cancelled after'}[job.state] ?? 'failed after';
    const ended = this.ended ? `It ${verb} ${span(job.elapsed_ms)}.` : `It is ${job.phase}, ${span(job.elapsed_ms)} after it began.`;
    const resumed = course.resumed ? ' It goes on from before a restart of the coordinator: times ' +
      'count from there.' : '';
    setText(this.state, ended + resumed);
    this.message.hidden = !job.message;
    this.message.classList.toggle('calm', job.state !== 'failed');
    setText(this.message, job.message ?? '');
    this.tiles.update([
      ['State', pill(this.ended ? job.state : job.stage || job.phase)],
      ['Best', duration(job.best_ns)],
      ['Plain plan', duration(job.baseline_ns)],
      ['Gain', gain(job.best_ns, job.baseline_ns)],
      ['Candidates', `${count(job.completed)} / ${count(job.budget)}`],
      ['Expected', this.ended ? null : duration(job.expected_ns)],
      ['Plan', job.plan ? {text: shortId(job.plan), href: `#/plans/${job.plan}`} : null],
    ]);
    this.facts.update([
      ['Graph', {text: job.graph, mono: true}],
      ['Target', job.target],
      ['Numerics', job.policy],
      ['Tenant', job.tenant],
      ['Priority', count(job.priority)],
      ['Clients that wait', this.ended ? null : count(job.clients)],
      ['Tasks under way', this.ended ? null : count(job.tasks_open)],
      ['Regions searched before', `${count(job.known_regions)} of ${count(job.regions)}`],
      ['Kernels of the plan known before', job.kernels
        ? `${count(job.known_kernels)} of ${count(job.kernels)}` : null],
      ['Times known before', count(job.reused)],
      ['Duplicates not sent', count(job.duplicates)],
      ['Workers\' time', span(job.worker_ms)],
      ['Saved by earlier searches', span(job.saved_ms)],
      ['Ended', job.ended_ns ? when(job.ended_ns) : null],
    ]);
  }

  showCandidates(rows) {
    const {outcomes, candidates_total: total, candidates_kept: kept} = this.course;
    this.outcomes.update(OUTCOMES.filter((name) => outcomes[name] > 0).map((name) =>
      [`${name.replaceAll('_', ' ')}, ${MEANING[name]}`,
        `${count(outcomes[name])} (${percent(outcomes[name], total)})`]));
    const shares = JSON.stringify(outcomes);
    if (this.shares !== shares) {
      this.shares = shares;
      this.bar.replaceChildren(shareBar(OUTCOMES.map((name) =>
        [name, outcomes[name], pill(name).tone])));
    }
    this.candidates.update(rows);
    this.candidates.element.hidden = rows.length === 0;
    this.none.hidden = rows.length !== 0;
    this.pager.update(rows.length, this.outcome ? null : Math.min(kept, total));
  }

  drawCurve() {
    if (!this.course) return;
    const column = this.axis === 'time' ? 1 : 0;
    this.curve.update({
      points: this.course.points.map((point) => [point[column], point[2], point[3]]),
      plain: this.job.baseline_ns,
      x: this.axis,
    });
  }
}

// The page's driver: which view the address names, when it asks again, and what is said while the
// farm does not answer.

import {Refused, keepToken} from './api.js';
import {h, setText} from './dom.js';
import {clock} from './format.js';
import {CacheView} from './view_cache.js';
import {JobView} from './view_job.js';
import {FarmView, JobsView} from './view_overview.js';
import {PlanView, PlansView} from './view_plan.js';

const BACKOFF_MS_MAX = 30_000;
const MISSING_MS = 5_000;

const ROUTES = [
  {path: /^\/$/, tab: 'farm', make: () => new FarmView()},
  {path: /^\/jobs$/, tab: 'jobs', make: () => new JobsView()},
  {path: /^\/jobs\/(\d{1,20})$/, tab: 'jobs', make: (id) => new JobView(id)},
  {path: /^\/plans$/, tab: 'plans', make: () => new PlansView()},
  {path: /^\/plans\/([0-9a-f]{64})$/, tab: 'plans', make: (id) => new PlanView(id)},
  {path: /^\/cache$/, tab: 'cache', make: () => new CacheView()},
];

const main = document.getElementById('main');
const live = document.getElementById('live');
const liveText = document.getElementById('live-text');
const notice = document.getElementById('notice');
const noticeText = document.getElementById('notice-text');

let view = null;
let stop = new AbortController();
let timer = 0;
let failures = 0;
let heard = null;
let askedFor = null;

function say(state, text) {
  live.dataset.state = state;
  setText(liveText, text);
}

function warn(text) {
  notice.hidden = !text;
  setText(noticeText, text ?? '');
  main.classList.toggle('stale', Boolean(text) && heard !== null);
}

class LostView {
  constructor() {
    this.title = 'Nothing here';
    this.element = h('div', {}, h('h1', {tabindex: '-1'}, 'Nothing here'),
      h('p', {}, 'This address names no view. ', h('a', {href: '#/'}, 'To the farm'), '.'));
  }
  async refresh() {}
  interval() {
    return BACKOFF_MS_MAX;
  }
}

// Asks for the token in place of the view; the next answer brings the view back.
function showAccess(error) {
  if (askedFor === error.message) return;
  askedFor = error.message;
  const children = [h('h1', {tabindex: '-1'}, 'Not for everyone'), h('p', {}, `${error.message}.`)];
  if (error.status === 401) {
    const input = h('input', {type: 'password', id: 'token', autocomplete: 'off', required: true});
    children.push(h('form', {
      class: 'token',
      onsubmit: (event) => {
        event.preventDefault();
        keepToken(input.value.trim());
        askedFor = null;
        ask();
      },
    }, h('label', {for: 'token'}, 'Token'), input, h('button', {type: 'submit'}, 'Show the farm')));
  }
  main.replaceChildren(h('div', {}, children));
}

function succeeded() {
  if (askedFor !== null || view.element.parentNode !== main) {
    askedFor = null;
    main.replaceChildren(view.element);
  }
  const wasAway = failures > 0;
  failures = 0;
  heard = new Date();
  warn(null);
  say('live', wasAway ? 'The farm answers again' : 'Live');
}

function failed(error) {
  failures += 1;
  const delay = Math.min(BACKOFF_MS_MAX, 1000 * 2 ** Math.min(failures - 1, 10));
  const since = heard ? `; what is shown is of ${clock(heard)}` : '';
  if (error instanceof Refused && (error.status === 401 || error.status === 403)) {
    warn(null);
    say('away', 'No access');
    showAccess(error);
  } else if (error instanceof Refused) {
    warn(`The farm says: ${error.message}${since}. It is asked again by itself.`);
    say('away', 'The farm is busy');
  } else {
    warn(`The farm does not answer${since}. It is asked again by itself.`);
    say('away', 'The farm does not answer');
  }
  return delay;
}

async function ask() {
  clearTimeout(timer);
  stop.abort();
  if (document.hidden) {
    say('paused', 'Paused');
    return;
  }
  stop = new AbortController();
  const {signal} = stop;
  let delay = 0;
  try {
    await view.refresh(signal);
    if (signal.aborted) return;
    succeeded();
    delay = view.interval();
  } catch (error) {
    if (signal.aborted) return;
    if (error instanceof Refused && error.status === 404 && view.missing) {
      view.missing();
      succeeded();
      delay = MISSING_MS;
    } else {
      delay = failed(error);
    }
  }
  document.title = `${view.title} – lfarm`;
  timer = setTimeout(ask, delay);
}

function open() {
  const path = location.hash.replace(/^#/, '') || '/';
  const route = ROUTES.find((one) => one.path.test(path));
  view = route ? route.make(...route.path.exec(path).slice(1)) : new LostView();
  view.ask = ask;
  askedFor = null;
  for (const link of document.querySelectorAll('#nav a')) {
    if (route && link.dataset.view === route.tab) {
      link.setAttribute('aria-current', 'page');
    } else {
      link.removeAttribute('aria-current');
    }
  }
  document.title = `${view.title} – lfarm`;
  main.replaceChildren(view.element);
  ask();
}

window.addEventListener('hashchange', () => {
  if (location.hash === '#main') return;
  open();
  window.scrollTo(0, 0);
  main.querySelector('h1')?.focus({preventScroll: true});
});
document.addEventListener('visibilitychange', ask);
document.getElementById('retry').addEventListener('click', ask);
document.getElementById('skip').addEventListener('click', (event) => {
  event.preventDefault();
  main.focus();
});
open();

// Elements made from data. Whatever comes from the farm enters the document as text and nothing
// else: there is no way here to turn a string into markup.

const SVG = 'http://www.w3.org/2000/svg';

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) {
      element.addEventListener(name.slice(2), value);
    } else {
      element.setAttribute(name, value === true ? '' : String(value));
    }
  }
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

// h('a', {href: '#/'}, 'text', element, ...)
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

// Leaves the node alone when it says so already, so that nothing is read out twice.
export function setText(element, text) {
  const value = String(text);
  if (element.textContent !== value) element.textContent = value;
}

// A value as a cell or a fact shows it: a text, {text, href}, {text, tone} or an element.
function sameShown(element, shown) {
  return element.dataset.shown === shown;
}

export function show(element, value) {
  if (value instanceof Node) {
    if (element.firstChild !== value || element.childNodes.length !== 1) {
      element.replaceChildren(value);
    }
    delete element.dataset.shown;
    return;
  }
  const parts = typeof value === 'object' && value !== null ? value : {text: value};
  const shown = JSON.stringify([parts.text ?? '', parts.href ?? '', parts.tone ?? '',
    parts.title ?? '', parts.mono ?? false]);
  if (sameShown(element, shown)) return;
  element.dataset.shown = shown;
  const text = String(parts.text ?? '');
  if (parts.href) {
    const link = element.firstElementChild;
    if (link instanceof HTMLAnchorElement) {
      link.setAttribute('href', parts.href);
      setText(link, text);
    } else {
      element.replaceChildren(h('a', {href: parts.href, class: 'row-link'}, text));
    }
  } else if (parts.tone) {
    element.replaceChildren(h('span', {class: `pill ${parts.tone}`}, text));
  } else if (parts.mono) {
    element.replaceChildren(h('span', {class: 'mono', title: parts.title}, text));
  } else {
    element.replaceChildren(document.createTextNode(text));
  }
}

// A table whose rows are kept and changed in place: focus and reading position stay where they are.
// columns: [{title, value: row => what show() takes, number: right-aligned, wide: its own line on
// phones, short: in one line on wide windows}]. The first column heads its row. On phones each row is
// a card. Roles are written out because the narrow layout takes them from the elements.
export class Table {
  constructor(caption, columns, keyOf) {
    this.columns = columns;
    this.keyOf = keyOf;
    this.rows = new Map();
    this.body = h('tbody', {role: 'rowgroup'});
    this.element = h('table', {role: 'table', class: 'cards'},
      h('caption', {}, caption),
      h('thead', {role: 'rowgroup'}, h('tr', {role: 'row'}, columns.map((column) =>
        h('th', {scope: 'col', role: 'columnheader', class: column.number && 'number'},
          column.title)))),
      this.body);
  }

  make() {
    return h('tr', {role: 'row'}, this.columns.map((column, index) =>
      h(index === 0 ? 'th' : 'td', {
        scope: index === 0 && 'row',
        role: index === 0 ? 'rowheader' : 'cell',
        class: ['number', 'wide', 'short'].filter((name) => column[name]).join(' ') || null,
        'data-label': column.title,
      })));
  }

  // The row of this key, which update() made; for who hangs more below it.
  row(key) {
    return this.rows.get(key);
  }

  update(data) {
    const seen = new Set();
    let at = this.body.firstElementChild;
    for (const item of data) {
      const key = this.keyOf(item);
      seen.add(key);
      let row = this.rows.get(key);
      if (!row) {
        row = this.make();
        this.rows.set(key, row);
      }
      this.columns.forEach((column, index) => show(row.children[index], column.value(item)));
      while (at && at.classList.contains('detail')) at = at.nextElementSibling;
      if (row === at) {
        at = at.nextElementSibling;
      } else {
        this.body.insertBefore(row, at);
      }
    }
    for (const [key, row] of this.rows) {
      if (seen.has(key)) continue;
      row.remove();
      this.rows.delete(key);
    }
  }
}

// Names and values, changed in place. Entries: [name, what show() takes]; null leaves one out.
export class Facts {
  constructor(kind) {
    this.element = h('dl', {class: kind ?? 'facts'});
    this.entries = new Map();
  }

  update(entries) {
    const names = new Set();
    for (const [name, value] of entries) {
      if (value === null || value === undefined) continue;
      names.add(name);
      let entry = this.entries.get(name);
      if (!entry) {
        const term = h('dt', {}, name);
        const description = h('dd', {});
        entry = {box: h('div', {}, term, description), description};
        this.entries.set(name, entry);
        this.element.append(entry.box);
      }
      show(entry.description, value);
    }
    for (const [name, entry] of this.entries) {
      if (names.has(name)) continue;
      entry.box.remove();
      this.entries.delete(name);
    }
  }
}

let sections = 0;

// A part of the page under a heading of its own.
export function section(title, ...children) {
  const id = `section-${++sections}`;
  return h('section', {'aria-labelledby': id}, h('h2', {id}, title), ...children);
}

export function pageTitle(text) {
  return h('h1', {tabindex: '-1'}, text);
}

// What to do where there is nothing: sentences, with commands between backquotes.
export function empty(text) {
  const parts = text.split('`');
  return h('p', {class: 'empty'},
    parts.map((part, index) => (index % 2 ? h('code', {}, part) : part)));
}

// Asks the farm. The token, where one is needed, stays in this tab.

const PATIENCE_MS = 10_000;
const TOKEN = 'lfarm-token';

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export function keepToken(token) {
  sessionStorage.setItem(TOKEN, token);
}

// Throws Refused with the farm's own words, or another error when no answer came.
export async function get(path, signal) {
  const ends = new AbortController();
  const timer = setTimeout(() => ends.abort(), PATIENCE_MS);
  const abort = () => ends.abort();
  signal?.addEventListener('abort', abort);
  try {
    const token = sessionStorage.getItem(TOKEN);
    const response = await fetch(`/api/v1/${path}`, {
      signal: ends.signal,
      headers: token ? {Authorization: `Bearer ${token}`} : {},
    });
    const text = await response.text();
    let body = null;
    try {
      body = JSON.parse(text);
    } catch {
      throw new Refused(response.status, 'the answer is no JSON: is this address a farm?');
    }
    if (response.ok) return body;
    throw new Refused(response.status, body.error ?? `the farm answers ${response.status}`);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', abort);
  }
}

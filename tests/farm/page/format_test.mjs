// The page prints quantities as the terminal does: if this fails, one time reads in two ways. Run by
// node, with the fixture's path; test_base holds common/base/units.cc to the same lines.
import {readFileSync} from 'node:fs';

// By its text: older versions take a file of this name for no module.
const page = new URL('../../../coordinator/page/format.js', import.meta.url);
const {bytes, duration, span} = await import(
  `data:text/javascript,${encodeURIComponent(readFileSync(page, 'utf8'))}`);

const lines = readFileSync(process.argv[2], 'utf8').trim().split('\n');
const wrong = lines.flatMap((line) => {
  const [what, value, ...text] = line.split(' ');
  const shown = {bytes, duration}[what](Number(value));
  return shown === text.join(' ') ? [] : [`${line}: ${shown}`];
});
if (lines.length < 26) wrong.push(`only ${lines.length} lines`);
if (span(0) !== '0 s' || duration(0) !== '–' || span(NaN) !== '–') wrong.push('nothing and unknown');
for (const line of wrong) console.error(line);
process.exit(wrong.length > 0 ? 1 : 0);
